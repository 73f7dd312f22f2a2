"""Plots of protocols: retention curves, and uncertainties of seen and unseen inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from kuq.errors import InsufficientDataError
from kuq.plot.style import COLOURS, CYCLE, axes_or_new, tidy, values_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Curve(Protocol):
    """What ``kuq.protocols.selective_prediction`` gives: risks over retained fractions."""

    @property
    def retention(self) -> Any: ...
    @property
    def risk(self) -> Any: ...
    @property
    def oracle(self) -> Any: ...
    @property
    def random(self) -> Any: ...


def retention_curve(curve: Curve, *, label: str = "uncertainty", ax: Axes | None = None) -> Axes:
    """Draw the error of what is kept when the most uncertain predictions are left out.

    ``curve`` is a result of ``kuq.protocols.selective_prediction``. Calls on the same axes add
    curves; the bounds, an oracle that knows the errors and a random choice, are drawn once.

    >>> from types import SimpleNamespace
    >>> import kuq, matplotlib
    >>> matplotlib.use("agg")
    >>> curve = SimpleNamespace(retention=[0.5, 1.0], risk=[0.2, 0.5], oracle=[0.1, 0.5],
    ...                         random=[0.5, 0.5])
    >>> ax = kuq.plot.retention_curve(curve, label="CRPS")
    >>> [line.get_label() for line in ax.lines]
    ['random', 'oracle', 'CRPS']
    """
    ax = axes_or_new(ax)
    at = 100 * values_of(curve.retention)
    labels = [line.get_label() for line in ax.lines]
    for bound, style in (("random", ":"), ("oracle", "--")):
        if bound not in labels:
            level = np.broadcast_to(values_of(getattr(curve, bound)), at.shape)
            ax.plot(at, level, style, color="#555555", lw=1.4, label=bound)
    drawn = sum(name not in ("random", "oracle") for name in labels)
    ax.plot(at, values_of(curve.risk), color=CYCLE[drawn % len(CYCLE)], lw=2.2, label=label)
    ax.set_xlabel("predictions kept (%)")
    ax.set_ylabel("mean error of what is kept")
    ax.margins(x=0)
    ax.legend(frameon=False)
    return tidy(ax)


def ood_histograms(
    inside: Any, outside: Any, *, label: str = "epistemic uncertainty", ax: Axes | None = None
) -> Axes:
    """Draw the uncertainties of inputs like the training data and of others, as histograms.

    The farther apart they are, the better the uncertainty finds what the model has not seen.
    Medians are marked. Skewed positive values are drawn over a logarithmic axis.

    >>> import kuq, numpy as np, matplotlib
    >>> matplotlib.use("agg")
    >>> rng = np.random.default_rng(0)
    >>> ax = kuq.plot.ood_histograms(rng.gamma(2, size=500), 3 + rng.gamma(2, size=500))
    >>> ax.get_ylabel()
    'share of inputs'
    """
    both = [values_of(a).ravel() for a in (inside, outside)]
    both = [a[np.isfinite(a)] for a in both]
    if min(a.size for a in both) == 0:
        raise InsufficientDataError("histograms need finite values both inside and outside")
    pooled = np.concatenate(both)
    low, high = pooled.min(), pooled.max()
    skewed = low > 0 and high > 30 * low
    ax = axes_or_new(ax)
    if skewed:
        bins = np.geomspace(low, high, 41)
        ax.set_xscale("log")
    else:
        bins = np.linspace(low, high if high > low else low + 1.0, 41)
    names = ("inside", "outside")
    for values, name, component in zip(both, names, ("aleatoric", "epistemic"), strict=True):
        colour = COLOURS[component]
        weights = np.full(values.size, 1 / values.size)
        ax.hist(values, bins.tolist(), weights=weights, color=colour, alpha=0.35, label=name)
        ax.hist(values, bins.tolist(), weights=weights, color=colour, histtype="step", lw=1.6)
        ax.axvline(float(np.median(values)), color=colour, lw=1.4, ls="--")
    ax.set_xlabel(label)
    ax.set_ylabel("share of inputs")
    ax.legend(frameon=False)
    return tidy(ax)
