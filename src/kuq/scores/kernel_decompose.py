"""Entropy, divergence and decomposition under kernels: sums over terms."""

from __future__ import annotations

from collections.abc import Callable

from kuq._array import Array, identity, namespace
from kuq.distributions.base import Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.evidential import NormalInverseGamma
from kuq.distributions.laws import Stack, worst_method
from kuq.errors import ShapeError
from kuq.expectations import rules
from kuq.expectations.measure import Measure
from kuq.kernels.base import Kernel, Term
from kuq.scores import evidential_score
from kuq.scores.kernel_score import (
    finish,
    infinite_without_moments,
    member_entropies,
    member_statistics,
    over_tiles,
    term_method,
    without_tiles,
)
from kuq.scores.monte_carlo import drawn_members
from kuq.scores.options import Options
from kuq.scores.views import resolve_bandwidths, views


def _total(kernel: Kernel, part: Callable[[Term], Array]) -> Array:
    """Sum a quantity over the terms of a kernel."""
    values = [part(term) for term in kernel.terms()]
    shapes = {tuple(value.shape) for value in values}
    if len(shapes) > 1:
        raise ShapeError(
            f"the summands of {kernel!r} give results of different shapes {sorted(shapes)}; "
            "use the same reduce in all of them"
        )
    return sum(values[1:], start=values[0])


def decompose(
    prediction: Prediction, kernel: Kernel, options: Options
) -> tuple[Kernel, Array, Array, str]:
    """The kernel with numbers as bandwidths, AU, pairwise EU, and the method."""
    if isinstance(prediction, NormalInverseGamma):
        if options.draws is not None and not all(map(evidential_score.has_route, kernel.terms())):
            prediction = drawn_members(prediction, options)
        else:
            return _decompose_evidential(prediction, kernel, options)
    assert isinstance(prediction, Ensemble)
    kernel = resolve_bandwidths(kernel, [prediction], options)
    parts = [_decompose_term(prediction, term, options) for term in kernel.terms()]
    aleatoric = _total_of([p[0] for p in parts], kernel)
    epistemic = _total_of([p[1] for p in parts], kernel)
    return kernel, aleatoric, epistemic, worst_method(*(p[2] for p in parts))


def _total_of(values: list[Array], kernel: Kernel) -> Array:
    remaining = iter(values)
    return _total(kernel, lambda _: next(remaining))


def _decompose_evidential(
    prediction: NormalInverseGamma, kernel: Kernel, options: Options
) -> tuple[Kernel, Array, Array, str]:
    kernel = resolve_bandwidths(kernel, [prediction], options)
    parts = [evidential_score.decompose(prediction, term, options) for term in kernel.terms()]
    methods = [evidential_score.method(term, prediction) for term in kernel.terms()]
    aleatoric = _total_of([p[0] for p in parts], kernel)
    epistemic = _total_of([p[1] for p in parts], kernel)
    return kernel, aleatoric, epistemic, worst_method(*methods)


def _decompose_term(
    prediction: Prediction, term: Term, options: Options
) -> tuple[Array, Array, str]:
    (v,) = views(term, options, prediction)

    def compute(measure: Measure, stack: Stack) -> list[Array]:
        h, b, spread = member_statistics(measure, stack, options)
        xp = namespace(h)
        w = stack.member_weights()[:, None]
        aleatoric = xp.sum(w * (h + b), axis=0)
        return [aleatoric, spread - 2 * xp.sum(w * (1 - w) * b, axis=0)]

    whole = without_tiles(term, options, v)
    aleatoric, epistemic = whole or over_tiles(term, options, [v], compute)
    if options.unbiased_members:
        epistemic = epistemic / (1 - v.stack.concentration())
    return finish(aleatoric, v), finish(epistemic, v), term_method(term, v)


def entropy(p: Prediction, kernel: Kernel, options: Options) -> Array:
    """H(P̄) = Σ w H_m + ½ Σ w w' D, with H_U = H_V + Σ w² b for draws."""
    kernel = resolve_bandwidths(kernel, [p], options)

    def part(term: Term) -> Array:
        (v,) = views(term, options, p)

        def compute(measure: Measure, stack: Stack) -> list[Array]:
            h, b, spread = member_statistics(measure, stack, options)
            xp = namespace(h)
            w = stack.member_weights()[:, None]
            return [xp.sum(w * h, axis=0) + spread / 2 + xp.sum(w * w * b, axis=0)]

        whole = without_tiles(term, options, v)
        value = whole[0] + whole[1] / 2 if whole else over_tiles(term, options, [v], compute)[0]
        return finish(value, v)

    return _total(kernel, part)


def divergence(p: Prediction, q: Prediction, kernel: Kernel, options: Options) -> Array:
    """D(P̄, Q̄) = Σ w v D − ½ Σ ww D − ½ Σ vv D."""
    kernel = resolve_bandwidths(kernel, [p, q], options)

    def part(term: Term) -> Array:
        both = views(term, options, p, q)

        def compute(measure: Measure, left: Stack, right: Stack) -> list[Array]:
            xp = namespace(left.reference)
            entropies: list[Array | None] = [None, None]
            corrections = []
            for k, stack in enumerate((left, right)):
                if any(group.drawn for group in stack.groups):
                    entropies[k], b = member_entropies(measure, stack, options)
                    w = stack.member_weights()[:, None]
                    corrections.append(xp.sum(w * w * b, axis=0))
                if stack.member_count > 1:
                    corrections.append(rules.dispersion(measure, stack) / 2)
            value = rules.cross_divergence(measure, left, right, (entropies[0], entropies[1]))
            for correction in corrections:
                value = value - correction
            return [infinite_without_moments(value, measure, left, right)]

        return finish(over_tiles(term, options, both, compute)[0], both[0])

    return _total(kernel, part)


def expected_kernel(p: Prediction, q: Prediction, kernel: Kernel, options: Options) -> Array:
    """E k(X, Y): sums of members' values, without a difference for bounded kernels."""
    kernel = resolve_bandwidths(kernel, [p, q], options)

    def part(term: Term) -> Array:
        both = views(term, options, p, q)

        def compute(measure: Measure, left: Stack, right: Stack) -> list[Array]:
            value = rules.expected_kernel(measure, left, right)
            return [infinite_without_moments(value, measure, left, right)]

        return finish(over_tiles(term, options, both, compute)[0], both[0])

    return _total(kernel, part)


def divergence_matrix(prediction: Ensemble, kernel: Kernel, options: Options) -> Array:
    """D(P_i, P_j), (M, M, batch…)."""
    return member_parts(prediction, kernel, options)[2]


def member_parts(
    prediction: Ensemble, kernel: Kernel, options: Options
) -> tuple[Kernel, Array, Array, str]:
    """The kernel, entropies (M, batch…) and divergences (M, M, batch…), and the method."""
    kernel = resolve_bandwidths(kernel, [prediction], options)
    parts = [_matrix_term(prediction, term, options) for term in kernel.terms()]
    entropies = _total_of([p[0] for p in parts], kernel)
    matrix = _total_of([p[1] for p in parts], kernel)
    return kernel, entropies, matrix, worst_method(*(p[2] for p in parts))


def _matrix_term(prediction: Ensemble, term: Term, options: Options) -> tuple[Array, Array, str]:
    (v,) = views(term, options, prediction)

    def compute(measure: Measure, stack: Stack) -> list[Array]:
        h, b = member_entropies(measure, stack, options)
        matrix = rules.divergence_matrix(measure, stack)
        off = 1 - identity(stack.member_count, h)
        matrix = matrix - off[..., None] * (b[:, None, :] + b[None, :, :])
        return [h + b, matrix]

    entropies, matrix = over_tiles(term, options, [v], compute)
    return finish(entropies, v), finish(matrix, v), term_method(term, v)
