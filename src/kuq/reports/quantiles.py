"""Quantiles of numbers that may count differently: the one definition of tables and pages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def quantiles(
    values: np.ndarray, levels: Sequence[float], weights: np.ndarray | None = None
) -> np.ndarray:
    """The numbers below which so much of the weight lies; none of them is NaN.

    A number stands in the middle of its own share of the weight, and between numbers it is
    interpolated: the median of an even count is the mean of the two in the middle. With equal
    weights it is NumPy's method "hazen".

    >>> quantiles(np.array([3.0, 1.0, 2.0, 4.0]), [0.5])
    array([2.5])
    """
    order = np.argsort(values, axis=None)
    ordered = np.ravel(values)[order]
    shares = np.ones(ordered.size) if weights is None else np.ravel(weights)[order]
    places = (np.cumsum(shares) - shares / 2) / np.sum(shares)
    above = np.clip(np.searchsorted(places, levels), 1, max(ordered.size - 1, 1))
    low, high = ordered[above - 1], ordered[np.minimum(above, ordered.size - 1)]
    gap = places[np.minimum(above, ordered.size - 1)] - places[above - 1]
    along = np.clip((levels - places[above - 1]) / np.where(gap > 0, gap, 1.0), 0.0, 1.0)
    inside = np.isfinite(low) & (along > 0) & (high > low)
    step = np.subtract(high, low, where=inside, out=np.zeros_like(low))
    return np.asarray(np.where((along == 1) & (high > low), high, low + along * step))
