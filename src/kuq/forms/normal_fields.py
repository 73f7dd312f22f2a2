"""Normals with independent coordinates under the Gaussian kernel: what belongs to one law, once.

A pair needs the self affinities of both laws. Each is computed once for all pairs of the ensemble,
which leaves the sums over coordinates of the cross affinity.
"""

from __future__ import annotations

from typing import final

from kuq._array import Array, constants, namespace
from kuq._compiled import twin
from kuq.distributions.atoms import Normals, to_normals
from kuq.distributions.laws import Stack
from kuq.expectations import normal, overlap
from kuq.forms.form import Form, Measure, Problem, Reading, Statistics
from kuq.kernels.gaussian import Gaussian
from kuq.tiles import member_pairs, pieces


@final
class NormalFields(Form):
    def applies(self, problem: Problem) -> bool:
        (group, *others) = problem.groups
        single = not others and group.kind is Normals and group.atoms == 1 < problem.dimension
        return single and isinstance(problem.score, Gaussian)

    def scratch(self, problem: Problem) -> int:
        if problem.reading is Reading.COMPILED:
            return problem.members * problem.dimension // 8
        # Two pairs at a time fill a piece; all members together are touched by few operations.
        return max(2, -(-problem.members // 8)) * problem.dimension

    def any_units(self, problem: Problem) -> bool:
        return problem.reading is Reading.COMPILED

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        law = stack.groups[0].atoms
        assert isinstance(law, Normals)
        w = stack.member_weights()
        if measure.compiled:
            loc, scale = law.loc[..., 0, :], law.scale[..., 0, :]
            return Statistics(
                *twin("forms.normal_fields").gaussian(loc, scale, w, measure.bandwidth)
            )
        t = _scale(measure, law)
        own = _log_self_affinities(measure, law, t)
        total = namespace(own).zeros_like(own[0, :, 0])
        for block in member_pairs(stack, lambda p, q: p.dimension, measure.budget):
            log_p, log_q = (logs[None, ...] for logs in block.pick(own))
            p, q = (to_normals(pair.atoms) for pair in (block.p, block.q))
            parts = normal.overlap(t, p, q, (log_p, log_q))
            w_i, w_j = block.pick(w)
            total = total + (2 * w_i * w_j) @ overlap.divergence(parts)[0, ..., 0]
        return Statistics(overlap.entropy(own)[..., 0], total)


def _scale(measure: Measure, law: Normals) -> Array:
    """t = 1/bandwidth², with the axes (1, m, n, 1) or ones that broadcast to them."""
    width = measure.width(1)
    t = 1 / width / width
    if isinstance(t, float):
        t = constants([t], law.loc)
    return namespace(t).reshape(t, (1,) * (4 - t.ndim) + tuple(t.shape))


def _log_self_affinities(measure: Measure, law: Normals, t: Array) -> Array:
    """log φ(P, P), (m, n, 1), in pieces of the members that fit the budget."""
    each = law.loc.shape[1] * law.loc.shape[-1]
    parts = [
        normal.log_self_affinity(t, Normals(law.loc[part], law.scale[part]))[0]
        for part in pieces(law.lead[0], each, measure.budget, law.loc)
    ]
    return namespace(law.loc).concat(parts, axis=0)
