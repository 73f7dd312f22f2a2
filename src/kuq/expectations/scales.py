"""The engine: every radial kernel as a mixture of Gaussian kernels over scales.

k − k(x,x) = ∫ w(v) (1 − exp(−t r²)) dv with v = log(t·bandwidth²), so the entropy or divergence
under k is ∫ w(v) g(t) dv, where g is that of the Gaussian kernel at scale t. The integrand is
analytic in a strip around the real axis, and the plain trapezoid rule converges exponentially.

Nodes lie on one grid n·step in v for all laws; only the integer at which the window starts
follows the scale of the data. So the kernel enters by tables, made once in NumPy. Left of the
window g is a polynomial in t whose slope at zero comes from moments and whose other coefficients
come from the first nodes (for heavy tails, which have no slope, αt + βt² from two nodes); right
of it g is one in t^(−1/2), from the last nodes.
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

#: Nodes at once, after which the sum may be complete.
BLOCK = 9
#: Coefficients of g beside its slope left of the window, where moments of all orders exist.
_LEFT_ORDERS = (2.0, 3.0, 4.0, 5.0)
#: The same for mixtures, whose rare wide components bend g far left of its bulk.
_CAUTIOUS_LEFT_ORDERS = (2.0, 3.0)
_HEAVY_LEFT_ORDERS = (1.0, 2.0)
#: Powers of g right of the window: laws in d dimensions have −d/2, −d/2 − 1, …
_RIGHT_ORDERS = (0.0, -0.5, -1.0, -1.5)
_LONGEST_WINDOW = 250.0
#: Where values cannot be read: bandwidths from 1e−16 to 1e16 data scales.
_TRACED_RANGE = 2 * math.log(1e16)
#: Below this rate the window would reach scales that underflow.
_SLOWEST = 0.035


class _Left(NamedTuple):
    """What is known of g at t = 0: its value, its slope, and the orders of its further terms."""

    value: float
    slope: Array | None
    orders: tuple[float, ...]


@dataclass(frozen=True)
class Tables:
    """A kernel's density on the grid n·step, for n from ``first`` on, and its tail sums."""

    first: int
    step: float
    weight: np.ndarray
    #: Σ_{k<n} w_k, and Σ_{k<n} w_k e^(v_k − v_n)
    mass_below: np.ndarray
    linear_below: np.ndarray
    #: Σ_{k>n} w_k
    mass_above: np.ndarray
    #: what the values at the first nodes, by orders of the fit, or the last ones add to the tails
    left: dict[tuple[float, ...], np.ndarray]
    right: np.ndarray
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
    order: float = 2.0,
    slope: Array | None = None,
    cautious: bool = True,
    block: int = BLOCK,
) -> Array:
    """∫ w(v) g(t) dv with relative accuracy ``rtol``.

    ``second_moment`` E‖X−Y‖² places the window and ``smallest_variance`` tells where g has
    reached its limit; both have the lead shape of g. ``start_value`` is g(0), other than zero
    only for bounded kernels, and ``slope`` is dg/dt at zero where it is known; reading it off
    the nodes fails for laws of equal means, whose slope is zero. ``order`` is lower for laws
    with heavy tails: that of the first power of t in g beside t and t². ``cautious`` is False
    where the second moment bounds all others, as for normals: the window may then start later.
    ``block`` nodes are evaluated at once.
    """
    xp = namespace(second_moment)
    kernel = kernel.bare
    narrow = _narrow_rule(kernel)
    if narrow is not None:
        return _sum_over_rule(g, *narrow, second_moment, bandwidth)
    rtol = max(rtol, 4 * float(xp.finfo(second_moment.dtype).eps))
    step = grid_step(kernel, rtol)
    digits = math.log(1 / rtol)
    orders: tuple[float, ...] = _HEAVY_LEFT_ORDERS if slope is None else _CAUTIOUS_LEFT_ORDERS
    rate = min(2.0, max(_SLOWEST, order + _left_exponent(kernel))) if slope is None else 2.0
    start = -(digits + 8) / rate  # left of it g is a polynomial
    if slope is not None and not cautious:
        orders = _LEFT_ORDERS
        start = -(digits + 9) / len(orders)
    moment = detach(second_moment)
    usable = (moment > 0) & xp.isfinite(moment)
    moment = xp.where(usable, moment, xp.ones_like(moment))
    log_moment = xp.log(moment)
    log_unit = log_moment if bandwidth is None else log_moment - 2 * xp.log(detach(bandwidth))
    scale = -log_unit
    further = 0
    if slope is None and bandwidth is not None:
        # Far left of the data's scale g is a broken power of t that no polynomial continues; a wide
        # kernel has its mass there, so the window starts at the kernel's own scale.
        further = max(_range(scale / step, 0.0, _TRACED_RANGE / step)[1], 0)
        scale = xp.clip(scale, max=0.0)
    position = xp.round((start + scale) / step)  # the window's first node, on the grid
    reach = log_moment - xp.log(4 * detach(smallest_variance))
    low, high = _range(position, (start - _TRACED_RANGE) / step, (start + _TRACED_RANGE) / step)
    tables = _tables(kernel, step, low, high + further)
    margin = 0.55 * digits + 3.5  # the error of the right tail falls as t^(−2)
    wanted = _range(reach, 0.0, 3 * digits)[1] + margin
    count = int(min(max(wanted, 4.0), _LONGEST_WINDOW) / step) - int(start / step) + further
    # With a bandwidth below the data's scale g matters around it, however small it is there.
    count = max(count, tables.knee + int(margin / step) - low)
    fewest = max(len(orders), len(_RIGHT_ORDERS))
    count = max(fewest, min(count, tables.support[1] - low + 1))
    skip = min(max(0, tables.support[0] - high), count - fewest)
    position, count = position + skip, count - skip
    # With nodes skipped the window starts beyond small t, and nothing is left of it.
    left = _Left(start_value, slope, orders)
    if skip > 0:
        left = _Left(start_value, None, _HEAVY_LEFT_ORDERS)
    block = count if is_traced(position) else block
    return _sum_over_window(g, tables, position, count, bandwidth, rtol, left, block)


def _sum_over_rule(
    g: AtScale, v: np.ndarray, weight: np.ndarray, like: Array, bandwidth: Array | None
) -> Array:
    xp = namespace(like)
    nodes, weights = (
        xp.reshape(from_numpy(values, like), (-1,) + (1,) * like.ndim) for values in (v, weight)
    )
    t = _scales(nodes, bandwidth)
    t = xp.broadcast_to(t, (v.size, *np.broadcast_shapes(tuple(t.shape[1:]), tuple(like.shape))))
    return xp.sum(weights * g(t)[0], axis=0)


def _sum_over_window(
    g: AtScale,
    tables: Tables,
    position: Array,
    count: int,
    bandwidth: Array | None,
    rtol: float,
    left: _Left,
    block: int,
) -> Array:
    xp = namespace(position)
    fit = len(_RIGHT_ORDERS)
    total, done = None, 0
    latest: list[Array] = []
    while True:
        size = min(block, count - done)
        if count - done - size < fit:  # no stub of a block
            size = count - done
        steps = np.arange(done, done + size, dtype=float).reshape(-1, *(1,) * position.ndim)
        nodes = position[None, ...] + from_numpy(steps, position)
        t = _scales(tables.step * nodes, bandwidth)
        value, rest = g(t)
        if total is None:
            total = _left_tail(tables, nodes, t, value, left)
        total = total + xp.sum(_look_up(tables.weight, tables, nodes) * value, axis=0)
        done += size
        latest = [*latest, *(value[k] for k in range(size))][-fit:]
        last = nodes[-1]
        above = _look_up(tables.mass_above, tables, last)
        complete = above * rest[-1] <= 1e-2 * rtol * xp.abs(total)
        if done >= count or bool(xp.all(complete | ~xp.isfinite(total))):
            break
    constant = latest[-1] * above
    fitted = xp.sum(xp.stack(latest) * _look_up(tables.right, tables, last), axis=0)
    return total + xp.where(complete, constant, fitted)


def _scales(v: Array, bandwidth: Array | None) -> Array:
    """t = e^v/bandwidth², cut where products with squares of the data would overflow."""
    xp = namespace(v)
    if bandwidth is not None:
        v = v - 2 * xp.log(bandwidth)
    far = 0.92 * math.log(float(xp.finfo(v.dtype).max))
    return xp.exp(xp.clip(v, -far, far))


def _left_tail(tables: Tables, nodes: Array, t: Array, g: Array, left: _Left) -> Array:
    """Σ w g over the nodes before the window."""
    xp = namespace(g)
    count = len(left.orders)
    g = g[:count, ...] - left.value
    if left.slope is not None:
        g = g - left.slope * t[:count, ...]
    tail = xp.sum(g * _look_up(tables.left[left.orders], tables, nodes[0]), axis=0)
    if left.slope is not None:
        tail = tail + left.slope * t[0] * _look_up(tables.linear_below, tables, nodes[0])
    if left.value:
        tail = tail + left.value * _look_up(tables.mass_below, tables, nodes[0])
    return tail


def _look_up(table: np.ndarray, tables: Tables, nodes: Array) -> Array:
    xp = namespace(nodes)
    # Far ends of the grid, where no window lies, may leave the range of float32.
    with np.errstate(over="ignore"):
        table = table.astype(np.float32 if xp.finfo(nodes.dtype).bits == 32 else np.float64)
    values = from_numpy(table, nodes)
    index = as_index(xp.clip(nodes - tables.first, 0, table.shape[-1] - 1))
    picked = xp.take(values, xp.reshape(index, (-1,)), axis=-1)
    return xp.reshape(picked, (*table.shape[:-1], *nodes.shape))


def _range(values: Array, low: float, high: float) -> tuple[int, int]:
    """The whole numbers around the finite values, or the given bounds under tracing."""
    if is_traced(values):
        return math.floor(low), math.ceil(high)
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
    power = kernel.density_power
    left_power, right_power = (None, None) if power is None else (power, -power)
    below = {
        j: _running(weight, step, j, left_power)
        for j in {0.0, 1.0, *_LEFT_ORDERS, *_CAUTIOUS_LEFT_ORDERS}
    }
    above = {j: _running(weight[::-1], step, -j, right_power)[::-1].copy() for j in _RIGHT_ORDERS}
    left: dict[tuple[float, ...], np.ndarray] = {
        orders: _fitted(below, orders, step)
        for orders in (_LEFT_ORDERS, _CAUTIOUS_LEFT_ORDERS, _HEAVY_LEFT_ORDERS)
    }
    right = _fitted(above, _RIGHT_ORDERS, -step)[::-1].copy()  # from the last node backwards
    visible = np.flatnonzero(weight > 1e-290)
    support = (int(n[visible[0]]), int(n[visible[-1]]))
    slope = np.diff(np.log(weight[visible])) / step
    bent = np.flatnonzero(np.abs(slope - slope[-1]) > 0.1)
    knee = int(n[visible[bent[-1]]]) if bent.size else support[0]
    return Tables(
        low - margin, step, weight, below[0.0], below[1.0], above[0.0], left, right, support, knee
    )


def _fitted(sums: dict[float, np.ndarray], orders: tuple[float, ...], step: float) -> np.ndarray:
    """What the value at each of the outer nodes adds to Σ w g, for g = Σ c_j t^j through them."""
    powers = np.exp(step * np.outer(np.arange(len(orders)), orders))
    with np.errstate(invalid="ignore"):  # sums of a density that has no end are infinite
        return np.asarray(np.linalg.inv(powers).T @ np.stack([sums[j] for j in orders]))


def _running(weight: np.ndarray, step: float, order: float, power: float | None) -> np.ndarray:
    """Σ_{k<n} w_k e^(−order·step·(n−k)), started from a geometric series.

    Where the weights are a known power of t, its ratio keeps the digits that it differs from one.
    """
    decay, total = math.exp(-order * step), 0.0
    if weight[0] > 0 and weight[1] > 0:
        if power is None:
            exponent = math.log(weight[0] / weight[1] * decay)
        else:
            exponent = -(order + power) * step
        total = weight[0] * math.exp(exponent) / -math.expm1(exponent) if exponent < 0 else math.inf
    out = np.empty_like(weight)
    for i, w in enumerate(weight):
        out[i] = total
        total = decay * (total + w)
    return out


@functools.lru_cache(maxsize=256)
def _left_exponent(kernel: ScaleMixture) -> float:
    """The power of t in the kernel's density at t → 0: what left of the window adds falls by it."""
    if kernel.density_power is not None:
        return kernel.density_power
    with np.errstate(over="ignore"):
        before, after = kernel.log_density(np.asarray([-101.0, -100.0]))
    return float(after - before) if math.isfinite(before) else math.inf


def is_narrow(kernel: ScaleMixture) -> bool:
    """Whether the density over scales is a peak that a common grid would miss."""
    return _narrow_rule(kernel.bare) is not None


@functools.lru_cache(maxsize=256)
def _narrow_rule(kernel: ScaleMixture) -> tuple[np.ndarray, np.ndarray] | None:
    """Nodes and weights for a density that is a narrow peak, None for any other.

    The common grid is as wide as the data may be, and too coarse for a peak.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        v = np.linspace(-60.0, 60.0, 2401)
        density = kernel.log_density(v)
        top = int(np.argmax(np.where(np.isnan(density), -math.inf, density)))
        if top in (0, v.size - 1) or density[top] - max(density[top - 4], density[top + 4]) < 8:
            return None
        low, high = v[top - 1], v[top + 1]
        for _ in range(60):  # thirds of an interval around the peak
            third = (high - low) / 3
            left, right = kernel.log_density(np.asarray([low + third, high - third]))
            low, high = (low + third, high) if left < right else (low, high - third)
        peak = (low + high) / 2
        width = 0.1
        while True:  # where the density has fallen by the factor √e
            below, at, above = kernel.log_density(peak + width * np.asarray([-1.0, 0.0, 1.0]))
            fall = at - (below + above) / 2
            if fall < 1:
                break
            width /= 2
        width *= math.sqrt(0.5 / fall)
        v = peak + 0.6 * width * np.arange(-27, 28)
        weight = 0.6 * width * np.exp(kernel.log_density(v))
    r2 = np.exp(np.linspace(-3.0, 3.0, 7) - peak)
    _check_profile(kernel, r2, -np.expm1(-r2[:, None] * np.exp(v)) @ weight)
    return v, weight


def _check_profile(kernel: ScaleMixture, r2: np.ndarray, integral: np.ndarray) -> None:
    worst = float(np.max(np.abs(integral / np.asarray(kernel.profile(r2, np)) - 1)))
    if worst > 1e-6:
        raise ParameterError(
            f"log_density of {kernel!r} does not belong to its profile (relative difference "
            f"{worst:.1e}): profile(s) must be the integral over v of "
            "(1 − exp(−s·e^v))·exp(log_density(v))"
        )


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
    _check_profile(kernel, r2, _profile_by_rule(kernel, r2, step))
    return step


def _profile_by_rule(kernel: ScaleMixture, r2: np.ndarray, step: float) -> np.ndarray:
    n = np.arange(int(-40 / step), int(40 / step) + 1)
    tables = _cached_tables(kernel, step, int(n[0]), int(n[-1]))
    picked = slice(int(n[0]) - tables.first, int(n[-1]) - tables.first + 1)
    g = -np.expm1(-r2[:, None] * np.exp(n * step))
    left = g[:, 0] * tables.linear_below[picked][0]
    right = g[:, -1] * tables.mass_above[picked][-1]
    return np.asarray(g @ tables.weight[picked] + left + right)
