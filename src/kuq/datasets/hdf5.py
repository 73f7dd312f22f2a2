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
    """Chosen rows of one array in an HDF5 file: an array whose numbers are read when indexed.

    It keeps no file open, so it can be sent to another process; ``rows`` must increase. Dask
    wraps it by ``dask.array.from_array``.
    """

    path: Path
    key: str
    rows: NDArray[np.int64]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, index: Any) -> NDArray[Any]:
        first, *rest = index if isinstance(index, tuple) else (index,)
        chosen = np.atleast_1d(self.rows[first])
        with opened(self.path) as file:
            array = file[self.key]
            if chosen.size and chosen[-1] - chosen[0] + 1 == chosen.size:
                block = array[int(chosen[0]) : int(chosen[-1]) + 1]
            else:
                block = array[chosen] if chosen.size else array[:0]
        found: NDArray[Any] = block[(slice(None), *rest)]
        return found[0] if np.ndim(self.rows[first]) == 0 else found


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
    return StoredRows(path, key, np.arange(shape[0]), shape, dtype)


def chosen_rows(array: StoredRows, rows: NDArray[np.int64]) -> StoredRows:
    """Some rows of ``array``, in the order of the file."""
    rows = np.sort(array.rows[rows])
    return StoredRows(array.path, array.key, rows, (len(rows), *array.shape[1:]), array.dtype)
