"""|x − y| between scalar samples, by sorting: integrals of squared distribution functions."""

from __future__ import annotations

import functools
import math

import numpy as np

from kuq._array import Array, epsilon, from_numpy, is_traced, namespace
from kuq._compiled import twin
from kuq.distributions.laws import Law, Stack
from kuq.expectations.tiles import pieces, recomputed

#: Below this fraction of the pooled entropy the difference of entropies has lost three digits.
_CLOSE = 1e-3
#: Up to so many draws of a member all pairs are faster than sorting, in compiled code.
_FEW_DRAWS = 12
#: Numbers sorted at once: their copies stay in the cache and cost no page faults.
_AT_ONCE = 2**15


def entropy(law: Law) -> Array:
    """∫ F(1 − F), (lead…); gaps between draws make it exact under any offset."""
    values = law.atoms.value[..., 0]
    if law.weights is None:
        return _equal_steps(values)
    return _weighted_steps(values, law.weights)


def _equal_steps(values: Array) -> Array:
    """∫ F(1 − F) of equally likely draws: sorting values alone is several times faster."""
    xp = namespace(values)
    count = values.shape[-1]
    share = from_numpy(_shares(count), values)
    rows = pieces(values.shape[0], math.prod(values.shape[1:]), _AT_ONCE, values)
    parts = [_gaps(xp.sort(values[part, ...], axis=-1, stable=False)) @ share for part in rows]
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)


@functools.lru_cache(maxsize=64)
def _shares(count: int) -> np.ndarray:
    """F(1 − F) between equally likely draws."""
    k = np.arange(1, count)
    return k * (count - k) / count**2


def _weighted_steps(values: Array, weights: Array) -> Array:
    xp = namespace(values)
    values, weights = _sorted(values, weights)
    below = xp.cumulative_sum(weights, axis=-1)[..., :-1]
    return xp.sum(below * (1 - below) * _gaps(values), axis=-1)


def divergence(p: Law, q: Law) -> Array:
    """∫ (F − G)²."""
    xp = namespace(p.atoms.value)
    x, y, w, v = (p.atoms.value[..., 0], q.atoms.value[..., 0], p.full_weights(), q.full_weights())
    lead = tuple(max(a, b) for a, b in zip(x.shape[:-1], y.shape[:-1], strict=True))

    def fit(a: Array) -> Array:
        return xp.broadcast_to(a, (*lead, a.shape[-1]))

    values, weights = _sorted(
        xp.concat([fit(x), fit(y)], axis=-1), xp.concat([fit(w), fit(-v)], axis=-1)
    )
    difference = xp.cumulative_sum(weights, axis=-1)[..., :-1]
    return xp.sum(difference * difference * _gaps(values), axis=-1)


def statistics(stack: Stack, budget: int) -> tuple[Array, Array]:
    """H of every member, (M, n), and their dispersion 2·(H(pooled draws) − Σ w H), (n,)."""
    found = _compiled_statistics(stack)
    if found is not None:
        return found
    xp = namespace(stack.reference)
    entropies = xp.concat([entropy(group) for group in stack.groups], axis=0)
    if is_traced(entropies) or epsilon(entropies) > 1e-15:
        # The difference would have to be mended everywhere, or has no digits to lose.
        return entropies, spread_of_steps(stack)
    pooled = _pooled_entropy(stack)
    mean = xp.sum(stack.member_weights()[:, None] * entropies, axis=0)
    dispersion = 2 * (pooled - mean)
    lost = (dispersion <= 2 * _CLOSE * pooled) & (pooled > 0)
    cost = stack.member_count * sum(_draws(group) for group in stack.groups)

    def exact(index: Array) -> Array:
        cuts = pieces(index.shape[0], cost, budget, index)
        return xp.concat([spread_of_steps(stack.take(index[part])) for part in cuts])

    return entropies, recomputed(dispersion, lost, exact)


def _compiled_statistics(stack: Stack) -> tuple[Array, Array] | None:
    """Few draws in each member: all pairs are cheaper than sorting, and nothing cancels."""
    law = stack.groups[0]
    if len(stack.groups) > 1 or law.weights is not None or law.count > _FEW_DRAWS:
        return None
    values = law.atoms.value[..., 0]
    # A pair of draws costs a tenth of a pair of normals.
    compiled = twin(
        "sample_pairs", (stack.member_count * law.count) ** 2 * values.shape[1] / 20, values
    )
    if compiled is None:
        return None
    within, spread = compiled.absolute(values.transpose(0, 2, 1), stack.member_weights())
    return within, spread


def _draws(group: Law) -> int:
    return int(group.atoms.lead[0]) * group.count


def _pooled_entropy(stack: Stack) -> Array:
    """H of the mixture of all members, (n,)."""
    xp = namespace(stack.reference)
    values = _join([group.atoms.value[..., 0] for group in stack.groups])
    equal = all(group.weights is None for group in stack.groups)
    if equal and stack.weights is None and len({group.count for group in stack.groups}) == 1:
        return _equal_steps(values)
    w = stack.member_weights()[:, None, None]
    parts = [
        w[start : start + group.atoms.lead[0]] * group.full_weights()
        for start, group in stack.offsets()
    ]
    return _weighted_steps(values, xp.broadcast_to(_join(parts), values.shape))


def spread_of_steps(stack: Stack) -> Array:
    """2 ∫ Var_m F_m over the pooled draws: ≥ 0 and right however close the members are."""
    xp = namespace(stack.reference)
    w = stack.member_weights()
    values = _join([group.atoms.value[..., 0] for group in stack.groups])
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
            own = xp.zeros_like(values)
            left, right = own[..., :start], own[..., start + count :]
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


def _join(parts: list[Array]) -> Array:
    """Arrays (m, n, A) of the groups as one (n, Σ m·A)."""
    xp = namespace(*parts)
    rows = []
    for values in parts:
        m, n, a = values.shape
        rows.append(xp.reshape(xp.permute_dims(values, (1, 0, 2)), (n, m * a)))
    return rows[0] if len(rows) == 1 else xp.concat(rows, axis=-1)


def _sorted(values: Array, weights: Array) -> tuple[Array, Array]:
    xp = namespace(values)
    order = xp.argsort(values, axis=-1, stable=False)
    return xp.take_along_axis(values, order, axis=-1), xp.take_along_axis(weights, order, axis=-1)


def _gaps(values: Array) -> Array:
    return values[..., 1:] - values[..., :-1]
