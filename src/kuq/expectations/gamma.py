"""Ratios of gamma functions without the cancellation of lgamma(x) − lgamma(y).

Each function moves its argument up by a fixed number of steps, where the recurrence gives one
exact term per step, and ends with the asymptotic series. Nothing depends on values, so the
functions batch, trace and differentiate, and no large number is ever subtracted from another.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

from kuq._array import Array, constants, namespace

# At argument 10 or more, eight terms of the series in 1/x² are exact to double precision.
_STEPS = 10
_TERMS = 8


@cache
def _bernoulli_number(n: int) -> Fraction:
    if n == 0:
        return Fraction(1)
    return -sum((math.comb(n + 1, k) * _bernoulli_number(k) for k in range(n)), Fraction(0)) / (
        n + 1
    )


def bernoulli_polynomial(n: int, x: Fraction) -> Fraction:
    """B_n(x), exactly."""
    return sum(
        (math.comb(n, k) * _bernoulli_number(k) * x ** (n - k) for k in range(n + 1)), Fraction(0)
    )


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    value = coefficients[-1] + 0.0 * x
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value


def _ladder(z: Array, steps: int) -> Array:
    """z, z + 1, …, z + steps − 1 along a new last axis."""
    return z[..., None] + constants([float(k) for k in range(steps)], like=z)


@cache
def _ratio_series(a: float) -> tuple[float, ...]:
    # Γ(z+a)/Γ(z) is symmetric about w = z + (a−1)/2, which leaves even powers of 1/w only.
    x = (1 + Fraction(a)) / 2
    return tuple(
        float(-2 * bernoulli_polynomial(j + 1, x) / (j * (j + 1)))
        for j in range(2, 2 * _TERMS + 1, 2)
    )


def log_gamma_ratio(z: Array, a: float) -> Array:
    """log Γ(z + a) / Γ(z) for z > max(0, −a)."""
    if a < 0:
        return -log_gamma_ratio(z + a, -a)
    xp = namespace(z)
    steps = _STEPS + math.ceil(a)
    w = z + (steps + (a - 1) / 2)
    inverse_square = (1 / w) ** 2
    far = a * xp.log(w) + inverse_square * _polynomial(_ratio_series(a), inverse_square)
    return far - xp.sum(xp.log1p(a / _ladder(z, steps)), axis=-1)


@cache
def _duplication_series(b: float) -> tuple[float, ...]:
    # The four gamma functions pair up about w = z + b/2 − 1/4: odd powers of 1/w only.
    x = Fraction(3, 4)
    y = x - Fraction(b) / 2
    return tuple(
        float(2 * (bernoulli_polynomial(j + 1, x) - bernoulli_polynomial(j + 1, y)) / (j * (j + 1)))
        for j in range(1, 2 * _TERMS, 2)
    )


def log_duplication_ratio(z: Array, b: float) -> Array:
    """log 2^(−b) Γ(2z + b) Γ(z) / (Γ(2z) Γ(z + b)) for z > 0 and 0 ≤ b ≤ 1.

    It is positive and falls like b(1−b)/4z. The duplication formula leaves four gamma
    functions whose recurrence has the numerator b(1−b)/4, so every term is positive.
    """
    xp = namespace(z)
    x = _ladder(z, _STEPS)
    near = xp.log1p(b * (1 - b) / 4 / ((x + b / 2) * (x + (b + 1) / 2)))
    inverse = 1 / (z + (_STEPS + b / 2 - 0.25))
    far = inverse * _polynomial(_duplication_series(b), inverse * inverse)
    return xp.sum(near, axis=-1) + far


@cache
def _information_series() -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Coefficients of x⁻¹, x⁻², … of ψ(x+½) − ψ(x) and of `precision_information`."""
    n = 2 * _TERMS + 1
    half = Fraction(1, 2)
    # log Γ(x+½)/Γ(x) = ½ log x + Σ ratio_j x^−j, differentiated term by term.
    ratio = [Fraction(0)] + [
        (-1) ** (j + 1)
        * (bernoulli_polynomial(j + 1, half) - bernoulli_polynomial(j + 1, Fraction(0)))
        / (j * (j + 1))
        for j in range(1, n + 1)
    ]
    gap = [Fraction(0), half] + [-j * ratio[j] for j in range(1, n)]
    psi_less_log = [Fraction(0), -half] + [-_bernoulli_number(j) / j for j in range(2, n + 1)]
    information = [
        psi_less_log[j] / 2 - ratio[j] - j * ratio[j] + gap[j] / 2 for j in range(1, n + 1)
    ]
    return tuple(map(float, gap[1:])), tuple(map(float, information))


def precision_information(alpha: Array) -> Array:
    """What one normal draw tells about its precision, if that is Gamma(alpha): I(X; σ), in nats.

    [ψ(α) − log π − 1]/2 + log B(α, ½) + (α + ½)(ψ(α+½) − ψ(α)), about 1/4α for large α.
    Its step from α to α+1 is log(1 + 1/2α) − ψ(α+3/2) + ψ(α+1).
    """
    xp = namespace(alpha)
    gap_series, information_series = _information_series()
    inverse = 1 / (alpha + _STEPS)
    gap = inverse * _polynomial(gap_series, inverse)
    far = inverse * _polynomial(information_series, inverse)
    x = _ladder(alpha, _STEPS)
    k = constants([float(i) for i in range(_STEPS)], like=alpha)
    near = xp.sum(xp.log1p(0.5 / x) - 0.5 * k / (x * (x + 0.5)), axis=-1)
    return near - _STEPS * gap + far
