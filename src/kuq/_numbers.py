"""Numbers that a caller gives: of any library's kind, but no truth values."""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import Any

import numpy as np

from kuq.errors import ParameterError


def require_no_mask(value: Any, name: str) -> None:
    """NumPy would read what lies under a mask as numbers."""
    if isinstance(value, np.ma.MaskedArray):
        raise ParameterError(f"{name} is a masked array; fill or drop the masked entries first")


def whole_number(value: Any, name: str, least: int, instead: str = "") -> int:
    """A whole number ≥ ``least`` (int, numpy.int64, …); ``instead`` names what else may stand."""
    number = as_whole_number(value)
    if number is None or number < least:
        raise ParameterError(f"{name} must be an integer ≥ {least}{instead}, got {shown(value)}")
    return number


def as_whole_number(value: Any) -> int | None:
    """A whole number of any kind as an int; None for everything else, truth values as well."""
    if type(value) is int:
        return value
    if isinstance(value, bool) or "bool" in str(getattr(value, "dtype", "")):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def as_real_number(value: Any) -> float | None:
    """A real number of any kind as a float, infinite beyond its range; None for everything else."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        return float(value)
    except OverflowError:  # int and Fraction
        return -math.inf if value < 0 else math.inf


def shown(value: Any) -> str:
    """A value in an error message: of huge integers only their size."""
    if isinstance(value, int) and value.bit_length() > 1024:
        return f"an integer of about {round(value.bit_length() * math.log10(2))} digits"
    return repr(value)
