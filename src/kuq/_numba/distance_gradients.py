"""The derivative of the sums of ``distances`` by the draws, in one pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types

from kuq._numba.compiling import Int, inlined, inputs, kernel, outputs, rows, spread
from kuq._numba.distances import _fill_row
from kuq._numba.mathematics import exp

_OWNERS = types.Array(types.int64, 1, "C", readonly=True)
_SIGNATURE = (
    rows(3),
    rows(2),
    _OWNERS,
    inputs(1),
    inputs(1),
    inputs(2),
    inputs(1),
    outputs(3),
    Int,
    Int,
)


@inlined
def _root(r2: Any, factor: Any) -> Any:
    """Twice the slope of k in r²: one over the distance, zero at zero."""
    return 1.0 / math.sqrt(r2) if r2 > 0.0 else 0.0


@inlined
def _bump(r2: Any, factor: Any) -> Any:
    return 2.0 * factor * exp(-r2 * factor)


@inlined
def _push(slope: Any, x: Any, y: Any, by_x: Any, by_y: Any) -> None:
    for k in range(x.size):
        force = slope * (x[k] - y[k])
        by_x[k] += force
        by_y[k] -= force


@inlined
def _loop(
    profile: Any,
    values: Any,
    weights: Any,
    owners: Any,
    members: Any,
    inverse: Any,
    by_entropy: Any,
    by_dispersion: Any,
    out: Any,
    start: Any,
    stop: Any,
) -> None:
    count = values.shape[1]
    row = np.empty(count)
    for c in range(start, stop):
        factor = inverse[c] * inverse[c]
        w = weights[c] if weights.shape[0] > 1 else weights[0]
        for i in range(count):
            for k in range(values.shape[2]):
                out[c, i, k] = 0.0
        for i in range(count - 1):
            _fill_row(values[c], i, row)
            a = owners[i]
            for j in range(count - i - 1):
                b = owners[i + 1 + j]
                if a == b:
                    share = 2.0 * members[a] * (members[a] - 1.0)
                    upstream = by_entropy[a, c] + share * by_dispersion[c]
                else:
                    upstream = 2.0 * members[a] * members[b] * by_dispersion[c]
                slope = upstream * w[i] * w[i + 1 + j] * profile(row[j], factor)
                _push(slope, values[c, i], values[c, i + 1 + j], out[c, i], out[c, i + 1 + j])


@kernel(*_SIGNATURE)
def _root_loop(x, w, owners, members, inverse, by_entropy, by_dispersion, out, start, stop):  # type: ignore[no-untyped-def]
    _loop(_root, x, w, owners, members, inverse, by_entropy, by_dispersion, out, start, stop)


@kernel(*_SIGNATURE)
def _bump_loop(x, w, owners, members, inverse, by_entropy, by_dispersion, out, start, stop):  # type: ignore[no-untyped-def]
    _loop(_bump, x, w, owners, members, inverse, by_entropy, by_dispersion, out, start, stop)


_LOOPS: dict[str, Callable[..., None]] = {"root": _root_loop, "bump": _bump_loop}


def gradients(
    name: str,
    bandwidth: np.ndarray | float | None,
    values: np.ndarray,
    weights: np.ndarray,
    owners: np.ndarray,
    members: np.ndarray,
    by_entropy: np.ndarray,
    by_dispersion: np.ndarray,
) -> np.ndarray:
    """Derivatives by the draws, (n, T, d); arguments as in ``distances.statistics``."""
    n, count, d = values.shape
    inverse = np.broadcast_to(1.0 if bandwidth is None else 1.0 / np.asarray(bandwidth), (n,))
    out = np.empty(values.shape)

    def task(start: int, stop: int) -> None:
        _LOOPS[name](
            values, weights, owners, members, inverse, by_entropy, by_dispersion, out, start, stop
        )

    spread(task, n, n * count * count * (d + 8) / 8)
    return out
