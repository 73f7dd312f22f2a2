"""Affinities of laws whose coordinates are independent mixtures of normals.

Components of the two laws are matched by position: if the laws are close, so are matched
components, and second differences of the affinity are formed without cancellation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from kuq._array import Array, any_true, namespace
from kuq.distributions.atoms import Products
from kuq.expectations.overlap import Overlap
from kuq.expectations.scalar import largest_length


class _Coordinate(NamedTuple):
    """One coordinate at scale t: self and cross affinities and their differences."""

    self_p: Array
    self_q: Array
    cross: Array
    divergence: Array
    difference: Array


def log_self_affinity(t: Array, p: Products) -> Array:
    xp = namespace(t)
    excess = xp.expm1(_log_affinity(_root(t), p, p))
    return xp.sum(_log_of_mean(_form(p.weights, excess, p.weights)), axis=-1)


def overlap(t: Array, p: Products, q: Products) -> Overlap:
    xp = namespace(t)
    c = _coordinates(_root(t), p, q)
    log_p, log_q, log_c = (_safe_log(x) for x in (c.self_p, c.self_q, c.cross))
    # Differences of logarithms lose the digits of laws that are close, and of them only.
    total = c.self_p + c.self_q
    close = (total < 3 * c.cross) & (xp.abs(c.difference) < total / 2)
    cross = xp.where(close, c.cross, xp.ones_like(c.cross))
    d = xp.where(close, c.divergence, xp.zeros_like(c.divergence)) / cross
    e = xp.where(close, c.difference, xp.zeros_like(c.difference)) / cross
    product = xp.clip(2 * d + (d - e / 2) * (d + e / 2), min=0.0)
    gap = xp.where(close, xp.log1p(product), log_p + log_q - 2 * log_c) / 2
    tilt = xp.where(close, xp.atanh(e / (2 * (1 + d))), (log_p - log_q) / 2)
    return Overlap(
        log_p=xp.sum(log_p, axis=-1),
        log_q=xp.sum(log_q, axis=-1),
        log_c=xp.sum(log_c, axis=-1),
        shift=xp.zeros_like(c.self_p[..., 0]),
        gap=xp.sum(gap, axis=-1),
        tilt=xp.sum(tilt, axis=-1),
    )


def _root(t: Array) -> Array:
    """√t with axes for coordinate and component: multiplied by it, the kernel has width one."""
    return namespace(t).sqrt(t)[..., None, None]


def _between(root: Array, x: Array, y: Array) -> Array:
    """x_i − y_k in units of the kernel, (…, d, K, K)."""
    far = largest_length(root)
    return namespace(root).clip(root[..., None] * (x[..., :, None] - y[..., None, :]), -far, far)


def _widths(root: Array, p: Products) -> Array:
    return namespace(root).clip(root * p.scale, max=largest_length(root))


def _spread(u: Array, v: Array) -> Array:
    """2(u_i² + v_k²): one more is the factor by which scales widen the kernel."""
    u, v = u * u, v * v
    return 2 * (u[..., :, None] + v[..., None, :])


def _coordinates(root: Array, p: Products, q: Products) -> _Coordinate:
    """Arrays of shape (…, d); inside, (…, d, K, K) with rows i of the first, columns k."""
    xp = namespace(root)
    x00, x11, x01 = (_log_affinity(root, *pair) for pair in ((p, p), (q, q), (p, q)))
    a00, a11, a01 = (xp.exp(x) for x in (x00, x11, x01))
    rise, mixed = _differences(root, p, q)
    # Where components are close, differences of affinities come from those of logarithms.
    change = xp.abs(rise)
    close = change + xp.matrix_transpose(change) + xp.abs(mixed) < 1
    rise, mixed = (xp.expm1(xp.where(close, x, xp.zeros_like(x))) for x in (rise, mixed))
    fall = xp.matrix_transpose(rise)  # a01/a00 − 1; the affinity is symmetric
    across = mixed + mixed * rise + rise  # a11/a01 − 1
    along = across + across * fall + fall  # a11/a00 − 1
    twist = rise * fall + (1 + rise) * (1 + fall) * mixed
    apart = a00 - a01 - xp.matrix_transpose(a01) + a11
    second = xp.where(close, a00 * twist, apart)
    moved = xp.where(close, a01 * across, a11 - a01)
    both_moved = xp.where(close, a00 * along, a11 - a00)
    w, v = p.weights, q.weights
    e = v - w
    # Σe = 0, so that constants drop out and expm1 may stand for exp.
    lack = xp.expm1(x11)
    divergence = (_form(w, second, w) + 2 * _form(w, moved, e) + _form(e, lack, e)) / 2
    difference = -_form(w, both_moved, w) - _form(e, lack, v) - _form(w, lack, e)
    return _Coordinate(
        self_p=_form(w, a00, w),
        self_q=_form(v, a11, v),
        cross=_form(w, a01, v),
        divergence=divergence,
        difference=difference,
    )


def _log_affinity(root: Array, p: Products, q: Products) -> Array:
    """log φ of every pair of components, (…, d, K, K)."""
    spread = _spread(_widths(root, p), _widths(root, q))
    delta = _between(root, p.loc, q.loc)
    return -namespace(root).log1p(spread) / 2 - delta * delta / (1 + spread)


def _differences(root: Array, p: Products, q: Products) -> tuple[Array, Array]:
    """x10 − x00 and x11 − x10 − x01 + x00, where 1 at a place means Q's component there."""
    xp = namespace(root)
    far = largest_length(root)
    u, v = _widths(root, p), _widths(root, q)
    # The difference of two scales is formed before anything scales it, unless one was cut.
    change = xp.where(xp.maximum(u, v) < far, root * (q.scale - p.scale), v - u)
    step = 2 * (change * (u + v))[..., :, None]
    move = xp.clip(root * (q.loc - p.loc), -far, far)[..., :, None]
    step_k, move_k = xp.matrix_transpose(step), xp.matrix_transpose(move)
    delta = _between(root, p.loc, p.loc)
    c00, c10, c11 = 1 + _spread(u, u), 1 + _spread(v, u), 1 + _spread(v, v)
    c01 = xp.matrix_transpose(c10)
    f10 = move * (2 * delta + move)
    f01 = -move_k * (2 * delta - move_k)
    ratio = step / c00
    widened = _log1p(ratio, lambda: c10 / c00)
    rise = -widened / 2 - (f10 - delta * delta * ratio) / c10
    both = (step / c10) * (step_k / c01)
    second = (
        -2 * move * move_k / c11
        - (f01 / c01) * (step / c11)  # products would leave the range of floats
        - (f10 / c10) * (step_k / c11)
        + delta * delta * (both * (1 / c00 + 1 / c11))
    )
    mixed = -_log1p(-both, lambda: (c00 / c10) * (c11 / c01)) / 2 - second
    return rise, mixed


def _log1p(x: Array, whole: Callable[[], Array]) -> Array:
    """log(1 + x), from 1 + x itself where x is near −1 and has lost its digits."""
    xp = namespace(x)
    low = x < -0.5
    if any_true(low) is False:
        return xp.log1p(x)
    return xp.where(low, xp.log(whole()), xp.log1p(xp.where(low, xp.zeros_like(x), x)))


def _form(left: Array, matrix: Array, right: Array) -> Array:
    """Σ_ik left_i matrix_ik right_k."""
    xp = namespace(matrix)
    return xp.sum(xp.sum(matrix * right[..., None, :], axis=-1) * left, axis=-1)


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
