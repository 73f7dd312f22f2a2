"""Ensembles of normals with independent coordinates under the Gaussian kernel, as a whole.

The twin of ``expectations.normal`` and ``expectations.overlap``, one pair of members after the
other. All numbers are in bandwidths.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import math

import numpy as np

from kuq._numba.compiling import Int, inlined, inputs, kernel, outputs, reduction, rows, spread
from kuq._numba.mathematics import log1p

#: (a − b)/(a + b) of one coordinate is cut here. The gap of that coordinate alone is then above
#: one, so that the divergence comes from the logarithms, whatever the others add to the tilt.
_LARGEST_RATIO = 0.9915
#: Numbers in bandwidths are cut here: squares stay finite.
_FAR = 1e150
#: Relative errors of a logarithm, and of a divergence.
_ROUNDING, _VISIBLE = 1e-15, 1e-12


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

    # A coordinate costs about half of a pair of scalar normals.
    spread(task, n, n * d * members * (members + 1) / 4)
    return entropies, dispersion


@inlined
def _cut(x, bound):
    """x between ±bound; NaN stays."""
    x = bound if x > bound else x
    return -bound if x < -bound else x


@inlined
def _log1p(x):
    """With the NaN that logarithms hide."""
    return log1p(x) + 0.0 * x


@reduction
def _log_self(scale, inverse):
    """log φ(P, P), relatively accurate."""
    total = 0.0
    for k in range(scale.size):
        u = _cut(scale[k] * inverse, _FAR)
        total += _log1p(4.0 * u * u)
    return -0.5 * total


@reduction
def _cross(loc, scale, loc2, scale2, inverse):
    """``log_c`` and ``shift`` of ``expectations.overlap.Overlap``."""
    total, shift = 0.0, 0.0
    for k in range(loc.size):
        u, v = _cut(scale[k] * inverse, _FAR), _cut(scale2[k] * inverse, _FAR)
        delta = _cut((loc[k] - loc2[k]) * inverse, _FAR)
        mean = 2.0 * (u * u + v * v)
        total += _log1p(mean)
        shift += delta * (delta / (1.0 + mean))
    return -0.5 * total, shift


@reduction
def _carefully(scale, scale2, inverse):
    """``gap`` and ``tilt``, from h = (a − b)/(a + b) of every coordinate: nothing cancels."""
    gap, tilt = 0.0, 0.0
    for k in range(scale.size):
        u, v = _cut(scale[k] * inverse, _FAR), _cut(scale2[k] * inverse, _FAR)
        # The difference of the scales is formed before anything scales it.
        change = _cut((scale[k] - scale2[k]) * inverse, _FAR)
        h = _cut(2.0 * change / (1.0 + 2.0 * (u * u + v * v)) * (u + v), _LARGEST_RATIO)
        gap -= 0.25 * log1p(-h * h)
        tilt += 0.25 * log1p(2.0 * h / (1.0 - h))
    return gap, tilt


@inlined
def _divergence(log_p, log_q, log_c, shift, gap, tilt):
    """``expectations.overlap.divergence``."""
    if gap + abs(tilt) < 1.0:
        half = math.sinh(tilt / 2.0)
        close = math.expm1(gap) * math.cosh(tilt) + 2.0 * half * half - math.expm1(-shift)
        return math.exp(log_c) * close
    return (math.exp(log_p) + math.exp(log_q)) / 2.0 - math.exp(log_c - shift)


@kernel(rows(3), rows(3), inputs(1), inputs(1), outputs(2), outputs(1), Int, Int)
def _gaussian(loc, scale, weights, bandwidth, entropies, dispersion, start, stop):
    members = loc.shape[0]
    log_self = np.empty(members)
    for c in range(start, stop):
        inverse = 1.0 / bandwidth[c]
        total = 0.0
        for m in range(members):
            log_self[m] = _log_self(scale[m, c], inverse)
            entropies[m, c] = -0.5 * math.expm1(log_self[m])
        for i in range(members):
            for j in range(i + 1, members):
                log_p, log_q = log_self[i], log_self[j]
                log_c, shift = _cross(loc[i, c], scale[i, c], loc[j, c], scale[j, c], inverse)
                gap, tilt = 0.5 * (log_p + log_q) - log_c, 0.5 * (log_q - log_p)
                visible = min(gap + 0.5 * tilt * tilt + shift, 1.0)
                if -_ROUNDING * (log_p + log_q + log_c) > _VISIBLE * visible:
                    gap, tilt = _carefully(scale[i, c], scale[j, c], inverse)
                apart = _divergence(log_p, log_q, log_c, shift, gap, tilt)
                total += 2.0 * weights[i] * weights[j] * apart
        dispersion[c] = total
