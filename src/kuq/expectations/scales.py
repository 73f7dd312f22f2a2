"""The engine: every radial kernel as a mixture of Gaussian kernels over scales.

k − k(x,x) = ∫ w(v) (1 − exp(−t r²)) dv with v = log(t·bandwidth²), so the entropy or divergence
under k is ∫ w(v) g(t) dv, where g is that of the Gaussian kernel at scale t. The integrand is
analytic in a strip around the real axis, and the plain trapezoid rule converges exponentially.

Nodes lie on one grid n·step in v for all laws; only the integer at which the window starts
follows the scale of the data. So the kernel enters by tables, made once in NumPy. Left of the
window g = αt + βt² + γt³ with α from moments and β, γ from its first two nodes (for heavy tails,
which have no α, g = αt + βt² from two nodes); right of it g = a + c·t^(−1/2).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from kuq._array import Array, as_index, detach, from_numpy, is_traced, namespace
from kuq.errors import ParameterError
from kuq.kernels.base import ScaleMixture

#: t of shape (T, lead…) to g(t) and to a bound on how far g is from its limit at t = ∞.
AtScale: TypeAlias = Callable[[Array], tuple[Array, Array]]

_BLOCK = 12
_LONGEST_WINDOW = 250.0
#: Where windows may start if values cannot be read: bandwidths from 1e−11 to 1e16 data scales.
_TRACED_POSITIONS = (-160, 60)


class _Left(NamedTuple):
    """What is known of g at t = 0: its value and its slope."""

    value: float
    slope: Array | None


@dataclass(frozen=True)
class Tables:
    """A kernel's density on the grid n·step, for n from ``first`` on, and its tail sums."""

    first: int
    step: float
    weight: np.ndarray
    #: Σ_{k<n} w_k e^{j(v_k − v_n)} for j = 0, 1, 2, 3
    mass_below: np.ndarray
    below: np.ndarray
    below_squared: np.ndarray
    below_cubed: np.ndarray
    #: Σ_{k>n} w_k, and the same with w_k e^{−(v_k − v_n)/2}
    above: np.ndarray
    above_rooted: np.ndarray
    #: the part of the grid where the density is not negligible
    support: tuple[int, int]
    #: beyond it the density is a power of t, or ends
    knee: int


def integrate(
    kernel: ScaleMixture,
    g: AtScale,
    second_moment: Array,
    smallest_variance: Array,
    bandwidth: Array | None,
    rtol: float,
    start_value: float = 0.0,
    decay: float = 2.0,
    slope: Array | None = None,
) -> Array:
    """∫ w(v) g(t) dv with relative accuracy ``rtol``.

    ``second_moment`` E‖X−Y‖² places the window and ``smallest_variance`` tells where g has
    reached its limit; both have the lead shape of g. ``start_value`` is g(0), other than zero
    only for bounded kernels, and ``slope`` is dg/dt at zero where it is known; reading it off
    the nodes fails for laws of equal means, whose slope is zero. ``decay`` is lower for laws
    with heavy tails, whose g is a smaller power of t at the left end.
    """
    xp = namespace(second_moment)
    kernel = kernel.shape()
    rtol = max(rtol, 4 * float(xp.finfo(second_moment.dtype).eps))
    step = grid_step(kernel, rtol)
    start = -(math.log(1 / rtol) + 8) / decay  # left of it g = αt + βt²
    moment = detach(second_moment)
    usable = (moment > 0) & xp.isfinite(moment)
    moment = xp.where(usable, moment, xp.ones_like(moment))
    log_moment = xp.log(moment)
    log_unit = log_moment if bandwidth is None else log_moment - 2 * xp.log(detach(bandwidth))
    position = xp.round((start - log_unit) / step)  # the window's first node, on the grid
    reach = log_moment - xp.log(4 * detach(smallest_variance))
    low, high = _range(position, *_TRACED_POSITIONS)
    tables = _tables(kernel, step, low, high)
    margin = 0.9 * math.log(1 / rtol)  # the error of the right tail falls as t^(−3/2)
    wanted = _range(reach, 0.0, 3 * math.log(1 / rtol))[1] + margin
    count = int(min(max(wanted, 4.0), _LONGEST_WINDOW) / step) - int(start / step)
    # With a bandwidth below the data's scale g matters around it, however small it is there.
    count = max(count, tables.knee + int(margin / step) - low)
    count = max(2, min(count, tables.support[1] - low + 1))
    skip = min(max(0, tables.support[0] - high), count - 2)
    position, count = position + skip, count - skip
    # With nodes skipped the window starts beyond small t, and nothing is left of it.
    left = _Left(start_value, slope if skip == 0 else None)
    return _sum_over_window(g, tables, position, count, bandwidth, rtol, left)


def _sum_over_window(
    g: AtScale,
    tables: Tables,
    position: Array,
    count: int,
    bandwidth: Array | None,
    rtol: float,
    left: _Left,
) -> Array:
    xp = namespace(position)
    traced = is_traced(position)
    block = count if traced else _BLOCK
    total, done = None, 0
    before: Array | None = None
    while True:
        size = min(block, count - done)
        if count - done - size < 2:  # no stub of a block: the tail needs two nodes
            size = count - done
        nodes = position[None, ...] + _column(range(done, done + size), position)
        v = tables.step * nodes
        t = xp.exp(v) if bandwidth is None else xp.exp(v) / bandwidth / bandwidth
        value, rest = g(t)
        if total is None:
            total = _left_tail(tables, nodes, t, value, left)
        total = total + xp.sum(_look_up(tables.weight, tables, nodes) * value, axis=0)
        done += size
        last = nodes[-1]
        previous = value[-2] if size > 1 else before
        before = value[-1]
        if done >= count:
            break
        bound = _look_up(tables.above, tables, last) * rest[-1]
        if bool(xp.all(~(bound > 1e-2 * rtol * total))):
            break
    assert previous is not None
    return total + _right_tail(tables, last, previous, before)


def _left_tail(tables: Tables, nodes: Array, t: Array, g: Array, left: _Left) -> Array:
    """Σ w g over the nodes before the window."""
    linear, squared, cubed, mass = (
        _look_up(table, tables, nodes[0])
        for table in (tables.below, tables.below_squared, tables.below_cubed, tables.mass_below)
    )
    ratio = math.exp(tables.step)
    g0, g1 = g[0] - left.value, g[1] - left.value
    if left.slope is None:
        beta = (g1 - ratio * g0) / (ratio * ratio - ratio)
        tail = (g0 - beta) * linear + beta * squared
    else:
        first = left.slope * t[0]
        y0, y1 = g0 - first, (g1 - ratio * first) / (ratio * ratio)
        gamma = (y1 - y0) / (ratio - 1)
        tail = first * linear + (y0 - gamma) * squared + gamma * cubed
    return tail + left.value * mass if left.value else tail


def _right_tail(tables: Tables, last: Array, previous: Array, final: Array) -> Array:
    c = (previous - final) / math.expm1(tables.step / 2)
    constant = _look_up(tables.above, tables, last)
    return (final - c) * constant + c * _look_up(tables.above_rooted, tables, last)


def _column(numbers: range, like: Array) -> Array:
    xp = namespace(like)
    column = from_numpy(np.asarray(list(numbers), dtype=float), like)
    return xp.reshape(column, (-1,) + (1,) * like.ndim)


def _look_up(table: np.ndarray, tables: Tables, nodes: Array) -> Array:
    xp = namespace(nodes)
    values = from_numpy(table, nodes)
    index = as_index(xp.clip(nodes - tables.first, 0, table.size - 1))
    return xp.reshape(xp.take(values, xp.reshape(index, (-1,)), axis=0), nodes.shape)


def _range(values: Array, low: float, high: float) -> tuple[int, int]:
    """The whole numbers around the finite values, or the given bounds under tracing."""
    if is_traced(values):
        return int(low), int(high)
    xp = namespace(values)
    finite = xp.isfinite(values)
    if not bool(xp.any(finite)):
        return 0, 0
    least = float(xp.min(xp.where(finite, values, xp.full_like(values, math.inf))))
    most = float(xp.max(xp.where(finite, values, xp.full_like(values, -math.inf))))
    return math.floor(least), math.ceil(most)


def _tables(kernel: ScaleMixture, step: float, low: int, high: int) -> Tables:
    """Tables for windows that start between two nodes, with the range rounded for re-use."""
    longest = int(_LONGEST_WINDOW / step)
    high = max(high + longest, longest)
    return _cached_tables(kernel, step, 64 * (min(low, 0) // 64), 64 * (high // 64 + 1))


@functools.lru_cache(maxsize=64)
def _cached_tables(kernel: ScaleMixture, step: float, low: int, high: int) -> Tables:
    """Sums over the infinite grid: explicit far out, then geometric with the last ratio."""
    margin = int(60 / step)
    n = np.arange(low - margin, high + margin + 1)
    v = n * step
    with np.errstate(over="ignore", under="ignore"):
        weight = step * np.exp(kernel.log_density(v))
    mass_below, below, below_squared, below_cubed = (
        _running(weight, math.exp(-power * step)) for power in range(4)
    )
    above = _running(weight[::-1], 1.0)[::-1].copy()
    above_rooted = _running(weight[::-1], math.exp(-step / 2))[::-1].copy()
    visible = np.flatnonzero(weight > 1e-290)
    support = (int(n[visible[0]]), int(n[visible[-1]]))
    slope = np.diff(np.log(weight[visible])) / step
    bent = np.flatnonzero(np.abs(slope - slope[-1]) > 0.1)
    knee = int(n[visible[bent[-1]]]) if bent.size else support[0]
    return Tables(
        low - margin,
        step,
        weight,
        mass_below,
        below,
        below_squared,
        below_cubed,
        above,
        above_rooted,
        support,
        knee,
    )


def _running(weight: np.ndarray, decay: float) -> np.ndarray:
    """Σ_{k<n} w_k decay^(n−k), started from a geometric series."""
    start = 0.0
    if weight[0] > 0 and weight[1] > 0:
        ratio = weight[0] / weight[1] * decay
        start = weight[0] * ratio / (1 - ratio) if ratio < 1 else math.inf
    out = np.empty_like(weight)
    total = start * 1.0
    for i, w in enumerate(weight):
        out[i] = total
        total = decay * (total + w)
    return out


@functools.lru_cache(maxsize=256)
def grid_step(kernel: ScaleMixture, rtol: float) -> float:
    """The largest step at which the density reproduces the kernel's own profile.

    This also finds a density that does not belong to the profile.
    """
    r2 = np.exp(np.linspace(-6.0, 6.0, 9))
    wanted = np.asarray(kernel.profile(r2, np))
    step, worst = 1.4 * math.pi**2 / (math.log(1 / rtol) + 6), math.inf
    while step > 0.02:
        worst = float(np.max(np.abs(_profile_by_rule(kernel, r2, step) / wanted - 1)))
        if worst < rtol / 2000 + 5e-15:
            return step
        step *= 0.85
    if worst > 1e-6:
        raise ParameterError(
            f"log_density of {kernel!r} does not belong to its profile (relative difference "
            f"{worst:.1e}): profile(s) must be the integral over v of "
            "(1 − exp(−s·e^v))·exp(log_density(v))"
        )
    return step


def _profile_by_rule(kernel: ScaleMixture, r2: np.ndarray, step: float) -> np.ndarray:
    n = np.arange(int(-40 / step), int(40 / step) + 1)
    tables = _cached_tables(kernel, step, int(n[0]), int(n[-1]))
    picked = slice(int(n[0]) - tables.first, int(n[-1]) - tables.first + 1)
    g = -np.expm1(-r2[:, None] * np.exp(n * step))
    left = g[:, 0] * tables.below[picked][0]
    right = g[:, -1] * tables.above[picked][-1]
    return np.asarray(g @ tables.weight[picked] + left + right)
