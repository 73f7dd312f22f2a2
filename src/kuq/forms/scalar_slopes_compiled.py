"""The sums of ``scalar_pairs`` with their derivatives by location, scale and weight of every atom.

Sums are any that are linear in H of atoms and D of pairs; those that are wanted with slopes stand
first. Arrays of atoms are read where they are and as they are, float32 too, and slopes are written
in the same order: for many columns, moving numbers about costs as much as computing with them.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from kuq._array import Array, addresses_of
from kuq._numba.compiling import (
    Int,
    Real,
    address,
    called,
    fill,
    inputs,
    kernel,
    memory,
    outputs,
    positions,
    read,
    spliced,
    spread,
    write,
)
from kuq._numba.mathematics import erf_and_fall, exp, expm1_negative
from kuq.forms.scalar_pairs_compiled import _cut, _units

#: Columns of a block: many where few rows of atoms share the cache.
_LONGEST_BLOCK, _SHORTEST_BLOCK, _BLOCK_NUMBERS = 512, 128, 4096
_ROOT_PI = math.sqrt(math.pi)
#: Stands for zero where a number divides.
_TINY = 1e-150

#: Where arrays of atoms begin, and the bytes of a number; where the atoms stand in them, the places
#: of their slopes, their members and weights; what pairs and atoms of members count in every sum;
#: bandwidths; below which share of the last sum the one before it is lost, and whether it is; sums
#: and slopes, of how many sums, and how many there are of each; the columns, the first of them and
#: the one after the last.
_SIGNATURE = (
    *(positions(1), Int, positions(3), positions(2), positions(1), inputs(1), inputs(3), inputs(2)),
    *(inputs(1), Real, outputs(1), memory(2), memory(2), Int, Int, Int, Int, Int),
)


# Kernels: H of an atom and its slope; D of a pair and its slopes by gap ≥ 0 and both scales, whose
# difference comes with all of its digits.


@spliced
def _absolute_atom(s):
    return s * (1.0 / _ROOT_PI), 1.0 / _ROOT_PI


@spliced
def _absolute_pair(gap, change, s, t):
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


@spliced
def _point_atom(s):
    return 0.0, 0.0


@spliced
def _distance_pair(gap, change, s, t):
    return gap, 1.0, 0.0, 0.0


@spliced
def _gaussian_atom(u):
    u = _cut(u)
    a = 1.0 / math.sqrt(1.0 + 4.0 * u * u)
    return 2.0 * (u * a) * (u * a) / (1.0 + a), 2.0 * (u * a) * a * a


@spliced
def _gaussian_pair(gap, change, u, v):
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


# The engine. Rows of columns stand in tables, of which functions are told the rows: taken out of
# them here, every row would be code of its own to compile.


@spliced
def _pair_row(pair, x, s, i, j, units, terms, size):
    """D of two atoms, and its slopes by the location of the first and both scales."""
    for k in range(size):
        inverse = units[1, k]
        difference = (x[i, k] - x[j, k]) * inverse
        value, slope, slope_s, slope_t = pair(
            _cut(abs(difference)),
            _cut((s[i, k] - s[j, k]) * inverse),
            _cut(s[i, k] * inverse),
            _cut(s[j, k] * inverse),
        )
        slope = slope if difference > 0.0 else -slope
        terms[0, k] = value
        terms[1, k] = slope if difference != 0.0 else 0.0
        terms[2, k] = slope_s
        terms[3, k] = slope_t


@called
def _set(rows, i, value):
    fill(rows[i], value)


@called
def _multiply(rows, i, j, result):
    first, second, product = rows[i], rows[j], rows[result]
    for k in range(product.size):
        product[k] = first[k] * second[k]


@called
def _add(factor, weights, i, values, j, totals, result, size):
    first, second, total = weights[i], values[j], totals[result]
    for k in range(size):
        total[k] += factor * first[k] * second[k]


@called
def _take_units(x, s, width, start, units, size):
    _units(x, s, width[start : start + size], units[0, :size], units[1, :size])


def _loop(name: str, atom: Any, pair: Any) -> Callable[..., None]:
    @kernel(*_SIGNATURE, name=name)
    def loop(
        sources,
        itemsize,
        places,
        targets,
        owners,
        shares,
        pairs,
        alone,
        width,
        close,
        lost,
        values,
        slopes,
        sloped,
        stride,
        n,
        begin,
        end,
    ):
        count, sums = owners.size, pairs.shape[0]
        several = count > alone.shape[1]
        block = min(max(_BLOCK_NUMBERS // count, _SHORTEST_BLOCK), _LONGEST_BLOCK, end - begin)
        x, s = np.empty((count, block)), np.empty((count, block))
        # Weights of atoms, ones, and the weights of a pair.
        one, both = count, count + 1
        w = np.empty((count + 2, block))
        # Sums, and behind them the slopes of each.
        total = np.empty((sums + 3 * count * sloped, block))
        terms = np.empty((4, block))
        # Of values, one over those of atoms, and ones.
        units = np.empty((3, block))
        values_at, slopes_at = address(values), address(slopes)
        heads = False
        for i in range(count):
            _set(w, i, shares[i])
            for r in range(sums):
                heads = heads or alone[r, owners[i]] != 0.0
        for row in range(2):
            _set(w, count + row, 1.0)
        for row in range(3):
            _set(units, row, 1.0)
        for start in range(begin, end, block):
            size = min(block, end - start)
            for i in range(count):
                for p in range(3 if several else 2):
                    place = places[p, i, 0], places[p, i, 1], places[p, i, 2]
                    default = shares[i] if p == 2 else 0.0
                    rows = x if p == 0 else (s if p == 1 else w)
                    read(sources, itemsize, place, start, default, rows, i, size)
            if itemsize == 8 or width.size:  # no square of a float32 leaves the range
                _take_units(x, s, width, start, units, size)
            for r in range(sums):
                _set(total, r, 0.0)
            for b in range(sloped):
                for p in range(3):
                    for i in range(count):
                        if targets[p, i] >= 0:
                            _set(total, sums + (3 * b + p) * count + i, 0.0)
            for i in range(count):
                for j in range(i + 1, count):
                    _pair_row(pair, x, s, i, j, units, terms, size)
                    if several:
                        _multiply(w, i, j, both)
                    for r in range(sums):
                        share = pairs[r, owners[i], owners[j]]
                        if share == 0.0:
                            continue
                        _add(share, w, both, terms, 0, total, r, size)
                        for end_of_pair in range(2 if r < sloped else 0):
                            moved, other = (j, i) if end_of_pair else (i, j)
                            for p in range(3):
                                if targets[p, moved] < 0:
                                    continue
                                factor = -share if p == 0 and end_of_pair else share
                                weight = other if p == 2 else both
                                slope = 1 if p == 0 else (2 + end_of_pair if p == 1 else 0)
                                row = sums + (3 * r + p) * count + moved
                                _add(factor, w, weight, terms, slope, total, row, size)
            for i in range(count if heads else 0):
                for k in range(size):
                    terms[0, k], terms[1, k] = atom(s[i, k] * units[1, k])
                for r in range(sums):
                    share = alone[r, owners[i]]
                    if share == 0.0:
                        continue
                    _add(share, w, i, terms, 0, total, r, size)
                    for p in range(1, 3 if r < sloped else 1):
                        if targets[p, i] >= 0:
                            row = sums + (3 * r + p) * count + i
                            _add(share, w, i if p == 1 else one, terms, 2 - p, total, row, size)
            for k in range(size if lost.size else 0):
                kept, between = total[sums - 2, k], total[sums - 1, k]
                if between > 0.0 and kept <= close * between:
                    lost[0] = 1.0
            for r in range(sums - 2 * lost.size):
                write(values_at, itemsize, r * n + start, 1, total, r, units, 0, size)
            for b in range(sloped):
                for p in range(3):
                    # In units of a column values alone change; in bandwidths the slopes do.
                    unit = 0 if p == 2 else (1 if width.size else 2)
                    for i in range(count):
                        if targets[p, i] >= 0:
                            step = places[p, i, 2]
                            place = b * stride + targets[p, i] + start * step
                            row = sums + (3 * b + p) * count + i
                            write(slopes_at, itemsize, place, step, total, row, units, unit, size)

    return loop


_LOOPS = {
    "absolute": _loop("absolute", _absolute_atom, _absolute_pair),
    "distance": _loop("distance", _point_atom, _distance_pair),
    "gaussian": _loop("gaussian", _gaussian_atom, _gaussian_pair),
}


_NOTHING = np.empty(0)
_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


def statistics(
    places: np.ndarray,
    targets: np.ndarray,
    owners: np.ndarray,
    shares: np.ndarray,
    pairs: np.ndarray,
    alone: np.ndarray,
    close: float,
    sloped: int,
    stride: int,
    n: int,
) -> Callable[..., tuple[np.ndarray, np.ndarray] | None]:
    """Sums (R, n) over atoms and pairs of atoms, and slopes of the first of them (S, numbers).

    They are a function of the name of a kernel, its bandwidth and ``sources``, arrays of NumPy or
    torch, contiguous and of one precision, in which location, scale and weight of T atoms stand:
    ``places`` (3, T, 3) tells the array, the position of the first column and the step to the next
    one, or −1 for a scale of zero and for one of the weights ``shares`` (T,). Slopes have the same
    order; ``targets`` (3, T) are the positions of their first columns among ``stride`` numbers, −1
    for those that nobody wants. ``owners`` (T,) are members.

    ``pairs`` (R, M, M) and ``alone`` (R, M) are what D of a pair of atoms and H of an atom count in
    a sum, times their weights. Where ``close`` is not zero, there are two more: a difference, and
    what it is left from. The result is None if in any column it is not more than that share of it.
    """
    atoms = (places, targets, owners, shares, pairs, alone)
    summed = len(pairs) - (2 if close else 0)
    work = n * len(owners) * (len(owners) + 1)

    def of(
        name: str, bandwidth: np.ndarray | float | None, sources: Sequence[Array]
    ) -> tuple[np.ndarray, np.ndarray] | None:
        width, lost = _NOTHING, np.zeros(1) if close else _NOTHING
        if bandwidth is not None:
            width = np.broadcast_to(np.asarray(bandwidth, dtype=np.float64), (n,))
        itemsize = sources[0].dtype.itemsize
        dtype = _DOUBLE if itemsize == 8 else _SINGLE
        values, slopes = np.empty((summed, n), dtype), np.empty((sloped, stride), dtype)
        arguments = (addresses_of(sources, itemsize), itemsize, *atoms, width, close)
        results = (lost, values.view(np.uint8), slopes.view(np.uint8), sloped, stride, n)
        task = partial(_LOOPS[name], *arguments, *results)
        spread(task, n, work, _SHORTEST_BLOCK)
        return None if close and lost[0] else (values, slopes)

    return of
