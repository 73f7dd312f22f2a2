"""Population values of a normal-inverse-gamma law: no members, no sampling, no location.

A member is N(μ, σ²) with β/σ² ~ Gamma(α) and μ ~ N(γ, σ²/ν). Two draws of one member differ by
a normal of variance 2σ², draws of two members by one of variance κ(σ² + σ'²), κ = 1 + 1/ν.
Epistemic values are pairwise: E D(P, P') of two independent members.

Scalar energy, squared and log scores are closed forms. All radial kernels need E exp(−t r²) alone:
with z = 2βts, s ~ Gamma(½), and ψ(z) = E exp(−z/G), G ~ Gamma(α), its mean over s is that of

    ψ(2z)  within a member (F₁),    ψ(κz)²  between two members (F₂).

Taking z instead of s as the variable of integration makes ψ a table that does not depend on t,
and taking it relative to α makes e^(−z/G) a table of constants: the parameters enter as weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from kuq._array import Array, constants, digamma, epsilon, from_numpy, namespace
from kuq.expectations.gamma import log_duplication_ratio, log_gamma_ratio, precision_information

#: aleatoric part, pairwise epistemic part, and E exp(−t r²) within a member, at scales t
AtScale: TypeAlias = Callable[[Array], tuple[Array, Array, Array]]


# Closed forms.


def energy(nu: Array, alpha: Array, beta: Array, power: float) -> tuple[Array, Array]:
    """Aleatoric and pairwise epistemic uncertainty under |x − y|^power, 0 < power < 2.

    Both are infinite where alpha ≤ power/2: the members' moments have no mean.
    """
    xp = namespace(nu, alpha, beta)
    b = power / 2
    exists = alpha > b
    z = xp.where(exists, alpha - b, xp.ones_like(alpha))
    moment = 4**b * math.gamma(b + 0.5) / math.sqrt(math.pi)
    within = moment * beta**b * xp.exp(-log_gamma_ratio(z, b))
    # The ratio of the two expected kernels, less one: a difference would lose all at large α, ν.
    excess = xp.expm1(b * xp.log1p(1 / nu) + log_duplication_ratio(z, b))
    return _finite_where(exists, within / 2), _finite_where(exists, within * excess)


def squared(nu: Array, alpha: Array, beta: Array) -> tuple[Array, Array]:
    """Aleatoric and pairwise epistemic uncertainty under (x − y)²; infinite where alpha ≤ 1."""
    xp = namespace(nu, alpha, beta)
    exists = alpha > 1
    variance = beta / xp.where(exists, alpha - 1, xp.ones_like(alpha))
    return _finite_where(exists, variance + 0 * nu), _finite_where(exists, 2 * variance / nu)


def log(nu: Array, alpha: Array, beta: Array) -> tuple[Array, Array, Array]:
    """Aleatoric, pairwise epistemic and BMA epistemic uncertainty under the log score.

    The BMA value is the mutual information of outcome and member, finite for every alpha; the
    pairwise one is infinite where alpha ≤ 1, since the members' variances have no mean.
    """
    xp = namespace(nu, alpha, beta)
    exists = alpha > 1
    excess = xp.where(exists, alpha - 1, xp.ones_like(alpha))
    aleatoric = (math.log(2 * math.pi) + 1 + xp.log(beta) - digamma(alpha)) / 2
    pairwise = (1 + (2 * alpha - 1) / nu) / (2 * excess)
    information = xp.log1p(1 / nu) / 2 + precision_information(alpha)
    return aleatoric + 0 * nu, _finite_where(exists, pairwise), information


def second_moment(nu: Array, alpha: Array, beta: Array) -> Array:
    """E‖X − Y‖² for draws of two independent members, summed over the last axis."""
    xp = namespace(nu, alpha, beta)
    exists = alpha > 1
    coordinate = 2 * beta * (1 + 1 / nu) / xp.where(exists, alpha - 1, xp.ones_like(alpha))
    return xp.sum(_finite_where(exists, coordinate), axis=-1)


def _finite_where(exists: Array, value: Array) -> Array:
    xp = namespace(value)
    return xp.where(exists, value, xp.full_like(value, math.inf))


# Radial kernels.

# Scales ξ = 2βt/α between these bounds are integrated; outside, power laws continue them.
_LOWEST, _HIGHEST = math.exp(-28.5), math.exp(36.0)
# The second edge, which tells the two powers of a continuation apart.
_STRIDE = 3.0


class _Rule(NamedTuple):
    """Constants of the quadrature: S nodes ζ = z/α, and G nodes ω = log(G/α)."""

    step: float  # of log ζ
    zeta: np.ndarray  # (S,)
    gap: np.ndarray  # (G,) spacing of ω
    cost: np.ndarray  # (G,) e^ω − 1 − ω: the density of ω is exp(−α·cost) up to a factor
    integrands: np.ndarray  # (G, 4·S)
    complete: float  # scales below it have the kernel's right end inside the window of ζ
    largest_alpha: float  # the weights are resolved up to here


def at_scale(
    t: Array, nu: Array, alpha: Array, beta: Array, rtol: float = 1e-8
) -> tuple[Array, Array, Array]:
    """Aleatoric and epistemic part under −exp(−t‖x−y‖²), and E exp(−t‖X−X'‖²) within a member.

    Coordinates (the last axis of the parameters) are independent; t has a leading axis of nodes
    before the parameters' other axes. Each value has relative error ``rtol``, also as t → 0.
    """
    return at_scales(nu, alpha, beta, rtol)(t)


def at_scales(nu: Array, alpha: Array, beta: Array, rtol: float = 1e-8) -> AtScale:
    """`at_scale` as a function of t, which shares its tables between calls."""
    rule = _rule(max(rtol, 8 * epsilon(alpha)))
    within, between = _tables(alpha, rule)

    def parts(t: Array) -> tuple[Array, Array, Array]:
        xp = namespace(t, alpha)
        nodes_last = xp.moveaxis(t, 0, -1)[..., None, :]
        scale = nodes_last * (2 * beta / alpha)[..., None]
        log_f1, ratio = _coordinate(scale, nu[..., None], alpha[..., None], within, between, rule)
        log_affinity = xp.moveaxis(xp.sum(log_f1, axis=-2), -1, 0)
        log_ratio = xp.moveaxis(xp.sum(xp.log1p(-ratio), axis=-2), -1, 0)
        affinity = xp.exp(log_affinity)
        return -xp.expm1(log_affinity) / 2, -affinity * xp.expm1(log_ratio), affinity

    return parts


def core_size(rtol: float) -> int:
    """How many numbers one scale and coordinate need in a temporary."""
    return _rule(rtol).zeta.size


def _coordinate(
    scale: Array, nu: Array, alpha: Array, within: Array, between: Array, rule: _Rule
) -> tuple[Array, Array]:
    """log F₁ and (F₁ − F₂)/F₁, shape (..., d, T)."""
    xp = namespace(scale)
    edges = constants([_LOWEST, _LOWEST * math.exp(_STRIDE)], like=scale)
    edges = xp.broadcast_to(edges, (*scale.shape[:-1], 2))
    xi = xp.concat([edges, xp.clip(scale, _LOWEST, _HIGHEST)], axis=-1)
    y = from_numpy(rule.zeta, scale) / xi[..., None]
    # The weight √y e^(−y) times y, which the tables lack: so float32 does not underflow.
    power = y * xp.sqrt(y)
    same = xp.matmul(power * xp.exp(-y), within) * xi[..., None]
    lack, f1, variance = same[..., 0], same[..., 1], same[..., 2]
    # κ stretches the weight instead of ψ: F₂(ξ) at κ is F₂(κξ) at one.
    kappa, stretch = (1 + 1 / nu)[..., None], xp.log1p(1 / nu)[..., None] / 2
    nu = nu[..., None]
    relative = -xp.expm1(stretch - y / (1 + nu)) / xp.sqrt(kappa)
    moved = xp.matmul(power * xp.exp(-y * (nu / (1 + nu))) * relative, between) * xi[..., None]
    # Where the window does not hold the weight's right end, it holds that of ψ.
    near = xi < rule.complete
    lack = xp.where(near, lack, 1 - f1)
    shift = xp.where(kappa[..., 0] * xi < rule.complete, moved[..., 0], -moved[..., 1])

    below = xp.clip(xp.log(xp.clip(scale / _LOWEST, 1e-37, None)), None, 0.0)
    inside = below >= 0
    continued = _continued(lack, alpha, 1, below)
    log_f1 = xp.log1p(-xp.where(inside, lack[..., 2:], continued))
    far = xp.clip(xp.log(scale / _HIGHEST), 0.0, None) / 2
    log_f1 = xp.where(near[..., 2:], log_f1, xp.log(f1[..., 2:]) - far)
    continued = _continued(variance, alpha, 2, below) + _continued(shift, alpha, 1, below)
    gap = xp.where(inside, variance[..., 2:] + shift[..., 2:], continued)
    ratio = gap / xp.where(near, 1 - lack, f1)[..., 2:]
    return log_f1, xp.clip(ratio, None, 1 - epsilon(ratio))


def _continued(values: Array, alpha: Array, power: int, below: Array) -> Array:
    """A sum of the two powers ξ^power and ξ^α through the two edges, at log ξ/lowest ≤ 0.

    Heavy tails decide the left end, and the powers meet at α = power: divided differences.
    """
    xp = namespace(values)
    at_edge, at_next = values[..., :1], values[..., 1:2]
    lower = xp.where(alpha < power, alpha, xp.full_like(alpha, float(power)))
    apart = xp.abs(alpha - power)
    apart = xp.where(apart < alpha, apart, alpha)
    apart = xp.clip(apart, 1e-20, 1.0)
    slope = (at_next * xp.exp(-_STRIDE * lower) - at_edge) / (xp.expm1(apart * _STRIDE) / apart)
    return xp.exp(lower * below) * (at_edge + slope * xp.expm1(apart * below) / apart)


def _tables(alpha: Array, rule: _Rule) -> tuple[Array, Array]:
    """Integrands over ζ, divided by ζ: (..., S, 3) within a member, (..., S, 2) between two."""
    xp = namespace(alpha)
    resolved = xp.clip(alpha, None, rule.largest_alpha)[..., None]
    weight = from_numpy(rule.gap, alpha) * xp.exp(-resolved * from_numpy(rule.cost, alpha))
    # Left of the first node every integrand is constant and the weights are a geometric series.
    first = weight[..., :1] / -xp.expm1(-resolved * float(rule.gap[0]))
    weight = xp.concat([first, weight[..., 1:]], axis=-1)
    weight = weight / xp.sum(weight, axis=-1, keepdims=True)
    means = xp.matmul(weight, from_numpy(rule.integrands, alpha))
    means = xp.reshape(means, (*alpha.shape, 4, rule.zeta.size))
    lack, lack_doubled, centred, spread = (means[..., i, :] for i in range(4))
    variance = (spread - centred * centred) * (resolved / alpha[..., None])
    psi = 1 - lack
    zeta = from_numpy(rule.zeta, alpha)
    heavy = xp.where(resolved < 1, resolved, xp.ones_like(resolved))
    heavier = xp.where(resolved < 2, resolved, xp.full_like(resolved, 2.0))
    flat = xp.zeros_like(resolved)

    def column(values: Array, power: Array) -> Array:
        # The nodes left of the window, on which the integrand is a power of ζ.
        first = values[..., :1] / -xp.expm1(-rule.step * (power + 0.5))
        return xp.concat([first, values[..., 1:]], axis=-1) * (rule.step / math.sqrt(math.pi))

    within = [
        column(lack_doubled / zeta, heavy),
        column((1 - lack_doubled) / zeta, flat),
        column(variance, heavier),
    ]
    between = [
        column(lack * (1 + psi) / zeta, heavy),
        column(psi * psi / zeta, flat),
    ]
    return xp.stack(within, axis=-1), xp.stack(between, axis=-1)


@lru_cache(maxsize=16)
def _rule(rtol: float) -> _Rule:
    digits = math.log(1 / rtol)
    # The trapezoid error of ∫ z^(5/2) e^(−z) dlog z, the sharpest integrand, is 2|Γ(5/2 + iτ)|.
    tau = 10.0
    for _ in range(30):
        tau = (digits + 2 * math.log(tau) + 1.3) * 2 / math.pi
    step = 2 * math.pi / tau
    # ψ(2z) ~ exp(−√(8z)) decides the right end; in units of a small α it lies far out.
    end = math.log((digits + 2) ** 2 / 8 / 0.15)
    start = math.log(_LOWEST) - (digits / 2 + 3)
    size = math.ceil((end - start) / step) + 1
    zeta = np.exp(end + step * np.arange(1 - size, 1))
    omega, gap = _log_gamma_nodes(step, rtol, math.log(zeta[0]) - 3.7, math.log(10 * (digits + 3)))
    series = omega**2 * np.polyval([1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2], omega)
    cost = np.where(np.abs(omega) < 1e-2, series, np.expm1(omega) - omega)
    inverse = np.exp(-omega)[:, None] * zeta
    difference = zeta * np.expm1(-omega)[:, None]
    centred = np.where(
        difference > 0,
        np.exp(-zeta) * np.expm1(-np.abs(difference)),
        -np.exp(-inverse) * np.expm1(-np.abs(difference)),
    ) / np.sqrt(zeta)
    integrands = [-np.expm1(-inverse), -np.expm1(-2 * inverse), centred, centred**2]
    return _Rule(
        step, zeta, gap, cost, np.concatenate(integrands, axis=1), zeta[-1] / (digits + 5), 1 / rtol
    )


def _log_gamma_nodes(
    step: float, rtol: float, start: float, end: float
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes for log(G/α) at every α at once, and their spacing.

    G has a relative width of α^(−½): the spacing shrinks in proportion to |ω| around zero, down
    to the width at α = 1/rtol.
    """
    ratio, centre, outer = 0.2, 3 * math.sqrt(rtol), 2.0

    def index(v: np.ndarray) -> np.ndarray:
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
