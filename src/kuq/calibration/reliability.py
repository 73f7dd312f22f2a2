"""Reliability of a measure: is the error large where the uncertainty is?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from kuq._numbers import whole_number
from kuq.errors import InsufficientDataError, ShapeError
from kuq.protocols.vectors import Vector, fraction, one_per_case


@final
@dataclass(frozen=True, eq=False)
class Reliability:
    """Mean uncertainty and mean error in bins of equal size, from low to high uncertainty.

    ``low`` and ``high`` bound the mean error of each bin by the bootstrap, with the probability
    ``confidence``. ``correlation`` is Spearman's between uncertainty and error of all cases, with
    its bootstrap interval.
    """

    uncertainty: Vector
    error: Vector
    low: Vector
    high: Vector
    count: Vector
    correlation: float
    correlation_interval: tuple[float, float]
    confidence: float


def reliability(
    uncertainty: Any,
    error: Any,
    *,
    bins: int = 10,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Reliability:
    """The mean error by bins of an uncertainty: total, aleatoric or epistemic, one per case.

    A part of the uncertainty that is worth its name rises with the squared error. Under
    ``SquaredError()`` and ``estimator="bma"`` the total is the variance, which the mean squared
    error should equal; the parts are what noise and what ignorance contribute to it.

    >>> import kuq, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> variance = rng.uniform(0.1, 2.0, size=2000)
    >>> r = kuq.calibration.reliability(variance, variance * rng.normal(size=2000) ** 2, bins=4)
    >>> bool(np.all((r.low < r.uncertainty) & (r.uncertainty < r.high)))
    True
    """
    u = one_per_case(uncertainty, "uncertainty")
    e = one_per_case(error, "error")
    if u.shape != e.shape:
        raise ShapeError(
            f"uncertainty and error need one number for each case, got {u.size} and {e.size}"
        )
    bins = whole_number(bins, "bins", 1)
    resamples = whole_number(resamples, "resamples", 1)
    confidence = fraction(confidence, "confidence")
    if u.size < 2 * bins:
        raise InsufficientDataError(
            f"{bins} bins need at least {2 * bins} cases, got {u.size}; choose fewer bins"
        )
    rng = np.random.default_rng(whole_number(seed, "seed", 0))
    groups = np.array_split(np.argsort(u, kind="stable"), bins)
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    bounds = [np.quantile(_means(e[group], resamples, rng), tails) for group in groups]
    low, high = np.transpose(bounds)
    chosen = rng.integers(u.size, size=(min(resamples, 400), u.size))
    spread = np.quantile([_rank_correlation(u[row], e[row]) for row in chosen], tails)
    return Reliability(
        uncertainty=np.array([u[group].mean() for group in groups]),
        error=np.array([e[group].mean() for group in groups]),
        low=low,
        high=high,
        count=np.array([float(group.size) for group in groups]),
        correlation=_rank_correlation(u, e),
        correlation_interval=(float(spread[0]), float(spread[1])),
        confidence=confidence,
    )


def _means(values: Vector, resamples: int, rng: np.random.Generator) -> Vector:
    """Means of resamples: of how often each value is drawn."""
    rows = max(1, 2**20 // values.size)
    means = [
        values[rng.integers(values.size, size=(min(rows, resamples - start), values.size))].mean(1)
        for start in range(0, resamples, rows)
    ]
    return np.concatenate(means)


def _rank_correlation(a: Vector, b: Vector) -> float:
    """Spearman's, with mean ranks of ties; zero where one does not vary."""
    x, y = (_ranks(values) for values in (a, b))
    spread = float(np.sqrt(np.sum(x * x) * np.sum(y * y)))
    return float(np.sum(x * y)) / spread if spread > 0 else 0.0


def _ranks(values: Vector) -> Vector:
    """Centred ranks."""
    _, group, count = np.unique(values, return_inverse=True, return_counts=True)
    upto = np.cumsum(count)
    return np.asarray((upto - (count - 1) / 2)[group] - (values.size + 1) / 2)
