"""How functions are compiled, and how work is spread over threads."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic

from kuq._numba.stored_code import StoredCode
from kuq._threads import in_threads, workers

#: Arguments of kernels. Inputs may be read-only and have any strides; outputs are contiguous.
#: With one signature per kernel nothing is compiled twice.
Int = types.int64
Real = types.float64

#: Evaluations below which threads cost more than they give.
_SMALLEST_FOR_THREADS = 1_000_000

_BUILDING = threading.Lock()

# A product and the sum behind it may be fused, which the polynomials are made for. Nothing else is
# left to the compiler: it may not reorder sums or forget about NaN.
_FLAGS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}}


def inputs(ndim: int) -> Any:
    return types.Array(Real, ndim, "A", readonly=True)


def rows(ndim: int) -> Any:
    """Inputs whose last axis is read in the innermost loop: must be C-contiguous."""
    return types.Array(Real, ndim, "C", readonly=True)


def outputs(ndim: int) -> Any:
    return types.Array(Real, ndim, "C")


def positions(ndim: int) -> Any:
    """Whole numbers, such as the members to which draws belong."""
    return types.Array(Int, ndim, "C", readonly=True)


def memory(ndim: int) -> Any:
    """Results of either precision, as bytes."""
    return types.Array(types.uint8, ndim, "C")


def inlined(function: Callable[..., Any]) -> Any:
    """A function for use inside of kernels; inlined, or loops over it do not vectorise."""
    return numba.njit(forceinline=True, **_FLAGS)(function)


def spliced(function: Callable[..., Any]) -> Any:
    """The same before anything is compiled: faster than ``inlined`` for what one caller has."""
    return numba.njit(inline="always", **_FLAGS)(function)


@inlined
def fill(row, value):
    """As a loop it compiles faster than an assignment to a slice."""
    for k in range(row.size):
        row[k] = value


def called(function: Callable[..., Any]) -> Any:
    """The same as a call of its own: kernels that have many of them compile faster.

    It is compiled once for all whole numbers; numba would take every constant for a type.
    """
    dispatcher = numba.njit(**_FLAGS)(function)
    template = dispatcher.get_call_template

    def for_any_numbers(args: Any, kws: Any) -> Any:
        return template(tuple(map(types.unliteral, args)), kws)

    dispatcher.get_call_template = for_any_numbers
    return dispatcher


def emitted(function: Callable[..., Any]) -> Any:
    """A function that writes its own machine instruction."""
    return intrinsic(function)


@emitted
def at_address(context: Any, address: Any) -> Any:
    """A pointer to the numbers there."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), code


@spliced
def address(array):
    """Where the numbers of an array begin."""
    return np.int64(array.ctypes.data)


@spliced
def _copy(source, step, result, size):
    if step == 1:  # which vectorises
        for k in range(size):
            result[k] = source[k]
    else:
        for k in range(size):
            result[k] = source[k * step]


@called
def read(addresses, itemsize, place, start, default, rows, i, size):
    """Numbers of an array at one of the addresses, with a step between them, to row i of rows.

    ``place`` is the array, −1 for none, the position of the first number, and the step.
    """
    source, first, step = place
    result = rows[i]
    if source < 0:
        fill(result, default)
        return
    pointer = at_address(addresses[source] + (first + start * step) * itemsize)
    length = (size - 1) * step + 1
    if itemsize == 8:
        _copy(carray(pointer, (length,), np.float64), step, result, size)
    else:
        _copy(carray(pointer, (length,), np.float32), step, result, size)


@spliced
def _put(row, factor, size, step, result):
    if step == 1:
        for k in range(size):
            result[k] = row[k] * factor[k]
    else:
        for k in range(size):
            result[k * step] = row[k] * factor[k]


@called
def write(address, itemsize, first, step, rows, i, factors, j, size):
    """Row i times factors to the numbers from the ``first`` on, with a step between them."""
    pointer = at_address(address + first * itemsize)
    length = (size - 1) * step + 1
    if itemsize == 8:
        _put(rows[i], factors[j], size, step, carray(pointer, (length,), np.float64))
    else:
        _put(rows[i], factors[j], size, step, carray(pointer, (length,), np.float32))


def reduction(function: Callable[..., Any]) -> Any:
    """Like ``inlined`` for a loop that sums: its own additions, and no other, may be reordered."""
    flags = _FLAGS | {"fastmath": {"contract", "reassoc"}}
    return numba.njit(forceinline=True, **flags)(function)


def kernel(
    *signature: Any, name: str = "", gives: Any = types.void
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A compiled loop that lets other threads run; compiled at its first call.

    Loops that one function makes, of functions that it is given, have a ``name`` each.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.cache
        def built() -> Any:
            dispatcher = numba.njit(nogil=True, **_FLAGS)(function)
            dispatcher._cache = StoredCode(function, name)
            dispatcher.compile(gives(*signature))
            dispatcher.disable_compile()
            return dispatcher

        compiled: list[Any] = []

        @functools.wraps(function)
        def call(*arguments: Any) -> Any:
            if not compiled:
                with _BUILDING:  # else the first threads would all compile
                    compiled.append(built())
            return compiled[0](*arguments)

        return call

    return decorate


def spread(task: Callable[[int, int], None], size: int, work: float, grain: int = 1) -> None:
    """Call ``task(start, stop)`` on parts of range(size), in threads where that is worthwhile.

    ``work`` is the number of evaluations of the whole; parts start at multiples of ``grain``.
    """
    if work < _SMALLEST_FOR_THREADS or (threads := workers()) == 1:
        task(0, size)
        return
    # Several parts per thread, as a core may be busy with something else.
    step = -(-size // (4 * threads))
    step = max(-(-step // grain) * grain, 1)
    starts = range(0, size, step)
    in_threads(lambda start: task(start, min(start + step, size)), starts, threads)
