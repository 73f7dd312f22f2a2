"""How scores differ on one ensemble, as its members get surer of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kuq.distributions.base import Distribution
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.low_rank import LowRankNormal
from kuq.distributions.mixture import NormalMixture
from kuq.distributions.normal import Normal, Point
from kuq.distributions.samples import Samples
from kuq.distributions.student_t import StudentT
from kuq.errors import ParameterError
from kuq.kernels.base import Score
from kuq.kernels.energy import Energy
from kuq.kernels.gaussian import Gaussian
from kuq.kernels.log_score import LogScore
from kuq.kernels.squared_error import SquaredError
from kuq.plot.style import CYCLE, axes_or_new, tidy, values_of
from kuq.uncertainty import decompose

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)))


def kernel_comparison(
    ensemble: Ensemble,
    scores: Mapping[str, Score | str] | None = None,
    *,
    factors: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw epistemic uncertainty, mean over inputs, while the spread of every member shrinks.

    What Figure 1 of the paper shows, for any ensemble: each member is drawn together around its
    own mean by ``factors``; values are relative to the ensemble as it is. The variance does not
    notice, the log score diverges, kernel scores converge.

    >>> import kuq, numpy as np, matplotlib
    >>> matplotlib.use("agg")
    >>> two = kuq.Ensemble(kuq.Normal([[0.0], [2.0]], 1.0))
    >>> ax = kuq.plot.kernel_comparison(two)
    >>> [line.get_label() for line in ax.lines[:4]]
    ['squared error', 'energy', 'Gaussian kernel', 'log score']
    """
    if not isinstance(ensemble, Ensemble):
        raise ParameterError(f"an Ensemble is needed, got {type(ensemble).__name__}")
    at = np.geomspace(0.02, 2.0, 41) if factors is None else values_of(factors)
    if at.ndim != 1 or at.size == 0 or not np.all((at > 0) & np.isfinite(at)):
        raise ParameterError("factors must be positive numbers along one axis")
    scores = _default_scores(ensemble) if scores is None else dict(scores)
    ax = axes_or_new(ax)
    for position, (name, score) in enumerate(scores.items()):
        whole = decompose(ensemble, score, unbiased="members")  # draws are moved, so taken as given
        level = float(np.mean(values_of(whole.epistemic)))
        # The bandwidth stays that of the ensemble as it is.
        drawn = [_epistemic(ensemble, factor, whole.score) for factor in at]
        style = _STYLES[position % len(_STYLES)]
        ax.plot(
            at, np.divide(drawn, level), ls=style, color=CYCLE[position % len(CYCLE)], lw=2.2,
            label=name,
        )  # fmt: skip
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.axvline(1.0, color="#555555", lw=1.0, ls=":")
    ax.margins(x=0)
    ax.set_xlabel("spread of every member, relative to the ensemble")
    ax.set_ylabel("epistemic uncertainty, relative")
    ax.legend(frameon=False)
    return tidy(ax)


def _epistemic(ensemble: Ensemble, factor: float, score: Score | str) -> float:
    u = decompose(_shrunk(ensemble, factor), score, unbiased="members")
    return float(np.mean(values_of(u.epistemic)))


def _default_scores(ensemble: Ensemble) -> dict[str, Score]:
    """The paper's four; the log score where members have a density in closed form."""
    scores: dict[str, Score] = {
        "squared error": SquaredError(),
        "energy": Energy(),
        "Gaussian kernel": Gaussian("median"),
    }
    if all(isinstance(law, (LowRankNormal, Normal)) for law in ensemble.groups):
        scores["log score"] = LogScore()
    return scores


def _shrunk(ensemble: Ensemble, factor: float) -> Ensemble:
    return ensemble.with_groups([_shrunk_law(law, factor) for law in ensemble.groups])


def _shrunk_law(law: Distribution, factor: float) -> Distribution:
    """The law of mean + factor·(X − mean)."""
    if isinstance(law, Normal):
        return Normal(law.loc, factor * law.scale, law.event_ndim)
    if isinstance(law, StudentT):
        return StudentT(law.df, law.loc, factor * law.scale, law.event_ndim)
    if isinstance(law, LowRankNormal):
        return LowRankNormal(law.loc, factor * law.factor, factor * factor * law.diag)
    if isinstance(law, NormalMixture):
        centre = law.mean()[..., None]
        loc = centre + factor * (law.loc - centre)
        return NormalMixture(law.weights, loc, factor * law.scale, law.event_ndim)
    if isinstance(law, Samples):
        centre = law.mean()[(..., None, *(slice(None),) * law.event_ndim)]
        return law.with_values(centre + factor * (law.values - centre), law.event_ndim)
    assert isinstance(law, Point)
    return law
