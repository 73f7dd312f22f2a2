"""Several evidential members as one second-order law."""

from __future__ import annotations

import numpy as np
from scipy import special

from kuq.distributions.ensemble import Ensemble
from kuq.distributions.normal import Normal
from kuq.nn.generators import Purpose, member_seed


def pooled(
    parameters: tuple[np.ndarray, ...], event_ndim: int, n_samples: int, seed: int
) -> Ensemble:
    """Normals drawn from the normal-inverse-gamma laws (M, n, event…) of all members.

    The mixture of the members' second-order laws has no closed form; its draws keep both the
    doubt within a member and the disagreement between members. The uniform and normal variates
    behind them are the same for all inputs, so that a prediction depends on its own input alone.
    """
    loc, nu, alpha, beta = parameters
    members, rows = loc.shape[0], loc.shape[1 : loc.ndim - event_ndim]
    event = loc.shape[loc.ndim - event_ndim :]
    shape = (n_samples, *(1 for _ in rows), *event)
    means, scales = [], []
    for member in range(members):
        rng = np.random.default_rng(member_seed(seed, member, Purpose.SECOND_ORDER))
        level, variate = rng.random(shape), rng.standard_normal(shape)
        variance = beta[member] / special.gammaincinv(alpha[member], level)
        means.append(loc[member] + np.sqrt(variance / nu[member]) * variate)
        scales.append(np.sqrt(variance))
    return Ensemble(Normal(np.concatenate(means), np.concatenate(scales), event_ndim))
