"""Affinities of laws whose coordinates are independent mixtures of normals.

Components of the two laws are matched by position: if the laws are close, so are matched
components, and second differences of the affinity are formed without cancellation.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from kuq._array import Array, namespace
from kuq.distributions.atoms import Products
from kuq.expectations.overlap import Overlap


class _Coordinate(NamedTuple):
    """One coordinate at scale t: self and cross affinities and their differences."""

    self_p: Array
    self_q: Array
    cross: Array
    divergence: Array
    difference: Array


def log_self_affinity(t: Array, p: Products) -> Array:
    xp = namespace(t)
    x = _log_affinity(t[..., None, None, None], p, p)
    return xp.sum(_log_mean(p.weights, x, p.weights), axis=-1)


def overlap(t: Array, p: Products, q: Products) -> Overlap:
    xp = namespace(t)
    c = _coordinates(t[..., None, None, None], p, q)
    # Where the laws hardly overlap only the direct form is used; ratios would overflow.
    near = c.cross > 1e-3 * (c.self_p + c.self_q)
    cross = xp.where(near, c.cross, xp.ones_like(c.cross))
    d = xp.where(near, c.divergence, xp.zeros_like(c.divergence)) / cross
    e = xp.where(near, c.difference, xp.zeros_like(c.difference)) / cross
    product = xp.clip(2 * d + (d - e / 2) * (d + e / 2), min=0.0)
    ratio = xp.clip(e / (2 * (1 + d)), -0.99, 0.99)
    gap = xp.where(near, xp.log1p(product), xp.full_like(product, 20.0))
    zero = xp.zeros_like(c.self_p[..., 0])
    return Overlap(
        log_p=xp.sum(_safe_log(c.self_p), axis=-1),
        log_q=xp.sum(_safe_log(c.self_q), axis=-1),
        log_c=xp.sum(_safe_log(c.cross), axis=-1),
        shift=zero,
        gap=xp.sum(gap, axis=-1) / 2,
        tilt=xp.sum(xp.atanh(ratio), axis=-1),
    )


def _coordinates(t: Array, p: Products, q: Products) -> _Coordinate:
    """Arrays of shape (…, d); inside, (…, d, K, K) with rows i of the first, columns k."""
    xp = namespace(t)
    x00, x11, x01 = _log_affinity(t, p, p), _log_affinity(t, q, q), _log_affinity(t, p, q)
    rise, mixed = _differences(t, p, q)
    fall = xp.matrix_transpose(rise)  # x01 − x00; the affinity is symmetric
    second = _second_difference(x00, x01, x11, fall, rise, mixed)
    w, v = p.weights, q.weights
    e = v - w
    moved = -_difference_of_exp(x01, rise + mixed)  # φ(P_i, Q_k) − φ(Q_i, Q_k)
    # Σe = 0, so that constants drop out and expm1 may stand for exp.
    self_q = xp.expm1(x11)
    divergence = (_form(w, second, w) - 2 * _form(w, moved, e) + _form(e, self_q, e)) / 2
    difference = (
        -_form(w, _difference_of_exp(x00, fall + rise + mixed), w)
        - _form(e, self_q, v)
        - _form(w, self_q, e)
    )
    return _Coordinate(
        self_p=_form(w, xp.exp(x00), w),
        self_q=_form(v, xp.exp(x11), v),
        cross=_form(w, xp.exp(x01), v),
        divergence=divergence,
        difference=difference,
    )


def _log_affinity(t: Array, p: Products, q: Products) -> Array:
    """log φ of every pair of components, (…, d, K, K)."""
    xp = namespace(t)
    variance = (p.scale * p.scale)[..., :, None] + (q.scale * q.scale)[..., None, :]
    delta = p.loc[..., :, None] - q.loc[..., None, :]
    c = 1 + 2 * t * variance
    return -xp.log1p(2 * t * variance) / 2 - t * delta * delta / c


def _differences(t: Array, p: Products, q: Products) -> tuple[Array, Array]:
    """x10 − x00 and x11 − x10 − x01 + x00, where 1 at a place means Q's component there."""
    xp = namespace(t)
    step = 2 * t * ((q.scale - p.scale) * (q.scale + p.scale))[..., :, None]
    move = (q.loc - p.loc)[..., :, None]
    step_k, move_k = xp.matrix_transpose(step), xp.matrix_transpose(move)
    delta = p.loc[..., :, None] - p.loc[..., None, :]
    c00 = 1 + 2 * t * ((p.scale * p.scale)[..., :, None] + (p.scale * p.scale)[..., None, :])
    c10 = 1 + 2 * t * ((q.scale * q.scale)[..., :, None] + (p.scale * p.scale)[..., None, :])
    c01 = xp.matrix_transpose(c10)
    c11 = 1 + 2 * t * ((q.scale * q.scale)[..., :, None] + (q.scale * q.scale)[..., None, :])
    f10 = move * (2 * delta + move)
    f01 = -move_k * (2 * delta - move_k)
    rise = -_log1p(step / c00) / 2 - t * (f10 - delta * delta * (step / c00)) / c10
    curvature = (step / c10) * (step_k / c01) * (1 / c00 + 1 / c11)
    second = (
        -2 * move * move_k / c11
        - f01 * (step / c11) / c01
        - f10 * (step_k / c11) / c10
        + delta * delta * curvature
    )
    mixed = -_log1p(-(step / c10) * (step_k / c01)) / 2 - t * second
    return rise, mixed


def _log1p(x: Array) -> Array:
    """log1p kept finite where x rounds to −1; the direct form is used there."""
    xp = namespace(x)
    return xp.log1p(xp.where(x > -0.999, x, xp.full_like(x, -0.999)))


def _small(*exponents: Array) -> tuple[Array, list[Array]]:
    """Where all exponents are small, and the exponents with zero elsewhere."""
    xp = namespace(*exponents)
    total = sum(xp.abs(x) for x in exponents)
    small = total < 1
    return small, [xp.where(small, x, xp.zeros_like(x)) for x in exponents]


def _second_difference(
    x00: Array, x01: Array, x11: Array, fall: Array, rise: Array, mixed: Array
) -> Array:
    xp = namespace(x00)
    small, (a, b, c) = _small(fall, rise, mixed)
    near = xp.exp(x00) * (xp.expm1(a) * xp.expm1(b) + xp.exp(a + b) * xp.expm1(c))
    x10 = xp.matrix_transpose(x01)
    far = xp.exp(x00) - xp.exp(x01) - xp.exp(x10) + xp.exp(x11)
    return xp.where(small, near, far)


def _difference_of_exp(start: Array, step: Array) -> Array:
    """exp(start + step) − exp(start)."""
    xp = namespace(start)
    small, (s,) = _small(step)
    return xp.where(small, xp.exp(start) * xp.expm1(s), xp.exp(start + step) - xp.exp(start))


def _form(left: Array, matrix: Array, right: Array) -> Array:
    """Σ_ik left_i matrix_ik right_k."""
    xp = namespace(matrix)
    return xp.sum(xp.sum(matrix * right[..., None, :], axis=-1) * left, axis=-1)


def _log_mean(left: Array, x: Array, right: Array) -> Array:
    return _log_of_mean(_form(left, namespace(x).expm1(x), right))


def _log_of_mean(excess: Array) -> Array:
    """log(1 + excess), kept finite where the mean underflows."""
    xp = namespace(excess)
    floor = float(xp.finfo(excess.dtype).smallest_normal)
    underflow = excess <= -1 + float(xp.finfo(excess.dtype).eps)
    safe = xp.where(underflow, xp.zeros_like(excess), excess)
    return xp.where(underflow, xp.full_like(excess, math.log(floor)), xp.log1p(safe))


def _safe_log(x: Array) -> Array:
    xp = namespace(x)
    floor = xp.finfo(x.dtype).smallest_normal
    return xp.log(xp.where(x > floor, x, xp.full_like(x, floor)))
