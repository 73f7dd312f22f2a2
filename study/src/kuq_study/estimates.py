"""From records to estimates: means over seeds with intervals, cell by cell."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from kuq_study.records import Record
from kuq_study.vocabulary import OURS

#: Arrays of one prediction (truth, prediction, aleatoric, epistemic, coordinates) by name.
Fields: TypeAlias = Mapping[str, Mapping[str, NDArray[np.float64]]]


#: The least and the largest value that a quantity can have.
Limits: TypeAlias = tuple[float, float]
UNLIMITED: Limits = (-math.inf, math.inf)


@final
@dataclass(frozen=True)
class Estimate:
    """A mean over seeds or splits, with a 95 % interval (of Student's t; NaN for one seed)."""

    mean: float
    low: float
    high: float
    seeds: int


def estimate(
    values: Sequence[float], *, factors: bool = False, limits: Limits = UNLIMITED
) -> Estimate:
    """The mean of values and its 95 % t-interval, as far as it lies within the limits.

    With ``factors``, for positive values that differ by factors rather than by differences, the
    geometric mean, and an interval that is as symmetric in factors.

    >>> estimate([1.0, 2.0, 3.0])
    Estimate(mean=2.0, low=-0.484137711..., high=4.484137711..., seeds=3)
    >>> estimate([1.0, 10.0, 100.0], factors=True)
    Estimate(mean=10.0..., low=0.03279..., high=3048.8..., seeds=3)
    """
    if factors and len(values) > 1 and min(values) > 0:
        e = estimate([math.log(value) for value in values])
        return Estimate(math.exp(e.mean), math.exp(e.low), math.exp(e.high), e.seeds)
    data = np.asarray(values, dtype=np.float64)
    mean = float(data.mean()) if data.size else math.nan
    if data.size < 2 or not math.isfinite(mean):
        return Estimate(mean, math.nan, math.nan, int(data.size))
    half = float(stats.t.ppf(0.975, data.size - 1)) * float(data.std(ddof=1)) / math.sqrt(data.size)
    low, high = limits
    return Estimate(mean, max(low, mean - half), min(high, mean + half), int(data.size))


@final
@dataclass(frozen=True)
class CellKey:
    """What a number of a table belongs to."""

    dataset: str
    representation: str
    score: str
    component: str = ""
    x: float | None = None


@final
class Evidence:
    """Records, ready to be asked for by experiment, quantity and component, and fields by name.

    ``measured`` is False for a run that only shows that everything works: its numbers speak for
    nothing, so that no claim is judged by them and no value of the paper stands beside them.
    """

    def __init__(
        self, records: Iterable[Record], fields: Fields | None = None, *, measured: bool = True
    ) -> None:
        self.records = tuple(records)
        self.measured = measured
        self.fields: Fields = fields or {}
        self._by_quantity: dict[tuple[str, str], list[Record]] = defaultdict(list)
        for record in self.records:
            if not math.isnan(record.value):
                self._by_quantity[record.experiment, record.quantity].append(record)

    def of_the_paper(self) -> Evidence:
        """The same without representations that only kuq has: what claims and ranks are about."""
        return Evidence(
            (r for r in self.records if r.representation not in OURS),
            {
                name: arrays
                for name, arrays in self.fields.items()
                if not name.removesuffix("-shifted").endswith(tuple(f"-{r}" for r in OURS))
            },
            measured=self.measured,
        )

    def of(self, experiment: str, quantity: str, component: str | None = None) -> list[Record]:
        """All records of a quantity; those without a component answer for any."""
        records = self._by_quantity.get((experiment, quantity), [])
        return [r for r in records if component is None or r.component in (component, "")]

    def single(self, experiment: str, quantity: str, component: str | None = None) -> list[Record]:
        """The records of a quantity that stand by themselves, not along a curve."""
        return [r for r in self.of(experiment, quantity, component) if r.x is None]

    def quantities(self, experiment: str) -> set[str]:
        """The names of the quantities that an experiment has."""
        return {quantity for name, quantity in self._by_quantity if name == experiment}

    def experiments(self) -> set[str]:
        """The names of the experiments that have records."""
        return {name for name, _ in self._by_quantity}


def by_cell(
    records: Iterable[Record], *, along_x: bool = False, component: bool = False
) -> dict[CellKey, dict[int, float]]:
    """Values by cell and seed; with ``along_x`` and ``component`` as parts of the cell."""
    table: dict[CellKey, dict[int, float]] = defaultdict(dict)
    for r in records:
        cell = CellKey(
            r.dataset,
            r.representation,
            r.score,
            r.component if component else "",
            r.x if along_x else None,
        )
        table[cell][r.seed] = r.value
    return dict(table)


def final_values(records: Iterable[Record]) -> list[Record]:
    """Of every curve (cell and seed) the record with the largest x; single numbers as they are."""
    last: dict[tuple[object, ...], Record] = {}
    for r in records:
        key = (r.experiment, r.dataset, r.representation, r.seed, r.quantity, r.score, r.component)
        before = last.get(key)
        if before is None or (r.x or 0.0) >= (before.x or 0.0):
            last[key] = r
    return list(last.values())


def estimates(
    table: Mapping[CellKey, Mapping[int, float]],
    *,
    factors: bool = False,
    limits: Limits = UNLIMITED,
) -> dict[CellKey, Estimate]:
    """The estimate over seeds of every cell."""
    return {
        cell: estimate(list(seeds.values()), factors=factors, limits=limits)
        for cell, seeds in table.items()
    }


def with_bounds(
    means: Mapping[CellKey, Estimate],
    low: Mapping[CellKey, Mapping[int, float]],
    high: Mapping[CellKey, Mapping[int, float]],
) -> dict[CellKey, Estimate]:
    """Estimates with the intervals that every seed has by itself, such as bootstrap: their mean.

    That is right where seeds have the same test rows, and wider than needed where each has its own.
    """
    bounded = {}
    for cell, e in means.items():
        ends = low.get(cell), high.get(cell)
        if ends[0] and ends[1]:
            bottom, top = (statistics.fmean(end.values()) for end in ends if end)
            e = Estimate(e.mean, bottom, top, e.seeds)
        bounded[cell] = e
    return bounded
