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
    known = draws[~np.isnan(draws).any(axis=1)]
    if len(known) < 2:
        return np.full(draws.shape[1], np.nan)
    error: Vector = np.std(known, axis=0, ddof=1)
    moving = error > 0
    if not moving.any():
        return error
    ratios = np.abs(known - known.mean(axis=0))[:, moving] / error[moving]
    return np.asarray(np.quantile(ratios.max(axis=1), confidence) * error)
