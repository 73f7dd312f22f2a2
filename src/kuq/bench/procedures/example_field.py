"""One example of a cell whose outcomes are functions or images, kept for the pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kuq.bench.cell import Cell
from kuq.bench.kept import from_arrays
from kuq.bench.procedure import Context
from kuq.kernels.marginal import CRPS
from kuq.uncertainty import decompose

#: Consecutive rows of functions that are laid under each other: time runs downwards.
_FRAMES = 64


def save_example(cell: Cell, arrays: Mapping[str, Any], context: Context, name: str) -> None:
    """Truth, mean prediction and the maps of both uncertainties under CRPS, if there is a map.

    An image is the first row; functions are the first rows that follow each other in time.
    """
    truth = np.asarray(arrays[f"{name}.y"])
    if truth.ndim < 2 or cell.seed != 0:
        return
    rows = 1 if truth.ndim == 3 else min(_FRAMES, len(truth))
    prediction = from_arrays(_first_rows(arrays, name, rows), name)
    maps = decompose(prediction, CRPS(reduce=None))
    shape = truth.shape[1:] if truth.ndim == 3 else (rows, truth.shape[1])
    suffix = "" if name == "test" else f"-{name}"
    context.save_field(
        f"{cell.dataset}-{cell.representation}{suffix}",
        truth=truth[:rows].reshape(shape),
        prediction=np.asarray(arrays[f"{name}.mean"])[:rows].reshape(shape),
        aleatoric=np.asarray(maps.aleatoric).reshape(shape),
        epistemic=np.asarray(maps.epistemic).reshape(shape),
    )


def _first_rows(arrays: Mapping[str, Any], name: str, rows: int) -> dict[str, Any]:
    """The arrays of a kept prediction for its first rows alone."""
    listed = f"{name}.count" in arrays
    members_first = not listed and str(arrays[f"{name}.law"]) != "NormalInverseGamma"
    part = (slice(None), slice(rows)) if members_first else (slice(rows),)
    found = {}
    for key, value in arrays.items():
        if key.startswith(f"{name}."):
            has_rows = np.ndim(value) >= len(part) and key != f"{name}.member_weights"
            found[key] = value[part] if has_rows else value
    return found
