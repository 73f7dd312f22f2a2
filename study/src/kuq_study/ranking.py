"""Average ranks of scores, as the paper forms them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from kuq.protocols.ranks import AverageRanks, average_ranks
from kuq_study.estimates import CellKey
from kuq_study.vocabulary import RANDOM, SCORES, UNIVARIATE, data_name, ordered


@final
@dataclass(frozen=True, eq=False)
class Ranking:
    """Ranks of ``scores`` over ``cases`` (data set, representation), from ``values``."""

    scores: tuple[str, ...]
    cases: tuple[tuple[str, str], ...]
    values: NDArray[np.float64]
    higher_is_better: bool
    result: AverageRanks
    tie: float = 0.0

    def average(self, score: str) -> float:
        """The average rank of a score, NaN if it never occurs."""
        if score not in self.scores:
            return math.nan
        return float(self.result.average[self.scores.index(score)])

    def among_common(self) -> tuple[tuple[str, ...], AverageRanks] | None:
        """Ranks of those scores alone that every case has: what tests of differences need."""
        common = np.asarray(np.isfinite(self.values).all(axis=0))
        if common.sum() < 3:
            return None
        names = tuple(s for s, has in zip(self.scores, common, strict=True) if has)
        return names, average_ranks(
            self.values[:, common], self.higher_is_better, tie=self.tie, resamples=0
        )

    @property
    def datasets(self) -> int:
        """How many data sets the cases come from."""
        return len({dataset for dataset, _ in self.cases})


def ranking(
    values: Mapping[CellKey, float],
    *,
    higher_is_better: bool,
    representation: str | None,
    by_task: bool,
    tie: float,
) -> Ranking | None:
    """Rank scores within every data set and representation, ties averaged; None without cases.

    For scalars the energy score is the CRPS: it is left out of the ranking of these cases and
    takes the rank of the CRPS. With ``by_task`` the average is that over univariate, 1D and 2D
    tasks of the averages within them. Values that differ by less than ``tie`` are tied.
    Intervals are over data sets.
    """
    chosen = {
        cell: value
        for cell, value in values.items()
        if representation in (None, cell.representation)
    }
    names = ordered({cell.score for cell in chosen}, (*SCORES, *RANDOM))
    cases = sorted({(cell.dataset, cell.representation) for cell in chosen})
    if len(names) < 2 or not cases:
        return None
    if "crps" in names and "energy" not in names:
        names.insert(names.index("crps") + 1, "energy")
    table = np.full((len(cases), len(names)), np.nan)
    for cell, value in chosen.items():
        table[cases.index((cell.dataset, cell.representation)), names.index(cell.score)] = value
    stand_ins = {}
    if "crps" in names and "energy" in names:
        stand_ins = {names.index("energy"): names.index("crps")}
        scalar = [data_name(dataset).task == UNIVARIATE for dataset, _ in cases]
        table[scalar, names.index("energy")] = np.nan
    result = average_ranks(
        table,
        higher_is_better,
        tie=tie,
        groups=[data_name(dataset).task for dataset, _ in cases] if by_task else None,
        datasets=[dataset for dataset, _ in cases],
        stand_ins=stand_ins,
    )
    return Ranking(tuple(names), tuple(cases), table, higher_is_better, result, tie)
