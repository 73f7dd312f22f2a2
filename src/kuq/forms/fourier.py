"""Scalar draws under the Gaussian kernel: a Fourier series turns pairs into single sums.

For |r| ≤ R and the period L = R + qγ, Poisson summation gives

    Σ_j exp(−(r + jL)²/γ²) = Σ_k c_k cos(kωr),  ω = 2π/L,
    c_0 = √π γ/L,  c_k = 2√π γ/L · exp(−(kωγ/2)²).

Of the left side only j = 0 is wanted: the nearest image is at least qγ away, so the others add
less than 1.01 ε at ε = exp(−q²). The terms beyond K ≥ qL/(πγ) sum to less than erfc(q) < ε. The
kernel is thus known to 2ε = 2e-18 before a value is seen, and with φ_m(k) = Σ_j v_j exp(ikωx_j)

    E exp(−(X−X')²/γ²) = Σ_k c_k |φ_m(k)|²  and  dispersion = Σ_k c_k Σ_m w_m |φ_m(k) − φ̄(k)|²

cost one pass over the draws instead of all pairs.
"""

from __future__ import annotations

import math
from typing import final

import numpy as np

from kuq._array import Array, constants, detach, from_numpy, namespace
from kuq._compiled import twin
from kuq.distributions.laws import Stack, draws_of
from kuq.forms.form import Form, Measure, Problem, Statistics
from kuq.kernels.gaussian import Gaussian
from kuq.tiles import CACHE_ELEMENTS, pieces

#: q² = −log ε with ε = 1e-18: relative 1e-12 of the smallest dispersion that is kept.
_REACH = math.sqrt(-math.log(1e-18))
#: H = ½(1 − within) is computed to 2e-16, and kept where that is 1e-12 of it or less.
_SMALLEST_ENTROPY = 1e-3
#: φ is computed to 1e-15, so that φ_m − φ̄ is good to 1e-12 above the root of this dispersion.
_SMALLEST_DISPERSION = 1e-6
#: Draws of all members from which on the series can be shorter than sums over pairs.
_FEWEST_DRAWS = 64
#: A term costs a draw about as much as this many partners cost it by plain sums.
_PARTNERS_PER_TERM = 4


@final
class Fourier(Form):
    def applies(self, problem: Problem) -> bool:
        kernel = isinstance(problem.score, Gaussian)
        readable = problem.readable and problem.double
        return kernel and readable and problem.scalar_draws and problem.atoms >= _FEWEST_DRAWS

    def scratch(self, problem: Problem) -> int:
        return -(-problem.atoms // (8 if problem.compiled else 4))

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        """Lost are entries whose series is too long, or whose results are too small against 1."""
        xp = namespace(stack.reference)
        values, weights = _columns(stack)
        high, low = (detach(bound(values, axis=(0, 2))) for bound in (xp.max, xp.min))
        width = measure.width(0) + xp.zeros_like(high)
        period = high - low + _REACH * detach(width)
        terms = _REACH / math.pi * period / detach(width) + 2
        counts = [group.count for group in stack.groups for _ in range(group.atoms.lead[0])]
        long = _PARTNERS_PER_TERM * terms > sum(counts)
        count = int(xp.max(xp.where(long | xp.isnan(terms), xp.ones_like(terms), terms)))
        if count == 1:
            nothing = xp.zeros_like(values[..., 0])
            return Statistics(nothing, nothing[0, :], ~(terms < 0))
        omega = 2 * math.pi / period
        within, dispersion = sums(
            values,
            (high + low) / 2,
            omega,
            _coefficients(omega, width, terms, count),
            weights,
            stack.member_weights(),
            measure.budget,
            measure.compiled,
        )
        entropies = (1 - within) / 2
        small = entropies < _SMALLEST_ENTROPY
        if 1 in counts:  # point masses, whose entropy is exactly zero
            single = constants([float(count) for count in counts], values)[:, None] == 1
            entropies, small = xp.where(single, xp.zeros_like(within), entropies), small & ~single
        lost = long | xp.any(small, axis=0)
        if stack.member_count > 1:
            lost = lost | (dispersion < _SMALLEST_DISPERSION)
        return Statistics(entropies, dispersion, lost)


def _columns(stack: Stack) -> tuple[Array, Array | None]:
    """Draws (M, n, N) and their weights, None if equal; short members repeat a draw of weight 0."""
    xp = namespace(stack.reference)
    values = [draws_of(group)[..., 0] for group in stack.groups]
    counts = {group.count for group in stack.groups}
    if len(counts) == 1 and all(group.weights is None for group in stack.groups):
        return (values[0] if len(values) == 1 else xp.concat(values, axis=0)), None

    def padded(x: Array, fill: Array) -> Array:
        missing = (*x.shape[:-1], max(counts) - x.shape[-1])
        return xp.concat([x, xp.broadcast_to(fill, missing)], axis=-1)

    weights = [group.full_weights() for group in stack.groups]
    return (
        xp.concat([padded(x, x[..., :1]) for x in values], axis=0),
        xp.concat([padded(w, xp.zeros_like(w[..., :1])) for w in weights], axis=0),
    )


def _coefficients(omega: Array, width: Array, terms: Array, count: int) -> Array:
    """c_k, (K, n), zero beyond the terms that an entry needs."""
    xp = namespace(omega)
    k = from_numpy(np.arange(count), omega)[:, None]
    half = omega * width / 2
    share = xp.where(k > 0, xp.full_like(k, 2.0), xp.ones_like(k))
    c = share * (half / math.sqrt(math.pi)) * xp.exp(-((k * half) ** 2))
    return xp.where(k < terms, c, xp.zeros_like(c))


def sums(
    values: Array,
    centre: Array,
    omega: Array,
    coefficients: Array,
    sample_weights: Array | None,
    member_weights: Array,
    budget: int = CACHE_ELEMENTS,
    compiled: bool = False,
) -> tuple[Array, Array]:
    """Σ_k c_k |φ_m(k)|², (M, n), and Σ_k c_k Σ_m w_m |φ_m(k) − φ̄(k)|², (n,).

    Draws (M, n, N), a centre of each column (n,), ω (n,), c (K, n) ≥ 0, weights of draws (M, n, N)
    or None for equal ones, and of members (M,).
    """
    if compiled:
        statistics: tuple[Array, Array] = twin("forms.fourier").sums(
            values, centre, omega, coefficients, sample_weights, member_weights
        )
        return statistics
    xp = namespace(values)
    m, n, draws = values.shape
    # Memory that is used again and again stays in the cache, and costs no page faults.
    transforms = [
        _transforms(
            (values[chunk, ...] - centre[:, None]) * omega[:, None],
            None if sample_weights is None else sample_weights[chunk, ...],
            coefficients.shape[0],
            budget,
        )
        for chunk in pieces(m, n * draws, budget // 2, values)
    ]
    phi = xp.concat(transforms, axis=0)
    c = xp.matrix_transpose(coefficients)
    w = member_weights[:, None, None]
    gap = phi - xp.sum(w * phi, axis=0)
    within = xp.sum(c * _squares(phi), axis=-1)
    return within, xp.sum(c * xp.sum(w * _squares(gap), axis=0), axis=-1)


def _squares(z: Array) -> Array:
    """|z|²."""
    xp = namespace(z)
    real, imaginary = xp.real(z), xp.imag(z)
    return real * real + imaginary * imaginary


def _transforms(angles: Array, weights: Array | None, count: int, budget: int) -> Array:
    """Σ_j v_j z_j^k at z = exp(i·angle) for k < count, (M, n, K).

    Every k is bJ + a with a < J: √K powers z^a and √K powers z^bJ are formed, and one matrix
    product gives all terms in their order.
    """
    xp = namespace(angles)
    step = math.isqrt(count - 1) + 1
    m, n, draws = angles.shape
    product: Array | float = 0.0
    for chunk in pieces(draws, m * n, budget // 2, angles):
        z = xp.cos(angles[..., chunk]) + 1j * xp.sin(angles[..., chunk])
        below = _powers(z, step + 1)
        above = _powers(below[-1], -(-count // step))
        rows = xp.stack(above, axis=-2)
        if weights is not None:
            rows = rows * weights[..., None, chunk]
        product = product + rows @ xp.stack(below[:-1], axis=-1)
    share = 1.0 / draws if weights is None else 1.0
    return share * xp.reshape(product, (m, n, -1))[..., :count]


def _powers(z: Array, count: int) -> list[Array]:
    """1, z, z², …"""
    powers = [namespace(z).ones_like(z)]
    for _ in range(1, count):
        powers.append(powers[-1] * z)
    return powers
