"""Figures that need no experiment: epistemic uncertainty as σ shrinks, and influence curves."""

from __future__ import annotations

import numpy as np

import kuq
from kuq.kernels.base import Score
from kuq.protocols.influence import influence_curves
from kuq_study.figures.drawing import Figure, Panel, colour, drawing
from kuq_study.vocabulary import SCORES

_SCORES: dict[str, Score] = {
    "log": kuq.LogScore(),
    "squared": kuq.SquaredError(),
    "energy": kuq.Energy(),
    "gaussian": kuq.Gaussian(1.0),
}
_DASHES = {"log": "--", "squared": "-.", "energy": "-", "gaussian": ":"}


def _legend() -> tuple[tuple[str, str, str], ...]:
    return tuple((SCORES[s].text, colour(s), _DASHES[s]) for s in _SCORES)


def epistemic_limits() -> Figure:
    """EU of two normal members with a common σ, against σ: the paper's first figure."""
    sigma = np.geomspace(0.02, 5.0, 60)
    ensemble = kuq.Ensemble(kuq.Normal(np.asarray([[0.0], [1.0]]), np.stack([sigma, sigma])))
    panels: list[Panel] = []
    with drawing("epistemic-limits", panels) as axes:
        for name, score in _SCORES.items():
            values = kuq.decompose(ensemble, score, unbiased=False).epistemic
            axes.loglog(sigma, values, _DASHES[name], color=colour(name), lw=2)
        axes.set(xlabel="σ of both members", ylabel="epistemic uncertainty", ylim=(1e-3, 1e3))
    return Figure(
        "epistemic-limits",
        "Epistemic uncertainty against σ",
        "Two normal members at distance 1 with a common standard deviation σ. As σ shrinks, the "
        "squared error (SE) stays constant, the log score diverges, the energy score (ES) tends to "
        "half the distance; the Gaussian kernel (bandwidth 1) stays bounded. Computed exactly.",
        tuple(panels),
        _legend(),
    )


def theoretical_influence() -> Figure:
    """Influence of one more member on AU against its σ, and on EU against its mean."""
    base = kuq.Ensemble(kuq.Normal(np.linspace(-0.5, 0.5, 5)[:, None], 0.5))
    reach = np.geomspace(0.5, 200.0, 50)
    panels: list[Panel] = []
    sides = (
        ("aleatoric", kuq.Normal(np.zeros((50, 1)), reach[:, None]), "σ of the new member"),
        ("epistemic", kuq.Normal(reach[:, None], np.full((50, 1), 0.5)), "mean of the new member"),
    )
    for component, contamination, label in sides:
        with drawing(f"influence-{component}", panels) as axes:
            for name, score in _SCORES.items():
                influence = influence_curves(base, contamination, score)
                values = getattr(influence, component)[:, 0]
                axes.plot(reach, values, _DASHES[name], color=colour(name), lw=2)
            axes.set_xscale("log")
            axes.set_yscale("symlog", linthresh=0.1)
            axes.set(xlabel=label, ylabel=f"influence on {component[0].upper()}U")
            axes.set_ylim(bottom=-1.0)
    return Figure(
        "influence",
        "Influence of one member",
        "The slope of aleatoric and epistemic uncertainty as a little weight moves from five "
        "members near 0 to a new one. Only the Gaussian kernel bounds both.",
        tuple(panels),
        _legend(),
    )
