"""Scalar draws under |x − y|, by sorting: integrals of squared distribution functions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import final

import numpy as np

from kuq._array import Array, from_numpy, namespace
from kuq.distributions.laws import Stack, draws_of, in_one_row
from kuq.forms.form import Form, Measure, Problem, Statistics
from kuq.forms.scalar_pairs import PairsDifferentiated
from kuq.tiles import pieces

#: Below this fraction of the pooled entropy the difference of entropies has lost three digits.
_CLOSE = 1e-3
#: Up to so many draws of all members together derivatives are faster over all pairs.
_FEW_TOGETHER = 128
#: Numbers sorted at once: their copies stay in the cache and cost no page faults.
_AT_ONCE = 2**15


@final
class SortedDraws(Form, PairsDifferentiated):
    """The dispersion is twice the entropy of all draws together less that of the members."""

    def applies(self, problem: Problem) -> bool:
        return problem.scalar_draws and problem.absolute and problem.readable and problem.double

    def scratch(self, problem: Problem) -> int:
        (group, *others) = problem.groups
        if others or group.weighted:
            return problem.atoms
        return -(-problem.atoms // 8)  # sorted in pieces

    def cancels(self, problem: Problem) -> bool:
        return True

    def any_units(self, problem: Problem) -> bool:
        return True

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        return difference(stack, *entropies_by_sorting(stack), _CLOSE)

    def differentiates(self, problem: Problem) -> bool:
        return problem.atoms <= _FEW_TOGETHER


@final
class Steps(Form):
    """2 ∫ Var_m F_m over the pooled draws: ≥ 0, and right however close the members are."""

    def applies(self, problem: Problem) -> bool:
        return problem.scalar_draws and problem.absolute

    def scratch(self, problem: Problem) -> int:
        return problem.members * problem.atoms

    def any_units(self, problem: Problem) -> bool:
        return True

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        alone = [_steps(draws_of(group)[..., 0], group.weights) for group in stack.groups]
        return Statistics(namespace(stack.reference).concat(alone, axis=0), _spread(stack))


def difference(stack: Stack, entropies: Array, pooled: Array, close: float) -> Statistics:
    """The dispersion from entropies of members and of their mixture; lost if below a share."""
    xp = namespace(pooled)
    if stack.member_count == 1:
        return Statistics(entropies, xp.zeros_like(pooled))
    mean = xp.sum(stack.member_weights()[:, None] * entropies, axis=0)
    dispersion = 2 * (pooled - mean)
    return Statistics(entropies, dispersion, (dispersion <= 2 * close * pooled) & (pooled > 0))


def _equal_steps(values: Array) -> Array:
    """∫ F(1 − F) of equally likely draws: sorting values alone is several times faster."""
    xp = namespace(values)
    count = values.shape[-1]
    share = from_numpy(_shares(count), values)
    rows = pieces(values.shape[0], math.prod(values.shape[1:]), _AT_ONCE, values)
    steps = [_gaps(xp.sort(values[chunk, ...], axis=-1, stable=False)) @ share for chunk in rows]
    return steps[0] if len(steps) == 1 else xp.concat(steps, axis=0)


@functools.lru_cache(maxsize=64)
def _shares(count: int) -> np.ndarray:
    """F(1 − F) between equally likely draws."""
    k = np.arange(1, count)
    return k * (count - k) / count**2


def _weighted_steps(values: Array, weights: Array) -> Array:
    xp = namespace(values)
    order = xp.argsort(values, axis=-1, stable=False)
    values, weights = (xp.take_along_axis(a, order, axis=-1) for a in (values, weights))
    below = xp.cumulative_sum(weights, axis=-1)[..., :-1]
    # Summed from the other end: one less F would have no digits far out on the right.
    above = xp.flip(xp.cumulative_sum(xp.flip(weights, axis=-1), axis=-1), axis=-1)[..., 1:]
    return xp.sum(below * above * _gaps(values), axis=-1)


def _steps(values: Array, weights: Array | None) -> Array:
    """∫ F(1 − F) of draws (…, N); gaps between draws make it exact under any offset."""
    return _equal_steps(values) if weights is None else _weighted_steps(values, weights)


def entropies_by_sorting(
    stack: Stack, entropy: Callable[[Array, Array | None], Array] = _steps
) -> tuple[Array, Array]:
    """H of every member, (M, n), and of the mixture of all of them, (n,), for scalar draws.

    ``entropy`` is H of draws (…, n, N) with weights of their shape, or None for equal ones.
    """
    xp = namespace(stack.reference)
    draws = [draws_of(group)[..., 0] for group in stack.groups]
    alone = [entropy(x, law.weights) for x, law in zip(draws, stack.groups, strict=True)]
    entropies = xp.concat(alone, axis=0)
    if stack.member_count == 1:
        return entropies, entropies[0, :]
    values = in_one_row(draws)
    equal = all(group.weights is None for group in stack.groups)
    if equal and stack.weights is None and len({group.count for group in stack.groups}) == 1:
        return entropies, entropy(values, None)
    w = stack.member_weights()[:, None, None]
    parts = [
        w[start : start + group.atoms.lead[0]] * group.full_weights()
        for start, group in stack.offsets()
    ]
    return entropies, entropy(values, xp.broadcast_to(in_one_row(parts), values.shape))


def _spread(stack: Stack) -> Array:
    xp = namespace(stack.reference)
    w = stack.member_weights()
    values = in_one_row([draws_of(group)[..., 0] for group in stack.groups])
    order = xp.argsort(values, axis=-1, stable=False)
    gaps = _gaps(xp.take_along_axis(values, order, axis=-1))
    spread = xp.zeros_like(gaps)
    start = 0
    mean = xp.zeros_like(gaps)
    steps = []
    for group in stack.groups:
        members, count = group.atoms.lead[0], group.count
        weights = group.full_weights()
        for m in range(members):
            zeros = xp.zeros_like(values)
            left, right = zeros[..., :start], zeros[..., start + count :]
            row = xp.concat([left, weights[m], right], axis=-1)
            steps.append(
                xp.cumulative_sum(xp.take_along_axis(row, order, axis=-1), axis=-1)[..., :-1]
            )
            start += count
    for m, step in enumerate(steps):
        mean = mean + w[m] * step
    for m, step in enumerate(steps):
        spread = spread + w[m] * (step - mean) ** 2
    return 2 * xp.sum(spread * gaps, axis=-1)


def _gaps(values: Array) -> Array:
    return values[..., 1:] - values[..., :-1]
