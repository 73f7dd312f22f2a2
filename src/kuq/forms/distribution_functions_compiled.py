"""Many scalar normals under |x − y|: the dispersion as an integral over distribution functions."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from kuq._numba.compiling import Int, fill, inlined, inputs, kernel, outputs, positions, spread
from kuq._numba.mathematics import normal_cdf

#: Grid points worked together; fewer for large ensembles, whose values must fit the cache.
_BLOCK, _SHORT_BLOCK, _LARGE_ENSEMBLE = 64, 32, 400
#: Standard deviations beyond which Φ is 0 or 1 in float64.
_WING = 8.3


def dispersion(
    loc: np.ndarray,
    scale: np.ndarray,
    weights: np.ndarray,
    start: np.ndarray,
    step: np.ndarray,
    count: np.ndarray,
) -> np.ndarray:
    """2·step·Σ_q Var_m F_m(start + q·step), q < count, per column (n,), of normals (M, n).

    That is the trapezoid rule for 2 ∫ Var_m F_m, the dispersion Σ w_i w_j D_ij, if the grid covers
    all members and its step is of the order of the smallest scale. The distribution functions have
    absolute errors of 2e−16, so for members that nearly agree the result has relative errors
    of that over the distance of the distribution functions.
    """
    members, n = loc.shape
    counts = np.asarray(count, dtype=np.int64)
    out = np.empty(n)

    def task(first: int, last: int) -> None:
        _dispersion(loc, scale, weights, start, step, counts, out, first, last)

    spread(task, n, members * float(np.sum(counts)) / 2)
    return out


@inlined
def _fill(points, loc, scale, values):
    """F at sorted points. A point mass has ½ where it sits."""
    if points[points.size - 1] < loc - _WING * scale:
        fill(values, 0.0)
    elif points[0] > loc + _WING * scale:
        fill(values, 1.0)
    else:
        inverse = 1.0 / max(scale, 1e-300)
        for k in range(points.size):
            values[k] = normal_cdf((points[k] - loc) * inverse)


@inlined
def _add(weight, values, mean):
    for k in range(values.size):
        mean[k] += weight * values[k]


@inlined
def _add_squares(weight, values, mean, variance):
    for k in range(values.size):
        difference = values[k] - mean[k]
        variance[k] += weight * difference * difference


@kernel(inputs(2), inputs(2), inputs(1), inputs(1), inputs(1), positions(1), outputs(1), Int, Int)
def _dispersion(loc, scale, weights, start, step, count, out, first, last):
    members = loc.shape[0]
    block = _BLOCK if members < _LARGE_ENSEMBLE else _SHORT_BLOCK
    values = np.empty((members, block))
    points, mean, variance = np.empty(block), np.empty(block), np.empty(block)
    for c in range(first, last):
        total = 0.0
        for begin in range(0, count[c], block):
            size = min(block, count[c] - begin)
            x, average, square = points[:size], mean[:size], variance[:size]
            for k in range(size):
                x[k] = start[c] + (begin + k) * step[c]
            fill(average, 0.0)
            fill(square, 0.0)
            for m in range(members):
                _fill(x, loc[m, c], scale[m, c], values[m, :size])
                _add(weights[m], values[m, :size], average)
            for m in range(members):
                _add_squares(weights[m], values[m, :size], average, square)
            for k in range(size):
                total += square[k]
        out[c] = 2.0 * step[c] * total
