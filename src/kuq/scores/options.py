"""What a caller may ask for: estimators, accuracy, Monte Carlo, memory."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kuq._array import Array
from kuq._numbers import as_real_number, shown, whole_number
from kuq.errors import ParameterError
from kuq.forms.directions import Directions, checked_directions
from kuq.tiles import AMPLE, NUMPY_CACHE_ELEMENTS, budget_elements, keep_freed_memory

DEFAULT_MEMORY = 2**28
_MOST_DRAWS = 2**31


@dataclass(frozen=True)
class Options:
    """Checked options of one call."""

    unbiased_members: bool
    unbiased_samples: bool
    rtol: float
    draws: int | None
    seed: int
    max_memory: float
    #: one unit of random directions, where they are asked for
    directions: Directions | None = None
    #: gives made-up statistics of a stack in place of the driver, which then computes nothing
    listener: Callable[..., Any] | None = None

    @staticmethod
    def checked(
        unbiased: bool | str,
        rtol: float,
        draws: int | None,
        seed: int | None,
        max_memory: float,
        directions: int | None = None,
    ) -> Options:
        try:
            return _checked(unbiased, rtol, draws, seed, max_memory, directions)
        except TypeError:  # what cannot be looked up has to be checked
            return _checked.__wrapped__(unbiased, rtol, draws, seed, max_memory, directions)

    def budget(self, like: Array) -> int:
        """How many numbers a temporary may have in the dtype of an array."""
        if type(like) is np.ndarray and self.max_memory >= AMPLE:
            keep_freed_memory()
            return NUMPY_CACHE_ELEMENTS
        return budget_elements(self.max_memory, like)


@functools.lru_cache(maxsize=64, typed=True)
def _checked(
    unbiased: bool | str,
    rtol: float,
    draws: int | None,
    seed: int | None,
    max_memory: float,
    directions: int | None,
) -> Options:
    if not isinstance(unbiased, bool) and unbiased not in ("members", "samples"):
        raise ParameterError(
            f'unbiased must be True, False, "members" or "samples", got {unbiased!r}'
        )
    accuracy = as_real_number(rtol)
    if accuracy is None or not 1e-13 <= accuracy <= 1e-2:
        raise ParameterError(f"rtol must lie between 1e-13 and 1e-2, got {shown(rtol)}")
    if draws is not None:
        draws = whole_number(draws, "draws", 2, instead=" or None")
        if draws > _MOST_DRAWS:
            raise ParameterError(
                f"draws must be at most {_MOST_DRAWS}, as they are held in memory, got "
                f"{shown(draws)}"
            )
    seed = 0 if seed is None else whole_number(seed, "seed", 0, instead=" or None")
    memory = as_real_number(max_memory)
    if memory is None or not 0 < memory <= math.inf:
        raise ParameterError(
            f"max_memory must be a positive number of bytes, got {shown(max_memory)}"
        )
    directions = checked_directions(directions)
    return Options(
        unbiased_members=unbiased in (True, "members"),
        unbiased_samples=unbiased in (True, "samples"),
        rtol=accuracy,
        draws=draws,
        seed=seed,
        max_memory=memory,
        directions=None if directions is None else Directions((seed,), directions),
    )
