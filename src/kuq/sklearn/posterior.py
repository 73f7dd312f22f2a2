"""Gaussian processes and Bayesian linear models: members are functions that the data allow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import ARDRegression, BayesianRidge

import kuq
from kuq.sklearn.members import Floats, Members, as_event

#: Members that stand for a posterior, and the fewest that can.
MEMBERS, FEWEST = 20, 8
#: Rows whose kernel matrix is made at once.
_ROWS = 256


def has_posterior(fitted: Any) -> bool:
    """Whether a regressor knows its noise and how far its function may be off."""
    return isinstance(fitted, (GaussianProcessRegressor, BayesianRidge, ARDRegression))


def posterior_of(fitted: Any, X: Any) -> tuple[Floats, Floats, Floats]:
    """Mean, deviation of the function, and deviation of the noise at every row.

    scikit-learn's ``return_std`` has both in one: all of it with linear models; with Gaussian
    processes the noise of a WhiteKernel but not ``alpha``.
    """
    mean, deviation = fitted.predict(X, return_std=True)
    if isinstance(fitted, GaussianProcessRegressor):
        noise, inside = _process_noise(fitted, X)
        noise, inside = noise.reshape(mean.shape), inside.reshape(mean.shape)
    else:
        noise = inside = np.full(mean.shape, 1.0 / fitted.alpha_)
    return mean, np.sqrt(np.maximum(deviation**2 - inside, 0.0)), np.sqrt(noise)


def _process_noise(fitted: GaussianProcessRegressor, X: Any) -> tuple[Floats, Floats]:
    """Variances of the noise, (rows, outputs): all, and what of it is in ``return_std``.

    White noise is what the kernel has for a row with itself and not for another row at the same
    place, wherever it stands in sums and products.
    """
    if np.ndim(fitted.alpha) > 0:
        raise kuq.ParameterError(
            "alpha for every training row says nothing about the noise of new rows; fit with a "
            "WhiteKernel, or one number as alpha"
        )
    X = np.asarray(X)
    white = np.concatenate([
        fitted.kernel_.diag(rows) - np.diag(fitted.kernel_(rows, rows.copy()))
        for rows in (X[start : start + _ROWS] for start in range(0, len(X), _ROWS))
    ])  # fmt: skip
    unit = np.square(np.asarray(fitted._y_train_std, dtype=np.float64))
    white = np.multiply.outer(np.maximum(white, 0.0), unit)
    return white + fitted.alpha * unit, white


@lru_cache
def normal_places(count: int) -> Floats:
    """Numbers that stand for a standard normal: nothing is drawn.

    Quantiles to a power for which variance and mean distance of two, taken as those of a sample
    (unbiased), are 1 and 2/√π. So a variance is exact, and the CRPS almost so.
    """
    quantiles = ndtri((np.arange(count) + 0.5) / count)

    def spread(power: float) -> Floats:
        values = np.sign(quantiles) * np.abs(quantiles) ** power
        return np.asarray(values / np.std(values, ddof=1))

    def excess(power: float) -> float:
        values = spread(power)
        distances = np.abs(values[:, None] - values)
        return float(distances.sum() / (count * (count - 1)) - 2 / np.sqrt(np.pi))

    return spread(brentq(excess, 1.0, 4.0, xtol=1e-14))


@final
@dataclass(frozen=True)
class PosteriorMembers(Members):
    """Functions spread like the posterior, each with the noise of the model."""

    predict: Callable[[Any], tuple[Floats, Floats, Floats]]
    member_count: int

    @property
    def numbers_per_row(self) -> int:
        return 2 * self.member_count

    def ensemble(self, X: Any) -> kuq.Ensemble:
        mean, function, noise = self.predict(X)
        loc = mean + normal_places(self.member_count).reshape(-1, *(1,) * mean.ndim) * function
        return kuq.Ensemble(kuq.Normal(loc, np.broadcast_to(noise, loc.shape), as_event(loc)))
