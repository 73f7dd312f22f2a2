"""Checks of the parameters of kernels."""

from __future__ import annotations

import math
import re
from typing import Any

from kuq._array import adopt, is_array, is_traced, namespace, require
from kuq._numbers import as_real_number, shown
from kuq.errors import ParameterError

_MEDIAN = re.compile(r"median(?:\*(\d+(?:\.\d*)?(?:e[+-]?\d+)?))?")


def median_factor(bandwidth: str) -> float | None:
    """The number by which a word such as "median" or "median*0.5" multiplies the median distance.

    >>> from kuq.kernels.parameters import median_factor
    >>> median_factor("median"), median_factor("median*0.5"), median_factor("mean")
    (1.0, 0.5, None)
    """
    match = _MEDIAN.fullmatch(bandwidth)
    if match is None:
        return None
    factor = float(match[1] or 1.0)
    return factor if 0 < factor < math.inf else None


def check_bandwidth(kernel: Any) -> None:
    """A bandwidth is a positive number or array, or a word such as "median" or "median*0.5"."""
    bandwidth = kernel.bandwidth
    name = f"bandwidth of {type(kernel).__name__}"
    if isinstance(bandwidth, str):
        if median_factor(bandwidth) is None:
            raise ParameterError(
                f'{name} must be a number, an array, "median" or a multiple such as "median*0.5", '
                f"got {bandwidth!r}"
            )
        return
    if is_array(bandwidth):
        if not is_traced(bandwidth):
            widths = adopt(**{name: bandwidth})[0][name]
            finite = namespace(widths).isfinite(widths)
            require((widths > 0) & finite, name, "positive and finite", widths)
        return
    width = as_real_number(bandwidth)
    if width is None:
        raise ParameterError(
            f'{name} must be a number, an array or "median", got {type(bandwidth).__name__}'
        )
    if not 0 < width < math.inf:
        raise ParameterError(f"{name} must be positive and finite, got {shown(bandwidth)}")
    object.__setattr__(kernel, "bandwidth", width)


def check_weights(kernel: Any) -> None:
    """Event weights are an array or list of numbers ≥ 0, not all zero."""
    weights = kernel.weights
    if weights is None or is_traced(weights):
        return
    name = f"weights of {type(kernel).__name__}"
    weights = adopt(**{name: weights})[0][name]
    xp = namespace(weights)
    require((weights >= 0) & xp.isfinite(weights), name, "finite and not negative", weights)
    require(xp.any(weights > 0), name, "positive somewhere", xp.max(weights))


def check_number(kernel: Any, field: str, low: float, high: float) -> None:
    """A scalar shape parameter inside an open interval."""
    given = getattr(kernel, field)
    value = as_real_number(given)
    if value is None:
        raise ParameterError(
            f"{field} of {type(kernel).__name__} must be a number, got {type(given).__name__}"
        )
    if not low < value < high:
        hint = "; beta = 2 is kuq.SquaredError()" if field == "beta" and value == 2 else ""
        raise ParameterError(
            f"{field} of {type(kernel).__name__} must lie in ({low:g}, {high:g}), "
            f"got {shown(given)}{hint}"
        )
    object.__setattr__(kernel, field, value)
