"""Draws on lines under |x − y|: entropies of the members and of their mixture, from one sort.

Numbers go to about as many buckets as there are of them, by their place between the smallest and
the largest, and few of them are left to be sorted in one; buckets that are full are cut again. So a
smooth law costs a few passes, and any law N log N.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import math

import numpy as np
from numba import types

from kuq._numba.compiling import Int, called, inlined, inputs, kernel, outputs, rows, spread

#: Numbers of a bucket that are sorted by insertion, and levels of buckets inside of buckets.
_FEW, _LEVELS = 16, 5
#: Buckets of a first cut at most so many that their ends stay in the cache.
_MOST_AT_ONCE, _COARSE = 2**17, 2**12

_PLACES = types.Array(types.int32, 1, "C", readonly=True)


@inlined
def _plus(total, value, error):
    """The sum and what it rounded off: a million equal weights would drift."""
    value = value - error
    found = total + value
    return found, (found - total) - value


@called
def _insert(x, order, start, stop, carry):
    for i in range(start + 1, stop):
        value, place = x[i], order[i]
        j = i
        while j > start and x[j - 1] > value:
            x[j] = x[j - 1]
            if carry:
                order[j] = order[j - 1]
            j -= 1
        x[j] = value
        if carry:
            order[j] = place


@called
def _cut(x, order, start, stop, carry, room, places, ends):
    """Move numbers to their buckets and give their number; zero if they cannot be told apart."""
    size = stop - start
    low, high = x[start], x[start]
    for i in range(start, stop):
        low = x[i] if x[i] < low else low
        high = x[i] if x[i] > high else high
    count = size if size <= _MOST_AT_ONCE else _COARSE
    span = high - low
    scale = count / span if span > 0.0 else 0.0
    if not 0.0 < scale < math.inf or not span < math.inf:
        return 0
    for b in range(count + 1):
        ends[b] = 0
    own = x[start:stop]
    for i in range(size):
        place = np.int32((own[i] - low) * scale)
        places[i] = place if place < count else count - 1
        room[i] = own[i]
    for i in range(size):
        ends[places[i] + 1] += 1
    for b in range(count):
        ends[b + 1] += ends[b]
    # Afterwards ends[b] is where bucket b ends.
    if carry:
        kept = order[start:stop].copy()
        for i in range(size):
            at = ends[places[i]]
            ends[places[i]] = at + 1
            own[at] = room[i]
            order[start + at] = kept[i]
    else:
        for i in range(size):
            at = ends[places[i]]
            ends[places[i]] = at + 1
            own[at] = room[i]
    return count


@called
def _sort(x, order, carry, room, places, ends, todo):
    todo[0, 0], todo[0, 1], todo[0, 2] = 0, x.size, 0
    waiting = 1
    while waiting > 0:
        waiting -= 1
        start, stop, level = todo[waiting, 0], todo[waiting, 1], todo[waiting, 2]
        count = 0
        if level < _LEVELS:
            count = _cut(x, order, start, stop, carry, room, places, ends)
        if count == 0:
            found = np.argsort(x[start:stop])
            values, kept = x[start:stop].copy(), order[start:stop].copy()
            for i in range(stop - start):
                x[start + i] = values[found[i]]
                order[start + i] = kept[found[i]]
            continue
        first = start
        for b in range(count):
            last = start + ends[b]
            if last - first > _FEW:
                todo[waiting, 0], todo[waiting, 1], todo[waiting, 2] = first, last, level + 1
                waiting += 1
            elif last - first > 1:
                _insert(x, order, first, last, carry)
            first = last


@kernel(rows(2), _PLACES, inputs(2), inputs(1), outputs(2), outputs(1), Int, Int)
def _entropies(values, owners, weights, members, entropies, pooled, start, stop):
    size, count = values.shape[1], members.size
    equal = weights.shape[1] < size  # a weight for each member
    carry = count > 1 or not equal
    order = np.empty(size, np.int32)
    room, places = np.empty(size), np.empty(size, np.int32)
    ends = np.empty(min(size, _MOST_AT_ONCE) + 2, np.int32)
    todo = np.empty((size // _FEW + 2, 3), np.int64)
    x = np.empty(size)
    below, errors, total = np.empty(count), np.empty(count), np.empty(count)
    one_of = np.empty(count, np.int64)
    for i in range(size):
        one_of[owners[i]] = i
    for row in range(start, stop):
        known = True
        for i in range(size):
            x[i] = values[row, i]
            order[i] = i
            known = known and math.isfinite(x[i])
        if not known:
            pooled[row] = math.nan
            for m in range(count):
                entropies[m, row] = math.nan
            continue
        _sort(x, order, carry, room, places, ends, todo)
        w = weights[row % weights.shape[0]]
        middle = x[size // 2]
        for m in range(count):
            below[m], errors[m], total[m] = 0.0, 0.0, 0.0
        if not carry:
            # Σ_{i<j} (x_j − x_i) by the rank of every draw
            found = 0.0
            for i in range(size):
                found += (x[i] - middle) * (2 * i + 1 - size)
            entropies[0, row] = found / size / size
            pooled[row] = entropies[0, row]
            continue
        before, error, whole = 0.0, 0.0, 0.0
        for i in range(size):
            m = owners[order[i]]
            own = w[m] if equal else w[order[i]]
            # From one of the member's draws: if it is far from others, it keeps its digits.
            away = x[i] - values[row, one_of[m]]
            total[m] += away * own * (2.0 * below[m] + own - 1.0)
            below[m], errors[m] = _plus(below[m], own, errors[m])
            share = own * members[m]
            whole += (x[i] - middle) * share * (2.0 * before + share - 1.0)
            before, error = _plus(before, share, error)
        for m in range(count):
            entropies[m, row] = total[m]
        pooled[row] = whole


def entropies(
    values: np.ndarray, owners: np.ndarray, weights: np.ndarray, members: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """H of every member (M, R) and of their mixture (R,) in every row (R, T) of draws.

    ``owners`` (T,) are the members of the draws, ``weights`` those inside of members, (1, M) for
    equal ones or (n, T) for the rows in turn, and ``members`` (M,) those of the members.
    """
    count, size = values.shape
    found, pooled = np.empty((len(members), count)), np.empty(count)

    def task(start: int, stop: int) -> None:
        _entropies(values, owners, weights, members, found, pooled, start, stop)

    spread(task, count, count * size * 8)
    return found, pooled
