"""What the paper says about one corrupted member."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kuq_study.claims.claim import Case, Claim, Verdict, decided, undecided
from kuq_study.estimates import by_cell, estimates
from kuq_study.vocabulary import SCORES, data_name

#: Members without early stopping: what the paper's table seems to come from.
OVERFITTED = ("mape_M25_overfitted", "mape_M25")
APPENDIX = ("mape_M25_appendix", "mape_M25")
FEW_OVERFITTED, FEW_APPENDIX = ("mape_M5_overfitted",), ("mape_M5_appendix",)
_MODERATE = 0.5

#: (data set, score, δ) to the MAPE, its geometric mean over seeds as in the tables.
Errors = dict[tuple[str, str, float], float]


def _errors(case: Case, quantities: tuple[str, ...], component: str) -> Errors:
    for quantity in quantities:
        records = case.evidence.of("robustness", quantity, component)
        if records:
            found = estimates(by_cell(records, along_x=True), factors=True)
            return {(c.dataset, c.score, c.x or 0.0): e.mean for c, e in found.items()}
    return {}


def _datasets(errors: Errors) -> list[str]:
    return sorted({dataset for dataset, _, _ in errors})


def _has(errors: Errors, *scores: str) -> bool:
    return bool(errors) and all(
        (d, s) in {k[:2] for k in errors} for d in _datasets(errors) for s in scores
    )


def _stays_below(limit: float, component: str, quantities: tuple[str, ...], case: Case) -> Verdict:
    errors = _errors(case, quantities, component)
    if not _has(errors, "gaussian"):
        return undecided("no robustness results under the Gaussian kernel in this setting")
    largest = {
        d: max(v for (data, score, _), v in errors.items() if (data, score) == (d, "gaussian"))
        for d in _datasets(errors)
    }
    text = ", ".join(f"{data_name(d).text} {value:.3g} %" for d, value in largest.items())
    return decided(max(largest.values()) < limit, f"largest over δ: {text} (limit {limit:g} %)")


def _degrades(component: str, scores: tuple[str, ...], factor: float, case: Case) -> Verdict:
    errors = _errors(case, OVERFITTED, component)
    if not _has(errors, *scores):
        return undecided("no robustness results under these scores")
    text, holds = [], True
    for dataset in _datasets(errors):
        for score in scores:
            curve = sorted((x, v) for (d, s, x), v in errors.items() if (d, s) == (dataset, score))
            if len(curve) < 2 or curve[0][0] > 0:
                return undecided(f"no curve from δ = 0 for {dataset}, {score}")
            ratio = curve[-1][1] / max(curve[0][1], 1e-12)
            holds &= ratio >= factor
            text.append(f"{data_name(dataset).text} {SCORES[score].text} {ratio:.2g}×")
    return decided(holds, f"error at the largest δ against δ = 0: {', '.join(text)}")


def _ordering(
    component: str, upper: tuple[str, ...], quantities: tuple[str, ...], case: Case
) -> Verdict:
    errors = _errors(case, quantities, component)
    if not _has(errors, *upper, "energy", "gaussian"):
        return undecided("no robustness results under all of these scores")
    broken, checked = [], 0
    for dataset, score, delta in errors:
        if score != "energy" or delta < _MODERATE:
            continue
        middle = errors[dataset, "energy", delta]
        above = min(errors.get((dataset, s, delta), float("inf")) for s in upper)
        below = errors.get((dataset, "gaussian", delta), float("-inf"))
        checked += 1
        if not above > middle > below:
            values = f"{above:.3g}, {middle:.3g}, {below:.3g}"
            broken.append(f"{data_name(dataset).text} δ = {delta:g}: {values}")
    if not checked:
        return undecided("no δ ≥ 0.5 in this run")
    text = f"{checked - len(broken)} of {checked} data sets and δ ≥ 0.5"
    return decided(not broken, text + (f"; not: {'; '.join(broken)}" if broken else ""))


def _slower(case: Case) -> Verdict:
    errors = _errors(case, OVERFITTED, "aleatoric")
    if not _has(errors, "log", "squared", "energy"):
        return undecided("no robustness results under log, squared error and energy score")
    text, holds = [], True
    for dataset in _datasets(errors):
        last = max(x for d, _, x in errors if d == dataset)
        log, se, es = (errors.get((dataset, s, last)) for s in ("log", "squared", "energy"))
        if log is None or se is None or es is None:
            return undecided(f"no results at δ = {last:g} under all three for {dataset}")
        holds &= max(log, es) * 10 <= se
        text.append(f"{data_name(dataset).text} log {log:.3g}, ES {es:.3g}, SE {se:.3g}")
    return decided(holds, f"AU error at the largest δ in %: {'; '.join(text)}")


def _saturates(case: Case) -> Verdict:
    text, holds = [], True
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
            ratio = max(tail) / max(min(tail), 1e-12)
            holds &= ratio < 1.5
            text.append(f"{data_name(dataset).text} {component} {ratio:.2f}")
    return decided(holds, f"largest over smallest error for δ ≥ 1.5: {', '.join(text)}")


def _claim(key: str, statement: str, source: str, test: Callable[[Case], Verdict]) -> Claim:
    return Claim(key, statement, source, "experiment", test)


#: The same order in other settings: how their claims end, what they say, and where it stands.
_OTHER_ORDERS = (
    ("appendix", "members trained as the appendix says and M = 25", APPENDIX),
    ("few", "over-confident members and M = 5", FEW_OVERFITTED),
    ("few-appendix", "members trained as the appendix says and M = 5", FEW_APPENDIX),
)

CLAIMS = (
    _claim(
        "robust-au",
        "With over-confident members and M = 25, AU under the Gaussian kernel stays stable at "
        "all distortions: below 5 %.",
        "Section 6, robustness tables",
        partial(_stays_below, 5.0, "aleatoric", OVERFITTED),
    ),
    _claim(
        "robust-eu",
        "With over-confident members and M = 25, EU under the Gaussian kernel stays stable at "
        "all distortions: below 30 %.",
        "Section 6, robustness tables",
        partial(_stays_below, 30.0, "epistemic", OVERFITTED),
    ),
    _claim(
        "robust-au-appendix",
        "With members trained as the appendix says and M = 25, AU under the Gaussian kernel stays "
        "below 5 %.",
        "Section 6 with appendix D",
        partial(_stays_below, 5.0, "aleatoric", APPENDIX),
    ),
    _claim(
        "robust-eu-appendix",
        "With members trained as the appendix says and M = 25, EU under the Gaussian kernel stays "
        "below 30 %.",
        "Section 6 with appendix D",
        partial(_stays_below, 30.0, "epistemic", APPENDIX),
    ),
    _claim(
        "degrade-au",
        "AU under squared error and energy score degrades by two orders of magnitude or more.",
        "Section 6, robustness analysis",
        partial(_degrades, "aleatoric", ("squared", "energy"), 100.0),
    ),
    _claim(
        "degrade-eu",
        "EU under log score, squared error and energy score degrades by two orders of magnitude "
        "or more.",
        "Section 6, robustness analysis",
        partial(_degrades, "epistemic", ("log", "squared", "energy"), 100.0),
    ),
    _claim(
        "order-au",
        "With over-confident members and M = 25, AU under squared error suffers more than under "
        "the energy score, and there more than under the Gaussian kernel, at every δ ≥ 0.5.",
        "Section 6, robustness tables",
        partial(_ordering, "aleatoric", ("squared",), OVERFITTED),
    ),
    _claim(
        "order-eu",
        "With over-confident members and M = 25, EU under log score and squared error suffers "
        "more than under the energy score, and there more than under the Gaussian kernel, at "
        "every δ ≥ 0.5.",
        "Section 6, robustness tables",
        partial(_ordering, "epistemic", ("log", "squared"), OVERFITTED),
    ),
    *(
        _claim(
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
    _claim(
        "slower-growth",
        "AU under log score and energy score grows notably slower than under squared error: by "
        "a factor of ten at the largest δ.",
        "Appendix D, robustness",
        _slower,
    ),
    _claim(
        "saturation",
        "The error of the Gaussian kernel saturates: it changes by less than half for δ ≥ 1.5.",
        "Appendix D, robustness tables and figure",
        _saturates,
    ),
)
