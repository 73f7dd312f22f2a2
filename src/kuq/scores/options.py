"""What a caller may ask for: estimators, accuracy, Monte Carlo, memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from kuq._array import Array
from kuq.errors import ParameterError
from kuq.tiles import budget_elements

DEFAULT_MEMORY = 2**28


@dataclass(frozen=True)
class Options:
    """Checked options of one call."""

    unbiased_members: bool
    unbiased_samples: bool
    rtol: float
    draws: int | None
    seed: int
    max_memory: float

    @staticmethod
    def checked(
        unbiased: bool | str, rtol: float, draws: int | None, seed: int | None, max_memory: float
    ) -> Options:
        if not isinstance(unbiased, bool) and unbiased not in ("members", "samples"):
            raise ParameterError(
                f'unbiased must be True, False, "members" or "samples", got {unbiased!r}'
            )
        if not _is_number(rtol) or not 1e-13 <= rtol <= 1e-2:
            raise ParameterError(f"rtol must lie between 1e-13 and 1e-2, got {rtol!r}")
        if draws is not None and (
            isinstance(draws, bool) or not isinstance(draws, int) or draws < 2
        ):
            raise ParameterError(f"draws must be an integer ≥ 2 or None, got {draws!r}")
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
            raise ParameterError(f"seed must be an integer ≥ 0 or None, got {seed!r}")
        if not _is_number(max_memory) or not 0 < max_memory <= math.inf:
            raise ParameterError(
                f"max_memory must be a positive number of bytes, got {max_memory!r}"
            )
        return Options(
            unbiased_members=unbiased in (True, "members"),
            unbiased_samples=unbiased in (True, "samples"),
            rtol=float(rtol),
            draws=draws,
            seed=0 if seed is None else seed,
            max_memory=float(max_memory),
        )


def budget_of(options: Options, like: Array) -> int:
    """How many numbers a temporary may have in the dtype of an array."""
    return budget_elements(options.max_memory, like)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
