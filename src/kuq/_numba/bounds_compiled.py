"""A look at numbers in memory: whether they all lie between two bounds.

For the few numbers of a training step, what torch does around a reduction takes longer than the
reduction.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numba
import numpy as np
from numba import carray  # type: ignore[attr-defined]

from kuq._numba.compiling import Int, Real, at_address, kernel, spliced


@spliced
def _count_outside(numbers, low, high):
    count = 0
    for x in numbers:
        count += not (x >= low and x <= high)  # NaN as well
    return count


@kernel(Int, Int, Int, Real, Real, gives=numba.boolean)
def all_between(address, itemsize, size, low, high):
    """Of so many contiguous numbers, float32 or float64 by their bytes."""
    pointer = at_address(address)
    if itemsize == 8:
        return _count_outside(carray(pointer, (size,), np.float64), low, high) == 0
    return _count_outside(carray(pointer, (size,), np.float32), low, high) == 0
