"""Arrays that are read row by row when they are used, as Dask arrays."""

from __future__ import annotations

import importlib.util
from typing import Any, Protocol

import numpy as np

from kuq.datasets.cache import DataError


class Readable(Protocol):
    """What has a shape and a type, and is read when it is indexed."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def ndim(self) -> int: ...

    def __getitem__(self, index: Any) -> Any: ...


def lazy_rows(rows: Readable, at_once: int) -> Any:
    """A Dask array over ``rows`` that reads so many of them at once; nothing is read here."""
    if importlib.util.find_spec("dask") is None:
        raise DataError('lazy arrays need Dask: pip install "kuq[datasets]"')
    import dask.array

    chunks = (at_once, *rows.shape[1:])
    return dask.array.from_array(rows, chunks=chunks)  # type: ignore[no-untyped-call]
