"""Probability integral transforms: uniform if predictions are calibrated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import special

from kuq._numbers import whole_number
from kuq.calibration.outcomes import chances, observed
from kuq.distributions.base import Prediction
from kuq.errors import ParameterError
from kuq.protocols.vectors import Vector, fraction


def pit(prediction: Prediction, y: Any, *, jumps: str = "random", seed: int = 0) -> Vector:
    """P(X ≤ y) of every outcome, of the shape of y: uniform on [0, 1] for calibrated predictions.

    Points and draws make P jump. ``jumps="random"`` takes a place within the jump at random (by
    ``seed``), which keeps uniformity; ``"middle"`` takes its middle. Coordinates of a vector count
    one by one; an ensemble is its mixture.

    >>> import kuq
    >>> kuq.calibration.pit(kuq.Normal([0.0, 0.0], 1.0), [0.0, 1.96]).round(3)
    array([0.5  , 0.975])
    """
    if jumps not in ("random", "middle"):
        raise ParameterError(f'jumps must be "random" or "middle", got {jumps!r}')
    below, upto = chances(prediction, observed(prediction, y))
    rng = np.random.default_rng(whole_number(seed, "seed", 0))
    place = rng.random(upto.shape) if jumps == "random" else 0.5
    return np.asarray(below + place * (upto - below))


@final
@dataclass(frozen=True, eq=False)
class PitHistogram:
    """How many PIT values fall into bins of equal width, and how many would by chance.

    Of a calibrated prediction each count lies between ``low`` and ``high`` with the probability
    ``confidence``; ``p_value`` is that of a chi-squared test of all. A ∪ shape means intervals that
    are too narrow, a ∩ shape too wide ones, a slope a bias.
    """

    edges: Vector
    counts: Vector
    expected: float
    low: float
    high: float
    p_value: float
    confidence: float


def pit_histogram(
    prediction: Prediction, y: Any, *, bins: int = 10, confidence: float = 0.95, seed: int = 0
) -> PitHistogram:
    """The histogram of ``pit(prediction, y)`` beside what chance alone would give.

    Bounds and test take outcomes as independent.

    >>> import kuq, numpy as np
    >>> y = np.random.default_rng(0).normal(size=1000)
    >>> narrow = kuq.calibration.pit_histogram(kuq.Normal(np.zeros(1000), 0.5), y, bins=4)
    >>> narrow.counts.tolist(), narrow.p_value < 1e-6
    ([389.0, 145.0, 119.0, 347.0], True)
    """
    bins = whole_number(bins, "bins", 2)
    confidence = fraction(confidence, "confidence")
    values = pit(prediction, y, seed=seed).ravel()
    counts, edges = np.histogram(values, bins=bins, range=(0.0, 1.0))
    expected = values.size / bins
    by_chance = special.bdtr(np.arange(values.size + 1.0), values.size, 1 / bins)
    low, high = np.searchsorted(by_chance, [(1 - confidence) / 2, (1 + confidence) / 2])
    chi_squared = float(np.sum((counts - expected) ** 2)) / expected
    return PitHistogram(
        edges=edges,
        counts=counts.astype(np.float64),
        expected=expected,
        low=float(low),
        high=float(high),
        p_value=float(special.chdtrc(bins - 1, chi_squared)),
        confidence=confidence,
    )
