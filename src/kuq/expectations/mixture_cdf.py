"""Scalar mixtures of normals under |x − y| that are close: D = ∫ (F − G)² dx by the trapezoid rule.

The sums over pairs of components cancel for close mixtures. Here the components are matched, and
the difference of two distribution functions is formed from the differences of their parameters,
so that it keeps its digits however close they are. The integrand is analytic and dies out quickly:
the rule converges exponentially.
"""

from __future__ import annotations

import math

import numpy as np

from kuq._array import Array, any_true, detach, namespace
from kuq._special import ndtr
from kuq.distributions.atoms import Products
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


def divergence(p: Products, q: Products, budget: int) -> tuple[Array, Array]:
    """D of scalar mixtures with matched components, (lead…), and where it can be used."""
    left, right = (
        tuple(a[..., 0, 0, :] for a in (law.weights, law.loc, law.scale)) for law in (p, q)
    )
    xp = namespace(left[1])
    lead = np.broadcast_shapes(left[1].shape[:-1], right[1].shape[:-1])
    count = left[1].shape[-1]
    columns = [xp.reshape(xp.broadcast_to(a, (*lead, count)), (-1, count)) for a in (*left, *right)]
    w, loc, scale, v, loc2, scale2 = columns
    origin = loc[:, :1]
    gap = loc2 - loc  # before a common offset takes digits
    loc = loc - origin
    all_locs, all_scales = (
        xp.concat(both, axis=-1) for both in ([loc, loc + gap], [scale, scale2])
    )
    start, step, points = even_grid(all_locs, all_scales, axis=-1)
    usable = points <= _MOST_POINTS
    safe = xp.where(usable, step, xp.ones_like(step))
    most = int(xp.max(xp.where(usable, points, xp.ones_like(points))))
    one = xp.ones_like(scale)
    laws = (
        (w, loc, xp.where(usable[:, None], scale, one)),
        (v, gap, xp.where(usable[:, None], scale2, one)),
    )
    value = _integral(laws, start, safe, most, budget)
    return xp.reshape(value, lead), xp.reshape(usable, lead)


def even_grid(loc: Array, scale: Array, axis: int) -> tuple[Array, Array, Array]:
    """Start, step and number of points for normals along an axis; infinitely many for a point."""
    xp = namespace(loc)
    loc, scale = detach(loc), detach(scale)
    start = xp.min(loc - _WING * scale, axis=axis)
    end = xp.max(loc + _WING * scale, axis=axis)
    step = _STEP * xp.min(scale, axis=axis)
    known = (step > 0) & xp.isfinite(end - start)
    points = xp.ceil((end - start) / xp.where(known, step, xp.ones_like(step))) + 1
    return start, step, xp.where(known, points, xp.full_like(points, math.inf))


def _integral(
    laws: tuple[tuple[Array, Array, Array], ...], start: Array, step: Array, most: int, budget: int
) -> Array:
    """Σ (F − G)² · step over the points of every column, (n,)."""
    (w, loc, scale), (v, gap, scale2) = laws
    xp = namespace(loc)
    columns, count = loc.shape
    out = []
    for part in pieces(columns, count * most, budget, loc):
        total = xp.zeros_like(step[part])
        weight, weight2 = w[part, None, :], v[part, None, :]
        for q in pieces(most, count * (part.stop - part.start), budget, loc):
            offset = xp.arange(q.start, q.stop, dtype=loc.dtype, device=loc.device)
            x = (start[part, None] + step[part, None] * offset)[..., None]
            a = (x - loc[part, None, :]) / scale[part, None, :]
            # b − a from differences of the parameters
            ratio = (scale[part, None, :] - scale2[part, None, :]) / scale2[part, None, :]
            change = a * ratio - gap[part, None, :] / scale2[part, None, :]
            moved = weight2 * _difference_of_cdfs(a, change)
            # Σ (v − w) is zero, so that either tail will do; the nearer one is small.
            share = weight2 - weight
            tail = xp.where(x > 0, -ndtr(-a), ndtr(a))
            difference = xp.sum(moved + share * tail, axis=-1)
            total = total + xp.sum(difference * difference, axis=-1)
        out.append(step[part] * total)
    return xp.concat(out)


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
