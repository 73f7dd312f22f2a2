"""What the paper concludes over all protocols."""

from __future__ import annotations

import math

import numpy as np

from kuq_study.claims.claim import Case, Claim, Verdict, decided, if_real, undecided
from kuq_study.claims.rank_tests import BASELINES, STRICTLY_PROPER, Averages
from kuq_study.claims.resolution import BELOW_RESOLUTION, TOO_NOISY, difference
from kuq_study.rank_tables import PROTOCOLS
from kuq_study.vocabulary import RANDOM, SCORES, name_of

#: Differences of average ranks that ties in printed digits can make.
CLOSE = 0.1


def _averages(case: Case) -> dict[str, Averages] | str:
    """Average ranks of all three protocols, or why there are none."""
    averages: dict[str, Averages] = {}
    for protocol in PROTOCOLS:
        ranking = case.ranking(protocol.experiment)
        name = protocol.experiment.replace("_", " ")
        if ranking is None or ranking.datasets < 2:
            return f"no results of {name} on two data sets or more"
        ranks = {s: ranking.average(s) for s in ranking.scores}
        missing = [
            s for s in ("squared", *STRICTLY_PROPER) if not math.isfinite(ranks.get(s, math.nan))
        ]
        if missing:
            return f"no results of {name} under {', '.join(missing)}"
        averages[name] = ranks
    return averages


def _text(averages: dict[str, Averages]) -> str:
    parts = []
    for name, ranks in averages.items():
        row = ", ".join(
            f"{SCORES[s].text} {ranks[s]:.2f}"
            for s in (*BASELINES, *STRICTLY_PROPER)
            if math.isfinite(ranks.get(s, math.nan))
        )
        parts.append(f"{name}: {row}")
    return "; ".join(parts)


def _if_all_real(case: Case, verdict: Verdict) -> Verdict:
    for protocol in PROTOCOLS:
        verdict = if_real(case, verdict, protocol.experiment)
    return verdict


def _lead(case: Case, name: str, ranks: Averages, score: str) -> str:
    """Whether a score is "better" than the best baseline, "worse", or neither by enough."""
    base = min((s for s in BASELINES if s in ranks), key=lambda s: _finite(ranks[s]))
    if not case.ties:
        gap = ranks[base] - ranks[score]
        return "open" if abs(gap) < CLOSE else "better" if gap > 0 else "worse"
    paired = difference(case, name.replace(" ", "_"), (score, base))
    told = {"lower": "better", "higher": "worse"}
    return "open" if paired is None else told.get(paired.verdict, "open")


def _how(case: Case) -> str:
    return "more than a tie" if case.ties else f"{CLOSE} rank or more"


def _some_kernel_beats_baselines(case: Case) -> Verdict:
    averages = _averages(case)
    if isinstance(averages, str):
        return undecided(averages)
    leads = {
        name: _lead(case, name, ranks, min(STRICTLY_PROPER, key=lambda s: ranks[s]))
        for name, ranks in averages.items()
    }
    told = ", ".join(f"{name} {lead}" for name, lead in leads.items())
    text = f"the best kernel against the best baseline, by {_how(case)}: {told}; {_text(averages)}"
    if "worse" in leads.values():
        return _if_all_real(case, decided(False, text))
    if "open" in leads.values():
        return undecided(text, TOO_NOISY if case.ties else BELOW_RESOLUTION)
    return _if_all_real(case, decided(True, text))


def _each_kernel_beats_baselines_mostly(case: Case) -> Verdict:
    averages = _averages(case)
    if isinstance(averages, str):
        return undecided(averages)
    leads = {
        s: [_lead(case, name, ranks, s) for name, ranks in averages.items()]
        for s in STRICTLY_PROPER
    }
    clear = {s: row.count("better") for s, row in leads.items()}
    possible = {s: len(row) - row.count("worse") for s, row in leads.items()}
    text = ", ".join(f"{SCORES[s].text} {n} of {len(averages)}" for s, n in clear.items())
    text = f"protocols won by {_how(case)}: {text}; {_text(averages)}"
    if min(clear.values()) * 2 > len(averages):
        return _if_all_real(case, decided(True, text))
    if min(possible.values()) * 2 > len(averages):
        return undecided(text, TOO_NOISY if case.ties else BELOW_RESOLUTION)
    return _if_all_real(case, decided(False, text))


def _none_dominates(case: Case) -> Verdict:
    averages = _averages(case)
    if isinstance(averages, str):
        return undecided(averages)
    names = {**SCORES, **RANDOM}
    best = {name: min(ranks, key=lambda s: _finite(ranks[s])) for name, ranks in averages.items()}
    text = ", ".join(f"{name} {name_of(s, names).text}" for name, s in best.items())
    text = f"best: {text}"
    if len(set(best.values())) == 1:
        return _if_all_real(case, decided(False, text))
    unbeaten = [s for s in ("squared", *STRICTLY_PROPER) if not _is_beaten(case, averages, s)]
    if case.ties and unbeaten:
        listed = ", ".join(SCORES[s].text for s in unbeaten)
        text += f"; in no protocol is another one better by more than a tie than {listed}"
        return undecided(text, TOO_NOISY)
    return _if_all_real(case, decided(True, text))


def _is_beaten(case: Case, averages: dict[str, Averages], score: str) -> bool:
    """Whether in some protocol another score is better by more than a tie."""
    paired = (
        difference(case, name.replace(" ", "_"), (other, score))
        for name, ranks in averages.items()
        for other in ranks
        if other != score
    )
    return any(gap is not None and gap.verdict == "lower" for gap in paired)


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.inf


def _disentangled(case: Case) -> Verdict:
    correlations: dict[str, list[float]] = {}
    for record in case.evidence.of("ood_detection", "component_correlation"):
        correlations.setdefault(record.score, []).append(record.value)
    if not {"squared", "crps"} <= set(correlations):
        return undecided("this run keeps no correlation between AU and EU over a field")
    se, crps = (float(np.mean(correlations[s])) for s in ("squared", "crps"))
    text = f"correlation of AU and EU over fields: SE {se:.3f}, CRPS {crps:.3f}"
    return if_real(case, decided(se > crps, text), "ood_detection")


def _noise_grows_with_time(case: Case) -> Verdict:
    fields = {
        name: arrays
        for name, arrays in case.evidence.fields.items()
        if "kuramoto" in name
        and "shifted" not in name
        and "aleatoric" in arrays
        and arrays["aleatoric"].ndim == 2
    }
    if not fields:
        return undecided("no predicted field of Kuramoto-Sivashinsky in this run")
    correlations = {}
    for name, arrays in fields.items():
        over_time = arrays["aleatoric"].mean(axis=-1)
        if len(over_time) < 4 or np.ptp(over_time) == 0:
            return undecided(f"{name} has too few times")
        correlations[name] = float(np.corrcoef(np.arange(len(over_time)), over_time)[0, 1])
    text = ", ".join(f"{name} {value:.2f}" for name, value in correlations.items())
    return decided(min(correlations.values()) > 0.5, f"correlation of AU with time: {text}")


CLAIMS = (
    Claim(
        "some-kernel",
        "In each of the three ranked protocols at least one of the proposed kernel scores "
        "outperforms both baselines.",
        "Section 6, findings",
        _some_kernel_beats_baselines,
    ),
    Claim(
        "each-kernel",
        "Each of the proposed kernel scores outperforms both baselines in most protocols.",
        "Section 6, findings",
        _each_kernel_beats_baselines_mostly,
    ),
    Claim(
        "no-winner",
        "No single measure is best in all protocols.",
        "Section 6, findings",
        _none_dominates,
    ),
    Claim(
        "disentangled",
        "Out of distribution, AU and EU under squared error look almost alike; under the CRPS they "
        "are better told apart.",
        "Section 6, figure of depth fields",
        _disentangled,
    ),
    Claim(
        "noise-over-time",
        "For Kuramoto-Sivashinsky, AU under the CRPS increases with time.",
        "Section 6, figure of a prediction",
        _noise_grows_with_time,
    ),
)
