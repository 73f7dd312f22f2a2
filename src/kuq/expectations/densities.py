"""The log score in closed form: entropies and divergences of normal laws.

Relative entropies are quadratic in the distance of two laws, so every formula here is built from
differences of parameters; subtracting two entropies would leave nothing of close members.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from kuq import _linalg as linalg
from kuq._array import Array, detach, from_numpy, identity, namespace, power_of_two, safe_sqrt
from kuq.distributions.log_densities import LOG_TWO_PI, Basis, basis_of


@lru_cache(maxsize=32)
def unit_gauss_legendre(points: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the Gauss-Legendre rule on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return (nodes + 1) / 2, weights / 2


# Normal laws.


def normal_entropy(scale: Array) -> Array:
    """The differential entropy of a normal law, −inf for a point mass."""
    xp = namespace(scale)
    point = scale == 0
    value = xp.log(xp.where(point, 1.0, scale)) + (LOG_TWO_PI + 1) / 2
    return xp.where(point, -math.inf, value)


# A variance ratio may leave the float range; infinity is then the right answer.
@np.errstate(over="ignore")
def normal_kl(p_loc: Array, p_scale: Array, q_loc: Array, q_scale: Array) -> Array:
    """KL(Q‖P) of normal laws, elementwise.

    A point mass (scale zero) is at distance zero from itself and infinity from all else.
    """
    xp = namespace(p_loc, p_scale, q_loc, q_scale)
    p_point, q_point = p_scale == 0, q_scale == 0
    p_safe, q_safe = xp.where(p_point, 1.0, p_scale), xp.where(q_point, 1.0, q_scale)
    gap = (q_safe - p_safe) / p_safe
    shift = (q_loc - p_loc) / p_safe
    log_ratio = 2 * (xp.log(q_safe) - xp.log(p_safe))
    value = (_excess(gap * (2 + gap), log_ratio) + shift * shift) / 2
    value = xp.where(p_point | q_point, math.inf, value)
    return xp.where(p_point & q_point & (p_loc == q_loc), 0.0, value)


@np.errstate(over="ignore")
def normal_dispersion(loc: Array, scale: Array, weights: Array) -> Array:
    """Σ w_i w_j KL(P_j‖P_i) of normal laws along the first axis, from moments: O(M).

    The logarithms cancel in the sum. With r = σ²/mean(σ²) − 1, Σ w r = 0 and what is left is
    ½ Σ w r²/(1+r) + ½ Σ w_i (Var μ + (μ_i − mean μ)²)/σ_i², a sum of squares.
    """
    xp = namespace(loc, scale)
    w = xp.reshape(weights, (-1,) + (1,) * (scale.ndim - 1))
    points = scale == 0
    safe = xp.where(points, xp.ones_like(scale), scale)
    widest = detach(xp.max(safe, axis=0))
    ratio = safe / widest
    step = (safe - widest) / widest
    square = step * (2 + step)  # ratio² − 1, with the digits of close scales
    mean = xp.sum(w * square, axis=0)
    spread = xp.sum(w * ((square - mean) / ratio) ** 2, axis=0) / (1 + mean)
    offset = loc - loc[:1, ...]
    offset = offset - xp.sum(w * offset, axis=0)
    # In units of the farthest member, or squares of tiny and of huge offsets would be lost.
    unit = power_of_two(xp.max(xp.abs(offset), axis=0))
    offset = offset / unit
    deviation = unit * safe_sqrt(xp.sum(w * offset * offset, axis=0))
    offset = unit * offset
    shift = xp.sum(w * ((offset / safe) ** 2 + (deviation / safe) ** 2), axis=0)
    value = (spread + shift) / 2
    together = xp.all(points & (loc == loc[:1, ...]), axis=0)
    value = xp.where(xp.any(points, axis=0), xp.full_like(value, math.inf), value)
    return xp.where(together, xp.zeros_like(value), value)


def _excess(r: Array, log_ratio: Array) -> Array:
    """r − log(1 + r), relatively accurate for every r > −1.

    ``log_ratio`` is log(1 + r) again, for ratios so extreme that r has lost it.
    """
    xp = namespace(r, log_ratio)
    near = xp.abs(r) < 0.1
    moderate = (r > -0.9) & (r < 10)
    logarithm = xp.where(moderate, xp.log1p(xp.where(moderate, r, 0.0)), log_ratio)
    return xp.where(near, _excess_series(xp.where(near, r, 0.0)), r - logarithm)


def _excess_series(r: Array) -> Array:
    # log(1 + r) = 2 artanh(w) and r = 2w / (1 − w): the leading terms cancel by hand.
    w = r / (2 + r)
    square = w * w
    tail = 1 / 15
    for denominator in (13, 11, 9, 7, 5, 3):
        tail = 1 / denominator + square * tail
    return 2 * square * (1 / (1 - w) - w * tail)


# Normal laws with covariance diag(diag) + factor factorᵀ.


def low_rank_entropy(factor: Array, diag: Array) -> Array:
    """The differential entropy of N(·, diag(diag) + factor factorᵀ), −inf if a variance is zero."""
    xp = namespace(factor, diag)
    singular = diag == 0
    safe = xp.where(singular, 1.0, diag)
    log_determinant = xp.sum(xp.log(safe), axis=-1) + basis_of(factor, safe).log_determinant
    value = (log_determinant + diag.shape[-1] * (LOG_TWO_PI + 1)) / 2
    return xp.where(xp.any(singular, axis=-1), -math.inf, value)


@np.errstate(over="ignore")
def low_rank_kl(
    p_loc: Array, p_factor: Array, p_diag: Array, q_loc: Array, q_factor: Array, q_diag: Array
) -> Array:
    """KL(Q‖P) of normal laws with covariances diag + factor factorᵀ of one rank r, in O(d r²).

    Laws with a zero variance are at distance zero from themselves and infinity from all else.
    Close laws keep their relative accuracy unless they differ only in variances that their
    factors outweigh in every coordinate (r ≥ d).
    """
    xp = namespace(p_loc, p_factor, p_diag, q_loc, q_factor, q_diag)
    singular = xp.any((p_diag == 0) | (q_diag == 0), axis=-1)
    equal = xp.all((p_diag == q_diag) & (p_loc == q_loc), axis=-1)
    equal = equal & xp.all(p_factor == q_factor, axis=(-2, -1))
    p = _Spread(p_factor, xp.where(p_diag == 0, 1.0, p_diag))
    q = _Spread(q_factor, xp.where(q_diag == 0, 1.0, q_diag))
    basis = basis_of(*p)
    gap = (q.diag - p.diag) / p.diag
    diagonal = xp.sum(_excess(gap, xp.log(q.diag) - xp.log(p.diag)), axis=-1)
    shift = basis.whiten((q_loc - p_loc)[..., None])
    value = diagonal + _coupling(basis, p, q, gap) + _inner(shift, shift)
    value = xp.where(value < 0, 0.0, value / 2)  # rounding, when nothing but the order differs
    return xp.where(singular & equal, 0.0, xp.where(singular, math.inf, value))


class _Spread(NamedTuple):
    factor: Array
    diag: Array


def _inner(a: tuple[Array, Array], b: tuple[Array, Array]) -> Array:
    xp = namespace(*a)
    return sum(xp.sum(x * y, axis=(-2, -1)) for x, y in zip(a, b, strict=True))


def _coupling(basis: Basis, p: _Spread, q: _Spread, gap: Array) -> Array:
    """tr(P⁻¹Q) − d − log det(P⁻¹Q), less the same for the diagonal parts alone."""
    xp = namespace(gap)
    change = q.factor - p.factor
    midpoint = p.factor + change / 2
    detour = basis_of(p.factor, q.diag)
    white_change, white_midpoint = detour.whiten(change), detour.whiten(midpoint)
    sizes = _inner(white_change, white_change), _inner(white_midpoint, white_midpoint)
    # Both bounds keep the eigenvalues within [−1/2, 1], where the rule below is exact.
    close = xp.all(xp.abs(gap) < 0.5, axis=-1) & (sizes[0] * sizes[1] < 0.25**2)
    small_gap = xp.where(close[..., None], gap, 0.0)
    return xp.where(
        close,
        _diagonal_change(basis, small_gap)
        + _factor_change(white_change, white_midpoint, sizes, close)
        + _interaction(basis, detour, small_gap, change, white_midpoint[0]),
        _far_coupling(basis, q, gap),
    )


def _far_coupling(basis: Basis, q: _Spread, gap: Array) -> Array:
    xp = namespace(gap)
    white = basis.whiten(q.factor)
    return (
        _inner(white, white)
        - xp.sum((1 + gap) * basis.leverage(), axis=-1)
        - (basis_of(*q).log_determinant - basis.log_determinant)
    )


# Close laws go from P to Q over R = diag(q) + U_p U_pᵀ. For the Bregman divergence B of −log det,
# B(Q, P) = B(R, P) + B(Q, R) + tr[(P⁻¹ − R⁻¹)(Q − R)], and each of the three is a product of
# computed differences.


def _diagonal_change(basis: Basis, gap: Array) -> Array:
    """B(R, P) less its value Σ (gap − log(1 + gap)) without factors."""
    xp = namespace(gap)
    relative = gap / (1 + gap)
    linear = xp.sum(gap * relative * basis.leverage(), axis=-1)
    weighted = basis.upper * relative[..., None]
    return _trace_excess(-(xp.matrix_transpose(basis.upper) @ weighted)) - linear


def _factor_change(
    change: tuple[Array, Array],
    midpoint: tuple[Array, Array],
    sizes: tuple[Array, Array],
    close: Array,
) -> Array:
    """B(Q, R) from Q − R = change midpointᵀ + midpoint changeᵀ, on the span of both."""
    xp = namespace(close, *change)
    usable = (sizes[0] > 0) & (sizes[1] > 0)
    balance = xp.where(usable, sizes[1], 1.0) / xp.where(usable, sizes[0], 1.0)
    balance = detach(xp.sqrt(xp.sqrt(balance)))[..., None, None]
    columns = [
        xp.concat([a * balance, b / balance], axis=-1)
        for a, b in zip(change, midpoint, strict=True)
    ]
    swapped = [
        xp.concat([b / balance, a * balance], axis=-1)
        for a, b in zip(change, midpoint, strict=True)
    ]
    gram = sum(xp.matrix_transpose(a) @ b for a, b in zip(swapped, columns, strict=True))
    return _trace_excess(xp.where(close[..., None, None], gram, 0.0))


def _interaction(
    basis: Basis, detour: Basis, gap: Array, change: Array, white_midpoint: Array
) -> Array:
    xp = namespace(gap)
    white_change = basis.whiten(change)[0]
    ratio = detour.inverse_root / basis.inverse_root
    return 2 * xp.sum(gap[..., None] * ratio * white_change * white_midpoint, axis=(-2, -1))


def _trace_excess(matrix: Array) -> Array:
    """tr[N − log(I + N)] = ∫₀¹ t tr[N² (I + t N)⁻¹] dt, for eigenvalues of N in [−1/2, 1]."""
    xp = namespace(matrix)
    nodes, weights = unit_gauss_legendre(10)
    t = from_numpy(nodes, matrix)[:, None, None]
    square = (matrix @ matrix)[..., None, :, :]
    shifted = identity(matrix.shape[-1], matrix) + t * matrix[..., None, :, :]
    traces = xp.linalg.trace(linalg.solve(shifted, xp.broadcast_to(square, shifted.shape)))
    return xp.sum(traces * from_numpy(nodes * weights, matrix), axis=-1)
