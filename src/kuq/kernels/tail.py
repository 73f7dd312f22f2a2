"""Tail focus: kernels that see only what happens beyond a threshold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kuq._array import adopt, require, require_finite
from kuq.errors import ParameterError
from kuq.kernels.base import Kernel, Transformed
from kuq.kernels.transforms import Clip


def tail(kernel: Kernel, threshold: Any = None, *, below: Any = None) -> Transformed:
    """The kernel k(v(x), v(y)) of clipped outcomes: how unsure are we about floods?

    ``tail(kernel, 30.0)`` counts what happens above 30, ``tail(kernel, below=0.0)`` what happens
    below 0, and ``tail(kernel, 10.0, below=30.0)`` what happens between 10 and 30; outcomes on the
    other side are all alike. A threshold is a number, or an array that broadcasts against
    batch + event (one per input, one per coordinate), without member and sample axes. The CRPS
    becomes the threshold-weighted CRPS, by quadrature for normals and their mixtures; other
    kernels take samples, or ``draws=``.

    >>> import kuq
    >>> floods = kuq.tail(kuq.CRPS(), 2.0)
    >>> low, high = kuq.Normal(0.0, 1.0), kuq.Normal(1.0, 1.0)
    >>> round(float(kuq.entropy(low, floods)), 4), round(float(kuq.entropy(high, floods)), 4)
    (0.0084, 0.0761)
    """
    if not isinstance(kernel, Kernel):
        raise ParameterError(f"tail needs a kernel such as CRPS(), got {kernel!r}")
    if threshold is None and below is None:
        raise ParameterError("tail needs a threshold, or below= for the lower tail")
    low = -math.inf if threshold is None else _number(threshold, "threshold")
    high = math.inf if below is None else _number(below, "below")
    if threshold is not None and below is not None:
        gap = adopt(gap=high)[0]["gap"] - adopt(gap=low)[0]["gap"]
        require(gap > 0, "below − threshold", "positive", gap, "they are the ends of an interval")
    return kernel.on(Clip(low, high))


def _number(value: Any, name: str) -> Any:
    taken = adopt(**{name: value})[0][name]
    require_finite(**{name: taken})
    return float(taken) if taken.ndim == 0 and isinstance(taken, np.ndarray) else taken
