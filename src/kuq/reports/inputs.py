"""The inputs of a page: what they are called, where they lie, and means over them."""

from __future__ import annotations

from html import escape
from typing import Any, Protocol

import numpy as np

from kuq.reports import figures
from kuq.reports.figures import Axis

_MOST_ACROSS = 400
#: Letters of a name that needs no second line.
_SHORT = 16


class Inputs(Protocol):
    """What a page knows of the inputs of a result; see ``Decomposed``."""

    @property
    def dims(self) -> tuple[str, ...]: ...

    @property
    def labels(self) -> tuple[str, ...]: ...

    @property
    def coordinates(self) -> dict[str, np.ndarray]: ...

    @property
    def input_weights(self) -> np.ndarray | None: ...


def finite_mean(values: np.ndarray, weights: np.ndarray | None = None) -> float:
    there = np.isfinite(values)
    if not there.any():
        return float("nan")
    return float(np.average(values[there], weights=None if weights is None else weights[there]))


def evenly(count: int, most: int) -> np.ndarray:
    """At most so many of as many positions, evenly spread, from the first to the last."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))


def all_alike(values: np.ndarray) -> bool:
    """Whether numbers differ by less than a table shows."""
    finite = values[np.isfinite(values)]
    return finite.size == 0 or bool(np.ptp(finite) <= 0.01 * np.abs(finite).max())


def equal_everywhere(values: np.ndarray) -> bool:
    """Whether numbers are equal up to rounding, so that their order means nothing."""
    finite = values[np.isfinite(values)]
    return finite.size == values.size and bool(np.ptp(finite) <= 1e-9 * np.abs(finite).max())


def mean_of_rows(values: np.ndarray, one: Inputs) -> np.ndarray:
    """Means over all axes but the first, of what is known."""
    axes = tuple(range(1, values.ndim))
    kept = np.ma.masked_invalid(values)
    mean: Any = np.ma.average(kept, axis=axes, weights=one.input_weights)
    return np.asarray(np.ma.filled(mean, np.nan))


def label_cell(text: str) -> str:
    """The cell that names an input; short names, such as dates, stay on one line."""
    return f"<td{' class=short' if len(text) <= _SHORT else ''}>{escape(text)}</td>"


def label_of(one: Inputs, position: int, shape: tuple[int, ...]) -> str:
    """How an input is called: by its coordinates, its row, or its position."""
    index = np.unravel_index(position, shape)
    texts = []
    for axis, (dim, at) in enumerate(zip(one.dims, index, strict=False)):
        if axis == 0 and one.labels:
            text = one.labels[int(at)]
        elif dim in one.coordinates:
            text = figures.place_text(one.coordinates[dim][int(at)])
        else:
            text = str(int(at))
        texts.append(text if len(shape) == 1 else f"{dim} {text}")
    return ", ".join(texts)


def mean_map(values: np.ndarray) -> np.ndarray:
    flat = values.reshape(-1, *values.shape[-2:])
    return np.asarray(np.ma.masked_invalid(flat).mean(axis=0).filled(np.nan))


def with_axes(
    one: Inputs, names: tuple[str, ...], grid: np.ndarray
) -> tuple[np.ndarray, Axis, Axis]:
    """The grid with its axes, north up, and no more cells than can be seen."""
    axes = []
    for axis, name in ((0, names[-2]), (1, names[-1])):
        places = one.coordinates.get(name)
        if places is None or len(places) != grid.shape[axis]:
            places = np.arange(grid.shape[axis])
        axes.append(places)
    rows, columns = axes
    if names[-2].lower().startswith("lat") and rows.dtype.kind in "fiu" and rows[-1] > rows[0]:
        grid, rows = grid[::-1], rows[::-1]
    steps = tuple(-(-n // _MOST_ACROSS) for n in grid.shape)
    grid, rows, columns = grid[:: steps[0], :: steps[1]], rows[:: steps[0]], columns[:: steps[1]]
    return grid, Axis(names[-2], rows), Axis(names[-1], columns)
