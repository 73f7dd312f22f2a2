"""One shape for all data sets: splits of inputs and targets, a shifted twin, and their source."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kuq.errors import ShapeError

#: Rows that a digest reads at once.
_AT_ONCE = 256


@final
@dataclass(frozen=True)
class Split:
    """Inputs ``x`` and targets ``y``, rows along axis 0: NumPy arrays, or lazy (Dask) arrays.

    Tables have x (n, features) and y (n,); functions x (n, channels, points) and y (n, points);
    images x (n, channels, height, width) and y (n, height, width). ``rows`` says what the rows
    are, by arrays of n entries: of which ``"trajectory"`` and ``"frame"``, or of which ``"time"``.
    ``grid`` has the coordinates along the other axes of y, in their order.

    >>> import numpy as np
    >>> split = Split(np.zeros((4, 2)), np.arange(4.0), {"frame": np.array([2, 3, 2, 3])})
    >>> split.take(split.rows["frame"] > 2).y
    array([1., 3.])
    """

    x: Any
    y: Any
    rows: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    grid: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ShapeError(
                f"inputs and targets need as many rows as each other, got {len(self.x)} rows of x "
                f"and {len(self.y)} of y"
            )
        for name, entries in self.rows.items():
            if np.shape(entries) != (len(self.x),):
                raise ShapeError(
                    f"rows[{name!r}] needs one entry for each of {len(self.x)} rows, got shape "
                    f"{np.shape(entries)}"
                )
        lengths = tuple(len(places) for places in self.grid.values())
        if self.grid and lengths != tuple(self.y.shape[1:]):
            raise ShapeError(
                f"grid needs the coordinates of every axis of y, {tuple(self.y.shape[1:])}, got "
                f"lengths {lengths}"
            )

    def take(self, chosen: ArrayLike) -> Split:
        """The rows of these numbers, or where a mask is true, with all that belongs to them."""
        places = np.arange(len(self))[np.asarray(chosen)]
        rows = {name: entries[places] for name, entries in self.rows.items()}
        return replace(self, x=self.x[places], y=self.y[places], rows=rows)

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        return f"Split(x={tuple(self.x.shape)}, y={tuple(self.y.shape)})"


@final
@dataclass(frozen=True)
class Dataset:
    """Training, validation and test rows, rows of the shifted twin, and the facts about them.

    ``shifted`` is None where the paper has no twin. ``units`` names the unit of the target,
    ``provenance`` the source, licence, version and every setting that made the numbers;
    ``synthetic`` says that they were made up here to stand in for data that must be downloaded.
    """

    name: str
    train: Split
    validation: Split
    test: Split
    shifted: Split | None
    synthetic: bool
    units: str
    provenance: Mapping[str, Any]

    def digest(self) -> str:
        """SHA-256 of all inputs and targets, read some rows at a time."""
        digest = hashlib.sha256()
        for split in (self.train, self.validation, self.test, self.shifted):
            for rows in () if split is None else (split.x, split.y):
                for start in range(0, len(rows), _AT_ONCE):
                    chunk = np.asarray(rows[start : start + _AT_ONCE])
                    digest.update(f"{chunk.dtype}{chunk.shape}".encode())
                    objects = chunk.dtype.hasobject  # whose bytes are addresses
                    digest.update(repr(chunk.tolist()).encode() if objects else chunk.tobytes())
            digest.update(b"|")
        return digest.hexdigest()
