"""Normals with independent coordinates: logarithms of affinities under the Gaussian kernel.

``expectations.normal`` sums a logarithm per coordinate and node. Here factors are multiplied, and
one logarithm is taken of many. Two things need care. Products must not overflow: after 16 factors
the exponent is put aside, and laws with a factor above 1e18 go the slow way. And a factor 1 + x
loses the digits of a small x, so where x itself matters the product is carried as e with
1 + e = Π(1 + x).

Innermost loops run over nodes if there are four or more, else over lanes, which share the
coordinates among them.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import math

import numpy as np

from kuq._numba.compiling import Int, fill, inlined, inputs, kernel, outputs, rows, spread
from kuq._numba.mathematics import from_bits, log, log1p, split

#: Nodes that are worked together, and coordinates that are.
_WIDTH, _LANES = 64, 16
#: With fewer coordinates than this, taking the logarithms of all lanes costs too much.
_FEW_COORDINATES, _FEW_LANES = 128, 4
#: Factors until the exponent of a product is put aside, and until logarithms are taken.
_FEW, _MANY = 16, 64
_LARGEST_FACTOR, _LARGEST_LENGTH, _LARGEST_NODE = 1e18, 1e150, 1e280
#: (a − b)/(a + b) of one coordinate is cut here. The gap of that coordinate alone is then above
#: one, so that the divergence comes from the logarithms, whatever the others add to the tilt.
_LARGEST_RATIO = 0.9915
_LOG_2 = math.log(2.0)

# The state of a node or lane is one column of an array with rows of fixed length: the compiler
# then sees that rows do not overlap, which it cannot for a dozen separate arrays.
_P, _Q, _C = 0, _WIDTH, 2 * _WIDTH  # products of a, b and a + b
_GAP, _SINH, _COSH, _SHIFT = 3 * _WIDTH, 4 * _WIDTH, 5 * _WIDTH, 6 * _WIDTH
_P_POWER, _Q_POWER, _C_POWER = 7 * _WIDTH, 8 * _WIDTH, 9 * _WIDTH
_GAP_SUM, _TILT_SUM = 10 * _WIDTH, 11 * _WIDTH
_STATE = 12 * _WIDTH


def overlap(
    t: np.ndarray,
    loc_p: np.ndarray,
    scale_p: np.ndarray,
    loc_q: np.ndarray,
    scale_q: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The numbers of ``expectations.overlap.Overlap``, each (T, I, J, n), for all pairs of laws.

    t is (T, I, J, n), laws P are (I, n, d) and laws Q (J, n, d). ``log_p``, ``log_q``, ``log_c``
    are absolutely accurate, the others relatively.
    """
    laws = [np.ascontiguousarray(a) for a in (loc_p, scale_p, loc_q, scale_q)]
    nodes, first, second, n = t.shape
    bounds = [_bounds_of(*laws[:2]), _bounds_of(*laws[2:])]
    out = np.empty((6, *t.shape))

    def task(start: int, stop: int) -> None:
        _overlap(t, *laws, *bounds, out, start, stop)

    # A coordinate of a node costs about a third of a pair of scalar normals.
    spread(task, first * n, nodes * first * second * n * laws[0].shape[-1] / 3)
    return out[0], out[1], out[2], out[3], out[4], out[5]


def _bounds_of(loc: np.ndarray, scale: np.ndarray) -> np.ndarray:
    out = np.empty((*loc.shape[:-1], 2))
    _bounds(loc, scale, out)
    return out


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
def _is_moderate(t, length):
    """Whether 16 factors 1 + 4tσ² can be multiplied. No for NaN, which logarithms would hide."""
    return 4.0 * t * length * length < _LARGEST_FACTOR and t < _LARGEST_NODE


@kernel(rows(3), rows(3), outputs(3))
def _bounds(loc, scale, out):
    for i in range(out.shape[0]):
        for c in range(out.shape[1]):
            out[i, c, 0] = _largest(scale[i, c])
            out[i, c, 1] = _largest(loc[i, c])


@inlined
def _start(state, width):
    fill(state, 0.0)
    for q in range(width):
        state[_P + q] = 1.0
        state[_Q + q] = 1.0
        state[_C + q] = 1.0
        state[_COSH + q] = 1.0


@inlined
def _advance(state, q, t, p4, q4, difference, delta2):
    """Take in one coordinate: p4 = 4σ², q4 = 4τ², difference = 4(σ² − τ²), delta2 = 2δ²."""
    a, b = t * p4 + 1.0, t * q4 + 1.0
    c = a + b
    u = t / c
    h = difference * u
    h = _cut(h, _LARGEST_RATIO)
    state[_SHIFT + q] += delta2 * u
    state[_P + q] *= a
    state[_Q + q] *= b
    state[_C + q] *= c
    h2, gap = h * h, state[_GAP + q]
    state[_GAP + q] = gap - (gap * h2 + h2)
    # √Π(1 − h²) times sinh and cosh of the sum of atanh(h).
    sinh, cosh = state[_SINH + q], state[_COSH + q]
    state[_SINH + q] = cosh * h + sinh
    state[_COSH + q] = sinh * h + cosh


@inlined
def _prepared(x, s, y, r):
    """What ``_advance`` takes in."""
    # The difference of the scales is formed before anything scales it.
    return 4.0 * s * s, 4.0 * r * r, 4.0 * ((s - r) * (s + r)), 2.0 * (x - y) * (x - y)


@inlined
def _put_aside(state, row, power_row, q):
    power, mantissa = split(state[row + q])
    state[row + q] = mantissa
    # From integer to float without a conversion, which AVX2 does not have.
    state[power_row + q] += from_bits(power | 0x4330000000000000) - (4503599627370496.0 + 1023.0)


@inlined
def _normalise(state, width):
    for q in range(width):
        _put_aside(state, _P, _P_POWER, q)
        _put_aside(state, _Q, _Q_POWER, q)
        _put_aside(state, _C, _C_POWER, q)


@inlined
def _take_logarithms(state, width):
    for q in range(width):
        gap = max(state[_GAP + q], -1.0 + 1e-15)
        state[_GAP_SUM + q] += log1p(gap)
        sinh = abs(state[_SINH + q]) / math.sqrt(1.0 + gap)
        tilt = log1p(sinh + sinh * (sinh / (1.0 + math.sqrt(1.0 + sinh * sinh))))
        state[_TILT_SUM + q] += tilt if state[_SINH + q] > 0.0 else -tilt
        state[_GAP + q] = 0.0
        state[_SINH + q] = 0.0
        state[_COSH + q] = 1.0


@inlined
def _finish(state, width, d, out):
    """The six numbers of every node into out (6, …) of the state's own width."""
    _take_logarithms(state, width)
    for q in range(width):
        state[_P + q] = -0.5 * (log(state[_P + q]) + state[_P_POWER + q] * _LOG_2)
        state[_Q + q] = -0.5 * (log(state[_Q + q]) + state[_Q_POWER + q] * _LOG_2)
        state[_C + q] = -0.5 * (log(state[_C + q]) + (state[_C_POWER + q] - d) * _LOG_2)
    for q in range(width):
        out[0, q] = state[_P + q]
        out[1, q] = state[_Q + q]
        out[2, q] = state[_C + q]
        out[3, q] = state[_SHIFT + q]
        out[4, q] = -0.25 * state[_GAP_SUM + q]
        out[5, q] = 0.5 * state[_TILT_SUM + q]


@inlined
def _at_nodes(t, p4, q4, difference, delta2, state, result):
    width, d = t.size, p4.size
    _start(state, width)
    for k in range(d):
        for q in range(width):
            _advance(state, q, t[q], p4[k], q4[k], difference[k], delta2[k])
        if k % _FEW == _FEW - 1:
            _normalise(state, width)
        if k % _MANY == _MANY - 1:
            _take_logarithms(state, width)
    _finish(state, width, d, result)


@inlined
def _over_lanes(t, loc, scale, loc2, scale2, state, result):
    """One node: lanes take every 16th coordinate, and their results are added."""
    d = loc.size
    lanes = _LANES if d >= _FEW_COORDINATES else _FEW_LANES
    _start(state, lanes)
    for start in range(0, d, lanes):
        stop = min(start + lanes, d)
        x, s = loc[start:stop], scale[start:stop]
        y, r = loc2[start:stop], scale2[start:stop]
        for q in range(x.size):
            p4, q4, difference, delta2 = _prepared(x[q], s[q], y[q], r[q])
            _advance(state, q, t, p4, q4, difference, delta2)
        step = start // lanes
        if step % _FEW == _FEW - 1:
            _normalise(state, lanes)
        if step % _MANY == _MANY - 1:
            _take_logarithms(state, lanes)
    _finish(state, lanes, 0, result)
    for m in range(6):
        total = 0.0
        for q in range(lanes):
            total += result[m, q]
        result[m, 0] = total
    result[2, 0] += 0.5 * d * _LOG_2


@inlined
def _slowly(t, loc, scale, loc2, scale2, result, q):
    """One node in units in which the kernel has width one; nothing overflows."""
    root = math.sqrt(t)
    for m in range(6):
        result[m, q] = 0.0
    for k in range(loc.size):
        u, v = _cut(scale[k] * root, 1e150), _cut(scale2[k] * root, 1e150)
        change = _cut((scale[k] - scale2[k]) * root, 1e150)
        delta = _cut((loc[k] - loc2[k]) * root, 1e150)
        c = 1.0 + 2.0 * (u * u + v * v)
        h = _cut(2.0 * change / c * (u + v), _LARGEST_RATIO)
        result[0, q] -= 0.5 * math.log1p(4.0 * u * u)
        result[1, q] -= 0.5 * math.log1p(4.0 * v * v)
        result[2, q] -= 0.5 * math.log(c)
        result[3, q] += delta * (delta / c)
        result[4, q] -= 0.25 * math.log1p(-h * h)
        result[5, q] += 0.5 * math.atanh(h)


@inlined
def _prepare(loc, scale, loc2, scale2, p4, q4, difference, delta2):
    for k in range(loc.size):
        p4[k], q4[k], difference[k], delta2[k] = _prepared(loc[k], scale[k], loc2[k], scale2[k])


_LAW = rows(3)


@kernel(inputs(4), _LAW, _LAW, _LAW, _LAW, _LAW, _LAW, outputs(5), Int, Int)
def _overlap(t, loc_p, scale_p, loc_q, scale_q, bounds_p, bounds_q, out, start, stop):
    count, n, d = t.shape[0], loc_p.shape[1], loc_p.shape[2]
    p4, q4, difference, delta2 = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    state, result, nodes = np.empty(_STATE), np.empty((6, _WIDTH)), np.empty(_WIDTH)
    for flat in range(start, stop):
        i, c = flat // n, flat % n
        for j in range(loc_q.shape[0]):
            x, s, y, r = loc_p[i, c], scale_p[i, c], loc_q[j, c], scale_q[j, c]
            length = bounds_p[i, c, 0] + bounds_q[j, c, 0]
            size = length + bounds_p[i, c, 1] + bounds_q[j, c, 1]
            if count >= 4:
                _prepare(x, s, y, r, p4, q4, difference, delta2)
            for begin in range(0, count, _WIDTH):
                width = min(_WIDTH, count - begin)
                fast = size < _LARGEST_LENGTH
                for q in range(width):
                    nodes[q] = t[begin + q, i, j, c]
                    fast = fast and _is_moderate(nodes[q], length)
                if not fast:
                    for q in range(width):
                        _slowly(nodes[q], x, s, y, r, result, q)
                elif count >= 4:
                    _at_nodes(nodes[:width], p4, q4, difference, delta2, state, result)
                for q in range(width):
                    source = q
                    if fast and count < 4:
                        _over_lanes(nodes[q], x, s, y, r, state, result)
                        source = 0
                    for m in range(6):
                        out[m, begin + q, i, j, c] = result[m, source]
                    if result[4, source] > 1.5:
                        # Far apart: h was cut, and the product may have lost its digits.
                        log_p, log_q = result[0, source], result[1, source]
                        out[4, begin + q, i, j, c] = 0.5 * (log_p + log_q) - result[2, source]
                        out[5, begin + q, i, j, c] = 0.5 * (log_q - log_p)


@inlined
def _grow(state, q, x):
    state[q] += state[q] * x + x


@inlined
def _absorb(state, width):
    for q in range(width):
        state[_WIDTH + q] += log1p(state[q])
        state[q] = 0.0


@inlined
def _sum_over_lanes(t, squares, state):
    fill(state, 0.0)
    for start in range(0, squares.size, _LANES):
        part = squares[start : min(start + _LANES, squares.size)]
        for q in range(part.size):
            _grow(state, q, t * part[q])
        if start // _LANES % _FEW == _FEW - 1:
            _absorb(state, _LANES)
    _absorb(state, _LANES)
    total = 0.0
    for q in range(_LANES):
        total += state[_WIDTH + q]
    return total
