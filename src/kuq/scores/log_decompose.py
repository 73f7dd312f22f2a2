"""Entropy, divergence and decomposition under the log score."""

from __future__ import annotations

import math

from kuq._array import Array, any_true, namespace
from kuq.distributions.base import Distribution, Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.evidential import NormalInverseGamma
from kuq.distributions.laws import Law, Stack, worst_method
from kuq.expectations import evidential
from kuq.scores import log_monte_carlo as by_draws
from kuq.scores import log_score as log
from kuq.scores.log_score import Kinds
from kuq.scores.options import Options


def decompose(prediction: Prediction, estimator: str, options: Options) -> tuple[Array, Array, str]:
    """AU, EU and the method."""
    if isinstance(prediction, NormalInverseGamma):
        return _decompose_evidential(prediction, estimator)
    assert isinstance(prediction, Ensemble)
    log.check_density(prediction)
    kinds = Kinds.of(prediction)
    if estimator == "bma":
        epistemic, epistemic_method = _mutual_information(prediction, kinds, options)
    else:
        epistemic, epistemic_method = _dispersion(prediction, kinds, options)
        if options.unbiased_members:
            w = prediction.member_weights()
            epistemic = epistemic / (1 - namespace(w).sum(w * w))
    aleatoric, aleatoric_method = _mean_entropy(prediction, kinds, options)
    return aleatoric, epistemic, worst_method(aleatoric_method, epistemic_method)


def _mean_entropy(prediction: Ensemble, kinds: Kinds, options: Options) -> tuple[Array, str]:
    if kinds.routed:
        v = log.view(prediction, kinds.joint, options.rtol)
        return v.finish(log.mean_entropy(v, options)), kinds.method
    values, method = _member_entropies(prediction, kinds, options)
    weights = _shaped_weights(prediction)
    return namespace(values).sum(weights * values, axis=0), method


def _member_entropies(prediction: Ensemble, kinds: Kinds, options: Options) -> tuple[Array, str]:
    """The entropies of the members, (M, batch…), each by the best form of its own law."""
    if kinds.routed:
        v = log.view(prediction, kinds.joint, options.rtol)
        return v.finish(log.entropies(v, options)), kinds.method
    members = prediction.members
    if isinstance(members, Distribution):
        closed = members.differential_entropy()
        if closed is not None:
            return closed, "exact"
    parts = [
        _law_entropy(member, options, position)
        for position, member in enumerate(prediction.member_list())
    ]
    xp = namespace(prediction.reference)
    return xp.stack([value for value, _ in parts]), worst_method(*(method for _, method in parts))


def _law_entropy(law: Distribution, options: Options, position: int = 0) -> tuple[Array, str]:
    """The entropy of one law, (batch…), and the method."""
    closed = law.differential_entropy()
    if closed is not None:
        return closed, "exact"
    kinds = Kinds.of(law)
    if kinds.routed:
        v = log.view(law, kinds.joint, options.rtol)
        return v.finish(log.entropies(v, options))[0, ...], kinds.method
    if options.draws is None:
        raise log.no_closed_form(law)
    return by_draws.law_entropy(law, options, position), "monte-carlo"


def _dispersion(prediction: Ensemble, kinds: Kinds, options: Options) -> tuple[Array, str]:
    """Σ w_i w_j KL(P_j‖P_i), (batch…), and the method."""
    if kinds.routed:
        v = log.view(prediction, kinds.joint, options.rtol)
        return v.finish(log.dispersion(v, options)), kinds.method
    infinite = namespace(prediction.reference).any(log.infinite_pairs(prediction), axis=(0, 1))
    if any_true(~infinite) is False:
        return _infinity(infinite, prediction), "exact"
    matrix, method = _matrix(prediction, options)
    w = _shaped_weights(prediction)
    xp = namespace(matrix)
    return xp.sum(w * xp.sum(matrix * w[None, ...], axis=1), axis=0), method


def _shaped_weights(prediction: Ensemble) -> Array:
    """Member weights, (M, 1…), that broadcast against (M, batch…)."""
    w = prediction.member_weights()
    return namespace(w).reshape(w, (-1,) + (1,) * len(prediction.batch_shape))


def _matrix(prediction: Ensemble, options: Options) -> tuple[Array, str]:
    """KL(P_j‖P_i) at [i, j], (M, M, batch…), of laws that have to be drawn from."""
    if options.draws is None:
        raise log.no_closed_form(prediction)
    drawn = by_draws.divergence_matrix(prediction, options)
    xp = namespace(drawn)
    infinite = xp.full_like(drawn, math.inf)
    return xp.where(log.infinite_pairs(prediction), infinite, drawn), "monte-carlo"


def _infinity(everywhere: Array, prediction: Prediction) -> Array:
    return namespace(everywhere).astype(everywhere, prediction.reference.dtype) * math.inf


def _mutual_information(prediction: Ensemble, kinds: Kinds, options: Options) -> tuple[Array, str]:
    if prediction.member_count == 1:
        mean = prediction.mean()
        axes = tuple(range(mean.ndim - len(prediction.event_shape), mean.ndim))
        zero = namespace(mean).zeros_like(mean)
        return namespace(zero).sum(zero, axis=axes) if axes else zero, "exact"
    if kinds.points:
        return log.point_information(prediction), "exact"
    if kinds.routed and math.prod(prediction.event_shape) == 1:
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
    if not isinstance(p, Ensemble) or p.member_count == 1:
        law = p.member_list()[0] if isinstance(p, Ensemble) else p
        assert isinstance(law, Distribution)
        return _law_entropy(law, options)[0]
    if Kinds.of(p).routed and math.prod(p.event_shape) == 1:
        v = log.view(p, False, options.rtol)
        cost = _mixture_cost(v.stack)
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
    kinds = Kinds.of(p, q)
    if kinds.routed and (scalar or not mixed):
        left, right = (log.view(x, kinds.joint, options.rtol) for x in (p, q))
        cost = _mixture_cost if mixed else log.pair_cost

        def compute(a: Stack, b: Stack) -> Array:
            return log.law_divergence(_single(a), _single(b))[0]

        return left.finish(left.over_tiles(options, cost(left.stack, right.stack), compute, right))
    infinite = log.diverges(p, q)
    if any_true(~infinite) is False:
        return _infinity(infinite, p)
    if options.draws is None:
        raise log.no_closed_form(p, q)
    drawn = by_draws.divergence(p, q, options)
    xp = namespace(drawn)
    return xp.where(infinite, xp.full_like(drawn, math.inf), drawn)


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
    return _divergence_matrix(prediction, Kinds.of(prediction), options)[0]


def _divergence_matrix(prediction: Ensemble, kinds: Kinds, options: Options) -> tuple[Array, str]:
    if kinds.routed:
        v = log.view(prediction, kinds.joint, options.rtol)
        return v.finish(log.divergence_matrix(v, options)), kinds.method
    return _matrix(prediction, options)


def member_parts(prediction: Ensemble, options: Options) -> tuple[Array, Array, str]:
    """Entropies (M, batch…) and divergences (M, M, batch…) of the members, and the method."""
    log.check_density(prediction)
    kinds = Kinds.of(prediction)
    matrix, matrix_method = _divergence_matrix(prediction, kinds, options)
    entropies, entropy_method = _member_entropies(prediction, kinds, options)
    return entropies, matrix, worst_method(matrix_method, entropy_method)
