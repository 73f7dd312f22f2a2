"""Arrays that are read row by row when they are used, as Dask arrays."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from kuq.datasets.cache import DataError


class Stored(Protocol):
    """Rows that lie somewhere else; ``identity`` tells one array from all others."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def identity(self) -> tuple[object, ...]: ...

    def read(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The rows of these numbers, which increase."""
        ...


def lazy_rows(stored: Stored, at_once: int) -> Any:
    """A Dask array over ``stored`` that reads so many rows at once; nothing is read here."""
    if importlib.util.find_spec("dask") is None:
        raise DataError('lazy arrays need Dask: pip install "kuq[datasets]"')
    import dask.array

    rows, chunks = _Rows(stored), (at_once, *stored.shape[1:])
    return dask.array.from_array(rows, chunks=chunks)  # type: ignore[no-untyped-call]


@final
@dataclass(frozen=True, eq=False)
class _Rows:
    """``stored`` as Dask wants it: an array that can be indexed."""

    stored: Stored

    @property
    def shape(self) -> tuple[int, ...]:
        return self.stored.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.stored.dtype

    @property
    def ndim(self) -> int:
        return len(self.stored.shape)

    def __getitem__(self, index: Any) -> NDArray[Any]:
        first, *rest = index if isinstance(index, tuple) else (index,)
        chosen = np.arange(self.shape[0])[first]
        # Backwards and repeated rows are allowed here, but files are read forwards.
        rows, places = np.unique(chosen, return_inverse=True)
        block = self.stored.read(rows)[places.reshape(np.shape(chosen))]
        selected: NDArray[Any] = block[(*(slice(None),) * np.ndim(chosen), *rest)]
        return selected

    def __dask_tokenize__(self) -> tuple[object, ...]:
        # Without it Dask would read the whole array to name it.
        return self.stored.identity
