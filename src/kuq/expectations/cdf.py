"""Very many scalar normals under |x − y|: Σ w_i w_j D_ij = 2 ∫ Var_m F_m(x) dx, in O(M).

The integrand is analytic and dies out quickly, so that the trapezoid rule converges
exponentially; all of its terms are ≥ 0.
"""

from __future__ import annotations

import math

from kuq._array import Array, detach, namespace, ndtr
from kuq.expectations.tiles import pieces

#: The transform of F_i·F_j falls as exp(−(ωσ)²/4), so that this step, in units of the smallest
#: scale, leaves exp(−(π/0.5)²), 7e-18.
_STEP = 0.5
#: Beyond so many scales F² is below 1e-20.
_WING = 6.5
#: What F costs at one point, in units of D of one pair.
_POINT_COST = 0.6
#: Var F comes from differences of numbers of order one: below this share of the entropies the
#: pairs have more digits.
SMALLEST_SHARE = 1e-5


def grid(loc: Array, scale: Array) -> tuple[Array, Array, Array]:
    """Start, step and number of points, (n,) each, for normals (M, n); inf where a scale is zero."""
    xp = namespace(loc)
    loc, scale = detach(loc), detach(scale)
    start = xp.min(loc - _WING * scale, axis=0)
    end = xp.max(loc + _WING * scale, axis=0)
    step = _STEP * xp.min(scale, axis=0)
    usable = step > 0
    points = xp.ceil((end - start) / xp.where(usable, step, xp.ones_like(step))) + 1
    return start, step, xp.where(usable, points, xp.full_like(points, math.inf))


def pays(points: Array, members: int) -> Array:
    """Where the quadrature costs less than all pairs."""
    return _POINT_COST * points < (members - 1) / 2


def dispersion(
    loc: Array, scale: Array, weights: Array, start: Array, step: Array, points: Array, budget: int
) -> Array:
    """2 ∫ Var_m F_m for normals (M, n), (n,)."""
    xp = namespace(loc)
    members, columns = loc.shape
    most = int(xp.max(points))
    w = weights[:, None, None]
    out = []
    for part in pieces(columns, members * most, budget, loc):
        centre, width = loc[:, part, None], scale[:, part, None]
        total = xp.zeros_like(step[part])
        for q in pieces(most, members * (part.stop - part.start), budget, loc):
            offset = xp.arange(q.start, q.stop, dtype=loc.dtype, device=loc.device)
            x = start[part, None] + step[part, None] * offset
            f = ndtr((x - centre) / width)
            gap = f - xp.sum(w * f, axis=0)
            total = total + xp.sum(xp.sum(w * (gap * gap), axis=0), axis=-1)
        out.append(2 * step[part] * total)
    return xp.concat(out)

