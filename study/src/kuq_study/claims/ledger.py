"""All claims, and what came of each: on our records, and on the paper's own numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import final

from kuq_study.claims import corruption, costs, limits, overall, propositions, rankings
from kuq_study.claims.claim import Calculus, Case, Claim, Status, Verdict, undecided
from kuq_study.estimates import Evidence
from kuq_study.paper import paper_records

LEDGER: tuple[Claim, ...] = (
    *propositions.CLAIMS,
    *limits.CLAIMS,
    *corruption.CLAIMS,
    *rankings.CLAIMS,
    *overall.CLAIMS,
    *costs.CLAIMS,
)


@final
@dataclass(frozen=True)
class Judgement:
    """A claim with our verdict, and whether it follows from the numbers that the paper prints.

    ``paper`` is None for propositions, which are not about numbers of the paper.
    """

    claim: Claim
    ours: Verdict
    paper: Verdict | None


def judge(evidence: Evidence, calculus: Calculus | None = None) -> list[Judgement]:
    """Test every claim of the ledger on records, and on the paper's own values."""
    ours = Case(evidence.of_the_paper(), calculus or Calculus())
    paper = _paper_verdicts()
    return [
        Judgement(
            claim,
            claim.test(ours) if claim.kind == "proposition" or evidence.measured else _NOT_JUDGED,
            paper.get(claim.key),
        )
        for claim in LEDGER
    ]


_NOT_JUDGED = undecided(
    "not judged: this run shows that everything works, and measures nothing", "not measured"
)


@cache
def _paper_verdicts() -> dict[str, Verdict]:
    case = Case(Evidence(paper_records()), ties=False)
    return {claim.key: claim.test(case) for claim in LEDGER if claim.kind == "experiment"}


def count(judgements: list[Judgement]) -> dict[Status, int]:
    """How many claims hold, do not hold, and cannot be decided."""
    return {status: sum(j.ours.status is status for j in judgements) for status in Status}
