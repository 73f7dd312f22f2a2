"""Cases drawn again with replacement, one by one or in groups, and what numbers vary by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from kuq.errors import InsufficientDataError
from kuq.protocols.vectors import Vector, group_numbers

Places = NDArray[np.intp]


@final
@dataclass(frozen=True, eq=False)
class Units:
    """What a bootstrap draws as a whole: cases, or the groups that they come from.

    ``order`` has the cases group by group, ``begin`` where each group begins in it; None if every
    case stands for itself.
    """

    cases: int
    order: Places | None = None
    begin: Places | None = None

    @classmethod
    def of(cls, labels: Any, cases: int, name: str) -> Units:
        """Groups by a label per case, which ``name`` calls by name; None for single cases."""
        if labels is None:
            return cls(cases)
        number = group_numbers(labels, name, cases)
        sizes = np.bincount(number)
        begin = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        return cls(cases, np.argsort(number, kind="stable"), begin)

    @property
    def count(self) -> int:
        """How many units there are."""
        return self.cases if self.begin is None else len(self.begin) - 1

    def drawn(self, rng: np.random.Generator) -> Places:
        """The cases of as many units as there are, drawn with replacement."""
        return self.places(rng.integers(0, self.count, self.count))

    def places(self, units: Places) -> Places:
        """The cases of these units, unit by unit."""
        if self.order is None or self.begin is None:
            return units
        lengths = np.diff(self.begin)[units]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return np.asarray(self.order[np.repeat(self.begin[units], lengths) + within])

    def means(self, values: Vector) -> Vector:
        """The mean over the cases of each unit."""
        if self.order is None or self.begin is None:
            return values
        return np.asarray(
            np.add.reduceat(values[self.order], self.begin[:-1]) / np.diff(self.begin)
        )

    def check_several(self, name: str, resamples: int) -> None:
        """One group alone has no spread between groups."""
        if self.begin is not None and self.count < 2 and resamples:
            raise InsufficientDataError(
                f"{name} has one group only, and an interval needs two at least; bring more "
                "groups, or ask for resamples=0"
            )


def simultaneous_halves(draws: NDArray[np.float64], confidence: float) -> Vector:
    """Half widths of intervals that hold for all of several numbers at once.

    ``draws`` has what each number is in every resample, (resamples, numbers). One bound serves for
    all: the largest of many ratios to their standard errors is larger than any given one. So the
    intervals also hold for a number that was chosen by looking at all of them.
    """
    moved, error = _standardised(draws)
    moving = error > 0
    if not moving.any():
        return error
    return np.asarray(np.quantile(np.abs(moved[:, moving]).max(axis=1), confidence) * error)


def gain_bounds(
    gain: Vector, draws: NDArray[np.float64], confidence: float, count: int
) -> tuple[Vector, Vector]:
    """The ends of intervals of several gains; the best of them is no chance if it begins above 0.

    ``draws`` has what each gain is in every resample of ``count`` units, (resamples, gains). Both
    ends hold for several gains at once, each with half of the chance that is left. What is plainly
    worse than nothing cannot be the best by chance, so that it does not count for the lower ends:
    it would raise the bound for others (the test of superior predictive ability, Hansen 2005, with
    his threshold).
    """
    moved, error = _standardised(draws)
    moving = error > 0
    if not moving.any():
        return gain - error, gain + error
    plainly_worse = gain < -np.sqrt(2 * np.log(np.log(count))) * error
    rivals = moving & ~plainly_worse
    share = (1 + confidence) / 2
    above = moved[:, rivals if rivals.any() else moving].max(axis=1)
    below = -moved[:, moving].min(axis=1)
    return gain - np.quantile(above, share) * error, gain + np.quantile(below, share) * error


def _standardised(draws: NDArray[np.float64]) -> tuple[NDArray[np.float64], Vector]:
    """Deviations from the mean in standard errors, and these; NaN if resamples have no numbers."""
    complete = draws[~np.isnan(draws).any(axis=1)]
    if len(complete) < 2:
        return complete, np.full(draws.shape[1], np.nan)
    error: Vector = np.std(complete, axis=0, ddof=1)
    return (complete - complete.mean(axis=0)) / np.where(error > 0, error, 1.0), error
