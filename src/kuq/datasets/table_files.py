"""Tables as ``.csv.gz``: a header x0, x1, …, y and one row per sample, in full precision."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np

from kuq.datasets.cache import DataError
from kuq.datasets.tables import Real


def read(path: Path) -> Real:
    """Features and target, (n, features + 1)."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            names = file.readline().strip().split(",")
            numbers = np.loadtxt(file, delimiter=",", ndmin=2)
    except (EOFError, OSError, ValueError, zlib.error) as error:
        raise DataError(
            f"{path} is truncated or not a table in .csv.gz ({error}); replace it"
        ) from error
    expected = [*(f"x{k}" for k in range(len(names) - 1)), "y"]
    if names != expected or numbers.shape[1] != len(names):
        raise DataError(f"{path} needs a header x0, x1, …, y and as many columns")
    if not np.isfinite(numbers).all():
        raise DataError(f"{path} has values that are missing or not finite")
    return np.asarray(numbers)


def write(path: Path, numbers: Real) -> None:
    """Every number in its shortest form that is read back exactly; the same bytes every time."""
    header = ",".join([*(f"x{k}" for k in range(numbers.shape[1] - 1)), "y"])
    lines = [header, *(",".join(map(repr, row)) for row in numbers.tolist()), ""]
    path.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
