"""Claims that name a level: decided where the level is outside of the intervals of the values."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

import numpy as np

from kuq_study.claims.claim import DISAGREE, Verdict, decided, undecided
from kuq_study.estimates import Estimate

#: Why a claim cannot be decided.
WITHIN = "the level lies within an interval"
#: The share of redrawn collections of data sets that must agree for a decision.
AGREEMENT = 0.8
_REDRAWN = 2000


def interval(e: Estimate) -> tuple[float, float]:
    """The interval of a value; a value that has none, as those of the paper, counts as it is."""
    return (e.mean, e.mean) if math.isnan(e.low) else (e.low, e.high)


def in_words(e: Estimate, form: str = ".3g") -> str:
    """A value with its interval, where it has one."""
    low, high = interval(e)
    return f"{e.mean:{form}}" + (f" [{low:{form}}, {high:{form}}]" if low < high else "")


def all_above(values: Collection[Estimate], level: float, text: str) -> Verdict:
    """Whether all values reach a level: yes if their intervals do, no if that of one does not.

    Where a level lies within the interval of a value, and none is wholly on the other side, it
    cannot be decided, whatever side the values themselves are on.
    """
    return _beside(values, level, text, 1)


def all_below(values: Collection[Estimate], level: float, text: str) -> Verdict:
    """Whether all values stay below a level, decided in the same way."""
    return _beside(values, level, text, -1)


def _beside(values: Collection[Estimate], level: float, text: str, sign: int) -> Verdict:
    ends = [sorted(sign * end for end in interval(e)) for e in values]
    if all(least >= sign * level for least, _ in ends):
        return decided(True, text)
    if any(most < sign * level for _, most in ends):
        return decided(False, text)
    within = sum(least < sign * level for least, _ in ends)
    return undecided(f"{text}; {level:g} lies within {within} of {len(ends)} intervals", WITHIN)


def share_above(
    datasets: Sequence[str], meets: Sequence[bool], least: float, text: Callable[[float], str]
) -> Verdict:
    """Whether a share of results meets a condition, if redrawn collections of data sets agree."""
    names, group = np.unique(datasets, return_inverse=True)
    counts = np.stack([np.bincount(group), np.bincount(group, weights=meets)], axis=1)
    share = counts[:, 1].sum() / counts[:, 0].sum()
    rng = np.random.default_rng(0)
    drawn = counts[rng.integers(len(names), size=(_REDRAWN, len(names)))].sum(1)
    agree = float(np.mean((drawn[:, 1] / drawn[:, 0] >= least) == (share >= least)))
    numbers = f"{text(share)}; {100 * agree:.0f} % of redrawn collections of data sets agree"
    if agree < AGREEMENT:
        return undecided(numbers, DISAGREE)
    return decided(bool(share >= least), numbers)
