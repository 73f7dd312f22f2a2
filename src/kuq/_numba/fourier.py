"""Scalar samples under a kernel given as a cosine series: statistics from characteristic functions.

Σ_k c_k cos(kω(x − y)) summed over all pairs of draws is Σ_k c_k |φ_k|², so the cost is that of the
draws times the length of the series.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kuq._numba.compiling import (
    Int,
    fill,
    inlined,
    inputs,
    kernel,
    outputs,
    reduction,
    rows,
    spread,
)
from kuq._numba.mathematics import cos_sin

#: Draws worked together: their powers stay in the first cache.
_BLOCK = 256
#: Columns worked together if members have few draws: then loops run over columns.
_LANES = 64
_FEW_DRAWS, _FEW_COLUMNS, _LARGEST_TABLE = 20, 8, 8192
#: Angles up to which ``cos_sin`` holds.
_LARGEST_ANGLE = 1e6


def sums(
    values: np.ndarray,
    omega: np.ndarray,
    coefficients: np.ndarray,
    sample_weights: np.ndarray | None,
    member_weights: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """(within, dispersion) of members (M, n, N), centred per column, under Σ_k c_k cos(kω r).

    With φ_mk = Σ_j v_j exp(ikωx_j) and its mean φ̄_k over members: within (M, n) = Σ_k c_k |φ_mk|²
    and dispersion (n,) = Σ_k c_k Σ_m w_m |φ_mk − φ̄_k|². ``omega`` is (n,), ``coefficients``
    (K, n), ``sample_weights`` (M, n, N) or None for equal ones. φ has absolute errors of 1e−16·K,
    hence the dispersion of members that nearly agree has relative errors of that over the
    distance of their φ.
    """
    values = np.ascontiguousarray(values)
    members, n, count = values.shape
    # An array without entries stands for equal weights.
    weights = np.empty((0, 0, 0)) if sample_weights is None else sample_weights
    weights = np.ascontiguousarray(weights)
    within, dispersion = np.empty((members, n)), np.empty(n)

    length = len(coefficients)
    few = count < _FEW_DRAWS and n >= _FEW_COLUMNS and members * length <= _LARGEST_TABLE
    compute, grain = (_over_columns, _LANES) if few else (_over_draws, 1)

    def task(start: int, stop: int) -> None:
        compute(
            values, omega, coefficients, weights, member_weights, within, dispersion, start, stop
        )

    spread(task, n, members * n * count * length / 8, grain)
    return within, dispersion


@inlined
def _turn(values: Any, omega: Any, cosine: Any, sine: Any) -> None:
    largest = 0.0
    for j in range(values.size):
        largest = max(largest, abs(values[j]))
    if largest * abs(omega) < _LARGEST_ANGLE:
        for j in range(values.size):
            cosine[j], sine[j] = cos_sin(omega * values[j])
    else:
        for j in range(values.size):
            cosine[j], sine[j] = math.cos(omega * values[j]), math.sin(omega * values[j])


@reduction
def _sum(values: Any) -> Any:
    total = 0.0
    for j in range(values.size):
        total += values[j]
    return total


@reduction
def _next_power(real: Any, imaginary: Any, cosine: Any, sine: Any) -> Any:
    """Multiply by exp(iωx), in place, and sum. The errors of K products add up to 1e−16·K."""
    total, total_imaginary = 0.0, 0.0
    for j in range(real.size):
        a = real[j] * cosine[j] - imaginary[j] * sine[j]
        b = real[j] * sine[j] + imaginary[j] * cosine[j]
        real[j] = a
        imaginary[j] = b
        total += a
        total_imaginary += b
    return total, total_imaginary


@inlined
def _characteristic(values: Any, omega: Any, weights: Any, work: Any, phi: Any) -> None:
    """φ_k for k < K into phi (2, K); without weights the draws have weight 1/N each."""
    count, length = values.size, phi.shape[1]
    fill(phi[0], 0.0)
    fill(phi[1], 0.0)
    for start in range(0, count, _BLOCK):
        size = min(_BLOCK, count - start)
        real, imaginary = work[0, :size], work[1, :size]
        cosine, sine = work[2, :size], work[3, :size]
        _turn(values[start : start + size], omega, cosine, sine)
        fill(imaginary, 0.0)
        if weights.size > 0:
            for j in range(size):
                real[j] = weights[start + j]
        else:
            fill(real, 1.0 / count)
        phi[0, 0] += _sum(real)
        for k in range(1, length):
            a, b = _next_power(real, imaginary, cosine, sine)
            phi[0, k] += a
            phi[1, k] += b


_SIGNATURE = (
    *(rows(3), inputs(1), inputs(2), rows(3), inputs(1)),
    *(outputs(2), outputs(1), Int, Int),
)


@kernel(*_SIGNATURE)
def _over_draws(
    values: Any,
    omega: Any,
    coefficients: Any,
    weights: Any,
    member_weights: Any,
    within: Any,
    dispersion: Any,
    start: Any,
    stop: Any,
) -> None:
    members, length = values.shape[0], coefficients.shape[0]
    work, phi = np.empty((4, _BLOCK)), np.empty((members, 2, length))
    equal = np.empty(0)
    for c in range(start, stop):
        for m in range(members):
            row = equal
            if weights.size > 0:
                row = weights[m, c]
            _characteristic(values[m, c], omega[c], row, work, phi[m])
            total = 0.0
            for k in range(length):
                total += coefficients[k, c] * (phi[m, 0, k] ** 2 + phi[m, 1, k] ** 2)
            within[m, c] = total
        total = 0.0
        for k in range(length):
            a, b = 0.0, 0.0
            for m in range(members):
                a += member_weights[m] * phi[m, 0, k]
                b += member_weights[m] * phi[m, 1, k]
            spread_k = 0.0
            for m in range(members):
                x, y = phi[m, 0, k] - a, phi[m, 1, k] - b
                spread_k += member_weights[m] * (x * x + y * y)
            total += coefficients[k, c] * spread_k
        dispersion[c] = total


@inlined
def _turn_lanes(work: Any, lanes: Any, largest: Any) -> None:
    """Angles, which are where cosines will be, to cosines and sines."""
    if largest < _LARGEST_ANGLE:
        for q in range(lanes):
            work[_COSINE + q], work[_SINE + q] = cos_sin(work[_COSINE + q])
    else:
        for q in range(lanes):
            angle = work[_COSINE + q]
            work[_COSINE + q], work[_SINE + q] = math.cos(angle), math.sin(angle)


@inlined
def _next_power_of_lanes(work: Any, phi: Any, lanes: Any) -> None:
    for q in range(lanes):
        real, imaginary = work[_REAL + q], work[_IMAGINARY + q]
        cosine, sine = work[_COSINE + q], work[_SINE + q]
        a = real * cosine - imaginary * sine
        b = real * sine + imaginary * cosine
        work[_REAL + q] = a
        work[_IMAGINARY + q] = b
        phi[_REAL + q] += a
        phi[_IMAGINARY + q] += b


@inlined
def _add_squares(weights: Any, factor: Any, phi: Any, mean: Any, total: Any) -> None:
    for q in range(total.size):
        x, y = phi[_REAL + q] - mean[_REAL + q], phi[_IMAGINARY + q] - mean[_IMAGINARY + q]
        total[q] += factor * weights[q] * (x * x + y * y)


# One array with parts of fixed length for each draw, so that the compiler sees that the parts do
# not overlap.
_REAL, _IMAGINARY, _COSINE, _SINE = 0, _LANES, 2 * _LANES, 3 * _LANES


@kernel(*_SIGNATURE)
def _over_columns(
    values: Any,
    omega: Any,
    coefficients: Any,
    weights: Any,
    member_weights: Any,
    within: Any,
    dispersion: Any,
    start: Any,
    stop: Any,
) -> None:
    members, _, count = values.shape
    length = coefficients.shape[0]
    work, phi = np.empty((count, 4 * _LANES)), np.empty((members, length, 2 * _LANES))
    mean, factors = np.empty(2 * _LANES), np.empty((length, _LANES))
    for begin in range(start, stop, _LANES):
        lanes = min(_LANES, stop - begin)
        for k in range(length):
            for q in range(lanes):
                factors[k, q] = coefficients[k, begin + q]
        for m in range(members):
            for k in range(length):
                fill(phi[m, k], 0.0)
            largest = 0.0
            for q in range(lanes):
                for j in range(count):
                    angle = omega[begin + q] * values[m, begin + q, j]
                    largest = max(largest, abs(angle))
                    weight = 1.0 / count
                    if weights.size > 0:
                        weight = weights[m, begin + q, j]
                    work[j, _COSINE + q] = angle
                    work[j, _REAL + q] = weight
                    work[j, _IMAGINARY + q] = 0.0
                    phi[m, 0, q] += weight
            for j in range(count):
                _turn_lanes(work[j], lanes, largest)
            for k in range(1, length):
                for j in range(count):
                    _next_power_of_lanes(work[j], phi[m, k], lanes)
            own = within[m, begin : begin + lanes]
            fill(own, 0.0)
            fill(mean, 0.0)
            for k in range(length):
                _add_squares(factors[k], 1.0, phi[m, k], mean, own)
        total = dispersion[begin : begin + lanes]
        fill(total, 0.0)
        for k in range(length):
            fill(mean, 0.0)
            for m in range(members):
                for q in range(2 * _LANES):
                    mean[q] += member_weights[m] * phi[m, k, q]
            for m in range(members):
                _add_squares(factors[k], member_weights[m], phi[m, k], mean, total)
