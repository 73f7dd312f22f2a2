"""Normals with independent coordinates under a kernel of one scale: what belongs to one law, once.

A pair needs the self affinities of both laws. Each is computed once for all pairs of the ensemble,
which leaves the sums over coordinates of the cross affinity.
"""

from __future__ import annotations

from kuq._array import Array, constants, namespace
from kuq.distributions.laws import Law, Stack
from kuq.expectations import affinities, normal, overlap
from kuq.expectations.gram import Statistics
from kuq.expectations.measure import Measure
from kuq.expectations.tiles import member_pairs


def entropy(measure: Measure, law: Law) -> Array:
    """H of laws with one atom, (lead…)."""
    return overlap.entropy(_log_self_affinities(measure, law))[..., 0]


def statistics(measure: Measure, stack: Stack, by_pairs: Statistics) -> tuple[Array, Array]:
    """H of every member, (M, n), and the dispersion of the members, (n,)."""
    (law,) = stack.groups
    own = _log_self_affinities(measure, law)
    t = _scale(measure, law)
    w = stack.member_weights()
    total = namespace(own).zeros_like(own[0, :, 0])
    for block in member_pairs(stack, lambda p, q: p.dimension, measure.budget):
        log_p, log_q = (logs[None, ...] for logs in block.pick(own))
        parts = normal.overlap(t, block.p.atoms, block.q.atoms, (log_p, log_q))
        values = overlap.divergence(parts)
        w_i, w_j = block.pick(w)
        total = total + (2 * w_i * w_j) @ values[0, ..., 0]
    return overlap.entropy(own)[..., 0], total


def _scale(measure: Measure, law: Law) -> Array:
    """t = 1/bandwidth², with the axes (1, m, n, 1) or ones that broadcast to them."""
    width = measure.width(1)
    t = 1 / width / width
    if isinstance(t, float):
        t = constants([t], law.atoms.reference)
    return namespace(t).reshape(t, (1,) * (4 - t.ndim) + tuple(t.shape))


def _log_self_affinities(measure: Measure, law: Law) -> Array:
    found: Array = affinities.self_affinities(measure, law.atoms)(_scale(measure, law))[0, ...]
    return found
