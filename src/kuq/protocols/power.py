"""What a comparison of paired runs could have seen: effects that are large enough, and how many."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import optimize, stats

from kuq._numbers import whole_number
from kuq.errors import InsufficientDataError, ParameterError
from kuq.protocols.vectors import fraction

#: Runs beyond which a search gives up: no experiment has as many.
_MOST_RUNS = 10**7


def smallest_detectable_effect(
    deviation: float, runs: int, *, level: float = 0.05, power: float = 0.8
) -> float:
    """The smallest true difference that so many paired runs would have shown in most cases.

    ``deviation`` is the standard deviation of the paired differences over ``runs`` (seeds, splits);
    a two-sided t-test at ``level`` finds a difference of this size with probability ``power``.
    Where a difference below it was not found, the runs do not say that there is none. It is in
    the unit of ``deviation``, and exact for normal differences (noncentral t).

    >>> import kuq
    >>> [round(kuq.protocols.smallest_detectable_effect(1.0, n), 2) for n in (3, 10, 100)]
    [3.26, 1.0, 0.28]
    """
    count = _checked(deviation, runs, level, power)
    return float(deviation) * _effect(count, level, power)


def runs_needed(deviation: float, effect: float, *, level: float = 0.05, power: float = 0.8) -> int:
    """The fewest paired runs that show a difference ``effect`` with probability ``power``.

    The inverse of ``smallest_detectable_effect``, with the same ``deviation`` and ``level``.

    >>> import kuq
    >>> kuq.protocols.runs_needed(0.1, 0.05)
    34
    """
    _checked(deviation, 2, level, power)
    if not 0 < effect < math.inf:
        raise ParameterError(f"effect must be positive and finite, got {effect!r}")
    size = effect / deviation if deviation > 0 else math.inf
    low, high = 1, 2
    while _effect(high, level, power) > size:
        low, high = high, 2 * high
        if high > _MOST_RUNS:
            raise ParameterError(
                f"an effect of {effect:g} needs more than {_MOST_RUNS:g} runs at a deviation of "
                f"{deviation:g}; it is too small to be seen"
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _effect(middle, level, power) <= size else (middle, high)
    return high


def _effect(runs: int, level: float, power: float) -> float:
    """In standard deviations of the differences."""
    freedom = runs - 1
    critical = float(stats.t.isf(level / 2, freedom))

    def missing(shift: float) -> float:
        detected = float(stats.nct.sf(critical, freedom, shift))
        # Nobody claims the wrong sign; for shifts this small it has some chance all the same.
        wrong = float(stats.nct.cdf(-critical, freedom, shift)) if shift < 5 else 0.0
        return detected + wrong - power

    if power <= level:  # chance alone finds as much
        return 0.0
    most = critical + 10.0
    while missing(most) < 0:
        most *= 2
    return float(optimize.brentq(missing, 0.0, most, xtol=1e-12)) / math.sqrt(runs)


def _checked(deviation: Any, runs: int, level: float, power: float) -> int:
    if not (np.isfinite(deviation) and deviation >= 0):
        raise ParameterError(f"deviation must be finite and not negative, got {deviation!r}")
    count = whole_number(runs, "runs", 1)
    if count < 2:
        raise InsufficientDataError("one run has no spread; at least two are needed")
    fraction(level, "level")
    fraction(power, "power")
    return count
