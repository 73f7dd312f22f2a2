"""The part of a report that says how good predictions and their uncertainty were."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import numpy as np
from scipy import stats

from kuq.files.decomposed import Decomposed
from kuq.protocols.comparison import RetentionComparison
from kuq.reports import figures
from kuq.reports.figures import Curve, plain
from kuq.reports.inputs import evenly
from kuq.reports.judgement import (
    COVERAGES,
    FEW,
    Judgement,
    as_good,
    how_counted,
    may_be_chance,
)
from kuq.reports.page import card, figure, keys, paragraph
from kuq.reports.words import grouped, score_in_words

_PIT_BARS = 10
#: Curves in one figure that can be told apart.
_MOST_CURVES = 5
#: Points of one of them.
_MOST_POINTS = 150
#: A 95 % interval of the coverage that is wider says neither that it is right nor that it is wrong.
_CANNOT_TELL = 0.2


def judgement_section(one: Decomposed, judged: Judgement | None) -> Iterator[str]:
    """Score, coverage, and which uncertainty ranks the errors best."""
    if judged is None:
        yield paragraph(
            f"Fewer than two predictions have an outcome without gaps in {one.target!r}, so that "
            "nothing can be said about how good they are."
        )
        return
    u = one.uncertainty
    mean, half = judged.score
    thinning = ", evenly spread" if judged.thinned else ""
    yield paragraph(f"Judged by {judged.target!r}: {grouped(judged.count)} outcomes{thinning}.")
    yield "<div class='cards'>"
    spread = f"± {half:.2g} (95 %), " if np.isfinite(half) else ""
    yield card(plain(mean), f"{spread}mean {score_in_words(u)} ({u.units}); lower is better")
    yield card(plain(judged.rmse), "root mean squared error of the mean")
    yield card(f"{100 * judged.coverage(0.9):.0f} %", "of outcomes lie in their 90 % intervals")
    if judged.ranking is not None and not may_be_chance(judged.ranking):
        best = judged.ranking.best
        yield card(
            f"{judged.ranking.curves[best].prr:.2f}",
            f"prediction-rejection ratio of {best}, the best here: 0 an oracle, 1 random",
        )
    yield "</div>"
    yield paragraph(" ".join([_coverage_in_words(judged), *how_counted(one, judged)]))
    yield "<div class='figures'>"
    yield figure(
        _coverage(judged), "Coverage", keys([("s0", "found"), ("oracle", "as it should be")])
    )
    legend = keys([("oracle", "as it should be"), ("chance", "95 % by chance")])
    yield figure(_pit(judged), "Where outcomes fall (PIT)", legend)
    if judged.ranking is not None:
        svg, legend = _retention(judged.ranking)
        yield figure(svg, "Error of what is kept", legend)
    yield "</div>"
    if judged.ranking is not None:
        yield from _table(judged.ranking)


def _coverage_in_words(judged: Judgement) -> str:
    share = f"{100 * judged.coverage(0.9):.0f} %"
    least, most = judged.coverage_interval(0.9)
    expected = judged.expected(0.9)
    # An end that is the expected share only when rounded would contradict the words.
    near = round(100 * expected) in (round(100 * least), round(100 * most))
    interval = f"(95 % interval {100 * least:.{int(near)}f} to {100 * most:.{int(near)}f} %)"
    if most < expected:
        text = (
            f"Only {share} of the outcomes lie in their 90 % intervals {interval}: these are too "
            "narrow, and the predictions surer than they may be."
        )
    elif least > expected:
        text = (
            f"{share} of the outcomes lie in their 90 % intervals {interval}: these are wider than "
            "they need to be."
        )
    elif most - least > _CANNOT_TELL:
        text = (
            f"{share} of the outcomes lie in their 90 % intervals {interval}: too few outcomes to "
            "tell whether that is as many as it should be."
        )
    else:
        text = f"The 90 % intervals hold about as many outcomes as they should {interval}."
    if 100 * expected < 89.5:
        text += f" Between so few draws {100 * expected:.0f} % would be right."
    low = judged.share(judged.pit < 0.5)
    bias = 3 * np.sqrt(0.25 / judged.size)
    if abs(low - 0.5) > max(bias, 0.05):
        side = "below" if low > 0.5 else "above"
        text += f" {100 * max(low, 1 - low):.0f} % of the outcomes lie {side} the predicted median."
    return text


def _coverage(judged: Judgement) -> str:
    shares = np.array([judged.coverage(level) for level in COVERAGES])
    ends = np.array([0.0, 100.0])
    lines = [
        Curve(ends, ends, "oracle"),
        Curve(100 * np.r_[0, COVERAGES], 100 * np.r_[0, shares], "s0"),
    ]
    limits = ((0.0, 100.0), (0.0, 100.0))
    return figures.curves(
        lines, "coverage of central intervals", "predicted (%)", "outcomes inside (%)", limits
    )


def _pit(judged: Judgement) -> str:
    held, _ = np.histogram(judged.pit, _PIT_BARS, (0.0, 1.0), weights=judged.pit_weights)
    count = round(judged.size)
    low, high = stats.binom(count, 1 / _PIT_BARS).interval(0.95)
    return figures.bars(
        held / held.sum(),
        1 / _PIT_BARS,
        (low / count, high / count),
        "histogram of PIT values",
        "share of the prediction below the outcome",
        "outcomes",
    )


def _retention(ranking: RetentionComparison) -> tuple[str, str]:
    """The curves of the total of each score, or of the parts of the best if there is one score."""
    totals = [name for name in ranking.curves if name.startswith(("total ", "spread "))]
    shown = totals if len(totals) > 1 else list(ranking.curves)
    if ranking.best not in shown:
        shown = [ranking.best, *shown]
    shown = shown[:_MOST_CURVES]
    curves = {name: ranking.curves[name] for name in shown}
    first = next(iter(curves.values()))
    lines = [
        Curve(100 * first.retention, first.random, "bound"),
        Curve(100 * first.retention, first.oracle, "oracle"),
        *(
            Curve(100 * curve.retention, curve.risk, f"s{place}")
            for place, curve in enumerate(curves.values())
        ),
    ]
    points = evenly(len(first.retention), _MOST_POINTS)
    lines = [Curve(line.x[points], line.y[points], line.kind) for line in lines]
    top = max(float(np.nanmax(line.y)) for line in lines)
    limits = ((50.0, 100.0), (0.0, top if top > 0 else 1.0))
    svg = figures.curves(
        lines,
        "retention curves",
        "predictions kept (%)",
        "mean squared error",
        limits,
        (50, 75, 100),
    )
    legend = [("bound", "random"), ("oracle", "oracle")]
    return svg, keys([*legend, *((f"s{place}", name) for place, name in enumerate(curves))])


def _table(ranking: RetentionComparison) -> Iterator[str]:
    order = sorted(ranking.curves, key=lambda name: ranking.curves[name].prr)
    alike = as_good(ranking)
    level = f"{100 * ranking.confidence:.0f} %"
    best = ranking.best[0].upper() + ranking.best[1:]
    others = f", and {len(alike)} of {len(order) - 1} others may be as good." if alike else "."
    said = [f"Which uncertainty tells here where the errors are? {best} ranks them best{others}"]
    if may_be_chance(ranking):
        said.append("That may be chance: its interval holds 1.")
    said.append(
        "The ratio is 0 if the largest errors are left out first, 1 for a random choice. Intervals "
        f"are of the bootstrap ({level}; inputs count as independent), rough for fewer than {FEW} "
        "outcomes."
    )
    if len(order) > 1:
        said.append(
            f"They hold for all {len(order)} at once, and those of differences for all pairs, "
            "which allows for choosing the best by looking. Differences are paired, over the same "
            "resamples."
        )
    yield paragraph(" ".join(said))
    yield "<div class='table'><table><thead><tr><th>uncertainty</th>"
    yield f"<th>ratio</th><th class='roomy'>{level} interval</th><th>behind the best</th>"
    yield "</tr></thead><tbody>"
    for name in order:
        low, high = ranking.intervals[name]
        behind = "best"
        if name != ranking.best:
            first, last = ranking.behind[name]
            behind = f"{_signed(first)} to {_signed(last)}"
        row = f"<tr><td>{escape(name)}</td><td>{ranking.curves[name].prr:.2f}</td>"
        row += f"<td class='roomy'>{low:.2f} to {high:.2f}</td><td>{behind}</td></tr>"
        yield row.replace("-", "−")
    yield "</tbody></table></div>"


def _signed(value: float) -> str:
    return f"{value:+.2f}" if abs(value) >= 0.005 else "0.00"
