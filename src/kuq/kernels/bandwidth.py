"""The median heuristic for bandwidths, on data that do not depend on a prediction."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kuq._array import (
    adopt,
    detach,
    index_array,
    median,
    namespace,
    power_of_two,
    readable,
    safe_sqrt,
)
from kuq._numbers import whole_number
from kuq.errors import InsufficientDataError, ParameterError, ShapeError

#: Of more pairs a fixed random choice is taken.
MOST_PAIRS = 2**20
#: Numbers of outcomes that are compared at once.
_AT_ONCE = 2**20


def median_bandwidth(values: Any, event_ndim: int = 0) -> float:
    """The median distance between pairs of outcomes, such as training targets.

    Of more than 2^20 pairs a fixed random choice of 2^20 is taken.

    >>> import kuq
    >>> kuq.median_bandwidth([0.0, 1.0, 3.0])
    2.0
    """
    taken, _ = adopt(values=readable(values, "median_bandwidth"))
    array = detach(taken["values"])
    xp = namespace(array)
    event_ndim = whole_number(event_ndim, "event_ndim", 0)
    if array.ndim < event_ndim or (event_ndim == 0 and array.ndim == 0):
        raise ShapeError(
            f"median_bandwidth needs outcomes along leading axes, got shape {tuple(array.shape)} "
            f"with event_ndim={event_ndim}"
        )
    lead = array.shape[: array.ndim - event_ndim]
    flat = xp.reshape(array, (math.prod(lead), math.prod(array.shape[len(lead) :])))
    if flat.shape[1] == 0:
        raise ShapeError(f"the outcomes must not be empty, got shape {tuple(array.shape)}")
    if flat.shape[0] < 2:
        raise InsufficientDataError(
            f"median_bandwidth needs at least two outcomes, got {flat.shape[0]}"
        )
    if not bool(xp.all(xp.isfinite(flat))):
        raise ParameterError("values must be finite; remove or impute NaN and infinite entries")
    # In units of the data, or squares would leave the range of floats.
    halved = flat / 2 - flat[:1, :] / 2
    unit = power_of_two(xp.max(xp.abs(halved)))
    flat = halved / unit
    first, second = _some_pairs(flat.shape[0])
    step = max(1, _AT_ONCE // flat.shape[1])
    squares = []
    for start in range(0, len(first), step):
        i, j = (index_array(k[start : start + step], flat) for k in (first, second))
        gap = xp.take(flat, i, axis=0) - xp.take(flat, j, axis=0)
        squares.append(xp.sum(gap * gap, axis=-1))
    value = 2 * float(unit) * float(median(safe_sqrt(xp.concat(squares))))
    if value <= 0:
        raise ParameterError(
            "the median distance is zero: more than half of the pairs are equal; "
            "give a bandwidth as a number"
        )
    return value


def _some_pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    """All pairs i < j, or a fixed random choice of very many."""
    if count * (count - 1) // 2 <= MOST_PAIRS:
        first, second = np.triu_indices(count, 1)
        return first, second
    rng = np.random.default_rng(0)
    first = rng.integers(count, size=MOST_PAIRS)
    return first, (first + rng.integers(1, count, size=MOST_PAIRS)) % count
