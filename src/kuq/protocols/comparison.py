"""Which of several uncertainties ranks errors best, and whether that may be chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from kuq.errors import InsufficientDataError, ParameterError, ShapeError
from kuq.protocols.retention import SelectivePrediction, selective_prediction
from kuq.protocols.vectors import Vector, fraction, one_per_case

Interval = tuple[float, float]


@final
@dataclass(frozen=True, eq=False)
class RetentionComparison:
    """Retention curves of several uncertainties for the same errors, with intervals.

    ``intervals`` are of each prediction-rejection ratio, ``behind`` of its difference from that of
    the ``best``. The differences are paired: every resample of cases is the same for all, so that
    they can be certain where the intervals of the ratios overlap.
    """

    curves: Mapping[str, SelectivePrediction]
    intervals: Mapping[str, Interval]
    behind: Mapping[str, Interval]
    best: str
    confidence: float

    def is_behind(self, name: str) -> bool:
        """Whether the best is better than this one beyond chance."""
        return name != self.best and self.behind[name][0] > 0


def compare_retention(
    uncertainties: Mapping[str, Any],
    error: Any,
    retention: tuple[float, float] = (0.5, 1.0),
    *,
    resamples: int = 400,
    confidence: float = 0.95,
    seed: int = 0,
) -> RetentionComparison:
    """Rank the same errors by several uncertainties, with paired bootstrap intervals.

    ``uncertainties`` has one number per case under each name. Cases count as independent; for
    neighbours in space or time the intervals are too narrow.

    >>> import kuq, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> u = rng.gamma(2.0, size=500)
    >>> error = u * rng.exponential(size=500)
    >>> noise = {"knows": u, "half": u + rng.gamma(4.0, size=500)}
    >>> found = kuq.protocols.compare_retention(noise, error)
    >>> found.best, found.is_behind("half")
    ('knows', True)
    """
    share = fraction(confidence, "confidence")
    e = one_per_case(error, "error")
    every = {
        name: one_per_case(u, f"the uncertainty {name!r}", infinite=True)
        for name, u in uncertainties.items()
    }
    if not every:
        raise ParameterError("at least one uncertainty is needed")
    for name, u in every.items():
        if u.shape != e.shape:
            raise ShapeError(
                f"the uncertainty {name!r} needs one number for each of {e.size} errors, got "
                f"{u.size}"
            )
    if resamples < 20:
        raise ParameterError(f"at least 20 resamples are needed for an interval, got {resamples}")
    curves = {name: selective_prediction(u, e, retention) for name, u in every.items()}
    ratios = {name: curve.prr for name, curve in curves.items()}
    if all(np.isnan(ratio) for ratio in ratios.values()):
        raise InsufficientDataError("all errors are equal, so that no order is better than another")
    best = min(ratios, key=lambda name: ratios[name])
    drawn = _resampled(every, e, retention, resamples, np.random.default_rng(seed))
    tails = ((1 - share) / 2, (1 + share) / 2)
    return RetentionComparison(
        curves,
        {name: _interval(values, tails) for name, values in drawn.items()},
        {name: _interval(values - drawn[best], tails) for name, values in drawn.items()},
        best,
        share,
    )


def _resampled(
    uncertainties: Mapping[str, Vector],
    error: Vector,
    retention: tuple[float, float],
    resamples: int,
    rng: np.random.Generator,
) -> dict[str, Vector]:
    """The ratios of resamples of cases, the same ones for all."""
    ratios = {name: np.empty(resamples) for name in uncertainties}
    for place in range(resamples):
        cases = rng.integers(error.size, size=error.size)
        for name, u in uncertainties.items():
            ratios[name][place] = selective_prediction(u[cases], error[cases], retention).prr
    return ratios


def _interval(values: Vector, tails: tuple[float, float]) -> Interval:
    known = values[~np.isnan(values)]
    if known.size == 0:
        return (np.nan, np.nan)
    low, high = np.quantile(known, tails)
    return float(low), float(high)
