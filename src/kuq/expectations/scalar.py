"""Closed forms for normals in one dimension: |x − y|, the Gaussian and the Laplace kernel."""

from __future__ import annotations

import math

import numpy as np

from kuq._array import Array, any_true, namespace, safe_sqrt
from kuq._special import erf, erfc, erfcx

_ROOT_PI = math.sqrt(math.pi)


def absolute_entropy(scale: Array) -> Array:
    return scale / _ROOT_PI


def absolute_divergence(loc: Array, scale: Array, loc2: Array, scale2: Array) -> Array:
    """Every term is ≥ 0 or cancels by a factor of three at most, however close the laws are."""
    xp = namespace(loc)
    gap = xp.abs(loc - loc2)
    points = (scale <= 0) & (scale2 <= 0)
    some_points = any_true(points) is not False
    first = xp.where(points, xp.ones_like(scale), scale) if some_points else scale
    r = math.sqrt(2) * _root_of_squares(first, scale2)
    # Beyond 40, erf is one and the exponential zero; keeps x² from overflowing.
    x = xp.clip(gap / r, max=40.0)
    difference = scale - scale2
    spread = difference * (difference / (r + (scale + scale2))) + r * xp.expm1(-x * x)
    value = spread * (1 / _ROOT_PI) + gap * erf(x)
    if not some_points:
        return value
    # Both scales zero: the limit, whose slope in the scales is right wherever it exists.
    limit = gap - xp.where(gap > 0, (scale + scale2) / _ROOT_PI, xp.zeros_like(gap))
    return xp.where(points, limit, value)


@np.errstate(over="ignore", under="ignore")
def _root_of_squares(a: Array, b: Array) -> Array:
    """√(a² + b²); NumPy's numbers may come in any unit."""
    squares = a * a + b * b
    if isinstance(squares, np.ndarray) and squares.size:
        usual = squares.min() > 1e-290 and squares.max() < math.inf
        return np.sqrt(squares) if usual else np.hypot(a, b)
    return namespace(squares).sqrt(squares)


def largest_length(like: Array) -> float:
    """Lengths in bandwidths are cut here: squares stay finite, and kernels are zero anyway."""
    return float(float(namespace(like).finfo(like.dtype).max) ** 0.48)


def gaussian_entropy(scale: Array, bandwidth: Array | float) -> Array:
    """½ − ½ (1 + 4u²)^(−½) for u = σ/γ."""
    xp = namespace(scale)
    u = xp.clip(scale / bandwidth, max=largest_length(scale))
    root = xp.sqrt(1 + 4 * u * u)
    return 2 * (u / root) * (u / (1 + root))


def gaussian_divergence(
    loc: Array, scale: Array, loc2: Array, scale2: Array, bandwidth: Array | float
) -> Array:
    """A sum of two terms ≥ 0, one for the scales and one for the means.

    With A = 1 + 4u², B = 1 + 4v², C = (A+B)/2, h = (A−B)/2C and p = √(AB)/C = √(1−h²):
    ½A^(−½) + ½B^(−½) − C^(−½) = C^(−½) h² (1+2p) / ((1+p) p (√(2+2p) + 2p)).
    """
    xp = namespace(loc)
    far = largest_length(loc)
    u, v = (xp.clip(s / bandwidth, max=far) for s in (scale, scale2))
    gap = xp.clip((loc - loc2) / bandwidth, -far, far)
    change = xp.clip((scale - scale2) / bandwidth, -far, far)  # before anything is rounded
    c = 1 / (1 + 2 * u * u + 2 * v * v)
    h = 2 * change * c * (u + v)
    # Scales too far apart would make p zero; the factor √c then makes the rest vanish.
    p = xp.clip(xp.sqrt(1 + 4 * u * u) * c * xp.sqrt(1 + 4 * v * v), min=1 / far)
    spread = h * h * (1 + 2 * p) / ((1 + p) * p * (xp.sqrt(2 + 2 * p) + 2 * p))
    return xp.sqrt(c) * (spread - xp.expm1(-gap * gap * c))


def gaussian_affinity(
    loc: Array, scale: Array, loc2: Array, scale2: Array, bandwidth: Array | float
) -> Array:
    """E exp(−(X−Y)²/bandwidth²)."""
    xp = namespace(loc)
    far = largest_length(loc)
    u, v = (xp.clip(s / bandwidth, max=far) for s in (scale, scale2))
    gap = xp.clip((loc - loc2) / bandwidth, -far, far)
    c = 1 / (1 + 2 * u * u + 2 * v * v)
    return xp.sqrt(c) * xp.exp(-gap * gap * c)


def laplace_entropy(scale: Array, bandwidth: Array | float) -> Array:
    xp = namespace(scale)
    x = scale / bandwidth
    small = x < 1
    low = xp.where(small, x, xp.ones_like(x))
    high = xp.where(small, xp.ones_like(x), x)
    near = xp.exp(low * low) * erf(low) - xp.expm1(low * low)
    return xp.where(small, near, 1 - erfcx(high)) / 2


def laplace_affinity(
    loc: Array, scale: Array, loc2: Array, scale2: Array, bandwidth: Array | float
) -> Array:
    """E exp(−|X−Y|/bandwidth), free of overflow for any ratio of scale and bandwidth."""
    xp = namespace(loc)
    gap = xp.abs(loc - loc2)
    s = safe_sqrt(scale * scale + scale2 * scale2)
    spread = s > 0
    safe_s = xp.where(spread, s, xp.ones_like(s))
    width, z = xp.clip(safe_s / bandwidth, max=largest_length(s)), gap / safe_s
    u1, u2 = (width - z) / math.sqrt(2), (width + z) / math.sqrt(2)
    decay = xp.exp(-(xp.where(z < 40, z, xp.full_like(z, 40.0)) ** 2) / 2)
    inside = u1 >= 0
    left = decay * erfcx(xp.where(inside, u1, xp.zeros_like(u1)))
    outside_u = xp.where(inside, xp.zeros_like(u1), u1)
    exponent = xp.where(inside, xp.zeros_like(u1), width * width / 2 - gap / bandwidth)
    right = xp.exp(exponent) * erfc(outside_u)
    smooth = (xp.where(inside, left, right) + decay * erfcx(u2)) / 2
    return xp.where(spread, smooth, xp.exp(-gap / bandwidth))
