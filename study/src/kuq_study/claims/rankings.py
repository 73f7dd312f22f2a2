"""What the paper says about ranks in selective prediction, OOD detection and active learning."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kuq_study.claims.claim import Case, Claim, Status, Verdict, decided, if_real, undecided
from kuq_study.claims.levels import all_above, in_words, share_above
from kuq_study.claims.rank_tests import (
    BASELINES,
    STRICTLY_PROPER,
    Averages,
    Comparisons,
    against_all,
    all_against,
    best_against_best,
    is_best,
    is_worst,
    least,
    pairs,
    rank_verdict,
    worst_against_best,
)
from kuq_study.claims.resolution import Pair
from kuq_study.estimates import by_cell, estimates, with_bounds
from kuq_study.vocabulary import RANDOM, REPRESENTATIONS, SCORES, name_of

SELECTIVE, OOD, ACTIVE = "selective_prediction", "ood_detection", "active_learning"


def _total(
    experiment: str,
    statement: Callable[[Averages], bool],
    comparisons: Comparisons | None,
    *needs: str,
) -> Callable[[Case], Verdict]:
    return lambda case: rank_verdict(case, experiment, statement, needs, comparisons=comparisons)


def _for_each(
    experiment: str,
    representations: tuple[str, ...],
    statement: Callable[[Averages], bool],
    comparisons: Comparisons | None,
    *needs: str,
) -> Callable[[Case], Verdict]:
    """The statement for every representation; there may be two data sets only (images)."""

    def test(case: Case) -> Verdict:
        verdicts = [
            rank_verdict(
                case, experiment, statement, needs, r, least_datasets=2, comparisons=comparisons
            )
            for r in representations
        ]
        text = "; ".join(v.numbers for v in verdicts)
        if any(v.status is Status.FAILS for v in verdicts):
            return decided(False, text)
        reasons = {v.reason: None for v in verdicts if v.status is Status.UNDECIDED}
        return undecided(text, "; ".join(reasons)) if reasons else decided(True, text)

    return test


def _comparable(ranks: Averages) -> bool:
    return all(0 <= ranks[s] - ranks["gaussian"] <= 0.5 for s in ("energy", "crps"))


def _order_or_distance(ranks: Averages) -> list[Pair]:
    """What has to be seen: the Gaussian kernel's lead, or, where others are far behind, theirs."""
    others = [s for s in ("energy", "crps") if s in ranks]
    far = any(ranks[s] - ranks["gaussian"] > 0.5 for s in others)
    return [(s, "gaussian") if far else ("gaussian", s) for s in others]


def _proper_beat_baselines(ranks: Averages) -> bool:
    return least(ranks, STRICTLY_PROPER) < least(ranks, BASELINES)


def _se_competitive(ranks: Averages) -> bool:
    return ranks["squared"] <= least(ranks, tuple(ranks)) + 0.5


def _better_than_random(case: Case) -> Verdict:
    ratios = estimates(by_cell(case.evidence.single(SELECTIVE, "prr", "total")))
    if len(ratios) < 10:
        return undecided(f"{len(ratios)} results of selective prediction; at least 10 are needed")
    return share_above(
        [cell.dataset for cell in ratios],
        [e.mean < 1 for e in ratios.values()],
        0.95,
        lambda share: f"PRR below 1 in {100 * share:.1f} % of {len(ratios)} results",
    )


def _near_ceiling(case: Case) -> Verdict:
    aurocs = estimates(by_cell(case.evidence.single(OOD, "auroc", "epistemic")))
    if len(aurocs) < 8:
        return undecided(f"{len(aurocs)} results of OOD detection; at least 8 are needed")
    verdict = share_above(
        [cell.dataset for cell in aurocs],
        [e.mean >= 0.9 for e in aurocs.values()],
        0.9,
        lambda share: f"AUROC of 0.9 or more in {100 * share:.0f} % of {len(aurocs)}",
    )
    return if_real(case, verdict, OOD)


def _level(dataset: str, least_auroc: float) -> Callable[[Case], Verdict]:
    """By whole trajectories where a run has them, else by steps, as the paper may have done."""

    def test(case: Case) -> Verdict:
        quantity = "auroc_grouped"
        if not case.evidence.single(OOD, quantity, "epistemic"):
            quantity = "auroc"
        means, low, high = (
            by_cell(case.evidence.single(OOD, f"{quantity}{end}", "epistemic"))
            for end in ("", "_low", "_high")
        )
        aurocs = {
            cell.score: e
            for cell, e in with_bounds(estimates(means), low, high).items()
            if (cell.dataset, cell.representation) == (dataset, "sampler")
        }
        if not aurocs:
            return undecided("not in this run")
        text = ", ".join(
            f"{name_of(s, SCORES).text} {in_words(e, '.4f')}" for s, e in aurocs.items()
        )
        text = f"AUROC{' by trajectory' if quantity != 'auroc' else ''}: {text}"
        return all_above(aurocs.values(), least_auroc, text)

    return test


def _three_best(ranks: Averages) -> bool:
    others = [v for s, v in ranks.items() if s not in STRICTLY_PROPER and np.isfinite(v)]
    return max(ranks[s] for s in STRICTLY_PROPER) < min(others)


def _significantly_best(case: Case) -> Verdict:
    ranking = case.ranking(ACTIVE)
    if ranking is None or not np.isfinite(ranking.average("gaussian")):
        return undecided("no active learning under the Gaussian kernel")
    mine = ranking.scores.index("gaussian")
    p = {
        s: float(ranking.result.wilcoxon_p[mine, ranking.scores.index(s)])
        for s in ranking.scores
        # The energy score of scalars is the CRPS; by itself it has two data sets in the paper.
        if s not in ("gaussian", "energy")
    }
    tested = {s: value for s, value in p.items() if np.isfinite(value)}
    names = {**SCORES, **RANDOM}
    text = ", ".join(f"{name_of(s, names).text} p = {value:.2g}" for s, value in tested.items())
    text = f"signed-rank tests against the Gaussian kernel, Holm-corrected: {text}"
    if len(tested) < 3 or ranking.datasets < 5:
        return undecided(f"{text}; too few data sets or scores")
    best = all(ranking.average("gaussian") < ranking.average(s) for s in tested)
    return decided(best and max(tested.values()) < 0.05, text)


_PRR = "Section 6, selective prediction"
_AUROC = "Section 6, out-of-distribution detection"
_LEARNING = "Section 6, active learning"
_names = ", ".join(name_of(r, REPRESENTATIONS).text for r in ("mixture", "low-rank", "sampler"))

CLAIMS = (
    Claim(
        "prr-gaussian",
        "In selective prediction the Gaussian kernel has the best task-weighted average rank.",
        _PRR,
        _total(
            SELECTIVE, is_best("gaussian"), against_all("gaussian"), "gaussian", "squared", "crps"
        ),
    ),
    Claim(
        "prr-comparable",
        "In selective prediction energy score and CRPS rank slightly worse than the Gaussian "
        "kernel, but comparably (within half a rank).",
        _PRR,
        _total(SELECTIVE, _comparable, _order_or_distance, "gaussian", "energy", "crps"),
    ),
    Claim(
        "prr-log",
        "In selective prediction the log score has the worst task-weighted average rank.",
        _PRR,
        _total(
            SELECTIVE, is_worst("log"), all_against("log"), "log", "squared", "crps", "gaussian"
        ),
    ),
    Claim(
        "prr-expressive",
        f"In selective prediction with expressive representations ({_names}) a strictly proper "
        "kernel score beats log score and squared error.",
        _PRR,
        _for_each(
            SELECTIVE,
            ("mixture", "low-rank", "sampler"),
            _proper_beat_baselines,
            best_against_best(STRICTLY_PROPER, BASELINES),
            "squared",
            "crps",
            "gaussian",
        ),
    ),
    Claim(
        "prr-se",
        "In selective prediction with unimodal representations (NG, DER) the squared error stays "
        "within half a rank of the best.",
        _PRR,
        _for_each(
            SELECTIVE, ("normal", "evidential"), _se_competitive, None, "squared", "gaussian"
        ),
    ),
    Claim(
        "prr-random",
        "Rejection by uncertainty beats random rejection almost everywhere (95 % of results).",
        "Appendix D, table of PRR",
        _better_than_random,
    ),
    Claim(
        "ood-crps",
        "In OOD detection the CRPS has the best average rank.",
        _AUROC,
        _total(OOD, is_best("crps"), against_all("crps"), "crps", "squared", "energy", "gaussian"),
    ),
    Claim(
        "ood-energy",
        "In OOD detection the energy score follows second among kernel scores.",
        _AUROC,
        _total(
            OOD,
            lambda r: r["energy"] <= min(r["gaussian"], r["squared"]),
            pairs(("energy", "gaussian"), ("energy", "squared")),
            "crps",
            "energy",
            "gaussian",
            "squared",
        ),
    ),
    Claim(
        "ood-se",
        "In OOD detection the squared error has the worst average rank.",
        _AUROC,
        _total(
            OOD,
            is_worst("squared"),
            all_against("squared"),
            "squared",
            "crps",
            "energy",
            "gaussian",
        ),
    ),
    Claim(
        "ood-log-normal",
        "In OOD detection the log score is best for univariate normal predictions, NG and DER.",
        _AUROC,
        _for_each(
            OOD,
            ("normal", "evidential"),
            is_best("log"),
            against_all("log"),
            "log",
            "crps",
            "squared",
        ),
    ),
    Claim(
        "ood-log-lora",
        "In OOD detection the log score fails for the multivariate normal: worst for LoRa.",
        _AUROC,
        _for_each(
            OOD, ("low-rank",), is_worst("log"), all_against("log"), "log", "crps", "squared"
        ),
    ),
    Claim(
        "ood-ceiling",
        "In OOD detection AUROC is near one almost everywhere: 0.9 or more in 90 % of results.",
        _AUROC,
        _near_ceiling,
    ),
    Claim(
        "ood-ks",
        "Kuramoto-Sivashinsky with another length is detected perfectly (AUROC of 0.995 or more "
        "under every score).",
        "Appendix D, table of AUROC",
        _level("kuramoto-sivashinsky", 0.995),
    ),
    Claim(
        "ood-burgers",
        "Burgers' equation with another viscosity is detected with an AUROC of 0.93 or more.",
        "Appendix D, table of AUROC",
        _level("burgers", 0.93),
    ),
    Claim(
        "al-gaussian",
        "In active learning the Gaussian kernel has the best average rank.",
        _LEARNING,
        _total(
            ACTIVE,
            is_best("gaussian"),
            against_all("gaussian"),
            "gaussian",
            "squared",
            "crps",
            "random",
        ),
    ),
    Claim(
        "al-significant",
        "In active learning the Gaussian kernel ranks significantly lower than all others.",
        _LEARNING,
        _significantly_best,
    ),
    Claim(
        "al-proper",
        "In active learning the three strictly proper kernel scores have the three best ranks.",
        _LEARNING,
        _total(
            ACTIVE,
            _three_best,
            worst_against_best(STRICTLY_PROPER),
            "gaussian",
            "energy",
            "crps",
            "squared",
            "random",
        ),
    ),
    Claim(
        "al-log",
        "In active learning the log score is worse than random acquisition.",
        _LEARNING,
        _total(ACTIVE, lambda r: r["log"] > r["random"], pairs(("random", "log")), "log", "random"),
    ),
    Claim(
        "al-se",
        "In active learning the squared error is worse than random acquisition.",
        _LEARNING,
        _total(
            ACTIVE,
            lambda r: r["squared"] > r["random"],
            pairs(("random", "squared")),
            "squared",
            "random",
        ),
    ),
    Claim(
        "al-sampler",
        "In active learning with samples (SB) random acquisition is the worst choice.",
        "Section 6, table of ranks in active learning",
        _for_each(
            ACTIVE,
            ("sampler",),
            is_worst("random"),
            all_against("random"),
            "squared",
            "crps",
            "random",
        ),
    ),
)
