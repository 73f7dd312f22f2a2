"""Coverage curves: how often intervals hold the outcome, against how often they should."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from kuq.calibration.outcomes import chances, observed, share_interval, within
from kuq.distributions.base import Prediction
from kuq.errors import ParameterError
from kuq.protocols.vectors import Vector, as_numpy, fraction


@final
@dataclass(frozen=True, eq=False)
class CoverageCurve:
    """The share of outcomes inside of central intervals of several nominal coverages.

    ``low`` and ``high`` bound the true share with the probability ``confidence`` (Wilson), if
    outcomes are independent. ``error`` is the mean of |observed − nominal|.
    """

    nominal: Vector
    observed: Vector
    low: Vector
    high: Vector
    error: float
    count: int
    confidence: float


def coverage_curve(
    prediction: Prediction, y: Any, nominal: Any = None, *, confidence: float = 0.95
) -> CoverageCurve:
    """Which share of the outcomes lies within ``prediction.interval(c)``, for nominal c.

    By default c = 0.05, 0.10, …, 0.95. Coordinates of a vector count one by one.

    >>> import kuq, numpy as np
    >>> y = np.random.default_rng(0).normal(size=1000)
    >>> curve = kuq.calibration.coverage_curve(kuq.Normal(np.zeros(1000), 0.5), y, [0.5, 0.9])
    >>> curve.observed
    array([0.264, 0.612])
    """
    confidence = fraction(confidence, "confidence")
    levels = np.arange(1, 20) / 20 if nominal is None else as_numpy(nominal, "nominal").ravel()
    if not np.all((levels > 0) & (levels < 1)):
        raise ParameterError(f"nominal must lie strictly between 0 and 1, got {nominal!r}")
    below, upto = (a.ravel() for a in chances(prediction, observed(prediction, y)))
    inside = within(below, upto, levels[:, None])
    share = inside.mean(axis=1)
    low, high = share_interval(inside.sum(axis=1), upto.size, confidence)
    return CoverageCurve(
        nominal=levels,
        observed=share,
        low=low,
        high=high,
        error=float(np.mean(np.abs(share - levels))),
        count=int(upto.size),
        confidence=confidence,
    )
