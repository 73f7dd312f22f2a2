"""Recalibration by two factors, one for noise and one for disagreement, after CLEAR.

CLEAR: Azizi, Bodik, Heiss and Yu, *Calibrated Learning for Epistemic and Aleatoric Risk*,
arXiv:2507.08150.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from kuq.calibration.outcomes import observed
from kuq.distributions.base import Distribution, Prediction
from kuq.errors import InsufficientDataError, ParameterError
from kuq.protocols.vectors import Vector, as_numpy, fraction

#: Ratios of the two factors that are tried.
_RATIOS = tuple(2.0 ** (k / 2) for k in range(-8, 9))


@final
@dataclass(frozen=True)
class Recalibration:
    """Factors for the widths of members and for their distances, and what they were fitted for.

    ``rows`` counts the held-out outcomes.
    """

    aleatoric: float
    epistemic: float
    coverage: float
    rows: int

    def apply(self, prediction: Prediction) -> Prediction:
        """A prediction of the same kind: each member's outcomes are stretched about its mean, and
        the means of members about their common mean.

        Intervals of the fitted coverage then hold that share of new outcomes. Under squared error
        aleatoric and epistemic uncertainty are multiplied by the squares of the factors.
        """
        return prediction.rescaled(self.aleatoric, self.epistemic)


def recalibrate(prediction: Prediction, y: Any, coverage: float = 0.9) -> Recalibration:
    """Two factors, fitted on held-out outcomes y, that give intervals of the wanted coverage.

    For every ratio of the factors their size follows from the coverage on the held-out rows, as in
    split conformal prediction: on average over held-out sets, new outcomes of the same kind are
    inside with the probability ``coverage``. The ratio with the best interval score is taken.
    Rows must not have been trained on. Coordinates of a vector count one by one.

    >>> import kuq, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> mean, y = rng.normal(size=(5, 2000)), rng.normal(size=2000)
    >>> narrow = kuq.Ensemble(kuq.Normal(0.1 * mean, 0.3))
    >>> fitted = kuq.calibration.recalibrate(narrow, y, coverage=0.8)
    >>> low, high = fitted.apply(narrow).interval(0.8)
    >>> round(float(np.mean((low <= y) & (y <= high))), 2)
    0.8
    """
    coverage = fraction(coverage, "coverage")
    outcomes = observed(prediction, y)
    rank = (outcomes.size + 1) * coverage
    if not 1 <= rank <= outcomes.size:
        least = math.ceil(max(1 / (1 - coverage), 1 / coverage) - 1 - 1e-9)
        raise InsufficientDataError(
            f"a coverage of {coverage:g} needs at least {least} held-out outcomes, got "
            f"{outcomes.size}; bring more, or choose another coverage"
        )
    centre = as_numpy(prediction.mean(), "the prediction")
    gap = outcomes - centre
    ratios = (1.0,) if isinstance(prediction, Distribution) else _RATIOS
    fits = [_fit(prediction.rescaled(1.0, ratio), centre, gap, coverage) for ratio in ratios]
    best = min(score for score, _ in fits)
    if not math.isfinite(best):
        raise ParameterError(
            "no factors give this coverage: more predictions have no width at all than may be "
            "missed; give the members noise of their own, or leave these rows out"
        )
    # Where one part is missing all ratios are as good, up to rounding.
    good = [k for k, (score, _) in enumerate(fits) if score <= best * (1 + 1e-9)]
    chosen = min(good, key=lambda k: abs(math.log(ratios[k])))
    size = fits[chosen][1]
    return Recalibration(size, size * ratios[chosen], coverage, int(outcomes.size))


def _fit(
    prediction: Prediction, centre: Vector, gap: Vector, coverage: float
) -> tuple[float, float]:
    """The mean interval score, and the common factor of all distances that gives the coverage.

    Such a factor stretches the bounds of every interval about the mean.
    """
    low, high = (as_numpy(b, "the prediction") - centre for b in prediction.interval(coverage))
    over, under = _range(gap, high), _range(-gap, -low)
    first, last = np.maximum(over[0], under[0]).ravel(), np.minimum(over[1], under[1]).ravel()
    factor = _factor(np.where(first <= last, first, math.inf), last, coverage)
    if not math.isfinite(factor):
        return math.inf, math.inf
    missed = np.maximum(gap - factor * high, 0) + np.maximum(factor * low - gap, 0)
    return float(np.mean(factor * (high - low) + 2 / (1 - coverage) * missed)), factor


def _range(gap: Vector, bound: Vector) -> tuple[Vector, Vector]:
    """The factors with gap ≤ factor · bound: from the first to the last number, both ≥ 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = gap / bound
    never = (bound <= 0) & (gap > 0) | (bound < 0) & (gap >= 0)
    first = np.where((bound > 0) & (gap > 0), ratio, np.where(never, math.inf, 0.0))
    # Both bounds on one side of the mean: stretched too far, the interval leaves the outcome.
    return first, np.where((bound < 0) & ~never, ratio, math.inf)


def _factor(first: Vector, last: Vector, coverage: float) -> float:
    """Where the share (n + 1)/n · coverage of outcomes is inside, between two of them."""
    tried = np.sort(first)
    inside = np.arange(1, tried.size + 1) - np.searchsorted(np.sort(last), tried)
    rank = (tried.size + 1) * coverage
    whole = min(math.floor(rank + 1e-9), tried.size)
    lower, upper = (_first_with(tried, inside, k) for k in (whole, min(whole + 1, tried.size)))
    share = max(rank - whole, 0.0)
    return lower if share < 1e-9 else lower + share * (upper - lower)


def _first_with(tried: Vector, inside: NDArray[np.signedinteger[Any]], count: int) -> float:
    reached = np.nonzero(inside >= count)[0]
    return float(tried[reached[0]]) if reached.size else math.inf
