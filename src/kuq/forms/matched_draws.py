"""Draws of members that nearly agree: second differences over draws that are matched by position.

D = −½ mean_ij of Δ²(k − k₀), where Δ² replaces draw i, then draw j of P by that of Q. Nothing
cancels, however close the members are; it costs an integral over scales for every pair of draws.
"""

from __future__ import annotations

import math
from typing import final

from kuq._array import Array, namespace
from kuq.distributions.atoms import Points
from kuq.distributions.laws import Law, Stack, draws_of
from kuq.forms.form import Form, Measure, Problem, Statistics
from kuq.forms.point_pairs import between_points
from kuq.forms.scale_quadrature import Window, over_scales
from kuq.kernels.base import ScaleMixture
from kuq.kernels.gaussian import Gaussian
from kuq.tiles import PairBlock, pieces, sum_over_pairs


@final
class MatchedDraws(Form):
    """Equally many unweighted draws; under tracing it would cost more than it is worth."""

    def applies(self, problem: Problem) -> bool:
        counts = {group.atoms for group in problem.groups}
        equal = len(counts) == 1 and not any(group.weighted for group in problem.groups)
        routed = isinstance(problem.score, (Gaussian, ScaleMixture))
        return problem.only(Points) and routed and equal and counts != {1} and problem.readable

    def scratch(self, problem: Problem) -> int:
        return 16 * problem.groups[0].atoms ** 2 * max(1, problem.dimension // 8)

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        xp = namespace(stack.reference)
        alone = xp.concat([_entropies(measure, group) for group in stack.groups], axis=0)
        count, size = stack.groups[0].count, stack.groups[0].atoms.size

        def divergence(block: PairBlock) -> Array:
            return _divergence(measure, draws_of(block.p), draws_of(block.q))

        each = 16 * count * (count + size)
        return Statistics(
            alone, sum_over_pairs(stack, lambda p, q: each, measure.budget, divergence)
        )


def _entropies(measure: Measure, law: Law) -> Array:
    """½ mean of k − k₀ over all pairs of draws of every member, (m, n)."""
    x = draws_of(law)
    xp = namespace(x)
    total: Array | float = 0.0
    for chunk in pieces(x.shape[-2], math.prod(x.shape), measure.budget, x):
        values = between_points(measure, x[..., chunk, None, :], x[..., None, :, :])
        total = total + xp.sum(values, axis=(-2, -1))
    return total / (2 * x.shape[-2] ** 2)


def _divergence(measure: Measure, x: Array, y: Array) -> Array:
    """D of sets of N draws each, (…, N, d), which broadcast against each other."""
    xp = namespace(x)
    x = xp.broadcast_to(x, y.shape)
    move = y - x
    start, first, mixed = _distances(x, move, measure.budget)
    second = xp.matrix_transpose(first)

    def at_scale(t: Array) -> tuple[Array, Array]:
        a, b, c = -t * first, -t * second, -t * mixed
        small = xp.abs(a) + xp.abs(b) + xp.abs(c) < 1
        a0, b0, c0 = (xp.where(small, v, xp.zeros_like(v)) for v in (a, b, c))
        near = xp.expm1(a0) * xp.expm1(b0) + xp.exp(a0 + b0) * xp.expm1(c0)
        origin = -t * start
        far = xp.exp(origin) - xp.exp(origin + a) - xp.exp(origin + b) + xp.exp(origin + a + b + c)
        value = xp.where(small, xp.exp(origin) * near, far)
        return value / 2, xp.abs(value)

    diagonal = xp.sum(move * move, axis=-1)
    moment = start + diagonal[..., :, None] + diagonal[..., None, :]
    smallest = xp.where(moment > 0, moment, xp.full_like(moment, math.inf)) / 1e2
    window = Window(moment, smallest, math.inf, -mixed / 2)
    pairs = Points(x).expand(0)
    return xp.mean(over_scales(measure, at_scale, lambda: window, pairs, 2), axis=(-2, -1))


def _distances(x: Array, move: Array, budget: int) -> tuple[Array, Array, Array]:
    """‖x_i − x_j‖², its change when i moves, and the mixed change when both do, (…, N, N)."""
    xp = namespace(x)
    rows = []
    for chunk in pieces(x.shape[-2], math.prod(x.shape), budget, x):
        gap = x[..., chunk, None, :] - x[..., None, :, :]
        step = move[..., chunk, None, :]
        rows.append(
            (
                xp.sum(gap * gap, axis=-1),
                xp.sum(step * (2 * gap + step), axis=-1),
                -2 * xp.sum(step * move[..., None, :, :], axis=-1),
            )
        )
    start, first, mixed = (xp.concat(list(blocks), axis=-2) for blocks in zip(*rows, strict=True))
    return start, first, mixed
