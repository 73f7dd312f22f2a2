"""Log densities of laws at outcomes, exact in any dimension."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kuq import _linalg as linalg
from kuq._array import Array, detach, identity, moved_axis, namespace
from kuq._special import half_step
from kuq.distributions.atoms import LowRanks
from kuq.distributions.zero_variances import without_zeros

LOG_TWO_PI = math.log(2 * math.pi)


def of_coordinates(values: Array, event_ndim: int) -> Array:
    """The sum over independent coordinates, the last ``event_ndim`` axes."""
    if event_ndim == 0:
        return values
    xp = namespace(values)
    axes = tuple(range(values.ndim - event_ndim, values.ndim))
    # +inf (a point mass hit) and −inf (another one missed) make a miss.
    missed = xp.any(values == -math.inf, axis=axes) & ~xp.any(xp.isnan(values), axis=axes)
    total = xp.sum(xp.where(values == -math.inf, xp.zeros_like(values), values), axis=axes)
    return xp.where(missed, xp.full_like(total, -math.inf), total)


def point_log_density(x: Array, value: Array) -> Array:
    """+inf where the point mass is hit, −inf elsewhere."""
    xp = namespace(x, value)
    hit = x == value
    inf = xp.full_like(x - value, math.inf)
    return xp.where(xp.isnan(x), xp.full_like(inf, math.nan), xp.where(hit, inf, -inf))


@np.errstate(over="ignore")
def student_log_density(x: Array, df: Array, loc: Array, scale: Array) -> Array:
    """Elementwise; a scale of zero is a point mass."""
    xp = namespace(x, df, loc, scale)
    point = scale == 0
    z = (x - loc) / xp.where(point, xp.ones_like(scale), scale)
    constant = half_step(df / 2)[0] - xp.log(df * math.pi) / 2
    smooth = constant - xp.log(xp.where(point, xp.ones_like(scale), scale))
    # Far out 1 + z²/df is z²/df to rounding, and z² is more than fits.
    far = xp.abs(z) > xp.sqrt(df / xp.finfo(z.dtype).eps)
    size = xp.where(far, xp.abs(z), xp.ones_like(z))
    z = xp.where(far, xp.zeros_like(z), z)
    grown = xp.where(far, 2 * xp.log(size) - xp.log(df), xp.log1p(z * z / df))
    smooth = smooth - (df + 1) / 2 * grown
    return xp.where(point, point_log_density(x, loc), smooth)


# Normal laws with covariance diag(diag) + factor factorᵀ.


class Basis(NamedTuple):
    """An orthonormal basis of the columns of [D^(−1/2) U; I], which inverts D + U Uᵀ.

    x ↦ [D^(−1/2) x; 0] less its projection is a square root of the inverse covariance. Unlike the
    difference in Woodbury's formula it keeps its digits when U Uᵀ outweighs D.
    """

    inverse_root: Array
    upper: Array
    lower: Array
    log_determinant: Array

    def leverage(self) -> Array:
        return namespace(self.upper).sum(self.upper * self.upper, axis=-1)

    def whiten(self, columns: Array) -> tuple[Array, Array]:
        """The columns times that square root, in its two blocks."""
        scaled = columns * self.inverse_root
        along = namespace(columns).matrix_transpose(self.upper) @ scaled
        return scaled - self.upper @ along, -(self.lower @ along)


def basis_of(factor: Array, diag: Array) -> Basis:
    xp = namespace(factor, diag)
    d, rank = factor.shape[-2:]
    inverse_root = 1 / xp.sqrt(diag)[..., None]
    scaled = factor * inverse_root
    below = xp.broadcast_to(identity(rank, scaled), (*scaled.shape[:-2], rank, rank))
    basis, triangle = linalg.qr(xp.concat([scaled, below], axis=-2))
    log_determinant = 2 * xp.sum(xp.log(xp.abs(xp.linalg.diagonal(triangle))), axis=-1)
    return Basis(inverse_root, basis[..., :d, :], basis[..., d:, :], log_determinant)


@np.errstate(over="ignore")
def low_rank_log_density(x: Array, loc: Array, factor: Array, diag: Array) -> Array:
    """log N(x; loc, diag(diag) + factor factorᵀ) for x (…, d), with any axes before."""
    xp = namespace(x, loc, factor, diag)
    regular = without_zeros(LowRanks(loc, factor, diag))
    singular = regular.diag == 0
    safe = xp.where(singular, xp.ones_like(regular.diag), regular.diag)
    basis = basis_of(regular.factor, safe)
    infinite = xp.isinf(x)
    white = basis.whiten(xp.where(infinite, xp.zeros_like(x), x - loc)[..., None])
    square = sum(xp.sum(block * block, axis=(-2, -1)) for block in white)
    log_determinant = xp.sum(xp.log(safe), axis=-1) + basis.log_determinant
    value = -(log_determinant + square + loc.shape[-1] * LOG_TWO_PI) / 2
    hit = xp.all(x == loc, axis=-1)
    missed = xp.full_like(value, -math.inf)
    nowhere = xp.where(hit, xp.full_like(value, math.inf), missed)
    value = xp.where(xp.any(singular, axis=-1), nowhere, value)
    value = xp.where(xp.any(infinite, axis=-1), missed, value)
    return xp.where(xp.any(xp.isnan(x), axis=-1), xp.full_like(value, math.nan), value)


def mixed_log_density(weights: Array, values: Array) -> Array:
    """log Σ_m w_m p_m from log p_m along the first axis, which may be ±inf."""
    xp = namespace(weights, values)
    counts = xp.reshape(weights > 0, (-1,) + (1,) * (values.ndim - 1))
    hit = xp.any((values == math.inf) & counts, axis=0)
    none = xp.all((values == -math.inf) | ~counts, axis=0)
    safe = xp.where(xp.isinf(values), xp.full_like(values, lowest(values)), values)
    mixed = log_sum(weights, moved_axis(safe, 0, -1))
    mixed = xp.where(none, xp.full_like(mixed, -math.inf), mixed)
    return xp.where(hit, xp.full_like(mixed, math.inf), mixed)


# Mixtures of normal laws; the components are on the last axis.


def mixture_log_density(x: Array, weights: Array, loc: Array, scale: Array) -> Array:
    """log Σ_k w_k N(x; loc_k, scale_k²); a component of scale zero is a point mass.

    x broadcasts against the batch axes, that is all but the last of the parameters.
    """
    xp = namespace(x, weights, loc, scale)
    point = scale == 0
    continuous = xp.where(point, 0.0, weights)
    kernels = normal_log_density(x[..., None] - loc, xp.where(point, 1.0, scale))
    value = log_sum(continuous, kernels)
    value = xp.where(xp.any(continuous > 0, axis=-1), value, -math.inf)
    hit = xp.any(point & (weights > 0) & (x[..., None] == loc), axis=-1)
    value = xp.where(xp.isinf(x), -math.inf, xp.where(xp.isnan(x), math.nan, value))
    return xp.where(hit, math.inf, value)


@np.errstate(over="ignore")
def normal_log_density(offset: Array, scale: Array) -> Array:
    """log N(offset; 0, scale²), kept finite however far out."""
    xp = namespace(offset, scale)
    far = math.sqrt(float(xp.finfo(offset.dtype).max)) / 16
    z = xp.clip(offset / scale, -far, far)
    return -(z * z + LOG_TWO_PI) / 2 - xp.log(scale)


def lowest(like: Array) -> float:
    """The logarithm of nothing: finite, so that differences stay free of NaN."""
    return -float(namespace(like).finfo(like.dtype).max) / 16


def log_sum(weights: Array, exponents: Array) -> Array:
    """log Σ_k w_k exp(e_k) over the last axis, with the true gradient at weights of zero too."""
    xp = namespace(weights, exponents)
    positive = weights > 0
    terms = xp.log(xp.where(positive, weights, 1.0)) + exponents
    terms = xp.where(positive, terms, lowest(exponents))
    if terms.shape[-1] == 1:
        return terms[..., 0]
    top = detach(xp.max(terms, axis=-1, keepdims=True))
    total = xp.sum(weights * bounded_exp(exponents - top, weights), axis=-1)
    return top[..., 0] + xp.log(xp.where(total > 0, total, 1.0))


def bounded_exp(exponents: Array, weights: Array) -> Array:
    """exp(e), held below the overflow threshold, and far below it where the weight is zero."""
    xp = namespace(exponents, weights)
    limit = math.log(float(xp.finfo(exponents.dtype).max))
    bounds = (0.2 + 0.78 * xp.astype(weights > 0, exponents.dtype)) * limit
    return xp.exp(xp.minimum(exponents, bounds))
