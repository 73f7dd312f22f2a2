"""The sums of ``scalar_pairs`` with their derivatives by location, scale and weight of every atom.

An atom is in the entropy of its own member and in the dispersion, so that there are two derivatives
by each of its numbers. Blocks and units are those of ``scalar_pairs``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types

from kuq._numba.compiling import add, fill, inlined, inputs, kernel, outputs, product, rows, spread
from kuq._numba.mathematics import erf_and_fall, exp, expm1_negative
from kuq.forms.scalar_pairs_compiled import _cut, _load, _units

_BLOCK = 256
_ROOT_PI = math.sqrt(math.pi)
#: Stands for zero where a number divides.
_TINY = 1e-150
_OWNERS = types.Array(types.int64, 1, "C", readonly=True)


# Kernels: H of an atom and its slope; D of a pair and its slopes by gap ≥ 0 and both scales, whose
# difference comes with all of its digits.


@inlined
def _absolute_atom(s: Any) -> Any:
    return s * (1.0 / _ROOT_PI), 1.0 / _ROOT_PI


@inlined
def _absolute_pair(gap: Any, change: Any, s: Any, t: Any) -> Any:
    r = math.sqrt(2.0 * (s * s + t * t))
    divisor = r if r > _TINY else _TINY
    inverse = 1.0 / divisor
    error, fall = erf_and_fall(gap * inverse)
    width = r + s + t
    width = width if width > _TINY else _TINY
    value = change * change / (_ROOT_PI * width) + (gap * error - r * fall * (1.0 / _ROOT_PI))
    # 2s/r − 1 = 2 (s² − t²)/(r (2s + r)), which is no difference of close numbers
    left, right = 2.0 * s * inverse + 1.0, 2.0 * t * inverse + 1.0
    excess = 2.0 * (change * inverse) * ((s + t) * inverse) / (left * right)
    ds = (excess * right - (left - 1.0) * fall) * (1.0 / _ROOT_PI)
    dt = (-excess * left - (right - 1.0) * fall) * (1.0 / _ROOT_PI)
    # Of two point masses apart, H alone changes.
    limit = -1.0 / _ROOT_PI if gap > 0.0 else 0.0
    return value, error, ds if r > _TINY else limit, dt if r > _TINY else limit


@inlined
def _point_atom(s: Any) -> Any:
    return 0.0, 0.0


@inlined
def _distance_pair(gap: Any, change: Any, s: Any, t: Any) -> Any:
    return gap, 1.0, 0.0, 0.0


@inlined
def _gaussian_atom(u: Any) -> Any:
    u = _cut(u)
    a = 1.0 / math.sqrt(1.0 + 4.0 * u * u)
    return 2.0 * (u * a) * (u * a) / (1.0 + a), 2.0 * (u * a) * a * a


@inlined
def _gaussian_pair(gap: Any, change: Any, u: Any, v: Any) -> Any:
    """With a = (1 + 4u²)^(−½) and b of v, c = (1 + 2u² + 2v²)^(−1) and z = gap² c the slope by u is
    2u (c^(3/2) e^(−z) (1 − 2z) − a³), here as differences that keep their digits.
    """
    a = 1.0 / math.sqrt(1.0 + 4.0 * u * u)
    b = 1.0 / math.sqrt(1.0 + 4.0 * v * v)
    c = 1.0 / (1.0 + 2.0 * (u * u + v * v))
    root = math.sqrt(c)
    z = gap * gap * c
    h = 2.0 * change * (u + v) * c
    p = c / (a * b)
    p = p if p > _TINY else _TINY
    centre = h * h * (1.0 + 2.0 * p) / ((1.0 + p) * p * (math.sqrt(2.0 + 2.0 * p) + 2.0 * p))
    fall = -expm1_negative(-z)
    rest = exp(-z)
    value = root * (centre + fall)
    moved = -root * c * (fall + 2.0 * z * rest)
    du = 2.0 * u * (h * a * a * (root * root + root * a + a * a) / (root + a) + moved)
    dv = 2.0 * v * (-h * b * b * (root * root + root * b + b * b) / (root + b) + moved)
    return value, 2.0 * gap * c * root * rest, du, dv


# The engine.


@inlined
def _pair_row(
    pair: Any, x: Any, y: Any, s: Any, t: Any, inverse: Any, found: Any, size: Any
) -> None:
    """D of two atoms, and its slopes by the location of the first and both scales."""
    for k in range(size):
        difference = (x[k] - y[k]) * inverse[k]
        value, slope, slope_s, slope_t = pair(
            _cut(abs(difference)),
            _cut((s[k] - t[k]) * inverse[k]),
            _cut(s[k] * inverse[k]),
            _cut(t[k] * inverse[k]),
        )
        slope = slope if difference > 0.0 else -slope
        found[0, k] = value
        found[1, k] = slope if difference != 0.0 else 0.0
        found[2, k] = slope_s
        found[3, k] = slope_t


@inlined
def _loop(
    atom: Any,
    pair: Any,
    loc: Any,
    scale: Any,
    weights: Any,
    owners: Any,
    members: Any,
    width: Any,
    entropies: Any,
    sums: Any,
    slopes: Any,
) -> None:
    count, n = loc.shape
    heads = entropies.shape[0]  # none if the dispersion alone is asked for
    blocks = 2 if heads else 1
    numbers = slopes.shape[0] // (blocks * count)
    several = count > members.size
    x, s, w = np.empty((count, _BLOCK)), np.empty((count, _BLOCK)), np.empty((count, _BLOCK))
    # Rows of sums: H of every member, both of the dispersion, slopes in the order of the result.
    first = heads + 2
    total = np.empty((first + slopes.shape[0], _BLOCK))
    found, both = np.empty((4, _BLOCK)), np.empty(_BLOCK)
    unit, inverse = np.empty(_BLOCK), np.empty(_BLOCK)
    for i in range(count):
        fill(w[i], 1.0)
    for start in range(0, n, _BLOCK):
        size = min(_BLOCK, n - start)
        _load(loc, start, x[:, :size])
        _load(scale, start, s[:, :size])
        if weights.size:
            _load(weights, start, w[:, :size])
        _units(x[:, :size], s[:, :size], width[start : start + size], unit[:size], inverse[:size])
        for r in range(total.shape[0]):
            fill(total[r], 0.0)
        for i in range(count):
            for j in range(i + 1, count):
                _pair_row(pair, x[i], x[j], s[i], s[j], inverse, found, size)
                a, b = owners[i], owners[j]
                inside = a == b
                share = 1.0 if inside else 2.0 * members[a] * members[b]
                by = first if inside else first + (blocks - 1) * numbers * count
                product(share, w[i], w[j], both, size)
                add(1.0, both, found[0], total[a if inside else first - 1], size)
                add(1.0, both, found[1], total[by + i], size)
                add(-1.0, both, found[1], total[by + j], size)
                if numbers > 1:
                    add(1.0, both, found[2], total[by + count + i], size)
                    add(1.0, both, found[3], total[by + count + j], size)
                if numbers == 3:
                    add(share, w[j], found[0], total[by + 2 * count + i], size)
                    add(share, w[i], found[0], total[by + 2 * count + j], size)
        for k in range(size):
            total[first - 2, k] = total[first - 1, k]
            both[k] = 1.0
        # Pairs inside of members are in the dispersion 2 w (w − 1) times what they are in H.
        for m in range(members.size if several else 0):
            add(2.0 * members[m] * (members[m] - 1.0), both, total[m], total[first - 2], size)
        for i in range(count if heads else 0):
            m = owners[i]
            share = 2.0 * members[m] * (members[m] - 1.0)
            for p in range(numbers if several else 0):
                row = first + p * count + i
                add(share, both, total[row], total[row + numbers * count], size)
            for k in range(size):
                found[0, k], found[1, k] = atom(s[i, k] * inverse[k])
            add(1.0, w[i], found[0], total[m], size)
            if numbers > 1:
                add(1.0, w[i], found[1], total[first + count + i], size)
            if numbers == 3:
                add(1.0, both, found[0], total[first + 2 * count + i], size)
        # In units of a column values alone change; in bandwidths the slopes do.
        for m in range(heads):
            product(1.0, total[m], unit, entropies[m, start:], size)
        for q in range(2):
            product(1.0, total[first - 2 + q], unit, sums[q, start:], size)
        for k in range(size):
            both[k] = unit[k] * inverse[k]
        for r in range(slopes.shape[0]):
            weight = r // count % numbers == 2
            product(1.0, total[first + r], unit if weight else both, slopes[r, start:], size)


_SIGNATURE = (
    rows(2),
    rows(2),
    rows(2),
    _OWNERS,
    inputs(1),
    inputs(1),
    outputs(2),
    outputs(2),
    outputs(2),
)


@kernel(*_SIGNATURE)
def _absolute(loc, scale, w, owners, members, width, entropies, sums, slopes):  # type: ignore[no-untyped-def]
    _loop(
        _absolute_atom,
        _absolute_pair,
        loc,
        scale,
        w,
        owners,
        members,
        width,
        entropies,
        sums,
        slopes,
    )


@kernel(*_SIGNATURE)
def _distance(loc, scale, w, owners, members, width, entropies, sums, slopes):  # type: ignore[no-untyped-def]
    _loop(
        _point_atom,
        _distance_pair,
        loc,
        scale,
        w,
        owners,
        members,
        width,
        entropies,
        sums,
        slopes,
    )


@kernel(*_SIGNATURE)
def _gaussian(loc, scale, w, owners, members, width, entropies, sums, slopes):  # type: ignore[no-untyped-def]
    _loop(
        _gaussian_atom,
        _gaussian_pair,
        loc,
        scale,
        w,
        owners,
        members,
        width,
        entropies,
        sums,
        slopes,
    )


_LOOPS: dict[str, Callable[..., None]] = {
    "absolute": _absolute,
    "distance": _distance,
    "gaussian": _gaussian,
}


def statistics(
    name: str,
    bandwidth: np.ndarray | float | None,
    loc: np.ndarray,
    scale: np.ndarray,
    weights: np.ndarray | None,
    owners: np.ndarray,
    members: np.ndarray,
    alone: bool = True,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What ``scalar_pairs.statistics`` gives, and derivatives (2, 3, T, n).

    The first are of the entropy of an atom's own member, the second of the dispersion: by location,
    scale and, if there are weights, weight of every atom. By "distance" all are points, and there
    is the derivative by location alone. Without ``alone`` there are no entropies, and derivatives
    of the dispersion only, (1, 3, T, n); for members of one atom.
    """
    count, n = loc.shape
    numbers = 1 if name == "distance" else 2 if weights is None else 3
    if weights is None:
        weights = np.empty((0, n))
    width = np.empty(0)
    if bandwidth is not None:
        width = np.broadcast_to(np.asarray(bandwidth, dtype=np.float64), (n,))
    assert alone or count == len(members)
    heads, blocks = (len(members), 2) if alone else (0, 1)
    shapes = ((heads, n), (2, n), (blocks * numbers * count, n))
    whole = [np.empty(shape) for shape in shapes]

    def task(start: int, stop: int) -> None:
        part = (..., slice(start, stop))
        all_of_it = stop - start == n
        own = whole if all_of_it else [np.empty((*s[:-1], stop - start)) for s in shapes]
        atoms = (np.ascontiguousarray(array[part]) for array in (loc, scale, weights))
        _LOOPS[name](*atoms, owners, members, width[start:stop], *own)
        if not all_of_it:
            for result, found in zip(whole, own, strict=True):
                result[part] = found

    spread(task, n, n * count * (count + 1), _BLOCK)
    entropies, sums, slopes = whole
    return entropies, sums[0], sums[1], slopes.reshape(blocks, numbers, count, n)
