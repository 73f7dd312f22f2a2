"""The report of a decomposition: how large, how good, where, who disagrees, and what it means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from kuq.distributions.base import Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.files.decomposed import Decomposed, DecomposedFile, Part
from kuq.files.output_marks import PARTS
from kuq.kernels.base import Kernel
from kuq.kernels.log_score import LogScore
from kuq.kernels.marginal import Marginal
from kuq.kernels.squared_error import SquaredError
from kuq.reports import figures
from kuq.reports.cases import cases, single_values
from kuq.reports.components import cell_kernel, components, named_by_cell, shown_parts
from kuq.reports.figures import plain
from kuq.reports.inputs import (
    all_alike,
    equal_everywhere,
    evenly,
    finite_mean,
    label_cell,
    label_of,
    mean_map,
    mean_of_rows,
    with_axes,
)
from kuq.reports.judged_page import judgement_section
from kuq.reports.judgement import Judgement, judge
from kuq.reports.outlier import Outlier, outlying_member
from kuq.reports.page import (
    Section,
    card,
    definitions,
    figure,
    heading,
    keys,
    page_of,
    paragraph,
)
from kuq.reports.surety import (
    NoiseOfDraws,
    apart_in_words,
    noise_of_draws,
    same_law,
    same_law_in_words,
)
from kuq.reports.words import (
    METHODS,
    facts_of_score,
    grouped,
    largest_errors,
    score_in_words,
    total_in_words,
)
from kuq.reports.worst_cases import worst_cases
from kuq.result import MemberTest, Uncertainty
from kuq.uncertainty import decompose, member_divergences, member_influence

#: Inputs that are looked at for the divergences between members, and for maps.
_INPUTS_LOOKED_AT = 200
#: Numbers of one prediction that are looked at for that.
_NUMBERS_LOOKED_AT = 2**23
_MOST_MEMBERS = 40
_ROWS = 10
_MOST_DOTS = 1200
#: The share of laws that are single values from which on a page says so.
_SILENT = 0.1


def decomposition_report(
    result: DecomposedFile, judgements: Sequence[Judgement | None] | None = None
) -> str:
    """A self-contained HTML page about a decomposed file."""
    return report_page(result.source.name, result.variables, judgements, result.out.name)


def report_page(
    name: str,
    variables: Sequence[Decomposed],
    judgements: Sequence[Judgement | None] | None = None,
    written: str | None = None,
) -> str:
    """A self-contained HTML page about predictions, with a section for each variable."""
    judged = [judge(one) for one in variables] if judgements is None else judgements
    several = len(variables) > 1
    sections = [
        Section(one.name, list(_head(one)), list(_parts(one, judgement, several)))
        for one, judgement in zip(variables, judged, strict=True)
    ]
    told = next((one for one in variables if one.uncertainty.is_split), variables[0])
    return page_of(name, sections, _meaning(told, several, written))


def _parts(one: Decomposed, judged: Judgement | None, several: bool) -> Iterator[str]:
    yield from _overview(one)
    noise = _noise(one)
    if noise is not None:
        yield paragraph(noise.in_words())
    if not np.isfinite(np.asarray(one.uncertainty.total, dtype=float)).any():
        return
    if one.target is not None:
        yield heading("How good it is", several)
        yield from judgement_section(one, judged)
        if judged is not None:
            yield from worst_cases(one, judged, several)
    yield from _distributions(one, judged, several)
    ranked: tuple[str, ...] = ("total",)
    if one.uncertainty.is_split:  # an order of what cannot be told from zero is that of chance
        unseen = noise is not None and noise.everywhere
        ranked = ("aleatoric",) if unseen else ("epistemic", "aleatoric")
    for first in ranked:
        yield from _rows(one, first, several)
    yield from _maps(one, several)
    yield from _members(one, several)


def _head(one: Decomposed) -> Iterator[str]:
    score = score_in_words(one.uncertainty)
    yield paragraph(f"{one.description}. Score: {score}.", "soft")
    yield from (paragraph(f"Note: {note}.") for note in one.notes)


def _overview(one: Decomposed) -> Iterator[str]:
    u = one.uncertainty
    means = {
        name: finite_mean(np.asarray(u[name], dtype=float), one.input_weights) for name in PARTS
    }
    total = np.asarray(u.total, dtype=float)
    count = int(np.sum(~np.isnan(total)))
    share = _share(one, means)
    if count == 0:
        yield paragraph("No input has a result: every prediction has missing values.")
        return
    yield "<div class='cards'>"
    without = f", {grouped(total.size - count)} more without a result" if count < total.size else ""
    yield card(grouped(count), f"prediction{'' if count == 1 else 's'}{without}")
    if not u.is_split:
        yield card(plain(means["total"]), f"mean spread ({u.units})")
        yield "</div>"
        yield paragraph(_one_level(u))
        yield from _silence(one)
        yield from _infinite(one)
        return
    yield card(plain(means["total"]), f"mean total uncertainty ({u.units})")
    yield card(plain(means["aleatoric"]), "mean aleatoric: noise that stays", "aleatoric")
    yield card(plain(means["epistemic"]), "mean epistemic: what is not known", "epistemic")
    if share is not None:
        yield card(f"{100 * share:.0f} %", "of the total is epistemic")
    yield "</div>"
    if one.factors is not None:
        yield paragraph(_of_factors(*one.factors))
    elif not u.note_of_few_values:
        yield paragraph(_in_words(share))
    if u.note:
        yield paragraph(f"{u.note[0].upper()}{u.note[1:]}.")
    if count > 1 and equal_everywhere(np.asarray(u.aleatoric, dtype=float)[~np.isnan(total)]):
        yield paragraph(
            "The aleatoric part is equal everywhere by construction: the members have one noise "
            "for all inputs, such as that of out-of-bag residuals. So it ranks nothing, and where "
            "noise is larger than elsewhere cannot be seen; total uncertainty ranks inputs as the "
            "epistemic part does."
        )
    yield from _silence(one)
    yield from _infinite(one)


def _noise(one: Decomposed) -> NoiseOfDraws | None:
    """Whether draws are enough to see the epistemic uncertainty."""
    u = one.uncertainty
    if not u.is_split or one.options.get("draws") is not None:
        return None
    return noise_of_draws(_whole_inputs(one)[0], u, one.options)


def _silence(one: Decomposed) -> Iterator[str]:
    """Laws that are single values now and then, such as leaves with one training row."""
    prediction, _ = _whole_inputs(one)
    share = single_values(prediction) if isinstance(prediction, Ensemble) else 0.0
    if share < _SILENT:
        return
    yield (
        f"<div class='note'><b>{100 * share:.0f} % of what members predict are single values, "
        "which know no noise.</b> What is noise there counts as disagreement. If these are leaves "
        "of a forest with one training row, grow its trees with <code>min_samples_leaf=10</code> "
        "or more, or take the noise from out-of-bag residuals: "
        '<code>from_fitted(…, noise="normal")</code>.</div>'
    )


def _whole_inputs(one: Decomposed) -> tuple[Prediction | None, int]:
    """The prediction at inputs that are looked at and where nothing is missing, and how many."""
    chosen = _looked_at(one)
    inputs = one.inputs_at(chosen)
    whole = np.flatnonzero(~inputs.masked.ravel())
    if whole.size == 0:
        return None, len(chosen)
    prediction = cases(inputs.prediction, whole) if inputs.masked.any() else inputs.prediction
    return prediction, len(chosen)


def _infinite(one: Decomposed) -> Iterator[str]:
    u = one.uncertainty
    count = sum(int(np.isinf(np.asarray(u[name])).sum()) for name in shown_parts(u))
    if count:
        yield paragraph(f"{count} values are infinite and left out of means and figures.")


def _one_level(u: Uncertainty) -> str:
    return (
        f"These numbers are the {u.note}. Each is {total_in_words(u)}. They are not split into "
        "aleatoric and epistemic uncertainty, and nothing follows from them about what could still "
        "be learned. Members that predict distributions (a mean and a standard deviation, or "
        "draws) can be split."
    )


def _share(one: Decomposed, means: dict[str, float]) -> float | None:
    """The epistemic share, where the parts can be compared."""
    if isinstance(one.uncertainty.score, LogScore) or not means["total"] > 0:
        return None
    return min(max(means["epistemic"] / means["total"], 0.0), 1.0)


def _of_factors(aleatoric: float, epistemic: float) -> str:
    return (
        f"The prediction was recalibrated: noise was multiplied by {aleatoric:.3g} and "
        f"disagreement by {epistemic:.3g}, for intervals of the right coverage, which leaves the "
        "ratio of the two open. Take the split from the prediction as it was."
    )


def _in_words(share: float | None) -> str:
    if share is None:
        return (
            "Under the log score aleatoric uncertainty can be negative and shifts with the unit of "
            "the target, so the two parts are compared from input to input, not with each other."
        )
    if share < 0.1:
        return (
            "Almost all of the uncertainty is aleatoric: the members agree with each other, and "
            "what is left is noise that each of them expects. More data of the same kind would "
            "change little; other inputs might."
        )
    if share < 0.4:
        return (
            "Most of the uncertainty is aleatoric, but the members also disagree, most of all at "
            "the inputs listed below."
        )
    return (
        "A large part of the uncertainty is epistemic: the members disagree about the prediction "
        "itself, most of all at the inputs listed below. There, better models can reduce it."
    )


def _distributions(one: Decomposed, judged: Judgement | None, several: bool) -> Iterator[str]:
    u = one.uncertainty
    every = {name: np.asarray(u[name], dtype=float).ravel() for name in shown_parts(u)}
    pooled = np.concatenate([v[np.isfinite(v)] for v in every.values()])
    if pooled.size == 0:
        return
    low, high = float(min(pooled.min(), 0.0)), float(np.quantile(pooled, 0.998))
    ticks = figures.round_limits(low, high if high > low else low + 1.0)
    what = "components are" if u.is_split else "spread is"
    yield heading(f"How large the {what}", several)
    same = "The same axis for all three; the" if u.is_split else "The"
    beyond = bool(pooled.max() > ticks[-1])
    yield paragraph(
        f"{same} dashed line is the median."
        + (" The few largest values are counted in the last bar." if beyond else "")
    )
    yield "<div class='figures'>"
    weights = None if one.input_weights is None else one.input_weights.ravel()
    for name, values in every.items():
        svg = figures.histogram(values, name, low, ticks, u.units, weights)
        yield figure(svg, name.capitalize())
    yield "</div>"
    yield from _scatter(one, judged)


def _scatter(one: Decomposed, judged: Judgement | None) -> Iterator[str]:
    """Noise against missing knowledge, a dot for every input; the largest errors stand out."""
    u = one.uncertainty
    if not u.is_split:
        return
    source = judged.parts if judged is not None else dict(u)
    x, y = (np.asarray(source[p], dtype=float).ravel() for p in ("aleatoric", "epistemic"))
    big = np.zeros(x.size, dtype=bool)
    if judged is not None and judged.errors.size == x.size:
        big = judged.errors > np.quantile(judged.errors, 0.9)
    there = np.isfinite(x) & np.isfinite(y)
    x, y, big = x[there], y[there], big[there]
    if x.size < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return
    chosen = evenly(x.size, _MOST_DOTS)
    x, y, big = x[chosen], y[chosen], big[chosen]
    comparable = not isinstance(u.score, LogScore)
    svg = figures.scatter(
        x,
        y,
        big,
        comparable,
        "aleatoric against epistemic uncertainty",
        f"aleatoric ({u.units})",
        "epistemic",
    )
    legend = ""
    if big.any():
        legend = keys([("dot", "inputs"), ("dot big", "the tenth with the largest errors")])
    text = "Each dot is an input."
    if comparable:
        text += (
            " On the dashed line noise and disagreement are equally large; above it the members "
            "disagree by more than the noise that they expect."
        )
    yield paragraph(text)
    yield "<div class='figures one'>"
    yield figure(svg, "Aleatoric against epistemic", legend)
    yield "</div>"


_TABLES = {
    "epistemic": (
        "The inputs that the model knows least about",
        "Sorted by epistemic uncertainty: where the members disagree most. These are the inputs to "
        "look at first.",
    ),
    "total": (
        "The inputs with the largest spread",
        "Sorted by the spread, which may come from noise as well as from missing knowledge.",
    ),
    "aleatoric": (
        "The inputs with the most noise",
        "Sorted by aleatoric uncertainty: what the members themselves call uncertain. More data "
        "like these would not help; other inputs might.",
    ),
}


def _rows(one: Decomposed, first: str, several: bool) -> Iterator[str]:
    u = one.uncertainty
    parts = {name: np.asarray(u[name], dtype=float) for name in shown_parts(u)}
    if parts["total"].ndim == 0:
        return
    over = ""
    if parts["total"].ndim > 2:  # rank what has a field of its own by the mean of its field
        over = f" Means over {', '.join(one.dims[1:])}."
        parts = {name: mean_of_rows(values, one) for name, values in parts.items()}
    if first == "aleatoric" and all_alike(parts[first]):
        return
    ranked = np.where(np.isnan(parts[first]), -np.inf, parts[first]).ravel()
    order = np.argsort(-ranked, kind="stable")[:_ROWS]
    order = order[~np.isnan(parts[first].ravel()[order])]
    largest = np.max(np.abs(parts["total"].ravel()[order]))
    bars = bool(u.is_split and np.isfinite(largest) and largest > 0)
    bars = bars and all(bool(np.all(v.ravel()[order] >= -0.02 * largest)) for v in parts.values())
    inputs = escape(", ".join(one.dims[: parts["total"].ndim]))
    title, why = _TABLES[first]
    yield heading(title, several)
    key = "".join(
        f"<span class='keys'><span class='key {name}'></span>{name}</span> "
        for name in ("aleatoric", "epistemic")
    )
    yield f"<p>{escape(why + over)}{key if bars else ''}</p>"
    yield f"<div class='table'><table><thead><tr><th>{inputs}</th>"
    columns = (first, *(name for name in reversed(parts) if name != first))
    yield "".join(f"<th>{name}</th>" for name in columns)
    yield ("<th class='wide'></th>" if bars else "") + "</tr></thead><tbody>"
    for position in order:
        cells = [plain(float(parts[name].ravel()[position])) for name in columns]
        row = f"<tr>{label_cell(label_of(one, int(position), parts['total'].shape))}"
        row += "".join(f"<td>{cell}</td>" for cell in cells)
        if bars:
            widths = {
                name: 100 * max(float(parts[name].ravel()[position]), 0.0) / float(largest)
                for name in ("aleatoric", "epistemic")
            }
            row += "<td class='wide'><div class='bar'>" + "".join(
                f"<i class='{name}' style='width:{width:.1f}%'></i>"
                for name, width in widths.items()
            )
            row += "</div></td>"
        yield row + "</tr>"
    yield "</tbody></table></div>"


def _looked_at(one: Decomposed) -> np.ndarray:
    """Positions along the first axis, evenly spread, that are looked at in more detail."""
    total = np.asarray(one.uncertainty.total, dtype=float)
    complete = (
        np.flatnonzero(~np.isnan(total).reshape(len(total), -1).all(axis=1)) if total.ndim else None
    )
    if complete is None or complete.size == 0:
        return np.array([0])
    prediction = one.prediction_at(complete[:1])
    members = prediction.member_count if isinstance(prediction, Ensemble) else 1
    numbers = max(1, int(np.size(prediction.reference)), members)
    most = int(np.clip(_NUMBERS_LOOKED_AT // numbers, 1, _INPUTS_LOOKED_AT))
    return np.asarray(complete[evenly(complete.size, most)])


def _maps(one: Decomposed, several: bool) -> Iterator[str]:
    u = one.uncertainty
    grids = {name: np.asarray(u[name], dtype=float) for name in shown_parts(u)}
    names, unit = one.dims, u.units
    others = one.dims[:-2]
    where = f"Mean over {', '.join(others)}. " if others else ""
    if min(grids["total"].shape[-2:], default=0) < 4 or grids["total"].ndim < 2:
        chosen = _looked_at(one)
        inputs = one.inputs_at(chosen)
        if len(inputs.prediction.event_shape) != 2 or min(inputs.prediction.event_shape) < 4:
            return
        kernel = cell_kernel(u.score)
        grids = _of_cells(inputs, kernel, one)
        names = one.event_dims or ("rows", "columns")
        unit = u.units if kernel.units == u.score.units else kernel.units
        named = named_by_cell(kernel)
        over = f", mean over {len(chosen)} inputs" if len(chosen) > 1 else ""
        where = f"Cell by cell under the {named}{over}. "
    maps = {name: mean_map(values) for name, values in grids.items()}
    finite = np.concatenate([m[np.isfinite(m)] for m in maps.values()])
    if finite.size == 0:
        return
    blank = bool(np.isnan(maps["total"]).any())
    yield heading("Where on the grid", several)
    yield paragraph(
        f"{where}{'One scale for all three; light' if u.is_split else 'Light'} is high."
        + (" Cells without a colour are missing." if blank else "")
    )
    yield "<div class='figures'>"
    limits = (float(min(finite.min(), 0.0)), float(finite.max()))
    for component, mean in maps.items():
        cells, rows, columns = with_axes(one, names, mean)
        svg = figures.grid_map(cells, f"map of {component}", unit, limits, rows, columns)
        yield figure(svg, component.capitalize())
    yield "</div>"


def _of_cells(inputs: Part, kernel: Kernel, one: Decomposed) -> dict[str, np.ndarray]:
    """The components of every cell, where they are known."""
    of_cells = components(inputs.prediction, kernel, **one.options)
    hidden = inputs.masked[..., None, None]
    if inputs.cells is not None:
        hidden = hidden | ~inputs.cells
    return {name: np.where(hidden, np.nan, of_cells[name]) for name in shown_parts(one.uncertainty)}


def _members(one: Decomposed, several: bool) -> Iterator[str]:
    prediction, inputs = _whole_inputs(one)
    if not isinstance(prediction, Ensemble) or prediction.member_count < 2:
        return
    count = prediction.member_count
    yield heading("Which members disagree", several)
    if count > _MOST_MEMBERS:
        yield paragraph(
            f"{count} members are too many to show one by one; "
            "kuq.member_divergences gives all pairs."
        )
        return
    score = one.uncertainty.score
    matrix = np.asarray(member_divergences(prediction, score, **one.options), dtype=float)
    matrix = np.ma.masked_invalid(matrix.reshape(count, count, -1)).mean(axis=-1)
    matrix = np.ma.filled(matrix, np.inf)  # of infinities only
    outlier = outlying_member(matrix)
    rows = (np.asarray(one.uncertainty.total).shape or (1,))[0]
    over = "all inputs" if inputs == rows else f"{inputs} inputs, evenly spread"
    halved = one.uncertainty.estimator == "bma" and isinstance(score, Kernel)
    half = " Half of their mean" if halved else " Their mean"
    what = "epistemic uncertainty" if one.uncertainty.is_split else "spread"
    yield paragraph(
        f"The mean divergence of every pair over {over}.{half} is the {what}. "
        "Dark pairs agree, light pairs do not."
    )
    names = one.member_names if len(one.member_names) == count else tuple(map(str, range(count)))
    test = same_law(prediction, score, one.options)
    if test is not None:
        yield paragraph(same_law_in_words(test))
    if outlier is not None:
        yield _outlier_note(one, prediction, outlier, names, test)
    elif np.all(np.isfinite(matrix)) and count > 2:
        yield paragraph("No member stands apart from the others.")
    yield "<div class='figures one'>"
    marked = None if outlier is None else outlier.member
    yield figure(figures.matrix(matrix, marked, names), "Divergences between members")
    yield "</div>"


def _outlier_note(
    one: Decomposed,
    ensemble: Ensemble,
    outlier: Outlier,
    names: Sequence[str],
    test: MemberTest | None,
) -> str:
    member, ratio = outlier.member, outlier.ratio
    score, options = one.uncertainty.score, one.options
    influence = member_influence(ensemble, score, **options)
    # Of kernels the members against their mixture differ by half as much as from each other.
    half = 0.5 if one.uncertainty.estimator == "bma" and isinstance(score, Kernel) else 1.0
    change = half * np.asarray(influence.epistemic[member])
    now = half * finite_mean(np.asarray(decompose(ensemble, score, **options).epistemic))
    times = "infinitely many" if not np.isfinite(ratio) else f"{ratio:.1f}"
    advice = "Check how it was made"
    if not score.card.robust:
        advice += (
            ", or use a bounded score such as gaussian:median, under which a single member has "
            "limited influence"
        )
    what = "epistemic uncertainty" if one.uncertainty.is_split else "spread"
    name = names[member] if names[member].isdecimal() else f"“{names[member]}”"
    chance = "" if test is None else f"{escape(apart_in_words(test, member))} "
    return (
        f"<div class='note'><b>Member {escape(name)} stands apart.</b> It disagrees with "
        f"the others {times} times as much as they do among each other. {chance}Without it the "
        f"mean {what} would be {plain(now + finite_mean(change))} instead of "
        f"{plain(now)}. {advice}.</div>"
    )


def _meaning(one: Decomposed, several: bool, written: str | None) -> Iterator[str]:
    u = one.uncertainty
    facts = facts_of_score(u)
    if isinstance(u.score, SquaredError) and u.estimator == "pairwise":
        facts.append(
            "epistemic is the mean squared difference of two members' means, twice their "
            "variance (the score variance, or estimator bma, gives the variance)"
        )
    if isinstance(u.score, Marginal) and np.prod(one.prediction_at(np.array([0])).event_shape) > 1:
        facts.append("every coordinate is looked at by itself, not how they depend on each other")
    entries = [
        ("Aleatoric", "What each member says about its own uncertainty, averaged over members: "
         "noise in the target, which more data cannot remove."),
        ("Epistemic", "How far two members disagree on average: what the models do not know, "
         "largest where the data that they are made from tell little. The members stand for all "
         "models that could have been made as well."),
        ("Total", "The sum of both."),
        ("Score", f"{score_in_words(u)}: {'; '.join(facts)}."
         + ("" if several else f" Unit: {u.units}.")),
        ("Computed", f"{METHODS[u.method]} (estimator {u.estimator}, unbiased={u.unbiased})."
         + (f" Standard errors over directions, given the draws: {largest_errors(u)}."
            if u.method == "sliced" and u.standard_error is not None else "")),
    ]  # fmt: skip
    if not u.is_split:
        entries[:3] = [("Spread", f"The {u.note}. It is {total_in_words(u)}.")]
    if written is not None:
        entries.append(("Written to", written))
    if np.any(np.asarray(u.epistemic) < 0):
        text = (
            "Unbiased estimates from a finite number of draws may fall slightly below zero where "
            "members agree; they are not cut off, so that averages stay right."
        )
        entries.insert(2, ("Negative values", text))
    yield "<h2>What the numbers mean</h2>"
    yield definitions(entries)
