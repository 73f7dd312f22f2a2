"""The paper's tables of average ranks, from ours and beside its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from kuq_study.estimates import CellKey, Estimate, Evidence, by_cell, estimates, final_values
from kuq_study.paper import paper_ranks
from kuq_study.ranking import Ranking, ranking
from kuq_study.table import Entry, Table, decimals, mark_best
from kuq_study.vocabulary import RANDOM, REPRESENTATIONS, SCORES, Name, name_of, ordered


@final
@dataclass(frozen=True)
class Protocol:
    """What is ranked in one of the paper's three tables of ranks."""

    experiment: str
    quantity: str
    component: str | None
    higher_is_better: bool
    by_task: bool
    title: str
    #: Differences that do not matter; of logarithms where ``ratios``.
    tie: float = 0.01
    ratios: bool = False


PROTOCOLS = (
    Protocol("selective_prediction", "prr", "total", False, True, "Average rank of the PRR"),
    Protocol("ood_detection", "auroc", "epistemic", True, False, "Average rank of the AUROC"),
    Protocol(
        "active_learning",
        "mse",
        None,
        False,
        False,
        "Average rank of the final test loss",
        ratios=True,
    ),
)
PROTOCOL = {protocol.experiment: protocol for protocol in PROTOCOLS}


def ranked_values(evidence: Evidence, protocol: Protocol) -> dict[CellKey, float]:
    """What a protocol ranks: means over seeds by data set, representation and score.

    They are the logarithms of geometric means where the protocol compares ratios.
    """
    of = (protocol.experiment, protocol.quantity, protocol.component)
    learning = protocol.experiment == "active_learning"
    records = final_values(evidence.of(*of)) if learning else evidence.single(*of)
    if protocol.ratios:
        means = estimates(by_cell(records), factors=True)
        return {cell: math.log(value.mean) for cell, value in means.items() if value.mean > 0}
    return {cell: value.mean for cell, value in estimates(by_cell(records)).items()}


def protocol_ranking(
    evidence: Evidence,
    protocol: Protocol,
    representation: str | None = None,
    *,
    ties: bool,
) -> Ranking | None:
    """The ranking of a protocol for one representation, or over all as the paper averages.

    With ``ties``, values that differ by less than the protocol's ``tie`` share their rank: so
    are measurements ranked. The paper ranks every digit, so its own values are without.
    """
    return ranking(
        ranked_values(evidence, protocol),
        higher_is_better=protocol.higher_is_better,
        representation=representation,
        by_task=protocol.by_task and representation is None,
        tie=protocol.tie if ties else 0.0,
    )


def rank_tables(evidence: Evidence) -> list[Table]:
    """One table of average ranks per protocol that has records."""
    ranked = evidence.of_the_paper()
    tables = [_table(ranked, protocol) for protocol in PROTOCOLS]
    return [table for table in tables if table is not None]


def _table(evidence: Evidence, protocol: Protocol) -> Table | None:
    total = protocol_ranking(evidence, protocol, ties=True)
    if total is None:
        return None
    paper = paper_ranks()[protocol.experiment] if evidence.measured else {}
    rows = []
    for method in ordered({method for _, method in total.cases}, REPRESENTATIONS):
        of_method = protocol_ranking(evidence, protocol, method, ties=True)
        label = name_of(method, REPRESENTATIONS).text
        rows.append(((label,), _entries(of_method, total.scores, paper.get(method, {}))))
    label = "Task-weighted" if protocol.by_task else "Average"
    rows.append(((label,), _entries(total, total.scores, paper.get("all", {}))))
    names = {**SCORES, **RANDOM}
    return Table(
        name=f"ranks-{protocol.experiment.replace('_', '-')}",
        title=protocol.title,
        caption="1 is best, intervals are bootstrap over data sets. Values that differ by less "
        f"than {_tie(protocol)} are ties and share their average rank; the paper's ranks count "
        "every digit. For scalars the energy score takes the rank of the CRPS, which it equals.",
        row_heads=("Method",),
        columns=tuple(name_of(score, names) for score in total.scores),
        rows=tuple(rows),
        number=decimals(2),
        paper_table="average ranks" if paper else "",
        notes=(_significance(total, names),),
    )


def _tie(protocol: Protocol) -> str:
    return f"{100 * protocol.tie:g} %" if protocol.ratios else f"{protocol.tie:g}"


def _entries(
    ranks: Ranking | None, scores: tuple[str, ...], paper: Mapping[str, float]
) -> tuple[Entry, ...]:
    row: list[tuple[Estimate | None, float | None]] = []
    for score in scores:
        ours = None
        if ranks is not None and score in ranks.scores:
            place = ranks.scores.index(score)
            mean = float(ranks.result.average[place])
            low, high = (float(end) for end in ranks.result.interval[place])
            if ranks.datasets < 2:  # there is nothing to redraw
                low = high = math.nan
            ours = None if np.isnan(mean) else Estimate(mean, low, high, ranks.datasets)
        row.append((ours, paper.get(score)))
    return mark_best(row, False)


def _significance(total: Ranking, names: dict[str, Name]) -> str:
    text = f"{len(total.cases)} cases from {total.datasets} data sets."
    common = total.among_common()
    if common is None or np.isnan(common[1].friedman_p):
        return f"{text} Too few for a test of differences."
    scores, result = common
    listed = ", ".join(name_of(score, names).text for score in scores)
    return (
        f"{text} Among the scores that every case has ({listed}): Friedman's test "
        f"p = {result.friedman_p:.2g}; critical difference of average ranks at 5 % (Nemenyi) "
        f"{result.critical_difference:.2f}."
    )
