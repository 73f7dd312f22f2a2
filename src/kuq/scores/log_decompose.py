"""Entropy, divergence and decomposition under the log score."""

from __future__ import annotations

import math

from kuq._array import Array, namespace
from kuq.distributions.base import Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.evidential import NormalInverseGamma
from kuq.distributions.laws import Law, Stack, worst_method
from kuq.distributions.mixture import NormalMixture
from kuq.distributions.normal import Point
from kuq.distributions.student_t import StudentT
from kuq.expectations import evidential
from kuq.scores import log_monte_carlo as by_draws
from kuq.scores import log_score as log
from kuq.scores.options import Options


def decompose(prediction: Prediction, estimator: str, options: Options) -> tuple[Array, Array, str]:
    """AU, EU and the method."""
    if isinstance(prediction, NormalInverseGamma):
        return _decompose_evidential(prediction, estimator)
    assert isinstance(prediction, Ensemble)
    log.check_density(prediction)
    routed = log.has_route(prediction)
    if not routed and options.draws is None:
        raise log.no_closed_form(prediction)
    method = _method(prediction) if routed else "monte-carlo"
    xp = namespace(prediction.reference)
    w = prediction.member_weights()
    shaped = xp.reshape(w, (-1,) + (1,) * len(prediction.batch_shape))
    if routed:
        v = log.view(prediction, log.is_joint(prediction), options.rtol)
        aleatoric = v.finish(log.mean_entropy(v, options))
    else:
        aleatoric = xp.sum(shaped * by_draws.member_entropies(prediction, options), axis=0)
    if estimator == "bma":
        epistemic, own = _mutual_information(prediction, options)
        return aleatoric, epistemic, worst_method(method, own)
    if routed:
        epistemic = v.finish(log.dispersion(v, options))
    else:
        matrix = by_draws.divergence_matrix(prediction, options)
        epistemic = xp.sum(shaped * xp.sum(matrix * shaped[None, ...], axis=1), axis=0)
    if options.unbiased_members:
        epistemic = epistemic / (1 - xp.sum(w * w))
    return aleatoric, epistemic, method


def _mutual_information(prediction: Ensemble, options: Options) -> tuple[Array, str]:
    if prediction.member_count == 1:
        mean = prediction.mean()
        axes = tuple(range(mean.ndim - len(prediction.event_shape), mean.ndim))
        zero = namespace(mean).zeros_like(mean)
        return namespace(zero).sum(zero, axis=axes) if axes else zero, "exact"
    if all(isinstance(member, Point) for member in log.members_of(prediction)):
        return log.point_information(prediction), "exact"
    if log.has_route(prediction) and math.prod(prediction.event_shape) == 1:
        v = log.view(prediction, False, options.rtol)
        return v.finish(log.mutual_information(v, options)), "quadrature"
    if options.draws is None:
        raise log.no_closed_form(prediction)
    return by_draws.mutual_information(prediction, options), "monte-carlo"


def _decompose_evidential(
    prediction: NormalInverseGamma, estimator: str
) -> tuple[Array, Array, str]:
    au, pairwise, bma = evidential.log(*prediction.second_order_parameters(marginal=False))
    xp = namespace(au)
    epistemic = bma if estimator == "bma" else pairwise
    return xp.sum(au, axis=-1), xp.sum(epistemic, axis=-1), "exact"


def entropy(p: Prediction, options: Options) -> Array:
    log.check_density(p)
    if isinstance(p, StudentT):
        values = log.student_entropy(p)
        axes = tuple(range(values.ndim - p.event_ndim, values.ndim))
        return namespace(values).sum(values, axis=axes) if axes else values
    single = not isinstance(p, Ensemble) or p.member_count == 1
    scalar = math.prod(p.event_shape) == 1
    if log.has_route(p) and (single or scalar):
        v = log.view(p, log.is_joint(p), options.rtol)
        if single:
            return v.finish(log.entropies(v, options))[0]
        cost = (log.component_count(v.stack) * v.stack.member_count) ** 2 * 4 * 136
        return v.finish(
            v.over_tiles(options, cost, lambda s: log.law_entropy(log.as_mixture(s))[0])
        )
    if options.draws is None:
        raise log.no_closed_form(p)
    return by_draws.entropy(p, options)


def divergence(p: Prediction, q: Prediction, options: Options) -> Array:
    """KL(Q‖P)."""
    log.check_density(p)
    log.check_density(q)
    mixed = any(isinstance(x, Ensemble) and x.member_count > 1 for x in (p, q))
    scalar = math.prod(p.event_shape) == 1
    if log.has_route(p, q) and (scalar or not mixed):
        joint = log.is_joint(p, q)
        left, right = (log.view(x, joint, options.rtol) for x in (p, q))
        cost = _mixture_cost if mixed else log.pair_cost

        def compute(a: Stack, b: Stack) -> Array:
            return log.law_divergence(_single(a), _single(b))[0]

        return left.finish(left.over_tiles(options, cost(left.stack, right.stack), compute, right))
    if options.draws is None:
        raise log.no_closed_form(p, q)
    return by_draws.divergence(p, q, options)


def _mixture_cost(*stacks: Stack) -> int:
    components = sum(log.component_count(s) * s.member_count for s in stacks)
    return 4 * components * components * 136


def _single(stack: Stack) -> Law:
    return stack.groups[0] if stack.member_count == 1 else log.as_mixture(stack)


def score(p: Prediction, outcome: Array) -> Array:
    """−log p(y)."""
    log.check_density(p)
    return -log.prediction_log_density(p, outcome)


def divergence_matrix(prediction: Ensemble, options: Options) -> Array:
    """KL(P_j‖P_i) at [i, j], (M, M, batch…)."""
    log.check_density(prediction)
    if log.has_route(prediction):
        v = log.view(prediction, log.is_joint(prediction), options.rtol)
        return v.finish(log.divergence_matrix(v, options))
    if options.draws is None:
        raise log.no_closed_form(prediction)
    return by_draws.divergence_matrix(prediction, options)


def member_parts(prediction: Ensemble, options: Options) -> tuple[Array, Array, str]:
    """Entropies (M, batch…) and divergences (M, M, batch…) of the members, and the method."""
    matrix = divergence_matrix(prediction, options)
    if not log.has_route(prediction):
        return by_draws.member_entropies(prediction, options), matrix, "monte-carlo"
    v = log.view(prediction, log.is_joint(prediction), options.rtol)
    return v.finish(log.entropies(v, options)), matrix, _method(prediction)


def _method(prediction: Prediction) -> str:
    mixtures = any(isinstance(m, NormalMixture) for m in log.members_of(prediction))
    return "quadrature" if mixtures else "exact"
