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

    def task(start: int, stop: int) -> None:
        _sums(
            *(values, centre, omega, coefficients, weights, member_weights),
            *(within, dispersion, start, stop),
        )

    spread(task, n, members * n * count * len(coefficients) / 8)
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


@kernel(
    *(rows(3), inputs(1), inputs(1), inputs(2), rows(3), inputs(1)),
    *(outputs(2), outputs(1), Int, Int),
)
def _sums(
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
