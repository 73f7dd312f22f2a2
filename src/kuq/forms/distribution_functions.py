"""Very many scalar normals under |x − y|: Σ w_i w_j D_ij = 2 ∫ Var_m F_m(x) dx, in O(M).

The integrand is analytic and dies out quickly, so that the trapezoid rule converges
exponentially; all of its terms are ≥ 0.
"""

from __future__ import annotations

from typing import final

from kuq._array import Array, detach, namespace
from kuq._compiled import twin
from kuq._special import ndtr
from kuq.distributions.atoms import Normals
from kuq.distributions.laws import Stack
from kuq.expectations.mixture_cdf import even_grid
from kuq.expectations.scalar import absolute_entropy
from kuq.forms.form import Form, Measure, Problem, Statistics
from kuq.tiles import pieces, recomputed

#: What F costs at one point, in units of D of one pair.
_POINT_COST = 0.6
#: Var F comes from differences of numbers of order one: below this share of the largest
#: scale the pairs have more digits.
_SMALLEST_SHARE = 1e-5
#: Fewer members than this have fewer pairs than the shortest grid has points.
_FEWEST_MEMBERS = 48


@final
class DistributionFunctions(Form):
    """Columns whose grid is too long, or whose members nearly agree, are left to pairs."""

    def applies(self, problem: Problem) -> bool:
        (group, *others) = problem.groups
        single = not others and group.kind is Normals and group.atoms == problem.dimension == 1
        many = group.members >= _FEWEST_MEMBERS
        return single and many and problem.absolute and problem.readable and problem.double

    def scratch(self, problem: Problem) -> int:
        return -(-problem.members // 4)

    def any_units(self, problem: Problem) -> bool:
        return True

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        atoms = stack.groups[0].atoms
        assert isinstance(atoms, Normals)
        loc, scale = atoms.loc[..., 0, 0], atoms.scale[..., 0, 0]
        xp = namespace(loc)
        weights = stack.member_weights()
        loc = loc - loc[:1, ...]  # the grid is even only near zero
        start, step, points = even_grid(loc, scale, axis=0)
        chosen = _POINT_COST * points < (loc.shape[0] - 1) / 2

        def by_quadrature(entries: Array) -> Array:
            centre, width = (xp.take(x, entries, axis=1) for x in (loc, scale))
            grid = tuple(xp.take(x, entries, axis=0) for x in (start, step, points))
            if measure.compiled:
                return twin("forms.distribution_functions").dispersion(
                    centre, width, weights, *grid
                )
            return _dispersion(centre, width, weights, grid, measure.budget)

        value = recomputed(xp.zeros_like(start), chosen, by_quadrature)
        largest = xp.max(detach(scale), axis=0)
        lost = ~chosen | (value < _SMALLEST_SHARE * largest)
        return Statistics(absolute_entropy(scale), value, lost)


def _dispersion(
    loc: Array, scale: Array, weights: Array, grid: tuple[Array, ...], budget: int
) -> Array:
    """2 ∫ Var_m F_m for normals (M, n), (n,)."""
    xp = namespace(loc)
    start, step, points = grid
    members, n = loc.shape
    most = int(xp.max(points))
    w = weights[:, None, None]
    out = []
    for rows in pieces(n, members * most, budget, loc):
        centre, width = loc[:, rows, None], scale[:, rows, None]
        total = xp.zeros_like(step[rows])
        for q in pieces(most, members * (rows.stop - rows.start), budget, loc):
            offset = xp.arange(q.start, q.stop, dtype=loc.dtype, device=loc.device)
            x = start[rows, None] + step[rows, None] * offset
            f = ndtr((x - centre) / width)
            gap = f - xp.sum(w * f, axis=0)
            total = total + xp.sum(xp.sum(w * (gap * gap), axis=0), axis=-1)
        out.append(2 * step[rows] * total)
    return xp.concat(out)
