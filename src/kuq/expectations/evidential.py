"""Population values of a normal-inverse-gamma law: no members, no sampling, no location.

A member is N(μ, σ²) with β/σ² ~ Gamma(α) and μ ~ N(γ, σ²/ν). Two draws of one member differ by
a normal of variance 2σ², draws of two members by one of variance κ(σ² + σ'²), κ = 1 + 1/ν.
Epistemic values are pairwise: E D(P, P') of two independent members.

Energy in one dimension, squared and log scores are closed forms. Radial kernels need only
E exp(−t r²). With z = 2βts, s ~ Gamma(½) and ψ(z) = E exp(−z/G), G ~ Gamma(α), it is the mean of
ψ(2z) within a member (F₁) and of ψ(κz)² between two (F₂). Integrating over z instead of s makes
ψ a table that does not depend on t; measuring z and G in units of α makes exp(−z/G) a table of
constants, into which α enters as weights. So one matrix product serves every member and scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from kuq._array import (
    Array,
    broadcast,
    constants,
    detach,
    epsilon,
    from_numpy,
    is_traced,
    moved_axis,
    namespace,
)
from kuq._special import digamma, exp_remainder
from kuq.expectations.gamma import log_duplication_ratio, log_gamma_ratio, precision_information


class Parts(NamedTuple):
    """At scales t: both parts of the uncertainty, and how far they may be from their limits."""

    aleatoric: Array
    epistemic: Array
    rest: Array


PartsAt: TypeAlias = Callable[[Array], Parts]


def energy(nu: Array, alpha: Array, beta: Array, power: float) -> tuple[Array, Array]:
    """Aleatoric and pairwise epistemic uncertainty under |x − y|^power, 0 < power < 2.

    Both are infinite where alpha ≤ power/2: the members' moments have no mean.
    """
    nu, alpha, beta = broadcast(nu=nu, alpha=alpha, beta=beta)
    xp = namespace(nu)
    b = power / 2
    exists = alpha > b
    z = xp.where(exists, alpha - b, 1.0)
    moment = 4**b * math.gamma(b + 0.5) / math.sqrt(math.pi)
    # Zero is a coordinate without weight, whose power has no gradient there.
    positive = beta > 0
    size = xp.where(
        positive, xp.where(positive, beta, xp.ones_like(beta)) ** b, xp.zeros_like(beta)
    )
    within = moment * size * xp.exp(-log_gamma_ratio(z, b))
    # The ratio of the two expected kernels, less one: a difference would lose all at large α, ν.
    excess = xp.expm1(b * xp.log1p(1 / nu) + log_duplication_ratio(z, b))
    return xp.where(exists, within / 2, math.inf), xp.where(exists, within * excess, math.inf)


def squared(nu: Array, alpha: Array, beta: Array) -> tuple[Array, Array]:
    """Aleatoric and pairwise epistemic uncertainty under (x − y)²; infinite where alpha ≤ 1."""
    nu, alpha, beta = broadcast(nu=nu, alpha=alpha, beta=beta)
    xp = namespace(nu)
    variance = beta / _excess(alpha)
    return xp.where(alpha > 1, variance, math.inf), xp.where(alpha > 1, 2 * variance / nu, math.inf)


def log(nu: Array, alpha: Array, beta: Array) -> tuple[Array, Array, Array]:
    """Aleatoric, pairwise epistemic and BMA epistemic uncertainty under the log score.

    The BMA value is the mutual information of outcome and member, finite for every alpha; the
    pairwise one is infinite where alpha ≤ 1, since the members' variances have no mean.
    """
    nu, alpha, beta = broadcast(nu=nu, alpha=alpha, beta=beta)
    xp = namespace(nu)
    aleatoric = (math.log(2 * math.pi) + 1 + xp.log(beta) - digamma(alpha)) / 2
    pairwise = (1 + (2 * alpha - 1) / nu) / (2 * _excess(alpha))
    information = xp.log1p(1 / nu) / 2 + precision_information(alpha)
    return aleatoric, xp.where(alpha > 1, pairwise, math.inf), information


def _excess(alpha: Array) -> Array:
    """α − 1, and a harmless one where the result is infinite."""
    return namespace(alpha).where(alpha > 1, alpha - 1, 1.0)


# Radial kernels. The scale is ξ = 2βt/α; outside these bounds power laws continue the integrals.
_LOWEST, _HIGHEST = math.exp(-28.5), math.exp(30.0)
# From the lowest scale to the next one, which tells the two powers of a continuation apart.
_STRIDE = 3.0
# Tables are made for alpha from here on; for a smaller one they are longer.
_USUAL_ALPHA, _TRACED_ALPHA = 0.15, 0.01


class _Rule(NamedTuple):
    """Constants of the quadrature: S nodes ζ = z/α, and nodes ω = log(G/α)."""

    step: float  # of log ζ
    zeta: np.ndarray
    spacing: np.ndarray  # of ω
    cost: np.ndarray  # e^ω − 1 − ω: the density of ω is exp(−α·cost), up to a factor
    integrands: np.ndarray  # (nodes ω, 5·S)
    complete: float  # at scales below it the window of ζ holds the weight's right end
    largest_alpha: float  # nodes ω resolve the density up to here


class _Integrals(NamedTuple):
    lack: Array  # 1 − F₁
    f1: Array
    variance: Array  # what F₁ − F₂ has from the spread of σ
    shift: Array  # what it has from the spread of μ
    square: Array  # of which this is subtracted in it, with ψ² = 1 − 2(1 − ψ) + (1 − ψ)²


def at_scale(t: Array, nu: Array, alpha: Array, beta: Array, rtol: float = 1e-8) -> Parts:
    """Both parts under −exp(−t‖x−y‖²), and as their rest E exp(−t‖X−X'‖²) within a member.

    Coordinates (the last axis of the parameters) are independent; t has a leading axis of nodes
    before the parameters' other axes. Each value has relative error ``rtol``, also as t → 0.
    """
    return at_scales(nu, alpha, beta, rtol)(t)


def at_scales(
    nu: Array, alpha: Array, beta: Array, rtol: float = 1e-8, apart: Array | None = None
) -> PartsAt:
    """`at_scale` as a function of t, whose calls share the tables.

    Of coordinates that are ``apart`` (one, else zero; the shape of the parameters) both parts
    count less what each such coordinate has by itself.
    """
    nu, alpha, beta = broadcast(nu=nu, alpha=alpha, beta=beta)
    rule = _rule(max(rtol, 8 * epsilon(alpha)), _least(alpha))
    tables = _tables(alpha, rule)

    def parts(t: Array) -> Parts:
        xp = namespace(t, alpha)
        scale = moved_axis(t, 0, -1)[..., None, :] * (2 * beta / alpha)[..., None]
        log_f1, ratio = _coordinate(scale, nu[..., None], alpha[..., None], tables, rule)
        log_f1, ratio = moved_axis(log_f1, -1, 0), moved_axis(ratio, -1, 0)
        whole = of_coordinates(log_f1, ratio)
        if apart is None:
            return whole
        f1 = xp.exp(log_f1)
        alone = (xp.expm1(log_f1) / 2, -f1 * ratio, f1)
        return Parts(*(v + xp.sum(apart * a, axis=-1) for v, a in zip(whole, alone, strict=True)))

    return parts


def of_coordinates(log_f1: Array, ratio: Array) -> Parts:
    """Both parts of independent coordinates (..., d), from log F₁ and (F₁ − F₂)/F₁ of each."""
    xp = namespace(log_f1)
    log_affinity = xp.sum(log_f1, axis=-1)
    log_remainder = xp.sum(xp.log1p(-ratio), axis=-1)
    affinity = xp.exp(log_affinity)
    return Parts(-xp.expm1(log_affinity) / 2, -affinity * xp.expm1(log_remainder), affinity)


def core_size(rtol: float) -> int:
    """How many numbers one scale of one coordinate takes in a temporary."""
    return int(_rule(rtol, _USUAL_ALPHA).zeta.size)


def _least(alpha: Array) -> float:
    """A lower bound on alpha, of few different values."""
    if is_traced(alpha):
        return _TRACED_ALPHA
    if math.prod(alpha.shape) == 0:
        return _USUAL_ALPHA
    least = float(namespace(alpha).min(detach(alpha)))
    return _USUAL_ALPHA if least >= _USUAL_ALPHA else 10.0 ** math.floor(math.log10(least))


def _coordinate(
    scale: Array, nu: Array, alpha: Array, tables: tuple[Array, Array], rule: _Rule
) -> tuple[Array, Array]:
    """log F₁ and (F₁ − F₂)/F₁, shape (..., d, T)."""
    xp = namespace(scale)
    edges = constants([_LOWEST, _LOWEST * math.exp(_STRIDE)], like=scale)
    edges = xp.broadcast_to(edges, (*scale.shape[:-1], 2))
    xi = xp.concat([edges, _clip(scale, _LOWEST, _HIGHEST)], axis=-1)
    integrals = _integrals(xi, nu, tables, rule)
    least = float(xp.finfo(scale.dtype).smallest_normal)
    # Exactly zero inside the bounds, where a compiled quotient of equals need not be one.
    below = xp.log(_clip(_clip(scale, 0.0, _LOWEST) / _LOWEST, least, 1.0))
    below = xp.where(scale < _LOWEST, below, 0.0)
    above = xp.log(_clip(scale, _HIGHEST, math.inf) / _HIGHEST)
    linear = _clip(alpha, 0.0, 1.0)
    # Powers of small scales: 1 − ψ has ξ and ξ^α; its variance ξ^α, ξ^(2α) and ξ².
    lack = _continue(integrals.lack, linear, xp.abs(alpha - 1), below)
    near = xi[..., 2:] < rule.complete
    f1 = xp.where(near, 1 - lack, integrals.f1[..., 2:])
    log_f1 = xp.where(near, xp.log1p(xp.where(near, -lack, 0.0)), xp.log(f1) - above / 2)
    apart = xp.abs(alpha - 2)
    apart = xp.where(apart < alpha, apart, alpha)
    variance = _continue(integrals.variance, _clip(alpha, 0.0, 2.0), apart, below)
    square = _continue(integrals.square, 2 * linear, xp.abs(alpha - 1), below)
    sum_of_both = _continue(integrals.shift + integrals.square, linear, xp.abs(alpha - 1), below)
    gap = variance + xp.where(below < 0, sum_of_both - square, integrals.shift[..., 2:])
    return log_f1, _clip(gap / f1, 0.0, 1 - epsilon(f1))


def _integrals(xi: Array, nu: Array, tables: tuple[Array, Array], rule: _Rule) -> _Integrals:
    xp = namespace(xi)
    y = from_numpy(rule.zeta, xi) / xi[..., None]
    # The weight of log z is √y e^(−y). One more power of y, taken out of the tables, keeps
    # float32 from underflow.
    power = y * xp.sqrt(y)
    within = xp.matmul(power * xp.exp(-y), tables[0]) * xi[..., None]
    # κ may stretch the weight instead of ψ; the change of the weight has a stable form.
    kappa = 1 + 1 / nu
    change = xp.expm1(xp.log1p(1 / nu)[..., None] / 2 - y / (1 + nu)[..., None])
    change = power * xp.exp(-y / kappa[..., None]) * change
    between = xp.matmul(change, tables[1]) * (xi / -xp.sqrt(kappa))[..., None]
    # Where the window of ζ does not hold the weight's right end, it holds that of ψ.
    lack = xp.where(xi < rule.complete, within[..., 0], 1 - within[..., 1])
    shift = xp.where(kappa * xi < rule.complete, between[..., 0], -between[..., 1])
    return _Integrals(lack, within[..., 1], within[..., 2], shift, between[..., 2])


def _clip(x: Array, low: float, high: float) -> Array:
    xp = namespace(x)
    return xp.where(x < low, low, xp.where(x > high, high, x))


def _continue(values: Array, lower: Array, apart: Array, below: Array) -> Array:
    """Values at the scales, continued by two powers of ξ through the two edges before them.

    ``below`` is log(ξ/lowest), at most 0. The powers are ``lower`` and one that is larger by
    ``apart``, at most by one; they may meet, so the sum is written with a divided difference.
    """
    xp = namespace(values)
    edge, following = values[..., :1], values[..., 1:2]
    apart = _clip(apart, 1e-20, 1.0)
    slope = (following * xp.exp(-_STRIDE * lower) - edge) * apart / xp.expm1(_STRIDE * apart)
    continued = xp.exp(lower * below) * (edge + slope * xp.expm1(apart * below) / apart)
    return xp.where(below < 0, continued, values[..., 2:])


def _tables(alpha: Array, rule: _Rule) -> tuple[Array, Array]:
    """Integrands divided by ζ: (..., S, 3) within a member and between two."""
    xp = namespace(alpha)
    alpha = alpha[..., None]
    resolved = _clip(alpha, 0.0, rule.largest_alpha)
    weight = from_numpy(rule.spacing, alpha) * xp.exp(-resolved * from_numpy(rule.cost, alpha))
    # Left of the first node the integrands are constant and the weights a geometric series.
    first = weight[..., :1] / -xp.expm1(-resolved * float(rule.spacing[0]))
    weight = xp.concat([first, weight[..., 1:]], axis=-1)
    weight = xp.reshape(weight / xp.sum(weight, axis=-1, keepdims=True), (-1, rule.cost.size))
    means = xp.matmul(weight, from_numpy(rule.integrands, alpha))
    means = xp.reshape(means, (*alpha.shape[:-1], 5, rule.zeta.size))
    lack, lack_doubled, psi_doubled, centred, spread = (means[..., i, :] for i in range(5))
    variance = (spread - centred * centred) * (resolved / alpha)
    psi = 1 - lack
    zeta = from_numpy(rule.zeta, alpha)
    within = [lack_doubled / zeta, psi_doubled / zeta, variance]
    between = [lack * (1 + psi) / zeta, psi * psi / zeta, lack * lack / zeta]
    flat, linear, quadratic = (_clip(alpha, 0.0, power) for power in (0.0, 1.0, 2.0))
    return (
        _columns(within, [linear, flat, quadratic], rule.step),
        _columns(between, [linear, flat, 2 * linear], rule.step),
    )


def _columns(integrands: list[Array], powers: list[Array], step: float) -> Array:
    xp = namespace(integrands[0])
    rows = xp.stack(integrands, axis=-2) * (step / math.sqrt(math.pi))
    # The nodes left of the window, where an integrand is a power of ζ: a geometric series.
    first = rows[..., :1] / -xp.expm1(-step * (xp.stack(powers, axis=-2) + 0.5))
    return xp.matrix_transpose(xp.concat([first, rows[..., 1:]], axis=-1))


@lru_cache(maxsize=16)
def _rule(rtol: float, least_alpha: float) -> _Rule:
    digits = math.log(1 / rtol)
    # The sharpest integrand is z^(5/2) e^(−z), with a trapezoid error of 2|Γ(5/2 + iτ)|.
    tau = 10.0
    for _ in range(30):
        tau = (digits + 2 * math.log(tau) + 2.5) * 2 / math.pi
    step = 2 * math.pi / tau
    # ψ(2z) ~ exp(−√(8z)) decides the right end; in units of a small α it lies far out.
    end = math.log((digits + 2) ** 2 / 8 / least_alpha)
    start = math.log(_LOWEST) - (digits / 2 + 3)
    size = math.ceil((end - start) / step) + 1
    zeta = np.exp(end + step * np.arange(1 - size, 1))
    # G itself ends at some multiple of the digits, however small its shape is.
    last = math.log(1.5 * (digits + 3) / least_alpha)
    omega, spacing = _log_gamma_nodes(step, rtol, start - 4.0, last)
    cost = exp_remainder(omega)
    exponent = np.exp(-omega)[:, None] * zeta
    # exp(−z/G) about its value at G = α, so that the variance survives a large α; divided by √ζ.
    nearer = np.exp(-np.minimum(exponent, zeta)) / np.sqrt(zeta)
    farther = -np.expm1(-np.abs(np.expm1(-omega))[:, None] * zeta)
    centred = np.sign(omega)[:, None] * nearer * farther
    lacks = [-np.expm1(-exponent), -np.expm1(-2 * exponent)]
    table = np.concatenate([*lacks, np.exp(-2 * exponent), centred, centred**2], axis=1)
    return _Rule(step, zeta, spacing, cost, table, float(zeta[-1]) / (digits + 5), 10 / rtol)


def _log_gamma_nodes(
    step: float, rtol: float, start: float, end: float
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes for log(G/α), the same for every α, and their spacing.

    G has the relative width α^(−½), so the spacing shrinks in proportion to |ω| around zero,
    down to the width at the largest α; far out it is ``step``.
    """
    ratio, centre, outer = 4.9 / (math.log(1 / rtol) + 7), math.sqrt(rtol), 2.0

    def index(v: np.ndarray) -> np.ndarray:  # v = arsinh(ω/centre) keeps small ω exact
        omega = centre * np.sinh(v)
        return np.asarray(omega / step + (v - np.arcsinh(omega / outer)) / ratio)

    limits = np.arcsinh(np.asarray([start, end]) / centre)
    first, last = index(limits)
    wanted = np.arange(math.floor(first), math.ceil(last) + 1.0)
    low, high = np.full_like(wanted, limits[0] - 1), np.full_like(wanted, limits[1] + 1)
    for _ in range(60):
        middle = (low + high) / 2
        left = index(middle) < wanted
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    omega = centre * np.sinh((low + high) / 2)
    density = 1 / step + (1 / np.hypot(omega, centre) - 1 / np.hypot(omega, outer)) / ratio
    return omega, 1 / density
