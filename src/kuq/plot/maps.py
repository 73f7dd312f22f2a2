"""Maps of uncertainty over a grid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kuq.errors import ShapeError
from kuq.plot.style import (
    COLOUR_MAP,
    axes_or_new,
    is_labelled,
    label_of,
    need_axes,
    part_of,
    spread_note,
    units_of,
    values_of,
    with_unit,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def uncertainty_map(
    values: Any, part: str | None = None, *, x: Any = None, y: Any = None, ax: Axes | None = None
) -> Axes:
    """Draw a component of uncertainty over a grid of two axes, with a colour bar.

    ``values`` is an Uncertainty, a Partition (of which ``part`` may be a level), a Dataset or a
    DataArray whose coordinates are the axes, or a plain array (rows, columns) with the places of
    columns and rows in ``x`` and ``y``. ``part`` is epistemic, or of what is not split the total.

    >>> import kuq, numpy as np, matplotlib
    >>> matplotlib.use("agg")
    >>> fields = np.random.default_rng(0).normal(size=(4, 20, 8, 16))
    >>> score = kuq.CRPS(reduce=None)
    >>> u = kuq.decompose(kuq.Ensemble(kuq.Samples(fields, event_ndim=2)), score)
    >>> kuq.plot.uncertainty_map(u, "aleatoric").get_title()
    'aleatoric'
    """
    whole = isinstance(values, Mapping) or hasattr(values, "data_vars")
    name = part or ("total" if whole and spread_note(values) else "epistemic")
    component = part_of(values, name) if whole else values
    unit = units_of(values) or units_of(component)
    grid = values_of(component)
    need_axes(grid, 2, "a map")
    places, labels = _places(component, grid, x, y)
    ax = axes_or_new(ax, (6.0, 4.4))
    mesh = ax.pcolormesh(*places, grid, cmap=COLOUR_MAP, shading="nearest", rasterized=True)
    if x is None and y is None and not is_labelled(component):
        ax.set_aspect("equal")
        ax.invert_yaxis()  # rows of an array go down
    title = name if whole else str(getattr(component, "name", None) or "")
    bar = ax.figure.colorbar(mesh, ax=ax, fraction=0.046, pad=0.03)
    bar.set_label(with_unit(title or "uncertainty", unit))
    bar.outline.set_visible(False)
    ax.set_xlabel(labels[0])
    ax.set_ylabel(labels[1])
    ax.set_title(title, loc="center", fontweight="bold", fontsize="medium")
    return ax


def _places(
    component: Any, grid: np.ndarray, x: Any, y: Any
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[str, str]]:
    """Places and labels of columns and rows."""
    places, labels = [], []
    for given, axis, plain in ((x, 1, "column"), (y, 0, "row")):
        place, label = given, plain
        if given is None and is_labelled(component):
            label = str(component.dims[axis])
            if label in component.coords and component.coords[label].dtype.kind in "fiu":
                place = component.coords[label]
        if place is None:
            place = np.arange(grid.shape[axis])
        places.append(values_of(place))
        labels.append(label_of(place, label if given is None else getattr(given, "name", plain)))
        if places[-1].shape != (grid.shape[axis],):
            raise ShapeError(
                f"the places of {plain}s need shape ({grid.shape[axis]},), got {places[-1].shape}"
            )
    return (places[0], places[1]), (labels[0], labels[1])
