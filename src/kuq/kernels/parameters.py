"""Checks of the parameters of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from kuq._array import adopt, is_array, is_traced, namespace, require
from kuq.errors import ParameterError


def check_bandwidth(kernel: Any) -> None:
    """A bandwidth is a positive number or array, or the word "median"."""
    bandwidth = kernel.bandwidth
    name = f"bandwidth of {type(kernel).__name__}"
    if isinstance(bandwidth, str):
        if bandwidth != "median":
            raise ParameterError(
                f'{name} must be a number, an array or "median", got {bandwidth!r}'
            )
    elif is_array(bandwidth):
        if not is_traced(bandwidth):
            widths = adopt(**{name: bandwidth})[0][name]
            finite = namespace(widths).isfinite(widths)
            require((widths > 0) & finite, name, "positive and finite", widths)
    elif isinstance(bandwidth, (int, float, np.number)) and not isinstance(bandwidth, bool):
        if not 0 < bandwidth < np.inf:
            raise ParameterError(f"{name} must be positive and finite, got {bandwidth}")
        object.__setattr__(kernel, "bandwidth", float(bandwidth))
    else:
        raise ParameterError(
            f'{name} must be a number, an array or "median", got {type(bandwidth).__name__}'
        )


def check_weights(kernel: Any) -> None:
    """Event weights are an array or list of numbers ≥ 0, not all zero."""
    weights = kernel.weights
    if weights is None or is_traced(weights):
        return
    name = f"weights of {type(kernel).__name__}"
    weights = adopt(**{name: weights})[0][name]
    xp = namespace(weights)
    require((weights >= 0) & xp.isfinite(weights), name, "finite and not negative", weights)
    require(xp.any(weights > 0), name, "positive somewhere", xp.sum(weights))


def check_number(kernel: Any, field: str, low: float, high: float) -> None:
    """A scalar shape parameter inside an open interval."""
    value = getattr(kernel, field)
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise ParameterError(
            f"{field} of {type(kernel).__name__} must be a number, got {type(value).__name__}"
        )
    if not low < value < high:
        hint = "; beta = 2 is kuq.SquaredError()" if field == "beta" and value == 2 else ""
        raise ParameterError(
            f"{field} of {type(kernel).__name__} must lie in ({low:g}, {high:g}), got {value}{hint}"
        )
    object.__setattr__(kernel, field, float(value))
