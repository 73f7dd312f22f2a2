"""Two methods on the same runs: their difference, and whether the runs can tell it from chance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from scipy import stats

from kuq.errors import InsufficientDataError, ParameterError, ShapeError
from kuq.protocols.power import smallest_detectable_effect
from kuq.protocols.vectors import fraction, one_per_case

Verdict = Literal["lower", "higher", "tie", "undecided"]


@final
@dataclass(frozen=True)
class PairedDifference:
    """The mean of first − second over paired runs, and what these runs can say about it.

    ``interval`` and ``p_value`` are those of the paired t-test, ``deviation`` is the standard
    deviation of the differences, ``detectable`` the smallest true difference that the runs would
    have shown with probability ``power``. Differences smaller than ``tie`` do not matter.
    """

    difference: float
    interval: tuple[float, float]
    deviation: float
    runs: int
    p_value: float
    detectable: float
    tie: float
    confidence: float
    power: float

    @property
    def verdict(self) -> Verdict:
        """What the whole interval says of the first: "lower", "higher", "tie" or "undecided".

        It is a tie where every difference in the interval is smaller than ``tie``, and undecided
        where the interval has differences that matter and others that do not.
        """
        low, high = self.interval
        if high <= -self.tie and high < 0:
            return "lower"
        if low >= self.tie and low > 0:
            return "higher"
        if (-self.tie < low and high < self.tie) or low == high == 0:
            return "tie"
        return "undecided"

    @property
    def reason(self) -> str:
        """The verdict in words, with the numbers that it rests on."""
        low, high = self.interval
        numbers = f"{self.difference:+.3g} [{low:+.3g}, {high:+.3g}] over {self.runs} runs"
        told = {
            "lower": "the first is lower",
            "higher": "the first is higher",
            "tie": f"a tie: below {self.tie:g} in size",
            "undecided": f"undecided: the runs could have seen {self.detectable:.3g}",
        }
        return f"{told[self.verdict]} ({numbers})"


def paired_difference(
    first: Any,
    second: Any,
    *,
    tie: float = 0.0,
    confidence: float = 0.95,
    power: float = 0.8,
) -> PairedDifference:
    """Compare two methods run by run: difference, interval, and what could have been seen.

    ``first`` and ``second`` have one number per run, a seed or a split, in the same order. What
    runs share, such as a hard split, cancels. For ratios, such as errors over those of random
    choice, pass logarithms.

    >>> import kuq
    >>> found = kuq.protocols.paired_difference([0.51, 0.72, 0.33, 0.94], [0.5, 0.7, 0.3, 0.9])
    >>> found.verdict, round(found.difference, 3), round(found.detectable, 3)
    ('higher', 0.025, 0.027)
    >>> kuq.protocols.paired_difference([0.1, 0.3], [0.2, 0.1]).reason
    'undecided: the runs could have seen 2.45 (+0.05 [-1.86, +1.96] over 2 runs)'
    """
    a, b = one_per_case(first, "first"), one_per_case(second, "second")
    if a.shape != b.shape:
        raise ShapeError(f"both methods need the same runs, got {a.size} and {b.size}")
    if a.size < 2:
        raise InsufficientDataError("one run has no spread; at least two are needed")
    share = fraction(confidence, "confidence")
    if not 0 <= tie < math.inf:
        raise ParameterError(f"tie must be finite and not negative, got {tie!r}")
    gap = a - b
    mean, deviation = float(gap.mean()), float(gap.std(ddof=1))
    # Equal differences have a spread of rounding, which is none.
    if deviation <= 8 * np.finfo(float).eps * float(np.abs([a, b]).max()):
        deviation = 0.0
    error = deviation / math.sqrt(a.size)
    half = float(stats.t.isf((1 - share) / 2, a.size - 1)) * error
    p = 2 * float(stats.t.sf(abs(mean) / error, a.size - 1)) if error else float(mean == 0)
    return PairedDifference(
        difference=mean,
        interval=(mean - half, mean + half),
        deviation=deviation,
        runs=int(a.size),
        p_value=p,
        detectable=smallest_detectable_effect(deviation, a.size, level=1 - share, power=power),
        tie=float(tie),
        confidence=share,
        power=float(power),
    )
