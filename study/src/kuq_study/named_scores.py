"""Scores by the names that experiment files use."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kuq.distributions.base import Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.mixture import NormalMixture
from kuq.distributions.normal import Point
from kuq.distributions.samples import Samples
from kuq.errors import ParameterError
from kuq.kernels.base import Score
from kuq.kernels.energy import Energy
from kuq.kernels.gaussian import Gaussian
from kuq.kernels.log_score import LogScore
from kuq.kernels.marginal import CRPS
from kuq.kernels.squared_error import SquaredError
from kuq_study.cell import Cell

#: Each makes a score from the bandwidth of the data set, which most of them do not need.
SCORES: Mapping[str, Callable[[float], Score]] = {
    "log": lambda bandwidth: LogScore(),
    "squared": lambda bandwidth: SquaredError(),
    "crps": lambda bandwidth: CRPS(),
    "energy": lambda bandwidth: Energy(),
    "gaussian": Gaussian,
}


def score_named(name: str, cell: Cell, bandwidth: float) -> Score:
    """The score of a name: one of the paper's, or the user's own.

    The user's own is a score, or a function of the data set's bandwidth that returns one.
    """
    if name in SCORES:
        return SCORES[name](bandwidth)
    if name not in cell.entries:
        raise ParameterError(
            f"there is no score {name!r}; there are {', '.join(SCORES)}, and those of the file's "
            "table [scores]"
        )
    loaded = cell.entries[name].load()
    score = loaded if isinstance(loaded, Score) else loaded(bandwidth)
    if not isinstance(score, Score):
        raise ParameterError(f"the score {name!r} must be a kuq score, got {score!r}")
    return score


def scores_for(cell: Cell, prediction: Prediction, bandwidth: float) -> dict[str, Score]:
    """The scores of a cell that a prediction has a value under, by name.

    As in the paper, the log score is left out for samples, which have no density, and for
    mixtures, whose entropy has no closed form.
    """
    scores = {name: score_named(name, cell, bandwidth) for name in cell.scores}
    if _has_log_score(prediction):
        return scores
    return {name: score for name, score in scores.items() if not isinstance(score, LogScore)}


def _has_log_score(prediction: Prediction) -> bool:
    if not isinstance(prediction, Ensemble):
        return True
    kinds = Samples, NormalMixture, Point
    return not any(isinstance(law, kinds) for law in prediction.groups)
