"""Trajectories of a partial differential equation: checked input, blocks of rows on all cores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kuq._threads import in_threads, workers
from kuq.datasets.etdrk4 import Real
from kuq.errors import ParameterError, ShapeError

#: From initial states (rows, points) to their values frame by frame, without the first.
Solve: TypeAlias = Callable[[Real], Iterator[Real]]

Rows: TypeAlias = slice | NDArray[np.intp]


def positive(name: str, value: float) -> float:
    """Check a finite positive argument."""
    if not (math.isfinite(value) and value > 0):
        raise ParameterError(f"{name} must be finite and positive, got {value!r}")
    return float(value)


def initial_states(initial: ArrayLike, points: int) -> Real:
    """Check initial states (n, points) that a user gave."""
    states = np.asarray(initial, np.float64)
    if states.ndim != 2 or states.shape[1] != points or len(states) == 0:
        raise ShapeError(
            f"initial needs the shape (n, points) with points={points}, got {states.shape}"
        )
    if not np.isfinite(states).all():
        raise ParameterError("initial holds values that are not finite; remove or replace them")
    return states


def solve_all(
    initial: Real, frames: int, solve: Solve, blocks: Sequence[Rows], out: Real | None = None
) -> Real:
    """Frames (n, frames, points), the initial states first, into ``out`` if it is given.

    ``blocks`` are the rows that are solved together. They are independent and run in threads;
    beside the result, memory is that of one block per thread. The blocks do not depend on the
    number of threads, nor do the numbers.
    """
    shape = (len(initial), frames, initial.shape[1])
    if out is not None and out.shape != shape:
        raise ShapeError(f"out needs the shape {shape}, got {out.shape}")
    result = np.empty(shape) if out is None else out

    def run(rows: Rows) -> None:
        result[rows, 0] = initial[rows]
        states = solve(initial[rows])
        for frame in range(1, frames):
            values = next(states)
            if not np.isfinite(values).all():
                raise ParameterError(
                    f"the solution is not finite at frame {frame}: the initial states are too "
                    "large for the time step; scale them down, or choose a smaller step"
                )
            result[rows, frame] = values

    # An overflow ends in the error above and needs no warning beside it.
    with np.errstate(over="ignore", invalid="ignore"):
        in_threads(run, blocks, workers())
    return result
