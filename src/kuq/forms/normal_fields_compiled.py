"""Ensembles of normals with independent coordinates under the Gaussian kernel, as a whole.

``expectations.normal`` sums a logarithm per coordinate. Here factors are multiplied, and one
logarithm is taken of many. Products of 16 factors do not overflow, and laws with a factor above
1e18 go the slow way. A factor 1 + x loses the digits of a small x, so where x itself matters the
product is carried as e with 1 + e = Π(1 + x). Lanes share the coordinates among them, so that the
innermost loops vectorise.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import math

import numpy as np

from kuq._numba.compiling import Int, fill, inlined, inputs, kernel, outputs, rows, spread
from kuq._numba.mathematics import log, log1p

#: Coordinates that are worked together; of few coordinates the logarithms of all lanes are most.
_LANES, _FEW_LANES, _FEW_COORDINATES = 16, 4, 128
#: Factors of a lane until logarithms are taken, and how large one may be.
_FACTORS, _LARGEST_FACTOR = 16, 1e18
#: (a − b)/(a + b) of one coordinate is cut here. The gap of that coordinate alone is then above
#: one, so that the divergence comes from the logarithms, whatever the others add to the tilt.
_LARGEST_RATIO = 0.9915
#: Numbers in bandwidths are cut here: squares stay finite.
_FAR = 1e150

# The state of a lane is one column of an array with rows of fixed length: the compiler then sees
# that rows do not overlap, which it cannot for separate arrays.
_CROSS, _GAP, _SINH, _COSH = 0, _LANES, 2 * _LANES, 3 * _LANES
_SHIFT, _LOG_CROSS, _LOG_GAP, _TILT = 4 * _LANES, 5 * _LANES, 6 * _LANES, 7 * _LANES


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

    # A coordinate costs about a third of a pair of scalar normals.
    spread(task, n, n * d * members * (members + 1) / 6)
    return entropies, dispersion


@inlined
def _largest(row):
    """The largest absolute value; NaN if there is one."""
    found, missing = 0.0, False
    for k in range(row.size):
        found = abs(row[k]) if abs(row[k]) > found else found
        missing |= row[k] != row[k]
    return math.nan if missing else found


@inlined
def _cut(x, bound):
    """x between ±bound; NaN stays."""
    x = bound if x > bound else x
    return -bound if x < -bound else x


@inlined
def _log_self(t, scale, state):
    """log φ(P, P), relatively accurate."""
    lanes = _LANES if scale.size >= _FEW_COORDINATES else _FEW_LANES
    fill(state, 0.0)
    for start in range(0, scale.size, lanes):
        part = scale[start : min(start + lanes, scale.size)]
        for q in range(part.size):
            x = 4.0 * t * part[q] * part[q]
            state[_GAP + q] += state[_GAP + q] * x + x
        if start // lanes % _FACTORS == _FACTORS - 1 or start + lanes >= scale.size:
            for q in range(lanes):
                state[_LOG_GAP + q] += log1p(state[_GAP + q])
                state[_GAP + q] = 0.0
    return -0.5 * _sum(state, _LOG_GAP, lanes)


@inlined
def _sum(state, row, lanes):
    total = 0.0
    for q in range(lanes):
        total += state[row + q]
    return total


@inlined
def _take_logarithms(state, lanes):
    for q in range(lanes):
        state[_LOG_CROSS + q] += log(state[_CROSS + q])
        gap = max(state[_GAP + q], -1.0 + 1e-15)
        state[_LOG_GAP + q] += log1p(gap)
        sinh = abs(state[_SINH + q]) / math.sqrt(1.0 + gap)
        tilt = log1p(sinh + sinh * (sinh / (1.0 + math.sqrt(1.0 + sinh * sinh))))
        state[_TILT + q] += tilt if state[_SINH + q] > 0.0 else -tilt
    _restart(state, lanes)


@inlined
def _restart(state, lanes):
    for q in range(lanes):
        state[_CROSS + q] = 1.0
        state[_GAP + q] = 0.0
        state[_SINH + q] = 0.0
        state[_COSH + q] = 1.0


@inlined
def _compared(t, loc, scale, loc2, scale2, state):
    """``log_c``, ``shift``, ``gap`` and ``tilt`` of ``expectations.overlap.Overlap``."""
    d = loc.size
    lanes = _LANES if d >= _FEW_COORDINATES else _FEW_LANES
    fill(state, 0.0)
    _restart(state, lanes)
    for start in range(0, d, lanes):
        stop = min(start + lanes, d)
        x, s, y, r = loc[start:stop], scale[start:stop], loc2[start:stop], scale2[start:stop]
        for q in range(x.size):
            c = 1.0 + 2.0 * t * (s[q] * s[q] + r[q] * r[q])
            u = t / c
            state[_CROSS + q] *= c
            state[_SHIFT + q] += (x[q] - y[q]) * (x[q] - y[q]) * u
            # The difference of the scales is formed before anything scales it.
            h = _cut(2.0 * ((s[q] - r[q]) * (s[q] + r[q])) * u, _LARGEST_RATIO)
            gap = state[_GAP + q]
            state[_GAP + q] = gap - (gap * (h * h) + h * h)
            # √Π(1 − h²) times sinh and cosh of the sum of atanh(h).
            sinh, cosh = state[_SINH + q], state[_COSH + q]
            state[_SINH + q] = cosh * h + sinh
            state[_COSH + q] = sinh * h + cosh
        if start // lanes % _FACTORS == _FACTORS - 1 or stop == d:
            _take_logarithms(state, lanes)
    return (
        -0.5 * _sum(state, _LOG_CROSS, lanes),
        _sum(state, _SHIFT, lanes),
        -0.25 * _sum(state, _LOG_GAP, lanes),
        0.5 * _sum(state, _TILT, lanes),
    )


@inlined
def _slowly(t, loc, scale, loc2, scale2):
    """The same in units in which the kernel has width one; nothing overflows."""
    root = math.sqrt(t)
    log_c, shift, gap, tilt = 0.0, 0.0, 0.0, 0.0
    for k in range(loc.size):
        u, v = _cut(scale[k] * root, _FAR), _cut(scale2[k] * root, _FAR)
        change = _cut((scale[k] - scale2[k]) * root, _FAR)
        delta = _cut((loc[k] - loc2[k]) * root, _FAR)
        c = 1.0 + 2.0 * (u * u + v * v)
        h = _cut(2.0 * change / c * (u + v), _LARGEST_RATIO)
        log_c -= 0.5 * math.log(c)
        shift += delta * (delta / c)
        gap -= 0.25 * math.log1p(-h * h)
        tilt += 0.5 * math.atanh(h)
    return log_c, shift, gap, tilt


@inlined
def _divergence(log_p, log_q, log_c, shift, gap, tilt):
    """``expectations.overlap.divergence``."""
    if gap > 1.5:  # far apart: h was cut, and the product may have lost its digits
        gap, tilt = 0.5 * (log_p + log_q) - log_c, 0.5 * (log_q - log_p)
    if gap + abs(tilt) < 1.0:
        half = math.sinh(tilt / 2.0)
        close = math.expm1(gap) * math.cosh(tilt) + 2.0 * half * half - math.expm1(-shift)
        return math.exp(log_c) * close
    return (math.exp(log_p) + math.exp(log_q)) / 2.0 - math.exp(log_c - shift)


@kernel(rows(3), rows(3), inputs(1), inputs(1), outputs(2), outputs(1), Int, Int)
def _gaussian(loc, scale, weights, bandwidth, entropies, dispersion, start, stop):
    members, _, d = loc.shape
    state = np.empty(8 * _LANES)
    x, s = np.empty((members, d)), np.empty((members, d))
    size, log_self = np.empty(members), np.empty(members)
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
            length = _largest(s[m])
            size[m] = length + _largest(x[m])
            if 4.0 * t * length * length < _LARGEST_FACTOR:
                log_self[m] = _log_self(t, s[m], state)
            else:  # the centred law against itself
                log_self[m] = _slowly(t, s[m], s[m], s[m], s[m])[0]
            entropies[m, c] = -0.5 * math.expm1(log_self[m])
        for i in range(members):
            for j in range(i + 1, members):
                largest = size[i] + size[j]  # NaN if one is, which logarithms would hide
                if 4.0 * t * largest * largest < _LARGEST_FACTOR:
                    parts = _compared(t, x[i], s[i], x[j], s[j], state)
                else:
                    parts = _slowly(t, x[i], s[i], x[j], s[j])
                apart = _divergence(log_self[i], log_self[j], *parts)
                total += 2.0 * weights[i] * weights[j] * apart
        dispersion[c] = total
