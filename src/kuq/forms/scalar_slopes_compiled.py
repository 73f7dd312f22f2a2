"""The sums of ``scalar_pairs`` with their derivatives by location, scale and weight of every atom.

An atom is in the entropy of its own member and in the dispersion, so that there are two derivatives
by each of its numbers; only those that are wanted are kept. Blocks and units are those of
``scalar_pairs``. Arrays of atoms are read where they are and as they are, float32 too: for many
columns, moving numbers about costs as much as computing with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import types

from kuq._numba.compiling import (
    Int,
    add,
    fill,
    inlined,
    inputs,
    kernel,
    outputs,
    product,
    read,
    spread,
)
from kuq._numba.mathematics import erf_and_fall, exp, expm1_negative
from kuq.forms.scalar_pairs_compiled import _cut, _units

_BLOCK = 256
_ROOT_PI = math.sqrt(math.pi)
#: Stands for zero where a number divides.
_TINY = 1e-150


def _whole(ndim: int) -> Any:
    return types.Array(types.int64, ndim, "C", readonly=True)


# Kernels: H of an atom and its slope; D of a pair and its slopes by gap ≥ 0 and both scales, whose
# difference comes with all of its digits.


@inlined
def _absolute_atom(s: Any) -> Any:
    return s * (1.0 / _ROOT_PI), 1.0 / _ROOT_PI


@inlined
def _absolute_pair(gap: Any, change: Any, s: Any, t: Any) -> Any:
    """With e = (s − t)/(r + s + t), 2s/r − 1 = e (2t/r + 1), which is no difference of close
    numbers; one division serves for both denominators.
    """
    r = math.sqrt(2.0 * (s * s + t * t))
    spread_out = r > _TINY
    r = r if spread_out else _TINY
    width = r + (s + t)
    both = 1.0 / (r * width)
    inverse, excess = width * both, change * (r * both)
    error, fall = erf_and_fall(gap * inverse)
    value = gap * error + (change * excess - r * fall) * (1.0 / _ROOT_PI)
    left, right = 2.0 * s * inverse, 2.0 * t * inverse
    ds = (excess * (right + 1.0) - left * fall) * (1.0 / _ROOT_PI)
    dt = (-excess * (left + 1.0) - right * fall) * (1.0 / _ROOT_PI)
    # Of two point masses apart, H alone changes.
    limit = -1.0 / _ROOT_PI if gap > 0.0 else 0.0
    return value, error, ds if spread_out else limit, dt if spread_out else limit


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
    addresses: Any,
    itemsize: Any,
    places: Any,
    slots: Any,
    shares: Any,
    owners: Any,
    members: Any,
    width: Any,
    entropies: Any,
    sums: Any,
    slopes: Any,
    begin: Any,
    end: Any,
) -> None:
    count = owners.size
    heads = entropies.shape[0]  # none if the dispersion alone is asked for
    wanted = slopes.shape[0] // 2 if heads else slopes.shape[0]
    several = count > members.size
    x, s, w = np.empty((count, _BLOCK)), np.empty((count, _BLOCK)), np.empty((count, _BLOCK))
    # Rows of sums: H of every member, both of the dispersion, slopes in the order of the result.
    first = heads + 2
    outside = first + slopes.shape[0] - wanted
    total = np.empty((first + slopes.shape[0], _BLOCK))
    found, both, one = np.empty((4, _BLOCK)), np.empty(_BLOCK), np.empty(_BLOCK)
    unit, inverse = np.empty(_BLOCK), np.empty(_BLOCK)
    fill(one, 1.0)
    fill(both, 1.0)
    for i in range(count):
        fill(w[i], shares[i])
    for start in range(begin, end, _BLOCK):
        size = min(_BLOCK, end - start)
        for i in range(count):
            read(addresses, itemsize, places[0, i], start, 0.0, x[i, :size])
            read(addresses, itemsize, places[1, i], start, 0.0, s[i, :size])
            if several:
                read(addresses, itemsize, places[2, i], start, shares[i], w[i, :size])
        _units(x, s, width[start : start + size], unit[:size], inverse[:size])
        for r in range(total.shape[0]):
            fill(total[r, :size], 0.0)
        # Slopes are added where they are wanted; as a function it would count references.
        for i in range(count):
            for j in range(i + 1, count):
                _pair_row(pair, x[i], x[j], s[i], s[j], inverse, found, size)
                a, b = owners[i], owners[j]
                inside = a == b
                share = 1.0 if inside else 2.0 * members[a] * members[b]
                by = first if inside else outside
                if several:
                    product(1.0, w[i], w[j], both, size)
                add(share, both, found[0], total[a if inside else first - 1], size)
                if slots[0, i] >= 0:
                    add(share, both, found[1], total[by + slots[0, i]], size)
                if slots[0, j] >= 0:
                    add(-share, both, found[1], total[by + slots[0, j]], size)
                if slots[1, i] >= 0:
                    add(share, both, found[2], total[by + slots[1, i]], size)
                if slots[1, j] >= 0:
                    add(share, both, found[3], total[by + slots[1, j]], size)
                if slots[2, i] >= 0:
                    add(share, w[j], found[0], total[by + slots[2, i]], size)
                if slots[2, j] >= 0:
                    add(share, w[i], found[0], total[by + slots[2, j]], size)
        add(1.0, one, total[first - 1], total[first - 2], size)
        # Pairs inside of members are in the dispersion 2 w (w − 1) times what they are in H.
        for m in range(members.size if several else 0):
            add(2.0 * members[m] * (members[m] - 1.0), one, total[m], total[first - 2], size)
        for i in range(count if heads else 0):
            m = owners[i]
            share = 2.0 * members[m] * (members[m] - 1.0)
            for p in range(3 if several else 0):
                if slots[p, i] >= 0:
                    add(share, one, total[first + slots[p, i]], total[outside + slots[p, i]], size)
            for k in range(size):
                found[0, k], found[1, k] = atom(s[i, k] * inverse[k])
            add(1.0, w[i], found[0], total[m], size)
            if slots[1, i] >= 0:
                add(1.0, w[i], found[1], total[first + slots[1, i]], size)
            if slots[2, i] >= 0:
                add(1.0, one, found[0], total[first + slots[2, i]], size)
        # In units of a column values alone change; in bandwidths the slopes do.
        for m in range(heads):
            product(1.0, total[m], unit, entropies[m, start:], size)
        for q in range(sums.shape[0]):
            product(1.0, total[first - 2 + q], unit, sums[q, start:], size)
        product(1.0, unit, inverse, inverse, size)
        for p in range(3):
            for i in range(count):
                row = slots[p, i]
                while 0 <= row < slopes.shape[0]:
                    factor = unit if p == 2 else inverse
                    product(1.0, total[first + row], factor, slopes[row, start:], size)
                    row += wanted


_SIGNATURE = (
    _whole(1),
    Int,
    _whole(3),
    _whole(2),
    inputs(1),
    _whole(1),
    inputs(1),
    inputs(1),
    outputs(2),
    outputs(2),
    outputs(2),
    Int,
    Int,
)


@kernel(*_SIGNATURE)
def _absolute(a, itemsize, places, slots, shares, owners, w, width, entropies, sums, slopes, i, k):  # type: ignore[no-untyped-def]
    _loop(
        _absolute_atom,
        _absolute_pair,
        a,
        itemsize,
        places,
        slots,
        shares,
        owners,
        w,
        width,
        entropies,
        sums,
        slopes,
        i,
        k,
    )


@kernel(*_SIGNATURE)
def _distance(a, itemsize, places, slots, shares, owners, w, width, entropies, sums, slopes, i, k):  # type: ignore[no-untyped-def]
    _loop(
        _point_atom,
        _distance_pair,
        a,
        itemsize,
        places,
        slots,
        shares,
        owners,
        w,
        width,
        entropies,
        sums,
        slopes,
        i,
        k,
    )


@kernel(*_SIGNATURE)
def _gaussian(a, itemsize, places, slots, shares, owners, w, width, entropies, sums, slopes, i, k):  # type: ignore[no-untyped-def]
    _loop(
        _gaussian_atom,
        _gaussian_pair,
        a,
        itemsize,
        places,
        slots,
        shares,
        owners,
        w,
        width,
        entropies,
        sums,
        slopes,
        i,
        k,
    )


_LOOPS: dict[str, Callable[..., None]] = {
    "absolute": _absolute,
    "distance": _distance,
    "gaussian": _gaussian,
}


def statistics(
    name: str,
    bandwidth: np.ndarray | float | None,
    arrays: Sequence[np.ndarray],
    places: np.ndarray,
    slots: np.ndarray,
    shares: np.ndarray,
    owners: np.ndarray,
    members: np.ndarray,
    wanted: int,
    n: int,
    alone: bool,
    lossy: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """H (M, n) of members, their dispersion and what was subtracted in it, and slopes (2, W, n).

    Location, scale and weight of T atoms stand in ``arrays``, contiguous and of one precision:
    ``places`` (3, T, 3) tells the array, the position of the first column and the step to the next
    one, or −1 for a scale of zero and for one of the weights ``shares`` (T,). ``owners`` (T,) are
    the members, in ascending order, and ``members`` (M,) their weights.

    ``slots`` (3, T) are the rows of the W ``wanted`` derivatives by these numbers, −1 for others.
    The first are of the entropy of an atom's own member, the second of the dispersion. Without
    ``alone``, for members of one atom, there are no entropies, and derivatives of the dispersion
    only, (1, W, n); what was subtracted is there if ``lossy``.
    """
    itemsize = arrays[0].itemsize
    for array in arrays:  # else the loop would read numbers that are not theirs
        if array.itemsize != itemsize or not array.flags.c_contiguous:
            raise ValueError("arrays must be contiguous and of one precision")
    addresses = np.array([array.__array_interface__["data"][0] for array in arrays])
    width = np.empty(0)
    if bandwidth is not None:
        width = np.broadcast_to(np.asarray(bandwidth, dtype=np.float64), (n,))
    blocks = 2 if alone else 1
    found = (
        np.empty((len(members) if alone else 0, n)),
        np.empty((2 if lossy else 1, n)),
        np.empty((blocks * wanted, n)),
    )
    atoms = (addresses, itemsize, places, slots, shares, owners, members, width)

    def task(start: int, stop: int) -> None:
        _LOOPS[name](*atoms, *found, start, stop)

    spread(task, n, n * len(owners) * (len(owners) + 1), _BLOCK)
    return found[0], found[1], found[2].reshape(blocks, wanted, n)
