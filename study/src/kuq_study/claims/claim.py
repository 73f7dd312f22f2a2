"""A claim of the paper: a statement, where it stands, and a test with three outcomes."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, final

import kuq
from kuq.protocols.influence import influence_curves
from kuq_study.estimates import Evidence
from kuq_study.rank_tables import PROTOCOL, protocol_ranking
from kuq_study.ranking import Ranking
from kuq_study.vocabulary import data_name


@final
class Status(enum.Enum):
    """What came of a test."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "cannot be decided here"


@final
@dataclass(frozen=True)
class Verdict:
    """The outcome of a test, the numbers behind it, and why it could not be decided."""

    status: Status
    numbers: str
    reason: str = ""


def decided(holds: bool, numbers: str) -> Verdict:
    """A verdict that follows from numbers."""
    return Verdict(Status.HOLDS if holds else Status.FAILS, numbers)


#: Why a claim cannot be decided.
TOO_FEW = "too few results"
DISAGREE = "data sets do not agree"
STAND_INS = "synthetic stand-ins"


def undecided(numbers: str, reason: str = TOO_FEW) -> Verdict:
    """There are no numbers, or they do not tell."""
    return Verdict(Status.UNDECIDED, numbers, reason)


@final
@dataclass(frozen=True)
class Calculus:
    """The functions that claims about mathematics compute with: kuq's, or others in a test."""

    decompose: Callable[..., Any] = kuq.decompose
    entropy: Callable[..., Any] = kuq.entropy
    divergence: Callable[..., Any] = kuq.divergence
    influence_curves: Callable[..., Any] = influence_curves


@final
@dataclass(frozen=True)
class Case:
    """What a test may look at."""

    evidence: Evidence
    calculus: Calculus = Calculus()
    #: Whether differences below a tie count as none. Not for the paper's own numbers: these are
    #: asked whether they say what the paper says.
    ties: bool = True
    _rankings: dict[tuple[str, str | None], Ranking | None] = field(default_factory=dict)

    def ranking(self, experiment: str, representation: str | None = None) -> Ranking | None:
        """Average ranks of a protocol, for one representation or over all."""
        key = (experiment, representation)
        if key not in self._rankings:
            self._rankings[key] = protocol_ranking(
                self.evidence, PROTOCOL[experiment], representation, ties=self.ties
            )
        return self._rankings[key]


def if_real(case: Case, verdict: Verdict, experiment: str, method: str | None = None) -> Verdict:
    """A verdict, unless half of the data behind it or more are synthetic stand-ins.

    The paper speaks of the real data; of these the stand-ins neither confirm nor refute anything.
    """
    records = (r for r in case.evidence.records if r.experiment == experiment)
    cells = {(r.dataset, r.representation) for r in records if method in (None, r.representation)}
    made = sum(data_name(dataset).synthetic for dataset, _ in cells)
    if verdict.status is Status.UNDECIDED or 2 * made < len(cells):
        return verdict
    name = experiment.replace("_", " ")
    return undecided(
        f"{verdict.numbers}; here it {verdict.status.value}, but {made} of {len(cells)} results of "
        f"{name} are on synthetic stand-ins",
        STAND_INS,
    )


@final
@dataclass(frozen=True)
class Claim:
    """One statement: a key, the statement in our words, its place in the paper, and its test.

    ``kind`` is "proposition" (tested by computing) or "experiment" (tested on records).
    """

    key: str
    statement: str
    source: str
    test: Callable[[Case], Verdict]
    kind: str = "experiment"


#: A claim that is tested by computing.
proposition = partial(Claim, kind="proposition")
