"""Power sums over the coordinates of normals: the coefficients of ``expectations.expansion``."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from kuq._numba.compiling import Int, kernel, outputs, reduction, rows, spread

#: Coordinates worked together: their powers stay in the first cache.
_BLOCK = 256


def pair_sums(
    loc_p: np.ndarray, scale_p: np.ndarray, loc_q: np.ndarray, scale_q: np.ndarray, count: int
) -> np.ndarray:
    """Sums of c^k, (a^k + b^k)/2 − c^k, (a^k − b^k)/2 and δ²c^(k−1), (4, count, I, J, n).

    Laws P are (I, n, d), laws Q (J, n, d); a = 4σ², b = 4τ², c = (a + b)/2, k = 1, …, count.
    """
    laws = [np.ascontiguousarray(x) for x in (loc_p, scale_p, loc_q, scale_q)]
    first, n, d = loc_p.shape
    second = len(loc_q)
    out = np.empty((4, count, first, second, n))

    def task(start: int, stop: int) -> None:
        _pair_sums(*laws, out, start, stop)

    spread(task, second * n, count * first * second * n * d / 5)
    return out


@reduction
def _prepare(loc, scale, loc2, scale2, c, u, distance):
    total, change, length = 0.0, 0.0, 0.0
    for k in range(c.size):
        # The difference of the scales is formed before anything scales it.
        u[k] = 2.0 * ((scale[k] - scale2[k]) * (scale[k] + scale2[k]))
        c[k] = 2.0 * (scale[k] * scale[k] + scale2[k] * scale2[k])
        distance[k] = (loc[k] - loc2[k]) * (loc[k] - loc2[k])
        total += c[k]
        change += u[k]
        length += distance[k]
    return total, change, length


@reduction
def _next_powers(c, u, power, even, odd, distance):
    """From the k-th powers to the next ones, in place, and their sums."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for k in range(c.size):
        e, o, p = even[k], odd[k], power[k]
        odd[k] = c[k] * o + u[k] * (p + e)
        even[k] = c[k] * e + u[k] * o
        power[k] = c[k] * p
        distance[k] = c[k] * distance[k]
        s0 += power[k]
        s1 += even[k]
        s2 += odd[k]
        s3 += distance[k]
    return s0, s1, s2, s3


_LAW = rows(3)


@kernel(_LAW, _LAW, _LAW, _LAW, outputs(5), Int, Int)
def _pair_sums(loc_p, scale_p, loc_q, scale_q, out, start, stop):
    count, n, d = out.shape[1], loc_p.shape[1], loc_p.shape[2]
    work = np.empty((6, _BLOCK))
    for flat in range(start, stop):
        j, column = flat // n, flat % n
        for i in range(loc_p.shape[0]):
            out[:, :, i, j, column] = 0.0
            for begin in range(0, d, _BLOCK):
                end = min(begin + _BLOCK, d)
                size = end - begin
                c, u, power = work[0, :size], work[1, :size], work[2, :size]
                even, odd, distance = work[3, :size], work[4, :size], work[5, :size]
                s0, s2, s3 = _prepare(
                    loc_p[i, column, begin:end],
                    scale_p[i, column, begin:end],
                    loc_q[j, column, begin:end],
                    scale_q[j, column, begin:end],
                    c,
                    u,
                    distance,
                )
                s1 = 0.0
                power[:] = c
                odd[:] = u
                even[:] = 0.0
                for k in range(count):
                    if k > 0:
                        s0, s1, s2, s3 = _next_powers(c, u, power, even, odd, distance)
                    out[0, k, i, j, column] += s0
                    out[1, k, i, j, column] += s1
                    out[2, k, i, j, column] += s2
                    out[3, k, i, j, column] += s3
