"""Small scalar samples under |x − y|: all pairs, many columns at a time.

Draws of a member are sorted first, by a network that is the same for all columns. For sorted x and
y of equal size N the divergence is then a sum of terms ≥ 0,

    N² D = Σ_a |x_a − y_a| + 2 Σ_{a<b} max(0, x_a − y_b, y_a − x_b),

since |x_a − y_b| + |x_b − y_a| − |x_a − x_b| − |y_a − y_b| vanishes where the intervals [x_a, x_b]
and [y_a, y_b] meet, and is twice the distance between them where they do not. Results are
relatively accurate however close the members are.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from kuq._numba.compiling import Int, fill, inlined, inputs, kernel, outputs, spread

#: Numbers of a block of columns, which are to stay in the second cache.
_BLOCK_NUMBERS = 16_384


def absolute(values: np.ndarray, member_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(within, dispersion) of members (M, N, n) with N draws of equal weight in each column.

    within (M, n) is ½ mean |x_i − x_j| over all N² pairs of a member, dispersion (n,) is
    Σ w_i w_j D_ij. Both have relative errors of some 1e−15.
    """
    members, count, n = values.shape
    within, dispersion = np.empty((members, n)), np.empty(n)
    block = min(max(_BLOCK_NUMBERS // (members * count) // 16 * 16, 32), 512)

    def task(start: int, stop: int) -> None:
        _absolute(values, member_weights, within, dispersion, block, start, stop)

    # A pair of draws costs a tenth of a pair of normals.
    spread(task, n, n * members**2 * count**2 / 20, 32)
    return within, dispersion


@inlined
def _exchange(low, high):
    for k in range(low.size):
        a, b = low[k], high[k]
        swap = b < a
        low[k] = b if swap else a
        high[k] = a if swap else b


@inlined
def _sort(values):
    """Sort along the first axis: Batcher's odd-even merge network, for any number of rows."""
    count = values.shape[0]
    merged = 1
    while merged < count:
        distance = merged
        while distance >= 1:
            for base in range(distance % merged, count - distance, 2 * distance):
                for a in range(base, min(base + distance, count - distance)):
                    if a // (2 * merged) == (a + distance) // (2 * merged):
                        _exchange(values[a], values[a + distance])
            distance //= 2
        merged *= 2


@inlined
def _add_gap(low, high, weight, total):
    for k in range(total.size):
        total[k] += weight * (high[k] - low[k])


@inlined
def _add_distance(x, y, total):
    for k in range(total.size):
        total[k] += abs(x[k] - y[k])


@inlined
def _add_separation(x_low, x_high, y_low, y_high, total):
    """Twice the distance of the intervals [x_low, x_high] and [y_low, y_high]."""
    for k in range(total.size):
        left, right = x_low[k] - y_high[k], y_low[k] - x_high[k]
        distance = left if left > right else right
        total[k] += 2.0 * distance if distance > 0.0 else 0.0


@inlined
def _add_scaled(weight, values, total):
    for k in range(total.size):
        total[k] += weight * values[k]


@kernel(inputs(3), inputs(1), outputs(2), outputs(1), Int, Int, Int)
def _absolute(values, weights, within, dispersion, block, start, stop):
    members, count, _ = values.shape
    work, pair = np.empty((members, count, block)), np.empty(block)
    pairs = 1.0 * count * count
    for begin in range(start, stop, block):
        size = min(block, stop - begin)
        sums, total = pair[:size], dispersion[begin : begin + size]
        fill(total, 0.0)
        for m in range(members):
            for a in range(count):
                for k in range(size):
                    work[m, a, k] = values[m, a, begin + k]
            _sort(work[m, :, :size])
            own = within[m, begin : begin + size]
            fill(own, 0.0)
            # ½ mean |x_i − x_j|: a gap lies between the draws below and those above it.
            for a in range(count - 1):
                weight = (a + 1) * (count - 1 - a) / pairs
                _add_gap(work[m, a, :size], work[m, a + 1, :size], weight, own)
        for i in range(members):
            for j in range(i + 1, members):
                fill(sums, 0.0)
                for a in range(count):
                    x, y = work[i, a, :size], work[j, a, :size]
                    _add_distance(x, y, sums)
                    for b in range(a + 1, count):
                        _add_separation(x, work[i, b, :size], y, work[j, b, :size], sums)
                _add_scaled(2.0 * weights[i] * weights[j] / pairs, sums, total)
