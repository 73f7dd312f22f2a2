"""Scalar mixtures of normals under |x − y| that are close: ∫ Var F dx by the trapezoid rule.

The sums over pairs of components cancel for close mixtures. Here the components are matched, and
the difference of two distribution functions is formed from the differences of their parameters,
so that it keeps its digits however close they are. The integrand is analytic and dies out quickly:
the rule converges exponentially.
"""

from __future__ import annotations

import math

import numpy as np

from kuq._array import Array, any_true, detach, namespace, weighted_sum
from kuq._special import ndtr
from kuq.tiles import pieces

#: In units of the smallest scale; leaves exp(−(π/0.5)²) of the integrand, 7e-18.
_STEP = 0.5
#: Beyond so many scales the integrand is below 1e-20 of its largest value.
_WING = 7.0
#: More points than this cost more than the integral over scales.
_MOST_POINTS = 4096
#: Arguments of Φ closer than this: four points of Gauss and Legendre give their difference.
_CLOSE = 0.1
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)


def dispersion(
    shares: Array, weights: Array, loc: Array, scale: Array, budget: int
) -> tuple[Array, Array]:
    """Σ w_i w_j D_ij of members (M, n, K) with matched components, and where it can be used, (n,).

    It is 2 ∫ Var_m F_m dx, from the differences of all members to the first one. That is the one
    with the largest weight: it has at least the share 1/M of every digit that they cost.
    """
    xp = namespace(loc)
    order = xp.argsort(detach(shares), descending=True, stable=True)
    shares, weights, loc, scale = (xp.take(a, order, axis=0) for a in (shares, weights, loc, scale))
    gap = loc - loc[:1, ...]  # before a common offset takes digits
    loc = loc[0, ...] - loc[0, :, :1]
    start, step, points = even_grid(loc + gap, scale, axis=(0, 2))
    usable = points <= _MOST_POINTS
    step = xp.where(usable, step, xp.ones_like(step))
    scale = xp.where(usable[:, None], scale, xp.ones_like(scale))
    most = int(xp.max(xp.where(usable, points, xp.ones_like(points))))
    members, n, count = scale.shape
    out = []
    for rows in pieces(n, members * count * most, budget, loc):
        total = xp.zeros_like(step[rows])
        for q in pieces(most, members * count * (rows.stop - rows.start), budget, loc):
            offset = xp.arange(q.start, q.stop, dtype=loc.dtype, device=loc.device)
            x = (start[rows, None] + step[rows, None] * offset)[..., None]
            laws = (a[:, rows, None, :] for a in (weights, gap, scale))
            total = total + xp.sum(_variance(shares, x - loc[rows, None, :], x > 0, *laws), axis=-1)
        out.append(2 * step[rows] * total)
    return xp.concat(out), usable


def even_grid(loc: Array, scale: Array, axis: int | tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Start, step and number of points for normals along axes; infinitely many for a point."""
    xp = namespace(loc)
    loc, scale = detach(loc), detach(scale)
    start = xp.min(loc - _WING * scale, axis=axis)
    end = xp.max(loc + _WING * scale, axis=axis)
    step = _STEP * xp.min(scale, axis=axis)
    finite = (step > 0) & xp.isfinite(end - start)
    points = xp.ceil((end - start) / xp.where(finite, step, xp.ones_like(step))) + 1
    return start, step, xp.where(finite, points, xp.full_like(points, math.inf))


def _variance(
    shares: Array, away: Array, right: Array, weights: Array, gap: Array, scale: Array
) -> Array:
    """Var_m F_m at points (n, Q), ``away`` (n, Q, K) from the components of the first member."""
    xp = namespace(away)
    a = away / scale[0, ...]
    # b − a from differences of the parameters
    change = (a * (scale[:1, ...] - scale[1:, ...]) - gap[1:, ...]) / scale[1:, ...]
    moved = weights[1:, ...] * _difference_of_cdfs(a, change)
    # Σ (v − w) is zero, so that either tail will do; the nearer one is small.
    tail = xp.where(right, -ndtr(-a), ndtr(a))
    difference = xp.sum(moved + (weights[1:, ...] - weights[:1, ...]) * tail, axis=-1)
    mean = weighted_sum(shares[1:], difference)
    centred = difference - mean
    return weighted_sum(shares[1:], centred * centred) + shares[0] * mean * mean


def _difference_of_cdfs(a: Array, change: Array) -> Array:
    """Φ(a + change) − Φ(a)."""
    xp = namespace(a)
    close = xp.abs(change) < _CLOSE
    small = xp.where(close, change, xp.zeros_like(change)) / 2
    total = xp.zeros_like(a)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        y = a + small * (1 + float(node))
        total = total + float(weight) * xp.exp(-y * y / 2)
    value = small / math.sqrt(2 * math.pi) * total
    if any_true(~close) is False:
        return value
    side = xp.where(a > 0, -xp.ones_like(a), xp.ones_like(a))  # the nearer tail has the digits
    far = side * (ndtr(side * (a + change)) - ndtr(side * a))
    return xp.where(close, value, far)
