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

from kuq.calibration.outcomes import check_prediction, observed
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
        check_prediction(prediction)
        rescaled = prediction.rescaled(self.aleatoric, self.epistemic)
        rescaled.factors = (self.aleatoric, self.epistemic)
        return rescaled


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
    ratios = (1.0,) if isinstance(prediction, Distribution) else _RATIOS
    centre = as_numpy(prediction.mean(), "the prediction").ravel()
    gap = outcomes.ravel() - centre
    tried = [_Tried.of(prediction.rescaled(1.0, r), centre, gap, r, coverage) for r in ratios]
    best, size = _chosen(tried, coverage)
    if not math.isfinite(size):
        raise ParameterError(
            "no factors give this coverage: more predictions have no width at all than may be "
            "missed; give the members noise of their own, or leave these rows out"
        )
    if size == 0:
        raise ParameterError(
            "no factors give this coverage: as many outcomes lie exactly on the predicted mean as "
            "are to be inside, so that intervals need no width; are these rows that the model has "
            "seen?"
        )
    if len(ratios) > 1:
        size *= _optimism(tried, coverage)
    return Recalibration(size, size * best.ratio, coverage, int(outcomes.size))


@dataclass(frozen=True, eq=False)
class _Tried:
    """Intervals of members whose distances are multiplied by a ratio, about the mean, (n,).

    A common factor stretches their bounds about the mean; the outcome is inside for factors from
    ``first`` to ``last``.
    """

    ratio: float
    gap: Vector
    low: Vector
    high: Vector
    first: Vector
    last: Vector

    @staticmethod
    def of(
        prediction: Prediction, centre: Vector, gap: Vector, ratio: float, coverage: float
    ) -> _Tried:
        bounds = (as_numpy(b, "the prediction").ravel() for b in prediction.interval(coverage))
        low, high = (bound - centre for bound in bounds)
        over, under = _range(gap, high), _range(-gap, -low)
        first, last = np.maximum(over[0], under[0]), np.minimum(over[1], under[1])
        return _Tried(ratio, gap, low, high, np.where(first <= last, first, math.inf), last)

    def at(self, rows: NDArray[np.intp]) -> _Tried:
        arrays = (self.gap, self.low, self.high, self.first, self.last)
        return _Tried(self.ratio, *(a[rows] for a in arrays))

    def score(self, factor: float, coverage: float) -> float:
        """The mean interval score of the stretched intervals."""
        if not math.isfinite(factor):
            return math.inf
        low, high = factor * self.low, factor * self.high
        missed = np.maximum(self.gap - high, 0) + np.maximum(low - self.gap, 0)
        return float(np.mean(high - low + 2 / (1 - coverage) * missed))


def _range(gap: Vector, bound: Vector) -> tuple[Vector, Vector]:
    """The factors with gap ≤ factor · bound: from the first to the last number, both ≥ 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = gap / bound
    never = (bound <= 0) & (gap > 0) | (bound < 0) & (gap >= 0)
    first = np.where((bound > 0) & (gap > 0), ratio, np.where(never, math.inf, 0.0))
    # Both bounds on one side of the mean: stretched too far, the interval leaves the outcome.
    return first, np.where((bound < 0) & ~never, ratio, math.inf)


def _chosen(tried: list[_Tried], coverage: float) -> tuple[_Tried, float]:
    """The ratio with the best interval score, and the common factor that gives the coverage."""
    factors = [_factor(one.first, one.last, coverage) for one in tried]
    scores = [one.score(f, coverage) for one, f in zip(tried, factors, strict=True)]
    # Where one part is missing all ratios are as good, up to rounding.
    good = [k for k, score in enumerate(scores) if score <= min(scores) * (1 + 1e-9)]
    best = min(good, key=lambda k: abs(math.log(tried[k].ratio)))
    return tried[best], factors[best]


def _optimism(tried: list[_Tried], coverage: float) -> float:
    """By how much intervals fitted on rows have to be stretched to cover rows that they were not.

    The ratio that looks best on its own rows covers too little elsewhere. Ten parts of the rows are
    left out in turn, and the factors that these need are compared with what the others gave them.
    """
    count = tried[0].gap.size
    first, last = np.empty(count), np.empty(count)
    order = np.random.default_rng(0).permutation(count)
    for fold in np.array_split(order, min(10, count)):
        others = np.setdiff1d(order, fold)
        best, size = _chosen([one.at(others) for one in tried], coverage)
        whole = next(one for one in tried if one.ratio == best.ratio)
        first[fold], last[fold] = whole.first[fold] / size, whole.last[fold] / size
    needed = _factor(first, last, coverage)
    return needed if math.isfinite(needed) else 1.0


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
