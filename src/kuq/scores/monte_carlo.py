"""Monte Carlo by request: laws replaced by draws where no exact route exists."""

from __future__ import annotations

import math

import numpy as np

from kuq._array import Array, from_numpy, namespace
from kuq.distributions.base import Distribution, Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.evidential import NormalInverseGamma
from kuq.distributions.normal import Normal, Point
from kuq.distributions.samples import Samples


def drawn(prediction: Prediction, draws: int, rng: np.random.Generator) -> Prediction:
    """The same prediction with every law that is not made of points replaced by draws."""
    if isinstance(prediction, Ensemble):
        return prediction.with_groups([_drawn_law(law, draws, rng) for law in prediction.groups])
    if isinstance(prediction, NormalInverseGamma):
        count = max(2, math.ceil(math.sqrt(draws)))
        return drawn(Ensemble(_members(prediction, count, rng)), count, rng)
    assert isinstance(prediction, Distribution)
    return _drawn_law(prediction, draws, rng)


def _drawn_law(law: Distribution, draws: int, rng: np.random.Generator) -> Distribution:
    if isinstance(law, (Samples, Point)):
        return law
    return Samples.by_monte_carlo(law.sample(draws, rng), law.event_ndim)


def _members(law: NormalInverseGamma, count: int, rng: np.random.Generator) -> Normal:
    """Normals drawn from the second-order law, along a new first axis."""
    xp = namespace(law.loc)
    shape = (count, *law.loc.shape)
    gamma = _gamma_variates(law.alpha, shape, rng)
    variance = law.beta / gamma
    noise = from_numpy(rng.standard_normal(shape), law.loc)
    return Normal(law.loc + xp.sqrt(variance / law.nu) * noise, xp.sqrt(variance), law.event_ndim)


def _gamma_variates(order: Array, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Standard gamma variates from standard normal and uniform ones (Marsaglia and Tsang).

    A fixed number of proposals keeps everything on the arrays' device; all of them fail with
    probability below 1e−10.
    """
    xp = namespace(order)
    proposals = 8
    normal = from_numpy(rng.standard_normal((proposals, *shape)), order)
    uniform = from_numpy(1 - rng.random((proposals, *shape)), order)
    boost = from_numpy(1 - rng.random(shape), order)
    small = order < 1
    d = xp.where(small, order + 1, order) - 1 / 3
    v = (1 + normal / xp.sqrt(9 * d)) ** 3
    log_v = xp.log(xp.where(v > 0, v, xp.ones_like(v)))
    accepted = (v > 0) & (xp.log(uniform) < normal**2 / 2 + d * (1 - v + log_v))
    value = xp.broadcast_to(d, shape)
    for k in reversed(range(proposals)):
        value = xp.where(accepted[k, ...], d * v[k, ...], value)
    return value * xp.where(small, boost ** (1 / order), xp.ones_like(value))
