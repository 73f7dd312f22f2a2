"""Whether the differences behind a ranking are large enough for a run to have seen them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from kuq.protocols.paired import PairedDifference, paired_difference
from kuq_study.claims.claim import Case, Status, Verdict, decided, undecided
from kuq_study.estimates import CellKey
from kuq_study.rank_tables import PROTOCOL, ranked_values
from kuq_study.vocabulary import RANDOM, SCORES, name_of

#: Why a claim cannot be decided.
BELOW_RESOLUTION = "below resolution"
TOO_NOISY = "too few data sets or seeds for differences of this size"
#: A score that a claim calls better, and one that it calls worse.
Pair = tuple[str, str]


def difference(
    case: Case, experiment: str, pair: Pair, representation: str | None = None
) -> PairedDifference | None:
    """The better score minus the worse, paired by data set; None for fewer than two of them.

    Of a data set it is the mean over representations and seeds. Errors of active learning are
    compared by their logarithms, so that 0.01 is one per cent; AUROCs change their sign, so that
    lower is always better. For scalars the energy score is the CRPS.
    """
    protocol = PROTOCOL[experiment]
    values = ranked_values(case.evidence, protocol)
    sign = -1 if protocol.higher_is_better else 1
    rows: dict[str, list[tuple[float, float]]] = defaultdict(list)
    places = {replace(cell, score="") for cell in values}
    for place in places:
        if representation in (None, place.representation):
            both = [_value(values, place, score) for score in pair]
            if both[0] is not None and both[1] is not None:
                rows[place.dataset].append((sign * both[0], sign * both[1]))
    if len(rows) < 2:
        return None
    means = np.array([np.mean(rows[name], axis=0) for name in sorted(rows)])
    return paired_difference(means[:, 0], means[:, 1], tie=protocol.tie)


def _value(values: dict[CellKey, float], place: CellKey, score: str) -> float | None:
    value = values.get(replace(place, score=score))
    if value is None and score == "energy":
        return values.get(replace(place, score="crps"))
    return value


def resolved(
    case: Case,
    verdict: Verdict,
    experiment: str,
    pairs: Iterable[Pair],
    representation: str | None = None,
) -> Verdict:
    """A verdict on ranks, unless the run could not have seen the differences behind it.

    It holds if a score is better than another one by more than a tie, and none is worse; it does
    not hold if one is worse by more than a tie. What ranks say beyond that are third digits.
    """
    by_pair = {pair: difference(case, experiment, pair, representation) for pair in pairs}
    differences = {pair: d for pair, d in by_pair.items() if d is not None}
    if not differences:
        return verdict
    text = f"{verdict.numbers}; {'; '.join(_words(pair, d) for pair, d in differences.items())}"
    verdicts = {d.verdict for d in differences.values()}
    unseen = [d.detectable for d in differences.values() if d.verdict == "undecided"]
    if verdict.status is Status.HOLDS and "lower" in verdicts and "higher" not in verdicts:
        return decided(True, text)
    if verdict.status is Status.FAILS and "higher" in verdicts:
        return decided(False, text)
    if verdicts == {"tie"}:
        return undecided(f"{text}; all differences are ties", BELOW_RESOLUTION)
    if unseen:
        text += f"; a difference of {max(unseen):.2g} could have been seen"
        return undecided(text, TOO_NOISY)
    if verdict.status is Status.UNDECIDED:
        return replace(verdict, numbers=text)
    return undecided(f"{text}; ranks and differences do not agree", BELOW_RESOLUTION)


def _words(pair: Pair, paired: PairedDifference) -> str:
    names = {**SCORES, **RANDOM}
    better, worse = (name_of(score, names).text for score in pair)
    low, high = paired.interval
    told = {"lower": "better", "higher": "worse", "tie": "a tie", "undecided": "undecided"}
    numbers = f"{paired.difference:+.3f} [{low:+.3f}, {high:+.3f}]"
    return f"{better} − {worse} {numbers}, {told[paired.verdict]}"
