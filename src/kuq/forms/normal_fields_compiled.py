"""Ensembles of normals with independent coordinates under the Gaussian kernel, as a whole."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import math

import numpy as np

from kuq._numba.compiling import Int, inlined, inputs, kernel, outputs, rows, spread
from kuq.expectations import normal_compiled as products

_over_lanes, _slowly = products._over_lanes, products._slowly
_largest, _sum_over_lanes = products._largest, products._sum_over_lanes
_STATE, _WIDTH, _LARGEST_FACTOR = products._STATE, products._WIDTH, products._LARGEST_FACTOR


def gaussian(
    loc: np.ndarray, scale: np.ndarray, weights: np.ndarray, bandwidth: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray]:
    """H (M, n) and dispersion (n,) of normals (M, n, d) under the Gaussian kernel."""
    members, n, d = loc.shape
    entropies, dispersion = np.empty((members, n)), np.empty(n)
    bandwidths = np.broadcast_to(np.asarray(bandwidth, dtype=np.float64), (n,))
    laws = [np.ascontiguousarray(a) for a in (loc, scale)]

    def task(start: int, stop: int) -> None:
        _gaussian(*laws, weights, bandwidths, entropies, dispersion, start, stop)

    spread(task, n, n * d * members * (members + 1) / 6)
    return entropies, dispersion


@inlined
def _divergence(parts):
    """``expectations.overlap.divergence`` of the first column."""
    log_p, log_q, log_c = parts[0, 0], parts[1, 0], parts[2, 0]
    shift, gap, tilt = parts[3, 0], parts[4, 0], parts[5, 0]
    if gap + abs(tilt) < 1.0:
        half = math.sinh(tilt / 2.0)
        close = math.expm1(gap) * math.cosh(tilt) + 2.0 * half * half - math.expm1(-shift)
        return math.exp(log_c) * close
    return (math.exp(log_p) + math.exp(log_q)) / 2.0 - math.exp(log_c - shift)


@kernel(rows(3), rows(3), inputs(1), inputs(1), outputs(2), outputs(1), Int, Int)
def _gaussian(loc, scale, weights, bandwidth, entropies, dispersion, start, stop):
    members, _, d = loc.shape
    state, parts = np.empty(_STATE), np.empty((6, _WIDTH))
    x, s, squares = np.empty((members, d)), np.empty((members, d)), np.empty(d)
    size = np.empty(members)
    for c in range(start, stop):
        # Laws in units of a power of two near the bandwidth: exact, and no square overflows.
        _, exponent = math.frexp(bandwidth[c])
        inverse = math.ldexp(1.0, -min(max(exponent, -1000), 1000))
        t = 1.0 / (bandwidth[c] * inverse) / (bandwidth[c] * inverse)
        total = 0.0
        for m in range(members):
            for k in range(d):
                x[m, k] = loc[m, c, k] * inverse
                s[m, k] = scale[m, c, k] * inverse
                squares[k] = 4.0 * s[m, k] * s[m, k]
            length = _largest(s[m])
            size[m] = max(length, _largest(x[m]))
            if 4.0 * t * length * length < _LARGEST_FACTOR:
                log_self = -0.5 * _sum_over_lanes(t, squares, state)
            else:
                _slowly(t, x[m], s[m], x[m], s[m], parts, 0)
                log_self = parts[0, 0]
            entropies[m, c] = -0.5 * math.expm1(log_self)
        for i in range(members):
            for j in range(i + 1, members):
                largest = max(size[i], size[j])
                if 4.0 * t * largest * largest < _LARGEST_FACTOR:
                    _over_lanes(t, x[i], s[i], x[j], s[j], state, parts)
                    if parts[4, 0] > 1.5:  # far apart, see products
                        parts[4, 0] = 0.5 * (parts[0, 0] + parts[1, 0]) - parts[2, 0]
                        parts[5, 0] = 0.5 * (parts[1, 0] - parts[0, 0])
                else:
                    _slowly(t, x[i], s[i], x[j], s[j], parts, 0)
                total += 2.0 * weights[i] * weights[j] * _divergence(parts)
        dispersion[c] = total
