"""The part of a report that lists the predictions with the worst scores, and why they may be so."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

import numpy as np

from kuq.files.decomposed import Decomposed
from kuq.reports.cases import cases
from kuq.reports.components import shown_parts
from kuq.reports.figures import plain
from kuq.reports.inputs import equal_everywhere, label_cell, label_of
from kuq.reports.judgement import Judgement
from kuq.reports.page import heading, paragraph
from kuq.reports.words import grouped, score_in_words

_ROWS = 10
_COVERAGE = 0.9
_INTERVAL = f"{100 * _COVERAGE:.0f} % interval"
#: Longer numbers are written with a power of ten.
_MOST_DIGITS = 6
#: A part is high where it is among this share of its largest values.
_HIGH = 0.25
#: Parts in words, where they are high; and what stands where none is.
_NOTHING = "–"
_WORDS = {"epistemic": "epistemic", "aleatoric": "noise", "total": "spread"}


def worst_cases(one: Decomposed, judged: Judgement, several: bool) -> Iterator[str]:
    """A table of the largest errors: outcome, prediction, score, parts, and which are high."""
    ranked = np.where(np.isnan(judged.losses), -np.inf, judged.losses)
    order = np.argsort(-ranked, kind="stable")[:_ROWS]
    order = order[ranked[order] > -np.inf]
    if order.size == 0:
        return
    shown = shown_parts(one.uncertainty)
    parts = {name: _per_case(judged.parts[name]) for name in shown}
    high = _high(parts)
    yield heading("The largest errors", several)
    yield paragraph(" ".join(_in_words(one, judged, order, high)))
    batch = np.asarray(one.uncertainty.total).shape[: len(one.dims)] or (1,)
    labels = [label_of(one, int(at), batch) for at in judged.places[order]]
    columns = {", ".join(one.dims[: len(batch)]): labels}
    outcomes = _of_outcomes(judged, order)
    columns |= outcomes
    columns["score"] = [plain(judged.losses[at]) for at in order]
    heads = dict(zip(shown, shown if len(shown) > 1 else ("spread",), strict=True))
    columns |= {heads[name]: [plain(parts[name][at]) for at in order] for name in shown}
    if high:
        columns["high there"] = [_names(high, int(at)) for at in order]
    # A telephone has room for what was high, and not for how much; rows are in the order of scores.
    classes = dict.fromkeys([_INTERVAL, *heads.values(), *(["score"] if outcomes else [])], "roomy")
    if len(shown) > 1:  # the sum of the two columns beside it
        classes["total"] = "roomy sum"
    classes["high there"] = "words"
    yield "<div class='table'><table><thead><tr>"
    yield "".join(_cell("th", text, classes.get(text, "")) for text in columns)
    yield "</tr></thead><tbody>"
    for row in zip(*columns.values(), strict=True):
        cells = zip(columns, row, strict=True)
        _, label = next(cells)
        others = (_cell("td", text, classes.get(name, "")) for name, text in cells)
        yield f"<tr>{label_cell(label)}{''.join(others)}</tr>"
    yield "</tbody></table></div>"


def _cell(kind: str, text: str, classes: str) -> str:
    return f"<{kind}{f' class={classes!r}' if classes else ''}>{escape(text)}</{kind}>"


def _per_case(values: np.ndarray) -> np.ndarray:
    """One number per case, where there is one for each coordinate their mean."""
    mean: np.ndarray = np.reshape(values, (len(values), -1)).mean(axis=1)
    return mean


def _high(parts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Where each part is among its largest; a part that is equal everywhere is high nowhere."""
    components = ("epistemic", "aleatoric") if len(parts) > 1 else ("total",)
    return {
        _WORDS[name]: parts[name] > np.nanquantile(parts[name], 1 - _HIGH)
        for name in components
        if not np.isnan(parts[name]).all() and not equal_everywhere(parts[name])
    }


def _names(high: dict[str, np.ndarray], at: int) -> str:
    return ", ".join(name for name, where in high.items() if where[at]) or _NOTHING


def _of_outcomes(judged: Judgement, order: np.ndarray) -> dict[str, list[str]]:
    """Outcome, mean and interval, of outcomes that are single numbers."""
    if judged.outcomes.ndim > 1:
        return {}
    worst = cases(judged.prediction, order)
    middle = np.asarray(worst.mean(), dtype=float)
    low, high = (np.asarray(side, dtype=float) for side in worst.interval(_COVERAGE))
    digits = _digits(high - low)
    outcome, mean, lower, upper = (
        [_number(value, digits) for value in values]
        for values in (judged.outcomes[order], middle, low, high)
    )
    return {
        "outcome": outcome,
        "predicted": mean,
        _INTERVAL: [f"{a} to {b}" for a, b in zip(lower, upper, strict=True)],
    }


def _digits(widths: np.ndarray) -> int | None:
    """Decimals that tell numbers apart where it matters: two digits of how wide intervals are."""
    positive = widths[np.isfinite(widths) & (widths > 0)]
    digits = 1 - math.floor(math.log10(np.median(positive))) if positive.size else 99
    return max(digits, 0) if digits <= _MOST_DIGITS else None


def _number(value: float, digits: int | None) -> str:
    if digits is None or not np.isfinite(value) or abs(value) >= 10**_MOST_DIGITS:
        return plain(value)
    return f"{value:.{digits}f}".replace("-", "−")


def _in_words(
    one: Decomposed, judged: Judgement, order: np.ndarray, high: dict[str, np.ndarray]
) -> Iterator[str]:
    score = score_in_words(one.uncertainty)
    among = f" among {grouped(judged.count)} that were looked at" if judged.thinned else ""
    yield f"The predictions with the worst {score}{among}."
    if not high:
        return
    counts = {name: int(where[order].sum()) for name, where in high.items()}
    told = [f"{name} was high in {count}" for name, count in counts.items()]
    none = sum(_names(high, int(at)) == _NOTHING for at in order)
    yield (
        f"Of these {order.size}, {' and '.join(told)} (in the largest quarter of all that are "
        "judged)" + (f"; in {none} nothing announced the error." if none else ".")
    )
