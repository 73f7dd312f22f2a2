"""Sorted draws under exp(−|x − y|) times a polynomial: sums over all pairs in one pass.

With P_k(z) = 1 − e^(−z) Σ_{j<k} z^j/j!, the Laplace and Matérn ½ kernels have the profile P_1,
Matérn 3/2 has P_2, and Matérn 5/2 has (P_2 + 2 P_3)/3. A gap g after a distance z adds

    P_k(z + g) = P_k(g) + e^(−g) Σ_{j<k} g^j/j! P_{k−j}(z),

so that Σ_{b<a} w_b P_k(x_a − x_b) follows from its value at the draw before. All terms are ≥ 0.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from kuq._numba.compiling import Int, Real, fill, inlined, kernel, outputs, rows, spread
from kuq._numba.mathematics import exp

#: Columns worked together.
_BLOCK = 64


@inlined
def _steps(g):
    """e^(−g), P_1(g), P_2(g) and P_3(g), relatively accurate."""
    e = exp(-g)
    # Σ_{j≥3} g^j/j! for g ≤ 1; beyond, differences lose no digits.
    t = 1.0 / 6402373705728000.0
    t = t * g + 1.0 / 355687428096000.0
    t = t * g + 1.0 / 20922789888000.0
    t = t * g + 1.0 / 1307674368000.0
    t = t * g + 1.0 / 87178291200.0
    t = t * g + 1.0 / 6227020800.0
    t = t * g + 1.0 / 479001600.0
    t = t * g + 1.0 / 39916800.0
    t = t * g + 1.0 / 3628800.0
    t = t * g + 1.0 / 362880.0
    t = t * g + 1.0 / 40320.0
    t = t * g + 1.0 / 5040.0
    t = t * g + 1.0 / 720.0
    t = t * g + 1.0 / 120.0
    t = t * g + 1.0 / 24.0
    t = t * g + 1.0 / 6.0
    third = e * (t * g * g * g)
    second = third + e * (0.5 * g * g)
    first = second + e * g
    if g > 1.0:
        first = 1.0 - e
        second = 1.0 - e * (1.0 + g)
        third = 1.0 - e * (1.0 + g * (1.0 + 0.5 * g))
    return e, first, second, third


@inlined
def _advance(x, before, w, w_before, inverse, shares, state, total):
    """Take in the next draw of every column."""
    share1, share2, share3 = shares
    for k in range(total.size):
        g = (x[k] - before[k]) * inverse[k]
        g = 700.0 if g > 700.0 else g
        e, p1, p2, p3 = _steps(g)
        mass = state[0, k] + w_before[k]
        s1, s2, s3 = state[1, k], state[2, k], state[3, k]
        s3 = p3 * mass + e * (s3 + g * (s2 + 0.5 * g * s1))
        s2 = p2 * mass + e * (s2 + g * s1)
        s1 = p1 * mass + e * s1
        state[0, k] = mass
        state[1, k] = s1
        state[2, k] = s2
        state[3, k] = s3
        total[k] += w[k] * (share1 * s1 + share2 * s2 + share3 * s3)


@kernel(rows(2), rows(2), rows(1), Real, Real, Real, outputs(1), Int, Int)
def _sums(values, weights, inverse, share1, share2, share3, out, begin, end):
    shares = share1, share2, share3
    state = np.empty((4, _BLOCK))
    for start in range(begin, end, _BLOCK):
        stop = min(start + _BLOCK, end)
        now, total = state[:, : stop - start], out[start:stop]
        fill(total, 0.0)
        for j in range(4):
            fill(now[j], 0.0)
        for a in range(1, values.shape[0]):
            x, w = values[a, start:stop], weights[a, start:stop]
            before, w_before = values[a - 1, start:stop], weights[a - 1, start:stop]
            _advance(x, before, w, w_before, inverse[start:stop], shares, now, total)


def sums(
    values: np.ndarray, weights: np.ndarray, rates: np.ndarray, shares: tuple[float, float, float]
) -> np.ndarray:
    """Σ_{b<a} w_a w_b k(rate·(x_a − x_b)) of sorted rows (n, N) with their weights, (n,).

    k = c₁ P_1 + c₂ P_2 + c₃ P_3 with the shares (c₁, c₂, c₃); any c₁ outweighs the others close by.
    """
    n, count = values.shape
    out = np.empty(n)
    # The next draw of many columns side by side.
    draws = [np.ascontiguousarray(a.T) for a in (values, weights)]
    inverse = np.ascontiguousarray(rates)

    def task(start: int, stop: int) -> None:
        _sums(*draws, inverse, *shares, out, start, stop)

    spread(task, n, n * count * 2, _BLOCK)
    return out
