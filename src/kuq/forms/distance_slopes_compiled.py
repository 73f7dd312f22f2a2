"""Derivatives of the sums of ``distances`` by the draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types

from kuq._numba.compiling import Int, fill, inlined, inputs, kernel, outputs, rows, spread
from kuq._numba.mathematics import exp
from kuq.forms.distances_compiled import _four_squared_distances, _squared_distance

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


# Profiles: twice the slope of k in the squared distance, of which the second factor is in 1/γ².


@inlined
def _root(square: Any, factor: Any) -> Any:
    """Zero for draws that agree, where there is no slope."""
    safe = square if square > 0.0 else 1.0
    return 1.0 / math.sqrt(safe) if square > 0.0 else 0.0


@inlined
def _bump(square: Any, factor: Any) -> Any:
    return 2.0 * factor * exp(-square * factor)


@inlined
def _fill(draws: Any, i: Any, row: Any) -> None:
    """Squared distances from draw i to all."""
    count = draws.shape[0]
    whole = count - count % 4
    x = draws[i]
    for j in range(0, whole, 4):
        row[j], row[j + 1], row[j + 2], row[j + 3] = _four_squared_distances(
            x, draws[j], draws[j + 1], draws[j + 2], draws[j + 3]
        )
    for j in range(whole, count):
        row[j] = _squared_distance(x, draws[j])


@inlined
def _push(slope: Any, x: Any, a: Any, total: Any) -> None:
    for k in range(total.size):
        total[k] += slope * (x[k] - a[k])


@inlined
def _push_from_four(x: Any, row: Any, j: Any, a: Any, b: Any, c: Any, d: Any, total: Any) -> None:
    first, second, third, fourth = row[j], row[j + 1], row[j + 2], row[j + 3]
    for k in range(total.size):
        value = x[k]
        near = first * (value - a[k]) + second * (value - b[k])
        total[k] += near + (third * (value - c[k]) + fourth * (value - d[k]))


@inlined
def _loop(
    profile: Any,
    values: Any,
    weights: Any,
    owners: Any,
    members: Any,
    inverse: Any,
    by_entropies: Any,
    by_dispersion: Any,
    out: Any,
    start: Any,
    stop: Any,
) -> None:
    count = values.shape[1]
    whole = count - count % 4
    row, upstream = np.empty(count), np.empty(members.size)
    for c in range(start, stop):
        factor = inverse[c] * inverse[c]
        w = weights[c] if weights.shape[0] > 1 else weights[0]
        x, total = values[c], out[c]
        for i in range(count):
            owner = owners[i]
            for m in range(members.size):
                upstream[m] = w[i] * 2.0 * members[owner] * members[m] * by_dispersion[c]
            share = 2.0 * members[owner] * (members[owner] - 1.0)
            upstream[owner] = w[i] * (by_entropies[owner, c] + share * by_dispersion[c])
            _fill(x, i, row)
            for j in range(count):
                row[j] = upstream[owners[j]] * w[j] * profile(row[j], factor)
            fill(total[i], 0.0)
            for j in range(0, whole, 4):
                _push_from_four(x[i], row, j, x[j], x[j + 1], x[j + 2], x[j + 3], total[i])
            for j in range(whole, count):
                _push(row[j], x[i], x[j], total[i])


@kernel(*_SIGNATURE)
def _root_slopes(x, w, owners, members, inverse, by_entropies, by_dispersion, out, start, stop):  # type: ignore[no-untyped-def]
    _loop(_root, x, w, owners, members, inverse, by_entropies, by_dispersion, out, start, stop)


@kernel(*_SIGNATURE)
def _bump_slopes(x, w, owners, members, inverse, by_entropies, by_dispersion, out, start, stop):  # type: ignore[no-untyped-def]
    _loop(_bump, x, w, owners, members, inverse, by_entropies, by_dispersion, out, start, stop)


_LOOPS: dict[str, Callable[..., None]] = {"root": _root_slopes, "bump": _bump_slopes}


def slopes(
    name: str,
    bandwidth: np.ndarray | float | None,
    values: np.ndarray,
    weights: np.ndarray,
    owners: np.ndarray,
    members: np.ndarray,
    by_entropies: np.ndarray,
    by_dispersion: np.ndarray,
) -> np.ndarray:
    """Derivatives by the draws, (n, T, d), of what has these derivatives by H and the dispersion.

    Arguments as in ``distances.statistics``; ``by_entropies`` (M, n) and ``by_dispersion`` (n,).
    """
    n, count, d = values.shape
    inverse = np.broadcast_to(1.0 if bandwidth is None else 1.0 / np.asarray(bandwidth), (n,))
    out = np.empty(values.shape)

    def task(start: int, stop: int) -> None:
        upstream = (by_entropies, by_dispersion)
        _LOOPS[name](values, weights, owners, members, inverse, *upstream, out, start, stop)

    spread(task, n, n * count * count * (d + 8) / 4)
    return out
