"""Threads for large work on NumPy arrays, whose loops run without the interpreter's lock.

Threads are kuq's own, over pieces of the work; libraries of linear algebra have one inside them.
Theirs wait for each other within every product, and on a busy machine they wait long.
"""

from __future__ import annotations

import _thread
import contextvars
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

#: More threads would each have too little of the memory.
MOST_WORKERS = 20

#: Whether this code runs in a thread of ours: its own pieces are done one after the other.
_inside = contextvars.ContextVar("inside", default=False)


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
    return min(count, MOST_WORKERS)


def free_workers() -> int:
    """How many threads may be started from here."""
    return 1 if _inside.get() else workers()


def in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> list[Result]:
    """Results in the order of the items; an error in one of them is raised here.

    The calling thread works as well, and waits for nothing but an item that another one has begun:
    on a busy machine the others may come too late, and are not missed then.
    """
    todo = list(items)
    if threads == 1 or len(todo) < 2 or _inside.get():
        return [function(item) for item in todo]
    shared = _Shared(function, todo)
    for _ in range(min(threads, len(todo)) - 1):
        # A copy of the context for each: numpy.errstate of the caller holds in the threads, too.
        run = contextvars.copy_context().run
        with suppress(RuntimeError):  # no more threads are to be had: fewer do the work
            # A Thread's start would wait until it runs.
            _thread.start_new_thread(run, (shared.work,))
    contextvars.copy_context().run(shared.work)
    return shared.results()


class _Shared(Generic[Item, Result]):
    """Items that several threads take, one after the other."""

    def __init__(self, function: Callable[[Item], Result], items: Sequence[Item]) -> None:
        self._function = function
        self._items = items
        self._state = threading.Condition()
        self._begun = 0
        self._under_way = 0
        self._results: dict[int, Result] = {}
        self._errors: dict[int, BaseException] = {}

    def work(self) -> None:
        """Take items while there are any."""
        _inside.set(True)
        while (place := self._next()) is not None:
            try:
                result = self._function(self._items[place])
            except BaseException as error:
                with self._state:
                    self._errors[place] = error
                    self._begun = len(self._items)
            else:
                self._results[place] = result
            with self._state:
                self._under_way -= 1
                self._state.notify()

    def _next(self) -> int | None:
        with self._state:
            if self._begun == len(self._items):
                return None
            self._begun += 1
            self._under_way += 1
            return self._begun - 1

    def results(self) -> list[Result]:
        with self._state:
            self._state.wait_for(lambda: self._under_way == 0)
        if self._errors:
            raise self._errors.pop(min(self._errors))
        return [self._results[place] for place in range(len(self._items))]


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Linear algebra of NumPy with one thread, for a call from the main thread.

    The number is a setting of the whole process, and OpenBLAS lets no other thread raise it again:
    calls from there leave it as it is.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    several = [(x, count) for x in _blas_libraries() if (count := x.get_num_threads()) > 1]
    for library, _ in several:
        library.set_num_threads(1)
    try:
        yield
    finally:
        for library, count in several:
            library.set_num_threads(count)


class _OneTorchThread:
    """Torch with one thread inside, for the thread that calls.

    Torch has a number of threads for each thread of the process, and one for those to come.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls = 0
        self._usual = 1

    @contextmanager
    def __call__(self, torch: Any) -> Iterator[None]:
        with self._lock:
            threads = torch.get_num_threads()
            if self._calls == 0:
                self._usual = threads
            elif threads == 1:  # as a thread starts while another one calls
                threads = self._usual
            self._calls += 1
            torch.set_num_threads(1)
        try:
            yield
        finally:
            with self._lock:
                self._calls -= 1
                torch.set_num_threads(threads)


one_torch_thread = _OneTorchThread()


@functools.cache
def _blas_libraries() -> list[Any]:
    """The libraries of linear algebra in this process; finding them takes milliseconds."""
    from threadpoolctl import ThreadpoolController  # its import shows in the time of ours

    return [x for x in ThreadpoolController().lib_controllers if x.user_api == "blas"]
