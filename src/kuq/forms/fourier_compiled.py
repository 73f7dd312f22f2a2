"""Scalar samples under a kernel given as a cosine series: statistics from characteristic functions.

Σ_k c_k cos(kω(x − y)) summed over all pairs of draws is Σ_k c_k |φ_k|², so the cost is that of the
draws times the length of the series.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import math

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
    centre: np.ndarray,
    omega: np.ndarray,
    coefficients: np.ndarray,
    sample_weights: np.ndarray | None,
    member_weights: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """(within, dispersion) of members (M, n, N) under Σ_k c_k cos(kω r).

    With φ_mk = Σ_j v_j exp(ikω(x_j − centre)) and its mean φ̄_k over members: within (M, n) is
    Σ_k c_k |φ_mk|² and dispersion (n,) is Σ_k c_k Σ_m w_m |φ_mk − φ̄_k|². ``centre`` and ``omega``
    are (n,), ``coefficients`` (K, n), ``sample_weights`` (M, n, N) or None for equal ones. φ has
    absolute errors of 1e−16·K, hence the dispersion of members that nearly agree has relative
    errors of that over the distance of their φ.
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
            *(values, centre, omega, coefficients, weights, member_weights),
            *(within, dispersion, start, stop),
        )

    spread(task, n, members * n * count * length / 8, grain)
    return within, dispersion


@inlined
def _turn(values, centre, omega, cosine, sine):
    largest = 0.0
    for j in range(values.size):
        largest = max(largest, abs(values[j] - centre))
    if largest * abs(omega) < _LARGEST_ANGLE:
        for j in range(values.size):
            cosine[j], sine[j] = cos_sin(omega * (values[j] - centre))
    else:
        for j in range(values.size):
            angle = omega * (values[j] - centre)
            cosine[j], sine[j] = math.cos(angle), math.sin(angle)


@inlined
def _square(work, source, target, size):
    """Rows of complex numbers: target = source²."""
    for j in range(size):
        x, y = work[source + j], work[source + _BLOCK + j]
        work[target + j] = x * x - y * y
        work[target + _BLOCK + j] = 2.0 * x * y


@inlined
def _times(work, first, second, target, size):
    """Rows of complex numbers: target = first · second."""
    for j in range(size):
        a, b = work[first + j], work[first + _BLOCK + j]
        x, y = work[second + j], work[second + _BLOCK + j]
        work[target + j] = a * x - b * y
        work[target + _BLOCK + j] = a * y + b * x


@reduction
def _product_sums(work, small, size):
    """Σ of the four products of the parts of the large power and of a small one."""
    rr, ii, ir, ri = 0.0, 0.0, 0.0, 0.0
    for j in range(size):
        u, v = work[_LARGE + j], work[_LARGE + _BLOCK + j]
        x, y = work[small + j], work[small + _BLOCK + j]
        rr += u * x
        ii += v * y
        ir += v * x
        ri += u * y
    return rr, ii, ir, ri


@reduction
def _large_sums(work, size):
    real, imaginary = 0.0, 0.0
    for j in range(size):
        real += work[_LARGE + j]
        imaginary += work[_LARGE + _BLOCK + j]
    return real, imaginary


@inlined
def _add_neighbours(work, small, size, a, k, phi):
    """The terms k ± a, from the four products of the parts of z^k and z^a."""
    rr, ii, ir, ri = _product_sums(work, small, size)
    phi[0, k + a] += rr - ii
    phi[1, k + a] += ir + ri
    if k > 0:
        phi[0, k - a] += rr + ii
        phi[1, k - a] += ir - ri


@inlined
def _characteristic(values, centre, omega, weights, length, work, phi):
    """φ_k for k < length, or some more, into phi; without weights the draws have 1/N each.

    With z = exp(iωx) every k is 7b ± a with a ≤ 3. The real products of z^a and z^7b, four for
    each pair, give two terms at once, and only few powers are formed.
    """
    count = values.size
    fill(phi[0], 0.0)
    fill(phi[1], 0.0)
    for start in range(0, count, _BLOCK):
        size = min(_BLOCK, count - start)
        _turn(
            values[start : start + size],
            centre,
            omega,
            work[_FIRST : _FIRST + size],
            work[_FIRST + _BLOCK : _FIRST + _BLOCK + size],
        )
        _square(work, _FIRST, _SECOND, size)
        _times(work, _FIRST, _SECOND, _THIRD, size)
        _square(work, _THIRD, _TURN, size)
        _times(work, _TURN, _FIRST, _TURN, size)
        if weights.size > 0:
            for j in range(size):
                work[_LARGE + j] = weights[start + j]
        else:
            fill(work[_LARGE : _LARGE + size], 1.0 / count)
        fill(work[_LARGE + _BLOCK : _LARGE + _BLOCK + size], 0.0)
        for k in range(0, length + 3, 7):
            if k > 0:
                _times(work, _LARGE, _TURN, _LARGE, size)
            real, imaginary = _large_sums(work, size)
            phi[0, k] += real
            phi[1, k] += imaginary
            _add_neighbours(work, _FIRST, size, 1, k, phi)
            _add_neighbours(work, _SECOND, size, 2, k, phi)
            _add_neighbours(work, _THIRD, size, 3, k, phi)


# Rows of complex numbers, real parts before imaginary ones, in one array, so that the compiler
# sees that they do not overlap: z^7b with the weights, z, z², z³ and z^7.
_LARGE, _FIRST, _SECOND, _THIRD, _TURN = (2 * _BLOCK * row for row in range(5))


_SIGNATURE = (
    *(rows(3), inputs(1), inputs(1), inputs(2), rows(3), inputs(1)),
    *(outputs(2), outputs(1), Int, Int),
)


@kernel(*_SIGNATURE)
def _over_draws(
    values, centre, omega, coefficients, weights, member_weights, within, dispersion, start, stop
):
    members, longest = values.shape[0], coefficients.shape[0]
    room = longest + 6  # the last multiple of 7 may lie three above the last term, plus three
    work, phi = np.empty(10 * _BLOCK), np.empty((members, 2, room))
    factors, mean = np.zeros(room), np.empty((2, room))
    equal, nothing = np.empty(0), np.zeros((2, room))
    for c in range(start, stop):
        length = longest
        while length > 1 and coefficients[length - 1, c] == 0.0:
            length -= 1
        for k in range(longest):
            factors[k] = coefficients[k, c]
        fill(mean[0], 0.0)
        fill(mean[1], 0.0)
        for m in range(members):
            row = equal
            if weights.size > 0:
                row = weights[m, c]
            _characteristic(values[m, c], centre[c], omega[c], row, length, work, phi[m])
            within[m, c] = _weighted_squares(factors[:length], phi[m], nothing)
            for k in range(length):
                mean[0, k] += member_weights[m] * phi[m, 0, k]
                mean[1, k] += member_weights[m] * phi[m, 1, k]
        total = 0.0
        for m in range(members):
            total += member_weights[m] * _weighted_squares(factors[:length], phi[m], mean)
        dispersion[c] = total


@reduction
def _weighted_squares(factors, phi, mean):
    total = 0.0
    for k in range(factors.size):
        x, y = phi[0, k] - mean[0, k], phi[1, k] - mean[1, k]
        total += factors[k] * (x * x + y * y)
    return total


@inlined
def _turn_lanes(work, lanes, largest):
    """Angles, which are where cosines will be, to cosines and sines."""
    if largest < _LARGEST_ANGLE:
        for q in range(lanes):
            work[_COSINE + q], work[_SINE + q] = cos_sin(work[_COSINE + q])
    else:
        for q in range(lanes):
            angle = work[_COSINE + q]
            work[_COSINE + q], work[_SINE + q] = math.cos(angle), math.sin(angle)


@inlined
def _next_power_of_lanes(work, phi, lanes):
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
def _add_squares(weights, factor, phi, mean, total):
    for q in range(total.size):
        x, y = phi[_REAL + q] - mean[_REAL + q], phi[_IMAGINARY + q] - mean[_IMAGINARY + q]
        total[q] += factor * weights[q] * (x * x + y * y)


# One array with parts of fixed length for each draw, so that the compiler sees that the parts do
# not overlap.
_REAL, _IMAGINARY, _COSINE, _SINE = 0, _LANES, 2 * _LANES, 3 * _LANES


@kernel(*_SIGNATURE)
def _over_columns(
    values, centre, omega, coefficients, weights, member_weights, within, dispersion, start, stop
):
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
                    angle = omega[begin + q] * (values[m, begin + q, j] - centre[begin + q])
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
