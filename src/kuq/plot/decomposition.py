"""The components of uncertainty along one input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kuq.errors import ParameterError, ShapeError
from kuq.plot.style import (
    COLOURS,
    PARTS,
    axes_or_new,
    is_labelled,
    label_of,
    need_axes,
    part_of,
    spread_note,
    tidy,
    units_of,
    values_of,
    with_unit,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def decomposition(
    u: Any, x: Any = None, *, parts: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Draw total, aleatoric and epistemic uncertainty along one input.

    ``u`` is an Uncertainty, or a Dataset of ``kuq.xarray.decompose``, over one axis; ``x`` are the
    inputs, in any order, by default the coordinate of the Dataset or the position. ``parts`` are
    all three, or of what is not split the total, labelled by what it is.

    >>> import kuq, numpy as np, matplotlib
    >>> matplotlib.use("agg")
    >>> x = np.linspace(0.0, 1.0, 50)
    >>> members = kuq.Ensemble(kuq.Normal(np.stack([x, x**2, x**3]), 0.1))
    >>> ax = kuq.plot.decomposition(kuq.decompose(members, kuq.CRPS()), x)
    >>> [line.get_label() for line in ax.lines]
    ['total', 'aleatoric', 'epistemic']
    """
    if parts is not None and not parts:
        raise ParameterError(f"parts must name some of {', '.join(PARTS)}")
    note = spread_note(u)
    if parts is None:
        parts = ("total",) if note else PARTS
    drawn = [(name, part_of(u, name)) for name in parts]
    at, label = inputs_of(drawn[0][1], x)
    order = np.argsort(at, kind="stable")
    ax = axes_or_new(ax)
    for name, component in drawn:
        values = values_of(component)
        need_axes(values, 1, name)
        if at.shape != values.shape:
            raise ShapeError(f"x must have the shape {values.shape} of {name}, got {at.shape}")
        style = {"lw": 1.3, "ls": "--"} if name == "total" else {"lw": 2.2}
        colour = COLOURS[name]
        named = note if note and name == "total" else name
        ax.plot(at[order], values[order], color=colour, label=named, **style)
        if name != "total":
            ax.fill_between(at[order], values[order], color=colour, alpha=0.12, lw=0)
    ax.margins(x=0)
    if all(np.nanmin(line.get_ydata(), initial=0.0) >= 0 for line in ax.lines):
        ax.set_ylim(bottom=0)
    ax.set_xlabel(label)
    ax.set_ylabel(with_unit("uncertainty", units_of(u)))
    ax.legend(frameon=False)
    return tidy(ax)


def inputs_of(component: Any, x: Any) -> tuple[np.ndarray, str]:
    """Where the values stand along the axis, and its label."""
    if x is None and is_labelled(component) and len(component.dims) == 1:
        (name,) = component.dims
        if name in component.coords and component.coords[name].dtype.kind in "fiu":
            coordinate = component.coords[name]
            return values_of(coordinate), label_of(coordinate, str(name))
        return np.arange(component.sizes[name], dtype=float), str(name)
    if x is None:
        size = values_of(component).size
        return np.arange(size, dtype=float), "input"
    name = getattr(x, "name", None)
    return values_of(x), label_of(x, "input x" if name is None else str(name))
