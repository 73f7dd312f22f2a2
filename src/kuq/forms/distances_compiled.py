"""Draws of vectors under a radial kernel: all distances, their profile, and sums by member.

Distances are sums of squared differences, so no digit is lost however close draws are. A row of
distances from one draw to those after it is filled first; the profile then runs over the row.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kuq._numba.compiling import (
    Int,
    Real,
    fill,
    inlined,
    inputs,
    kernel,
    outputs,
    positions,
    reduction,
    rows,
    spread,
)
from kuq._numba.mathematics import exp, expm1_negative, log, log1p
from kuq.forms.exponential_draws_compiled import _steps

#: Draws and their weights, where those of a member end, and its weight; one over the bandwidth, and
#: a parameter of the kernel; sums inside of members and between them; the first entry and the last.
_SIGNATURE = (
    *(rows(3), rows(2), positions(1), inputs(1)),
    *(inputs(1), Real, outputs(2), outputs(2), Int, Int),
)


# Profiles: k − k(x, x) of a squared distance in bandwidths.


@inlined
def _root(s, parameter):
    return math.sqrt(s)


@inlined
def _power(s, parameter):
    safe = s if s > 1e-300 else 1e-300
    value = exp(0.5 * parameter * log(safe))
    return value if s > 1e-300 else s  # zero, or NaN


@inlined
def _bump(s, parameter):
    return -expm1_negative(-s)


@inlined
def _rational(s, parameter):
    value = -expm1_negative(-parameter * log1p(s))
    return value if s >= 0.0 else s  # NaN


@inlined
def _exponential(s, parameter):
    return -expm1_negative(-math.sqrt(s))


@inlined
def _matern_3_2(s, parameter):
    z = math.sqrt(3.0 * s)
    return _steps(700.0 if z > 700.0 else z)[2]


@inlined
def _matern_5_2(s, parameter):
    z = math.sqrt(5.0 * s)
    _, _, second, third = _steps(700.0 if z > 700.0 else z)
    return (second + 2.0 * third) / 3.0


@reduction
def _squared_distance(x, y):
    total = 0.0
    for k in range(x.size):
        gap = x[k] - y[k]
        total += gap * gap
    return total


@reduction
def _four_squared_distances(x, a, b, c, d):
    """To four draws at once, so that x is loaded once."""
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    for k in range(x.size):
        value = x[k]
        gap = value - a[k]
        first += gap * gap
        gap = value - b[k]
        second += gap * gap
        gap = value - c[k]
        third += gap * gap
        gap = value - d[k]
        fourth += gap * gap
    return first, second, third, fourth


@inlined
def _fill_row(draws, i, row):
    """Squared distances from draw i to those after it."""
    count = draws.shape[0] - i - 1
    whole = count - count % 4
    x = draws[i]
    for j in range(0, whole, 4):
        p = i + 1 + j
        row[j], row[j + 1], row[j + 2], row[j + 3] = _four_squared_distances(
            x, draws[p], draws[p + 1], draws[p + 2], draws[p + 3]
        )
    for j in range(whole, count):
        row[j] = _squared_distance(x, draws[i + 1 + j])


@reduction
def _sum(values):
    total = 0.0
    for k in range(values.size):
        total += values[k]
    return total


def _loop(name: str, profile: Any) -> Callable[..., None]:
    """All pairs of draws under one kernel."""

    @kernel(*_SIGNATURE, name=name)
    def loop(values, weights, ends, members, inverse, parameter, within, sums, start, stop):
        count = values.shape[1]
        row, by_member = np.empty(count), np.empty(members.size)
        for c in range(start, stop):
            factor = inverse[c] * inverse[c]
            fill(by_member, 0.0)
            between = 0.0
            w = weights[c] if weights.shape[0] > 1 else weights[0]
            for m in range(members.size):
                for i in range(ends[m - 1] if m else 0, ends[m]):
                    rest = count - i - 1
                    _fill_row(values[c], i, row)
                    for j in range(rest):
                        row[j] = w[i + 1 + j] * profile(row[j] * factor, parameter)
                    begin = ends[m] - i - 1
                    by_member[m] += w[i] * _sum(row[:begin])
                    for other in range(m + 1, members.size):
                        end = ends[other] - i - 1
                        between += members[m] * members[other] * (w[i] * _sum(row[begin:end]))
                        begin = end
            inside = 0.0
            for m in range(members.size):
                within[m, c] = by_member[m]
                inside += members[m] * (1.0 - members[m]) * by_member[m]
            sums[0, c] = 2.0 * (between - inside)
            sums[1, c] = 2.0 * between

    return loop


_PROFILES = {
    "root": _root,
    "power": _power,
    "bump": _bump,
    "rational": _rational,
    "exponential": _exponential,
    "matern_3_2": _matern_3_2,
    "matern_5_2": _matern_5_2,
}
#: Compiled when they are first used.
_LOOPS = {name: _loop(name, profile) for name, profile in _PROFILES.items()}


def statistics(
    name: str,
    parameter: float,
    bandwidth: np.ndarray | float | None,
    values: np.ndarray,
    weights: np.ndarray,
    owners: np.ndarray,
    members: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """H (M, n), Σ w_i w_j D_ij (n,), and the sum over pairs of members that it was left from.

    Draws (n, T, d) of all members one after the other, their weights inside a member (n, T) or
    (1, T), their owners (T,) and the weights of the members (M,).
    """
    n, count, d = values.shape
    within, sums = np.empty((len(members), n)), np.empty((2, n))
    inverse = np.broadcast_to(1.0 if bandwidth is None else 1.0 / np.asarray(bandwidth), (n,))
    ends = np.searchsorted(owners, np.arange(len(members)), side="right")

    def task(start: int, stop: int) -> None:
        draws = (values, weights, ends, members)
        _LOOPS[name](*draws, inverse, parameter, within, sums, start, stop)

    spread(task, n, n * count * count * (d + 8) / 16)
    return within, sums[0], sums[1]
