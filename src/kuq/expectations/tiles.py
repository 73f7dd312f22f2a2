"""Cutting work into pieces whose temporaries fit the cache and the memory budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np

from kuq._array import Array, any_true, as_index, index_array, is_traced, namespace
from kuq.distributions.laws import Law, Stack

#: Numbers in one temporary of a tile: small enough for the cache, large enough for overhead.
CACHE_ELEMENTS = 2**17
#: Temporaries of one evaluation that are alive at the same time.
TEMPORARIES = 16


def budget_elements(max_memory: float, itemsize: int) -> int:
    """How many numbers a temporary may have."""
    return max(1, min(CACHE_ELEMENTS, int(max_memory / itemsize / TEMPORARIES)))


def pieces(count: int, cost: int, budget: int, like: Array) -> Iterator[slice]:
    """Slices of ``count`` items of ``cost`` numbers each; traced arrays are not cut."""
    size = count if is_traced(like) else max(1, budget // max(1, cost))
    size = max(1, size)
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def recomputed(values: Array, lost: Array, exact: Callable[[Array], Array]) -> Array:
    """Values (…, n) whose entries in ``lost`` (n,) come from a form that keeps its digits there.

    ``exact`` gets the positions of the lost entries; values must be readable.
    """
    if not any_true(lost):
        return values
    xp = namespace(values)
    again = exact(xp.nonzero(lost)[0])
    # The how-manieth lost entry each one is: a gather can be differentiated in every library.
    place = xp.cumulative_sum(as_index(lost), axis=0) - 1
    spread = xp.take(again, xp.where(lost, place, xp.zeros_like(place)), axis=-1)
    return xp.where(lost, spread, values)


class PairBlock(NamedTuple):
    """Some pairs i < j of members: their positions, and their laws along axis 0."""

    rows: np.ndarray
    columns: np.ndarray
    p: Law
    q: Law

    def pick(self, values: Array) -> tuple[Array, Array]:
        """The entries of both members of every pair along the first axis of an array."""
        xp = namespace(values)
        i, j = (index_array(x, values) for x in (self.rows, self.columns))
        return xp.take(values, i, axis=0), xp.take(values, j, axis=0)


def member_pairs(stack: Stack, cost: Callable[[Law, Law], int], budget: int) -> Iterator[PairBlock]:
    """All pairs of members in blocks, where a pair costs ``cost`` numbers per batch entry."""
    xp = namespace(stack.reference)
    groups = list(stack.offsets())
    for (a, (start_p, p)), (b, (start_q, q)) in combinations_with_replacement(enumerate(groups), 2):
        shape = (p.atoms.lead[0], q.atoms.lead[0])
        rows, columns = np.triu_indices(shape[0], 1) if a == b else np.indices(shape).reshape(2, -1)
        each = max(1, stack.batch_count) * cost(p, q)
        for part in pieces(len(rows), each, budget, stack.reference):
            i, j = (index_array(x[part], stack.reference) for x in (rows, columns))
            yield PairBlock(
                rows[part] + start_p,
                columns[part] + start_q,
                p.index(lambda x, i=i: xp.take(x, i, axis=0)),  # type: ignore[misc]
                q.index(lambda x, j=j: xp.take(x, j, axis=0)),  # type: ignore[misc]
            )
