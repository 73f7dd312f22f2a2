"""|x − y| between scalar samples, by sorting: integrals of squared distribution functions."""

from __future__ import annotations

from kuq._array import Array, namespace
from kuq.distributions.laws import Law, Stack


def entropy(law: Law) -> Array:
    """∫ F(1 − F), (lead…); gaps between draws make it exact under any offset."""
    xp = namespace(law.atoms.value)
    values, weights = _sorted(law.atoms.value[..., 0], law.full_weights())
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


def dispersion(stack: Stack) -> Array:
    """2 ∫ Var_m F_m over the pooled draws: ≥ 0 and right however close the members are."""
    xp = namespace(stack.reference)
    w = stack.member_weights()
    values = xp.concat([_pool(group.atoms.value[..., 0]) for group in stack.groups], axis=-1)
    order = xp.argsort(values, axis=-1)
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


def _pool(values: Array) -> Array:
    """(m, n, A) to (n, m·A)."""
    xp = namespace(values)
    m, n, a = values.shape
    return xp.reshape(xp.permute_dims(values, (1, 0, 2)), (n, m * a))


def _sorted(values: Array, weights: Array) -> tuple[Array, Array]:
    xp = namespace(values)
    order = xp.argsort(values, axis=-1)
    return xp.take_along_axis(values, order, axis=-1), xp.take_along_axis(weights, order, axis=-1)


def _gaps(values: Array) -> Array:
    return values[..., 1:] - values[..., :-1]
