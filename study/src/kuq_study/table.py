"""A table of results as one object: all formats are written from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from kuq_study.estimates import Estimate
from kuq_study.vocabulary import Name


@final
@dataclass(frozen=True)
class Entry:
    """One cell: our estimate, the paper's value beside it, and whether ours is the best."""

    ours: Estimate | None = None
    paper: float | None = None
    best: bool = False

    @property
    def empty(self) -> bool:
        return self.ours is None and self.paper is None


@final
@dataclass(frozen=True)
class Table:
    """Rows of entries under columns, in the paper's layout.

    ``row_heads`` name the columns of labels, ``rows`` pair labels with entries; ``number`` writes
    a value. ``paper_table`` says which table of the paper it stands beside.
    """

    name: str
    title: str
    caption: str
    row_heads: tuple[str, ...]
    columns: tuple[Name, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[Entry, ...]], ...]
    number: Callable[[float], str]
    paper_table: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for labels, entries in self.rows:
            assert len(labels) == len(self.row_heads)
            assert len(entries) == len(self.columns)

    @property
    def has_paper(self) -> bool:
        """Whether any entry has a value of the paper."""
        return any(e.paper is not None for _, entries in self.rows for e in entries)

    def interval(self, value: Estimate) -> str:
        """The interval as text, empty if there is none."""
        if math.isnan(value.low):
            return ""
        return f"{self.number(value.low)} to {self.number(value.high)}"


def decimals(digits: int) -> Callable[[float], str]:
    """Writes numbers with a fixed number of decimals.

    >>> decimals(3)(0.12345)
    '0.123'
    """
    return lambda value: f"{value:.{digits}f}"


def significant(value: float) -> str:
    """Writes numbers over many orders of magnitude, with three digits.

    >>> [significant(v) for v in (0.0, 0.0312, 1.2, 24.86, 341.0, 6100000.0)]
    ['0.00', '0.0312', '1.20', '24.9', '341', '6.10e6']
    """
    size = abs(value)
    if size >= 1000 or 0 < size < 0.001:
        mantissa, _, exponent = f"{value:.2e}".partition("e")
        return f"{mantissa}e{int(exponent)}" if exponent else mantissa
    return f"{value:#.3g}".rstrip(".")


def mark_best(
    row: list[tuple[Estimate | None, float | None]], higher_is_better: bool | None
) -> tuple[Entry, ...]:
    """Entries of a row with the best of ours marked (several if equal; none for ``None``)."""
    means = [ours.mean for ours, _ in row if ours is not None]
    if higher_is_better is None or len(means) < 2:
        return tuple(Entry(ours, paper) for ours, paper in row)
    best = max(means) if higher_is_better else min(means)
    return tuple(
        Entry(ours, paper, best=ours is not None and ours.mean == best) for ours, paper in row
    )
