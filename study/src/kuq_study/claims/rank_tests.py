"""Tests of statements about average ranks: by how often they hold when data sets are redrawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from kuq_study.claims.claim import DISAGREE, Case, Verdict, decided, if_real, undecided
from kuq_study.claims.levels import AGREEMENT
from kuq_study.claims.resolution import Pair, resolved
from kuq_study.ranking import Ranking
from kuq_study.vocabulary import RANDOM, REPRESENTATIONS, SCORES, name_of

Averages: TypeAlias = Mapping[str, float]
Statement: TypeAlias = Callable[[Averages], bool]
#: From average ranks to the comparisons that a statement is about.
Comparisons: TypeAlias = Callable[[Averages], list[Pair]]

LEAST_DATASETS = 3
STRICTLY_PROPER = ("crps", "energy", "gaussian")
BASELINES = ("log", "squared")


def rank_verdict(
    case: Case,
    experiment: str,
    statement: Statement,
    needs: tuple[str, ...],
    representation: str | None = None,
    least_datasets: int = LEAST_DATASETS,
    comparisons: Comparisons | None = None,
) -> Verdict:
    """Whether a statement about average ranks holds, if the data sets at hand can tell.

    It is decided if at least 80 % of bootstrap collections of data sets agree with the value on
    the data sets as they are, and if the differences of its ``comparisons`` are large enough to
    be seen.
    """
    ranking = case.ranking(experiment, representation)
    where = "" if representation is None else f" for {REPRESENTATIONS[representation].text}"
    if ranking is None:
        return undecided(f"no results of this protocol{where}")
    averages = {s: ranking.average(s) for s in ranking.scores}
    ranks = {s: rank for s, rank in averages.items() if np.isfinite(rank)}
    missing = [s for s in needs if s not in ranks]
    if missing:
        return undecided(f"no results{where} under {', '.join(missing)}")
    names = {**SCORES, **RANDOM}
    numbers = ", ".join(f"{name_of(s, names).text} {rank:.2f}" for s, rank in ranks.items())
    numbers = f"average ranks{where}: {numbers} ({ranking.datasets} data sets)"
    if ranking.datasets < least_datasets:
        return undecided(f"{numbers}; at least {least_datasets} are needed")
    holds = statement(averages)
    share = agreement(ranking, statement, needs)
    numbers += f"; true in {100 * share:.0f} % of redrawn collections of data sets"
    if (share if holds else 1 - share) < AGREEMENT:
        verdict = undecided(numbers, DISAGREE)
    else:
        verdict = decided(holds, numbers)
    if case.ties and comparisons is not None:
        verdict = resolved(case, verdict, experiment, comparisons(ranks), representation)
    return if_real(case, verdict, experiment, representation)


def agreement(ranking: Ranking, statement: Statement, needs: tuple[str, ...]) -> float:
    """The share of bootstrap averages in which a statement is true."""
    columns = [ranking.scores.index(s) for s in needs]
    usable = ranking.result.resampled[~np.isnan(ranking.result.resampled[:, columns]).any(axis=1)]
    truths = [statement(dict(zip(ranking.scores, row, strict=True))) for row in usable.tolist()]
    return float(np.mean(truths)) if truths else 0.0


def least(ranks: Averages, scores: tuple[str, ...]) -> float:
    """The best average rank among scores; those without one do not count."""
    finite = [ranks[s] for s in scores if s in ranks and np.isfinite(ranks[s])]
    return min(finite, default=np.inf)


def is_best(score: str) -> Statement:
    """The score has the lowest average rank, ties allowed."""
    return lambda ranks: ranks[score] <= least(ranks, tuple(ranks)) + 1e-9


def is_worst(score: str) -> Statement:
    """The score has the highest average rank, ties allowed."""
    return lambda ranks: all(
        ranks[score] >= value - 1e-9 for value in ranks.values() if np.isfinite(value)
    )


def against_all(score: str) -> Comparisons:
    """The score is better than each other one."""
    return lambda ranks: [(score, other) for other in ranks if other != score]


def all_against(score: str) -> Comparisons:
    """Each other score is better than this one."""
    return lambda ranks: [(other, score) for other in ranks if other != score]


def pairs(*chosen: Pair) -> Comparisons:
    """These, whatever the ranks are."""
    return lambda ranks: list(chosen)


def best_against_best(better: tuple[str, ...], worse: tuple[str, ...]) -> Comparisons:
    """The best of some scores against the best of others."""

    def chosen(ranks: Averages) -> list[Pair]:
        first, second = (
            min((s for s in scores if s in ranks), key=lambda s: ranks[s])
            for scores in (better, worse)
        )
        return [(first, second)]

    return chosen


def worst_against_best(better: tuple[str, ...]) -> Comparisons:
    """The worst of some scores against the best of all others."""

    def chosen(ranks: Averages) -> list[Pair]:
        worst = max((s for s in better if s in ranks), key=lambda s: ranks[s])
        best = min((s for s in ranks if s not in better), key=lambda s: ranks[s])
        return [(worst, best)]

    return chosen
