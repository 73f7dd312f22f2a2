"""Rows of HDF5 files, checked when opened and read only when asked for."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from kuq.datasets.cache import DataError
from kuq.errors import ShapeError


@final
@dataclass(frozen=True, eq=False)
class StoredRows:
    """Chosen rows of one array in an HDF5 file, whose numbers in the file increase.

    It keeps no file open, so it can be sent to another process.
    """

    path: Path
    key: str
    numbers: NDArray[np.int64]
    form: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.numbers), *self.form)

    @property
    def identity(self) -> tuple[object, ...]:
        return (str(self.path), self.path.stat().st_mtime_ns, self.key, self.numbers)

    def read(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The rows of these numbers, which increase."""
        numbers = self.numbers[rows]
        with opened(self.path) as file:
            array = file[self.key]
            if len(numbers) and numbers[-1] - numbers[0] + 1 == len(numbers):
                # Neighbours in the file are read as one piece, which is much faster.
                block: NDArray[Any] = array[int(numbers[0]) : int(numbers[-1]) + 1]
            else:
                block = array[numbers] if len(numbers) else array[:0]
        return block


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The HDF5 file at ``path``, open for reading; what is missing or broken is said plainly."""
    if importlib.util.find_spec("h5py") is None:
        raise DataError(
            f'{path.name} is an HDF5 file, which needs h5py: pip install "kuq[datasets]"'
        )
    import h5py

    try:
        file = h5py.File(path, "r")
    except FileNotFoundError:
        raise DataError(f"there is no file {path}; give the folder that holds it") from None
    except OSError as error:
        raise DataError(
            f"{path} is no whole HDF5 file ({error}); it may be cut off or of another format "
            "(MATLAB files must be of version 7.3): get it again"
        ) from error
    with file:
        yield file


def stored_rows(path: Path, key: str, form: tuple[int | None, ...], kinds: str) -> StoredRows:
    """All rows of the array ``key``, whose shape after the rows must be ``form`` (None: any size).

    ``kinds`` are the letters of the NumPy kinds that its numbers may have, as "u" or "f".
    """
    with opened(path) as file:
        if key not in file:
            raise DataError(
                f"{path.name} has no array {key!r}, only {sorted(file)}; is it another file of "
                "that name?"
            )
        array = file[key]
        shape, dtype = tuple(array.shape), array.dtype
    fits = len(shape) == len(form) + 1 and all(
        want in (None, have) for want, have in zip(form, shape[1:], strict=True)
    )
    if not fits:
        wanted = ", ".join(["rows", *("any" if size is None else str(size) for size in form)])
        raise ShapeError(f"{key!r} of {path.name} must have shape ({wanted}), got {shape}")
    if dtype.kind not in kinds:
        raise DataError(
            f"{key!r} of {path.name} must hold numbers of kind {kinds!r} (u: unsigned integers, "
            f"f: floats), got {dtype}"
        )
    return StoredRows(path, key, np.arange(shape[0]), shape[1:], dtype)


def chosen_rows(array: StoredRows, rows: NDArray[np.int64]) -> StoredRows:
    """Some rows of ``array``, in the order of the file."""
    numbers = np.sort(array.numbers[rows])
    return StoredRows(array.path, array.key, numbers, array.form, array.dtype)
