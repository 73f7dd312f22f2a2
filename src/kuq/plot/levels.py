"""What each level of uncertainty adds along one input."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from kuq.errors import ParameterError
from kuq.plot.decomposition import inputs_of
from kuq.plot.style import (
    COLOURS,
    CYCLE,
    axes_or_new,
    components_of,
    need_axes,
    tidy,
    units_of,
    values_of,
    with_unit,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def partition(u: Any, x: Any = None, *, shares: bool = True, ax: Axes | None = None) -> Axes:
    """Draw noise, if known, and what each level adds, one on top of the other, along one input.

    ``u`` is a Partition, or a Dataset of ``kuq.xarray.decompose(…, level_dims=…)``, over one axis;
    ``x`` are the inputs, in any order. ``shares`` of the total, or values in their unit. Unbiased
    parts that are below zero are drawn as zero.

    >>> import kuq, numpy as np, matplotlib
    >>> matplotlib.use("agg")
    >>> x = np.linspace(0.0, 1.0, 50)
    >>> runs = kuq.Ensemble(kuq.Normal(np.stack([[x, x**2], [2 * x, 3 * x]]), 0.1), member_ndim=2)
    >>> u = kuq.decompose(runs, "variance", levels=("model", "run"))
    >>> [text.get_text() for text in kuq.plot.partition(u, x).get_legend().get_texts()]
    ['run', 'model', 'noise']
    """
    parts = components_of(u)
    if not parts:
        raise ParameterError(
            "a Partition, or a Dataset with noise and levels, is needed: decompose(…, levels=…)"
        )
    at, label = inputs_of(next(iter(parts.values())), x)
    order = np.argsort(at, kind="stable")
    heights = []
    for name, component in parts.items():
        values = values_of(component)
        need_axes(values, 1, name)
        heights.append(np.where(values < 0, 0.0, values)[order])
    whole = np.sum(heights, axis=0)
    if shares:
        heights = [
            np.divide(h, whole, out=np.zeros_like(h), where=whole > 0) * 100 for h in heights
        ]
    ax = axes_or_new(ax)
    others = itertools.cycle(colour for colour in CYCLE if colour != COLOURS["aleatoric"])
    colours = [COLOURS["aleatoric"] if name == "noise" else next(others) for name in parts]
    bands = ax.stackplot(
        at[order],
        heights,
        labels=list(parts),
        colors=colours,
        alpha=0.75,
        lw=0,
    )
    ax.margins(x=0)
    ax.set_ylim(0, 100 if shares else None)
    ax.set_xlabel(label)
    ax.set_ylabel("share of the total (%)" if shares else with_unit("uncertainty", units_of(u)))
    ax.legend(bands[::-1], list(parts)[::-1], frameon=False, loc="center left",
              bbox_to_anchor=(1.0, 0.5))  # fmt: skip
    return tidy(ax)
