"""Special functions. Each library has its own; the names are scipy's."""

from __future__ import annotations

import math
import sys
from typing import Any

import scipy.special

from kuq._array import Array, any_true, is_jax, is_torch, may_hold, namespace


def _special(array: Array) -> Any:
    if is_torch(array):
        return sys.modules["torch"].special
    if is_jax(array):
        import jax.scipy.special  # jax is loaded already: the array is one of its own

        return jax.scipy.special
    return scipy.special


def erf(x: Array) -> Array:
    return _special(x).erf(x)


def erfc(x: Array) -> Array:
    return _special(x).erfc(x)


def ndtr(x: Array) -> Array:
    """The distribution function of the standard normal law."""
    return _special(x).ndtr(x)


def erfcx(x: Array) -> Array:
    """exp(x²) erfc(x) for x ≥ 0."""
    xp = namespace(x)
    if not is_jax(x) or x.dtype != xp.float32:
        return _special(x).erfcx(x)
    # jax's erfcx underflows to zero beyond x = 9 in float32; the asymptotic series does not.
    far = x > 8
    z = 1 / xp.where(far, x, xp.ones_like(x))
    series = z * (1 - z * z * (0.5 - 0.75 * z * z)) / math.sqrt(math.pi)
    return xp.where(far, series, _special(x).erfcx(xp.where(far, xp.ones_like(x), x)))


def gammaln(x: Array) -> Array:
    return _special(x).gammaln(x)


def digamma(x: Array) -> Array:
    return _special(x).digamma(x)


def half_step(x: Array) -> tuple[Array, Array]:
    """log Γ(x + ½) − log Γ(x), and its derivative, without the cancellation of large x."""
    xp = namespace(x)
    far = x > 50
    near = xp.where(far, xp.ones_like(x), x)
    step = gammaln(near + 0.5) - gammaln(near)
    slope = digamma(near + 0.5) - digamma(near)
    x = xp.where(far, x, xp.full_like(x, 64.0))
    u = 1 / x
    s = u * u
    series = u * (-1 / 8 + s * (1 / 192 + s * (-1 / 640 + s * (17 / 14336 - s * (31 / 18432)))))
    more = s * (1 / 8 + s * (-1 / 64 + s * (1 / 128 + s * (-17 / 2048 + s * (31 / 2048)))))
    return (
        xp.where(far, xp.log(x) / 2 + series, step),
        xp.where(far, u / 2 + more, slope),
    )


def exp_remainder(u: Array) -> Array:
    """e^u − 1 − u ≥ 0, relatively accurate however small u is."""
    xp = namespace(u)
    near = xp.clip(u, -0.5, 0.5)
    series = xp.zeros_like(near)
    for n in range(15, 1, -1):
        series = series * near + 1.0 / math.factorial(n)
    return xp.where(xp.abs(u) < 0.5, near * near * series, xp.expm1(u) - u)


def gammainc(a: float, x: Array) -> Array:
    """The regularised lower incomplete gamma function P(a, x)."""
    return _special(x).gammainc(namespace(x).full_like(x, a), x)


def sum_log1p(x: Array, doublings: int = 3) -> Array:
    """Σ log(1 + x) over the last axis for x ≥ 0, relatively accurate for small x.

    Logarithms of products of several factors instead of one for each: (1+x)(1+y) − 1 is
    x + y + xy, which keeps the digits of small x. With two ``doublings`` x may be negative, down
    to −0.996.
    """
    xp = namespace(x)
    # Eight factors must fit the range of floats.
    if x.shape[-1] < 2:
        doublings = 0
    elif may_hold(large := xp.max(x) > float(xp.finfo(x.dtype).max) ** 0.12):
        doublings = 0 if any_true(large) else 1
    rest = []
    for _ in range(doublings):
        half = x.shape[-1] // 2
        if half == 0:
            break
        if x.shape[-1] % 2:
            rest.append(x[..., -1:])
        left, right = x[..., :half], x[..., half : 2 * half]
        x = left + right + left * right
    return sum((xp.sum(xp.log1p(column), axis=-1) for column in rest), xp.sum(xp.log1p(x), axis=-1))
