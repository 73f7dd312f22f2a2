"""Where outcomes fall in the distributions that were predicted for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from kuq.distributions.base import Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.evidential import NormalInverseGamma
from kuq.distributions.low_rank import LowRankNormal
from kuq.distributions.mixture import NormalMixture
from kuq.distributions.normal import Normal, Point
from kuq.distributions.samples import Samples
from kuq.distributions.student_t import StudentT
from kuq.errors import ParameterError


def pit_values(prediction: Prediction, y: np.ndarray, seed: int = 0) -> np.ndarray:
    """The share of the predicted distribution below each coordinate of the outcome, like ``y``.

    Uniform between 0 and 1 if predictions are calibrated. Where distributions have jumps, it is
    drawn at random within them; the ranks among n draws or points count as (rank + 0…1) / (n + 1),
    since n draws cut the line into n + 1 intervals of equal chance.
    """
    below, upto, draws = _chances(prediction, y)
    within = np.random.default_rng(seed).uniform(size=np.shape(below))
    if draws:
        return np.asarray((draws * (below + within * (upto - below)) + within) / (draws + 1))
    return np.asarray(below + within * (upto - below))


def _chances(prediction: Prediction, y: np.ndarray) -> tuple[Any, Any, int]:
    """P(Y < y), P(Y ≤ y), and how many draws there are if it is all draws of equal weight."""
    if not isinstance(prediction, Ensemble):
        return (*_law(prediction, y), _draws(prediction))
    weights, members = prediction.weights, prediction.members
    if isinstance(members, tuple):
        each = [_law(law, y) for law in members]
        below, upto = (np.stack([pair[k] for pair in each]) for k in (0, 1))
        draws = 0
    else:
        below, upto = _law(members, np.broadcast_to(y, (prediction.member_count, *y.shape)))
        draws = prediction.member_count * _draws(members) if weights is None else 0
    return (
        np.average(below, axis=0, weights=weights),
        np.average(upto, axis=0, weights=weights),
        draws,
    )


def _draws(law: Prediction) -> int:
    """Draws of equal weight; none of other laws."""
    if isinstance(law, Point):
        return 1
    if isinstance(law, Samples) and law.weights is None and not np.isnan(law.values).any():
        return int(law.values.shape[len(law.batch_shape)])
    return 0


def _law(law: Prediction, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P(Y < y) and P(Y ≤ y) of a law at outcomes of its own shape."""
    if isinstance(law, Point):
        return (law.value < y) * 1.0, (law.value <= y) * 1.0
    if isinstance(law, Samples):
        axis = len(law.batch_shape)
        at = np.expand_dims(y, axis)
        weights = np.ones(law.values.shape) * ~np.isnan(law.values)
        if law.weights is not None:
            ones = (1,) * len(law.event_shape)
            weights = weights * np.reshape(law.weights, (*law.weights.shape, *ones))
        return (
            np.average(law.values < at, axis=axis, weights=weights),
            np.average(law.values <= at, axis=axis, weights=weights),
        )
    if isinstance(law, Normal):
        return _normal(y, law.loc, law.scale)
    if isinstance(law, LowRankNormal):
        return _normal(y, law.loc, np.sqrt(np.sum(law.factor**2, axis=-1) + law.diag))
    if isinstance(law, NormalMixture):
        ones = (1,) * len(law.event_shape)
        weights = np.asarray(law.weights)
        if weights.ndim < law.loc.ndim:
            weights = np.reshape(weights, (*law.batch_shape, *ones, weights.shape[-1]))
        below, upto = _normal(y[..., None], law.loc, law.scale)
        return np.sum(weights * below, axis=-1), np.sum(weights * upto, axis=-1)
    if isinstance(law, StudentT):
        share = special.stdtr(law.df, (y - law.loc) / law.scale)
        return share, share
    if isinstance(law, NormalInverseGamma):
        scale = np.sqrt(law.beta * (1 + law.nu) / (law.nu * law.alpha))
        share = special.stdtr(2 * law.alpha, (y - law.loc) / scale)
        return share, share
    raise ParameterError(f"the distribution function of {type(law).__name__} is not known")


def _normal(y: np.ndarray, loc: Any, scale: Any) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(divide="ignore", invalid="ignore"):
        share = special.ndtr((y - loc) / scale)
    point = np.asarray(scale == 0)
    return np.where(point, loc < y, share), np.where(point, loc <= y, share)
