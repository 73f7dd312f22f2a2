"""Threads for large work on NumPy arrays, whose loops run without the interpreter's lock."""

from __future__ import annotations

import contextvars
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def workers() -> int:
    """As many threads as this process may have cores, and no more than the environment allows."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        count = os.cpu_count() or 1
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        limit = os.environ.get(name, "").strip()
        if limit.isdigit() and int(limit) > 0:
            count = min(count, int(limit))
    return count


def in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> list[Result]:
    """Results in the order of the items; an error in one of them is raised here."""
    todo = list(items)
    if threads == 1 or len(todo) < 2:
        return [function(item) for item in todo]
    with ThreadPoolExecutor(min(threads, len(todo))) as pool:
        # A copy of the context for each: numpy.errstate of the caller holds in the threads, too.
        waiting = [pool.submit(contextvars.copy_context().run, function, item) for item in todo]
        return [future.result() for future in waiting]
