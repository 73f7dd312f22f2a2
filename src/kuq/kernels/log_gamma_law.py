"""The law of log G for a gamma variate G: over it two kernels are mixtures of Gaussian ones."""

from __future__ import annotations

import math

import numpy as np

from kuq._special import exp_remainder

#: From here on the series of Stirling is exact, and lgamma would lose what it subtracts.
_LARGE = 100.0


def log_density(shape: float, x: np.ndarray) -> np.ndarray:
    """The log density of log G at x, G of that shape, without cancellation at large shapes."""
    y = x - math.log(shape)
    with np.errstate(over="ignore"):  # far right the density is zero
        return np.asarray(_log_peak(shape) - shape * exp_remainder(y))


def _log_peak(shape: float) -> float:
    """shape·log(shape) − shape − log Γ(shape)."""
    if shape < _LARGE:
        return shape * math.log(shape) - shape - math.lgamma(shape)
    inverse = 1 / shape
    series = inverse * (1 / 12 - inverse**2 * (1 / 360 - inverse**2 / 1260))
    return math.log(shape / (2 * math.pi)) / 2 - series
