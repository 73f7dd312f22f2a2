"""Cutting work into pieces whose temporaries fit the cache and the memory budget."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from kuq._array import Array, any_true, as_index, index_array, is_traced, namespace
from kuq._threads import MOST_WORKERS, workers
from kuq.distributions.laws import Law, Stack

#: Numbers in one temporary of a tile: small enough for the cache, large enough for overhead.
#: NumPy's operations start quickly and profit from staying in the second-level cache.
CACHE_ELEMENTS = 2**17
NUMPY_CACHE_ELEMENTS = 2**16
#: Where torch records operations for gradients they cost more, and keep their arrays anyway.
RECORDED_ELEMENTS = 2**20
TILE_ELEMENTS = 2**19
#: Temporaries of one evaluation that are alive at the same time.
TEMPORARIES = 24
#: So much memory is enough for every thread.
AMPLE = MOST_WORKERS * TEMPORARIES * 8 * NUMPY_CACHE_ELEMENTS


def budget_elements(max_memory: float, like: Array) -> int:
    """How many numbers a temporary may have in the library and dtype of an array."""
    keep_freed_memory()
    most = NUMPY_CACHE_ELEMENTS if isinstance(like, np.ndarray) else CACHE_ELEMENTS
    if getattr(like, "requires_grad", False):
        most = RECORDED_ELEMENTS
    if max_memory >= AMPLE:
        return most
    return max(1, min(most, fitting_elements(max_memory, like)))


@functools.cache
def keep_freed_memory() -> None:
    """Free one large array, whose pages are never touched.

    The allocator of glibc gives arrays above 128 KiB to the system when they are freed, and the
    page faults of the next one cost as much as the arithmetic, until it has seen a larger one.
    """
    np.empty(2**23, dtype=np.uint8)


def tile_elements(max_memory: float, like: Array) -> int:
    """How many numbers of one parameter a tile may have: more than a temporary, as few are made."""
    return max(1, min(TILE_ELEMENTS, fitting_elements(max_memory, like)))


def fitting_elements(max_memory: float, like: Array) -> int:
    """Numbers of one array, if as many are alive as ever are, in every thread."""
    itemsize = int(namespace(like).finfo(like.dtype).bits) // 8
    threads = workers() if isinstance(like, np.ndarray) else 1
    return max(1, int(min(max_memory / itemsize / TEMPORARIES / threads, 2**62)))


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
    return with_entries(values, lost, exact(namespace(lost).nonzero(lost)[0]))


def with_entries(values: Array, chosen: Array, others: Array) -> Array:
    """Values (…, n) whose ``chosen`` entries (n,) are the others, in their order."""
    xp = namespace(values)
    # The how-manieth chosen entry each one is: a gather can be differentiated in every library.
    place = xp.cumulative_sum(as_index(chosen), axis=0) - 1
    spread = xp.take(others, xp.where(chosen, place, xp.zeros_like(place)), axis=-1)
    return xp.where(chosen, spread, values)


class PairBlock(NamedTuple):
    """Some pairs i < j of members: their positions, and their laws along axis 0.

    A row of pairs with one i has ``rows`` and ``p`` of length one, which broadcast.
    """

    rows: np.ndarray
    columns: np.ndarray
    p: Law
    q: Law

    def pick(self, values: Array) -> tuple[Array, Array]:
        """The entries of both members of every pair along the first axis of an array."""
        if len(self.rows) == 1:  # a row of pairs lies side by side
            i, j = self.rows[0], self.columns[0]
            return values[i : i + 1], values[j : j + len(self.columns)]
        xp = namespace(values)
        i, j = (index_array(x, values) for x in (self.rows, self.columns))
        return xp.take(values, i, axis=0), xp.take(values, j, axis=0)


def sum_over_pairs(
    stack: Stack,
    cost: Callable[[Law, Law], int],
    budget: int,
    value: Callable[[PairBlock], Array],
) -> Array:
    """Σ_{i<j} 2 w_i w_j of values (pairs, n) of all pairs of members, (n,)."""
    xp = namespace(stack.reference)
    total, w = xp.zeros_like(stack.pivot()[:, 0]), stack.member_weights()
    for block in member_pairs(stack, cost, budget):
        w_i, w_j = block.pick(w)
        total = total + xp.sum((2 * w_i * w_j)[:, None] * value(block), axis=0)
    return total


def member_pairs(stack: Stack, cost: Callable[[Law, Law], int], budget: int) -> Iterator[PairBlock]:
    """All pairs of members in blocks, where a pair costs ``cost`` numbers per batch entry."""
    groups = list(stack.offsets())
    for (a, (start_p, p)), (b, (start_q, q)) in combinations_with_replacement(enumerate(groups), 2):
        each = max(1, stack.batch_count) * cost(p, q)
        copied = stack.batch_count * q.count * q.atoms.size * q.atoms.lead[0]
        by_rows = 4 * copied > budget and not is_traced(stack.reference)
        blocks = _row_blocks if by_rows else _gathered_blocks
        for block in blocks(p, q, a == b, each, budget):
            yield block._replace(rows=block.rows + start_p, columns=block.columns + start_q)


def _row_blocks(p: Law, q: Law, same: bool, each: int, budget: int) -> Iterator[PairBlock]:
    """One member against those after it: views of the arrays, nothing is copied."""
    for i in range(p.atoms.lead[0]):
        first = i + 1 if same else 0
        left = p.index(itemgetter(slice(i, i + 1)))
        for chunk in pieces(q.atoms.lead[0] - first, each, budget, q.atoms.reference):
            columns = slice(chunk.start + first, chunk.stop + first)
            right = q.index(itemgetter(columns))
            yield PairBlock(np.asarray([i]), np.arange(columns.start, columns.stop), left, right)


def _gathered_blocks(p: Law, q: Law, same: bool, each: int, budget: int) -> Iterator[PairBlock]:
    """Copies of many pairs at once, where a row would be too short for its overhead."""
    shape = (p.atoms.lead[0], q.atoms.lead[0])
    rows, columns = np.triu_indices(shape[0], 1) if same else np.indices(shape).reshape(2, -1)
    for chunk in pieces(len(rows), each, budget, p.atoms.reference):
        i, j = (index_array(x[chunk], p.atoms.reference) for x in (rows, columns))
        yield PairBlock(rows[chunk], columns[chunk], _taken(p, i), _taken(q, j))


def _taken(law: Law, index: Array) -> Law:
    """Some members, by position; of a single one nothing has to be copied, nor its gradient."""
    if index.shape[0] == law.atoms.lead[0] == 1:
        return law
    xp = namespace(law.atoms.reference)
    return law.index(lambda x: xp.take(x, index, axis=0))
