"""One kernel at several bandwidths at once, so that none has to be right."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from kuq._array import is_array
from kuq.errors import ParameterError
from kuq.kernels.base import Bounded, Kernel
from kuq.kernels.parameters import median_factor

#: A quarter to four times: beyond, a bounded kernel sees nothing or only the squared error.
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)


def multi_scale(kernel: Bounded, factors: Sequence[float] = FACTORS) -> Kernel:
    """The mean of a kernel at multiples of its bandwidth.

    It sees differences of every size between them, at the price of seeing each less sharply than
    the right bandwidth would. By name: ``"gaussian:multi"``, around the median distance.

    >>> import kuq
    >>> kuq.multi_scale(kuq.Laplace(1.0), [0.5, 2.0])
    0.5 * Laplace(bandwidth=0.5) + 0.5 * Laplace(bandwidth=2.0)
    """
    if not isinstance(kernel, Bounded):
        raise ParameterError(
            "multi_scale needs a kernel with a bandwidth, such as Gaussian('median'), got "
            f"{kernel!r}"
        )
    scales = [float(factor) for factor in factors]
    if not scales or not all(0 < scale < float("inf") for scale in scales):
        raise ParameterError(f"factors must be positive and finite, got {list(factors)!r}")
    if len(scales) == 1:
        return _scaled(kernel, scales[0])
    first, *others = (_scaled(kernel, scale) * (1.0 / len(scales)) for scale in scales)
    return sum(others, start=first)


def _scaled(kernel: Bounded, factor: float) -> Bounded:
    width: Any = kernel.bandwidth
    if not isinstance(width, str):
        width = width * factor if is_array(width) else float(width) * factor
    elif factor != 1:
        median = median_factor(width)
        assert median is not None
        width = f"median*{median * factor:.17g}"
    return dataclasses.replace(kernel, bandwidth=width)  # type: ignore[type-var]
