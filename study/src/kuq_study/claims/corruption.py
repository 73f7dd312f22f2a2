"""What the paper says about one corrupted member."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

from kuq_study.claims.claim import Case, Claim, Verdict, undecided
from kuq_study.claims.levels import all_above, all_below, in_words, interval
from kuq_study.estimates import Estimate, by_cell, estimate
from kuq_study.vocabulary import SCORES, data_name

#: Members without early stopping: what the paper's table seems to come from.
OVERFITTED = ("mape_M25_overfitted", "mape_M25")
APPENDIX = ("mape_M25_appendix", "mape_M25")
FEW_OVERFITTED, FEW_APPENDIX = ("mape_M5_overfitted",), ("mape_M5_appendix",)
_MODERATE = 0.5

#: (data set, score, δ) to the MAPE of every seed.
Errors = dict[tuple[str, str, float], Mapping[int, float]]


def _errors(case: Case, quantities: tuple[str, ...], component: str) -> Errors:
    for quantity in quantities:
        records = case.evidence.of("robustness", quantity, component)
        if records:
            table = by_cell(records, along_x=True)
            return {(c.dataset, c.score, c.x or 0.0): values for c, values in table.items()}
    return {}


def _mean(seeds: Mapping[int, float]) -> Estimate:
    """The geometric mean over seeds, as in the tables."""
    return estimate(list(seeds.values()), factors=True)


def _ratio(above: Mapping[int, float], below: Mapping[int, float]) -> Estimate:
    """How many times as large one error is as the other one of the same seed."""
    return _mean({s: value / max(below[s], 1e-12) for s, value in above.items() if s in below})


def _datasets(errors: Errors) -> list[str]:
    return sorted({dataset for dataset, _, _ in errors})


def _has(errors: Errors, *scores: str) -> bool:
    curves = {(dataset, score) for dataset, score, _ in errors}
    return bool(errors) and all((d, s) in curves for d in _datasets(errors) for s in scores)


def _stays_below(limit: float, component: str, quantities: tuple[str, ...], case: Case) -> Verdict:
    errors = _errors(case, quantities, component)
    if not _has(errors, "gaussian"):
        return undecided("no robustness results under the Gaussian kernel in this setting")
    means = {(d, x): _mean(v) for (d, score, x), v in errors.items() if score == "gaussian"}
    largest = {
        d: max((e for (data, _), e in means.items() if data == d), key=lambda e: e.mean)
        for d in _datasets(errors)
    }
    text = ", ".join(f"{data_name(d).text} {in_words(e)} %" for d, e in largest.items())
    return all_below(means.values(), limit, f"largest over δ: {text} (limit {limit:g} %)")


def _degrades(component: str, scores: tuple[str, ...], factor: float, case: Case) -> Verdict:
    errors = _errors(case, OVERFITTED, component)
    if not _has(errors, *scores):
        return undecided("no robustness results under these scores")
    ratios = {}
    for dataset in _datasets(errors):
        for score in scores:
            deltas = sorted(x for d, s, x in errors if (d, s) == (dataset, score))
            if len(deltas) < 2 or deltas[0] > 0:
                return undecided(f"no curve from δ = 0 for {dataset}, {score}")
            first, last = (errors[dataset, score, x] for x in (deltas[0], deltas[-1]))
            ratios[dataset, score] = _ratio(last, first)
    text = ", ".join(
        f"{data_name(d).text} {SCORES[s].text} {in_words(e, '.2g')}×"
        for (d, s), e in ratios.items()
    )
    return all_above(ratios.values(), factor, f"error at the largest δ against δ = 0: {text}")


def _ordering(
    component: str, upper: tuple[str, ...], quantities: tuple[str, ...], case: Case
) -> Verdict:
    errors = _errors(case, quantities, component)
    if not _has(errors, *upper, "energy", "gaussian"):
        return undecided("no robustness results under all of these scores")
    ratios = {
        (dataset, delta, more, less): _ratio(
            errors[dataset, more, delta], errors[dataset, less, delta]
        )
        for dataset, score, delta in errors
        if score == "energy" and delta >= _MODERATE
        for more, less in (*((s, "energy") for s in upper), ("energy", "gaussian"))
        if (dataset, more, delta) in errors and (dataset, less, delta) in errors
    }
    if not ratios:
        return undecided("no δ ≥ 0.5 in this run")
    open_ones = {key: e for key, e in ratios.items() if interval(e)[0] <= 1}
    text = f"{len(ratios) - len(open_ones)} of {len(ratios)} comparisons at δ ≥ 0.5"
    if open_ones:
        told = "; ".join(
            f"{data_name(d).text} δ = {x:g}, {SCORES[a].text} over {SCORES[b].text} {in_words(e)}"
            for (d, x, a, b), e in open_ones.items()
        )
        text += f"; not: {told}"
    # More than, not as much as.
    return all_above(ratios.values(), math.nextafter(1, 2), text)


def _slower(case: Case) -> Verdict:
    errors = _errors(case, OVERFITTED, "aleatoric")
    if not _has(errors, "log", "squared", "energy"):
        return undecided("no robustness results under log, squared error and energy score")
    ratios = {}
    for dataset in _datasets(errors):
        last = max(x for d, _, x in errors if d == dataset)
        for score in ("log", "energy"):
            if not {(dataset, s, last) for s in (score, "squared")} <= errors.keys():
                return undecided(f"no results at δ = {last:g} under all three for {dataset}")
            ratios[dataset, score] = _ratio(
                errors[dataset, "squared", last], errors[dataset, score, last]
            )
    text = ", ".join(
        f"{data_name(d).text} {SCORES[s].text} {in_words(e, '.2g')}" for (d, s), e in ratios.items()
    )
    told = f"AU error at the largest δ under squared error over that under others: {text}"
    return all_above(ratios.values(), 10.0, told)


def _saturates(case: Case) -> Verdict:
    ratios = {}
    for component in ("aleatoric", "epistemic"):
        errors = _errors(case, OVERFITTED, component)
        if not _has(errors, "gaussian"):
            return undecided("no robustness results under the Gaussian kernel")
        for dataset in _datasets(errors):
            tail = [
                v for (d, s, x), v in errors.items() if (d, s) == (dataset, "gaussian") and x >= 1.5
            ]
            if len(tail) < 2:
                return undecided("fewer than two δ ≥ 1.5 in this run")
            ends = ({s: end(v[s] for v in tail) for s in tail[0]} for end in (max, min))
            ratios[dataset, component] = _ratio(*ends)
    text = ", ".join(
        f"{data_name(d).text} {component} {in_words(e)}" for (d, component), e in ratios.items()
    )
    return all_below(ratios.values(), 1.5, f"largest over smallest error for δ ≥ 1.5: {text}")


#: The same order in other settings: how their claims end, what they say, and where it stands.
_OTHER_ORDERS = (
    ("appendix", "members trained as the appendix says and M = 25", APPENDIX),
    ("few", "over-confident members and M = 5", FEW_OVERFITTED),
    ("few-appendix", "members trained as the appendix says and M = 5", FEW_APPENDIX),
)

CLAIMS = (
    Claim(
        "robust-au",
        "With over-confident members and M = 25, AU under the Gaussian kernel stays stable at "
        "all distortions: below 5 %.",
        "Section 6, robustness tables",
        partial(_stays_below, 5.0, "aleatoric", OVERFITTED),
    ),
    Claim(
        "robust-eu",
        "With over-confident members and M = 25, EU under the Gaussian kernel stays stable at "
        "all distortions: below 30 %.",
        "Section 6, robustness tables",
        partial(_stays_below, 30.0, "epistemic", OVERFITTED),
    ),
    Claim(
        "robust-au-appendix",
        "With members trained as the appendix says and M = 25, AU under the Gaussian kernel stays "
        "below 5 %.",
        "Section 6 with appendix D",
        partial(_stays_below, 5.0, "aleatoric", APPENDIX),
    ),
    Claim(
        "robust-eu-appendix",
        "With members trained as the appendix says and M = 25, EU under the Gaussian kernel stays "
        "below 30 %.",
        "Section 6 with appendix D",
        partial(_stays_below, 30.0, "epistemic", APPENDIX),
    ),
    Claim(
        "degrade-au",
        "AU under squared error and energy score degrades by two orders of magnitude or more.",
        "Section 6, robustness analysis",
        partial(_degrades, "aleatoric", ("squared", "energy"), 100.0),
    ),
    Claim(
        "degrade-eu",
        "EU under log score, squared error and energy score degrades by two orders of magnitude "
        "or more.",
        "Section 6, robustness analysis",
        partial(_degrades, "epistemic", ("log", "squared", "energy"), 100.0),
    ),
    Claim(
        "order-au",
        "With over-confident members and M = 25, AU under squared error suffers more than under "
        "the energy score, and there more than under the Gaussian kernel, at every δ ≥ 0.5.",
        "Section 6, robustness tables",
        partial(_ordering, "aleatoric", ("squared",), OVERFITTED),
    ),
    Claim(
        "order-eu",
        "With over-confident members and M = 25, EU under log score and squared error suffers "
        "more than under the energy score, and there more than under the Gaussian kernel, at "
        "every δ ≥ 0.5.",
        "Section 6, robustness tables",
        partial(_ordering, "epistemic", ("log", "squared"), OVERFITTED),
    ),
    *(
        Claim(
            f"order-{short}-{setting}",
            f"With {words}, the order of scores for {short.upper()} at δ ≥ 0.5 is the same.",
            "Section 6 with appendix D",
            partial(_ordering, component, upper, quantities),
        )
        for setting, words, quantities in _OTHER_ORDERS
        for short, component, upper in (
            ("au", "aleatoric", ("squared",)),
            ("eu", "epistemic", ("log", "squared")),
        )
    ),
    Claim(
        "slower-growth",
        "AU under log score and energy score grows notably slower than under squared error: by "
        "a factor of ten at the largest δ.",
        "Appendix D, robustness",
        _slower,
    ),
    Claim(
        "saturation",
        "The error of the Gaussian kernel saturates: it changes by less than half for δ ≥ 1.5.",
        "Appendix D, robustness tables and figure",
        _saturates,
    ),
)
