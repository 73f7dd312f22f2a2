"""The median heuristic for bandwidths, on data that do not depend on a prediction."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kuq._array import adopt, detach, index_array, median, namespace, safe_sqrt
from kuq.errors import InsufficientDataError, ParameterError, ShapeError

_MOST_PAIRS = 2**20


def median_bandwidth(values: Any, event_ndim: int = 0) -> float:
    """The median distance between pairs of outcomes, such as training targets.

    Of more than 2^20 pairs a fixed random choice of 2^20 is taken.

    >>> import kuq
    >>> kuq.median_bandwidth([0.0, 1.0, 3.0])
    2.0
    """
    taken, _ = adopt(values=values)
    array = detach(taken["values"])
    xp = namespace(array)
    if isinstance(event_ndim, bool) or not isinstance(event_ndim, int) or event_ndim < 0:
        raise ParameterError(f"event_ndim must be an integer ≥ 0, got {event_ndim!r}")
    if array.ndim < event_ndim or (event_ndim == 0 and array.ndim == 0):
        raise ShapeError(
            f"median_bandwidth needs outcomes along leading axes, got shape {tuple(array.shape)} "
            f"with event_ndim={event_ndim}"
        )
    lead = array.shape[: array.ndim - event_ndim]
    flat = xp.reshape(array, (math.prod(lead), -1))
    if flat.shape[0] < 2:
        raise InsufficientDataError(
            f"median_bandwidth needs at least two outcomes, got {flat.shape[0]}"
        )
    if not bool(xp.all(xp.isfinite(flat))):
        raise ParameterError("values must be finite; remove or impute NaN and infinite entries")
    first, second = _some_pairs(flat.shape[0])
    x = xp.take(flat, index_array(first, flat), axis=0)
    y = xp.take(flat, index_array(second, flat), axis=0)
    value = float(median(safe_sqrt(xp.sum((x - y) ** 2, axis=-1))))
    if value <= 0:
        raise ParameterError(
            "the median distance is zero: more than half of the pairs are equal; "
            "give a bandwidth as a number"
        )
    return value


def _some_pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    """All pairs i < j, or a fixed random choice of very many."""
    if count * (count - 1) // 2 <= _MOST_PAIRS:
        first, second = np.triu_indices(count, 1)
        return first, second
    rng = np.random.default_rng(0)
    first = rng.integers(count, size=_MOST_PAIRS)
    return first, (first + rng.integers(1, count, size=_MOST_PAIRS)) % count
