"""Monte Carlo for the log score, by request: means of log densities at draws."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from kuq._array import Array, any_true, moved_axis, namespace
from kuq.distributions.base import Distribution, Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.errors import ParameterError
from kuq.scores.log_score import prediction_log_density
from kuq.scores.options import Options
from kuq.tiles import pieces


def _members(prediction: Prediction) -> tuple[list[Distribution], Array | list[float]]:
    if isinstance(prediction, Ensemble):
        return prediction.member_list(), prediction.member_weights()
    assert isinstance(prediction, Distribution)
    return [prediction], [1.0]


def _draws(law: Distribution, options: Options, position: int) -> Array:
    """Draws along a new first axis, (draws, batch…, event…)."""
    rng = np.random.default_rng([options.seed, position])
    values = law.sample(options.draws or 0, rng)
    return moved_axis(values, values.ndim - law.event_ndim - 1, 0)


def _mean_log_ratio(
    draws: Array, above: Prediction, below: Prediction | None, options: Options
) -> Array:
    """The mean of log above(x) − log below(x), in pieces that fit the memory budget."""
    xp = namespace(draws)
    total = None
    cost = 8 * math.prod(draws.shape[1:])
    for part in pieces(draws.shape[0], cost, options.budget(draws), draws):
        value = prediction_log_density(above, draws[part, ...])
        if any_true(xp.isinf(value)):
            raise ParameterError(
                "Monte Carlo of the log score needs laws with a density, got one with a scale of "
                "zero; use a kernel score, or give every member a positive scale"
            )
        if below is not None:
            value = value - prediction_log_density(below, draws[part, ...])
        piece = xp.sum(value, axis=0)
        total = piece if total is None else total + piece
    assert total is not None
    return total / draws.shape[0]


def _over_members(
    prediction: Prediction, options: Options, value: Callable[[Distribution, Array], Array]
) -> Array:
    """Σ w_m value(member, its draws)."""
    laws, weights = _members(prediction)
    parts = [
        w * value(law, _draws(law, options, m))
        for m, (law, w) in enumerate(zip(laws, weights, strict=True))
    ]
    return sum(parts[1:], start=parts[0])


def entropy(prediction: Prediction, options: Options) -> Array:
    """The entropy of a law, or of the mixture of an ensemble."""
    return _over_members(
        prediction, options, lambda _, x: -_mean_log_ratio(x, prediction, None, options)
    )


def divergence(p: Prediction, q: Prediction, options: Options) -> Array:
    """KL(Q‖P)."""
    return _over_members(q, options, lambda _, x: _mean_log_ratio(x, q, p, options))


def mutual_information(prediction: Ensemble, options: Options) -> Array:
    """Σ w_m KL(P_m‖P̄)."""
    return _over_members(
        prediction, options, lambda law, x: _mean_log_ratio(x, law, prediction, options)
    )


def divergence_matrix(prediction: Ensemble, options: Options) -> Array:
    """KL(P_j‖P_i) at [i, j], (M, M, batch…)."""
    laws, _ = _members(prediction)
    xp = namespace(prediction.reference)
    columns = []
    for j, q in enumerate(laws):
        draws = _draws(q, options, j)
        columns.append(xp.stack([_mean_log_ratio(draws, q, p, options) for p in laws]))
    return xp.stack(columns, axis=1)


def law_entropy(law: Distribution, options: Options, position: int) -> Array:
    """The entropy of one law, by the draws of the member at a position of an ensemble."""
    return -_mean_log_ratio(_draws(law, options, position), law, None, options)
