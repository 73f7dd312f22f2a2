"""Cutting work into pieces whose temporaries fit the cache and the memory budget."""

from __future__ import annotations

from collections.abc import Iterator

from kuq._array import Array, is_traced

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
