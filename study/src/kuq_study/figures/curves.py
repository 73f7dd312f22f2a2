"""Curves of the experiments: retention, robustness, active learning, runtime, approximation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from kuq_study.estimates import Evidence, by_cell, estimates
from kuq_study.figures.drawing import (
    INK,
    Figure,
    Panel,
    colour,
    drawing,
    mark,
    printable,
    thinned,
)
from kuq_study.paper import paper_records
from kuq_study.records import Record
from kuq_study.result_tables import (
    is_of_the_paper,
    learning_name,
    learning_settings,
    robustness_settings,
    setting_name,
)
from kuq_study.vocabulary import (
    COMPONENTS,
    DATASETS,
    RANDOM,
    REPRESENTATIONS,
    SCORES,
    data_name,
    name_of,
    ordered,
)

_NAMES = {**SCORES, **RANDOM}
Curve = list[tuple[float, float]]


def _legend(scores: Iterable[str]) -> tuple[tuple[str, str, str], ...]:
    return tuple(
        (name_of(s, _NAMES).text, colour(s), mark(s)) for s in ordered(set(scores), _NAMES)
    )


def _cells(records: Iterable[Record]) -> list[tuple[str, str]]:
    """The pairs of data set and representation that occur, in the paper's order."""
    pairs = {(r.dataset, r.representation) for r in records}
    return [
        (dataset, method)
        for dataset in ordered({d for d, _ in pairs}, DATASETS)
        for method in ordered({m for _, m in pairs}, REPRESENTATIONS)
        if (dataset, method) in pairs
    ]


def _parts(records: Iterable[Record]) -> list[tuple[str, str, str]]:
    """The triples of data set, representation and component that occur."""
    records = list(records)
    triples = {(r.dataset, r.representation, r.component) for r in records}
    return [
        (dataset, method, component)
        for dataset, method in _cells(records)
        for component in ordered({c for *_, c in triples}, COMPONENTS)
        if (dataset, method, component) in triples
    ]


def _title(dataset: str, method: str) -> str:
    name = data_name(dataset).text.replace(" (synthetic stand-in)", " (synthetic)")
    return printable(f"{name}, {name_of(method, REPRESENTATIONS).text}")


def _mean_curves(
    records: Iterable[Record], *, factors: bool = False
) -> dict[tuple[str, str, str], Curve]:
    """Means over seeds along x, geometric ones with ``factors``, by what they belong to."""
    curves: dict[tuple[str, str, str], Curve] = defaultdict(list)
    for cell, e in estimates(by_cell(records, along_x=True), factors=factors).items():
        if cell.x is not None:
            curves[cell.dataset, cell.representation, cell.score].append((cell.x, e.mean))
    return {key: sorted(curve) for key, curve in curves.items()}


def retention(evidence: Evidence) -> Figure | None:
    """Risk against retention for every data set and representation."""
    records = evidence.of("selective_prediction", "risk", "total")
    if not records:
        return None
    curves = _mean_curves(records)
    oracle = _mean_curves(evidence.of("selective_prediction", "risk_oracle"))
    panels: list[Panel] = []
    for dataset, method in _cells(records):
        with drawing(f"retention-{dataset}-{method}", panels) as axes:
            end = 0.0
            for score in ordered({s for d, m, s in curves if (d, m) == (dataset, method)}, _NAMES):
                points = thinned(curves[dataset, method, score])
                axes.plot(
                    *zip(*points, strict=True),
                    color=colour(score),
                    marker=mark(score),
                    markevery=max(1, len(points) // 6),
                )
                end = points[-1][1]
            best = oracle.get((dataset, method, ""))
            if best:
                axes.plot(*zip(*thinned(best), strict=True), color=INK, lw=1.2)
            axes.axhline(end, color=INK, lw=1.0, ls="--")
            axes.set(title=_title(dataset, method), xlabel="retention", ylabel="MSE")
            axes.set_ylim(bottom=0)
    return Figure(
        "retention",
        "Retention curves",
        "Mean squared error of the cases that are kept when the most uncertain (total "
        "uncertainty) are rejected, mean over seeds. Solid line without marks: the oracle; dashed: "
        "random rejection.",
        tuple(panels),
        _legend(r.score for r in records),
    )


def robustness(evidence: Evidence) -> list[Figure]:
    """MAPE against δ, one figure per setting, the paper's values as open marks."""
    paper = Evidence(paper_records() if evidence.measured else ())
    figures = []
    for quantity in robustness_settings(evidence):
        records = evidence.of("robustness", quantity)
        beside = is_of_the_paper(quantity) and evidence.measured
        panels: list[Panel] = []
        for dataset in ordered({r.dataset for r in records}, DATASETS):
            for component in COMPONENTS:
                ours = _mean_curves(
                    (r for r in records if (r.dataset, r.component) == (dataset, component)),
                    factors=True,
                )
                theirs = _mean_curves(
                    r for r in paper.of("robustness", "mape_M25", component) if r.dataset == dataset
                )
                if not ours:
                    continue
                with drawing(f"{quantity}-{dataset}-{component}", panels) as axes:
                    for (_, _, score), points in ours.items():
                        axes.plot(
                            *zip(*points, strict=True), color=colour(score), marker=mark(score)
                        )
                    for (_, _, score), points in theirs.items() if beside else ():
                        axes.plot(
                            *zip(*points, strict=True),
                            ls=":",
                            lw=0.9,
                            color=colour(score),
                            marker=mark(score),
                            mfc="none",
                            alpha=0.8,
                        )
                    axes.set_yscale("log")
                    axes.set(
                        title=printable(f"{data_name(dataset).text}, {component}"),
                        xlabel="δ",
                        ylabel="MAPE in %",
                    )
        dotted = " Dotted with open marks: the paper's values." if beside else ""
        figures.append(
            Figure(
                quantity.replace("mape", "robustness").replace("_", "-"),
                f"Robustness, {setting_name(quantity)}",
                "Change of uncertainty by one corrupted member against the noise δ of its "
                f"training targets.{dotted}",
                tuple(panels),
                _legend(r.score for r in records),
            )
        )
    return figures


def active_learning(evidence: Evidence) -> list[Figure]:
    """Test error against the number of labels, one figure per setting."""
    return [_learning(evidence, quantity) for quantity in learning_settings(evidence)]


def _learning(evidence: Evidence, quantity: str) -> Figure:
    """Means over seeds with their spread."""
    records = [r for r in evidence.of("active_learning", quantity) if r.x is not None]
    name = quantity.replace("mse", "active").replace("_", "-")
    panels: list[Panel] = []
    table = by_cell(records, along_x=True)
    for dataset, method in _cells(records):
        with drawing(f"{name}-{dataset}-{method}", panels) as axes:
            rows = {
                c: v for c, v in table.items() if (c.dataset, c.representation) == (dataset, method)
            }
            for score in ordered({c.score for c in rows}, _NAMES):
                points = sorted(
                    (c.x or 0.0, list(v.values())) for c, v in rows.items() if c.score == score
                )
                x = np.asarray([p[0] for p in points])
                mean = np.asarray([np.mean(p[1]) for p in points])
                spread = np.asarray([np.std(p[1], ddof=1) if len(p[1]) > 1 else 0 for p in points])
                axes.plot(
                    x,
                    mean,
                    color=colour(score),
                    marker=mark(score),
                    ms=3,
                    markevery=max(1, len(x) // 6),
                    ls=":" if score == "random" else "-",
                )
                axes.fill_between(
                    x, mean - spread, mean + spread, color=colour(score), alpha=0.15, lw=0
                )
            axes.set(title=_title(dataset, method), xlabel="labels", ylabel="test MSE")
    return Figure(
        quantity.replace("mse", "active-learning").replace("_", "-"),
        learning_name(quantity),
        "Test error against the number of labels: mean over seeds, with one standard deviation "
        "shaded. Dotted: random acquisition.",
        tuple(panels),
        _legend(r.score for r in records),
    )


def training(evidence: Evidence) -> Figure | None:
    """AUROC against the amount of training."""
    records = evidence.of("ood_detection", "auroc_training", "epistemic")
    records = [r for r in records if r.x is not None]
    if not records:
        return None
    curves = _mean_curves(records)
    panels: list[Panel] = []
    for dataset, method in _cells(records):
        with drawing(f"training-{dataset}-{method}", panels) as axes:
            for score in ordered({s for d, m, s in curves if (d, m) == (dataset, method)}, _NAMES):
                points = curves[dataset, method, score]
                axes.plot(*zip(*points, strict=True), color=colour(score), marker=mark(score))
            axes.set(title=_title(dataset, method), xlabel="epochs", ylabel="AUROC")
    return Figure(
        "training",
        "What more training gives",
        "AUROC of out-of-distribution detection by epistemic uncertainty against the length of "
        "training, in epochs.",
        tuple(panels),
        _legend(r.score for r in records),
    )


def _scaling(
    evidence: Evidence,
    experiment: str,
    sides: tuple[tuple[str, str, float | None, str], ...],
    title: str,
    caption: str,
) -> Figure | None:
    """Log-log curves against M and N, with a line of the expected slope."""
    panels: list[Panel] = []
    scores: set[str] = set()
    for quantity, xlabel, slope, ylabel in sides:
        records = evidence.of(experiment, quantity)
        for dataset, method, component in _parts(records):
            panel_records = [
                r
                for r in records
                if (r.dataset, r.representation, r.component) == (dataset, method, component)
            ]
            curves = {
                score: [(x, abs(y)) for x, y in curve if x > 0 and y != 0]
                for (_, _, score), curve in _mean_curves(panel_records).items()
            }
            name = f"{experiment}-{quantity}-{dataset}-{method}-{component}"
            with drawing(name, panels) as axes:
                for score, points in curves.items():
                    if points:
                        scores.add(score)
                        axes.loglog(
                            *zip(*points, strict=True), color=colour(score), marker=mark(score)
                        )
                longest = max(curves.values(), key=lambda c: c[-1][1] if c else 0.0, default=[])
                if slope is not None and len(longest) > 1:
                    (x0, y0), (x1, _) = longest[0], longest[-1]
                    axes.loglog([x0, x1], [y0, y0 * (x1 / x0) ** slope], color=INK, lw=1, ls="--")
                head = _title(dataset, method) + (f", {component}" if component else "")
                axes.set(title=printable(head), xlabel=xlabel, ylabel=ylabel)
    if not panels:
        return None
    return Figure(experiment, title, caption, tuple(panels), _legend(scores))


def runtime(evidence: Evidence) -> Figure | None:
    """Seconds against members and against draws."""
    return _scaling(
        evidence,
        "runtime",
        (
            ("seconds_members", "members M", None, "CPU seconds"),
            ("seconds_samples", "draws N", 2.0, "CPU seconds"),
        ),
        "Runtime",
        "Time of one decomposition against the number of members and of draws. Dashed: slope 2, "
        "the paper's cost of kernel scores in the number of draws.",
    )


def approximation(evidence: Evidence) -> Figure | None:
    """Error of finite ensembles and samples."""
    return _scaling(
        evidence,
        "approximation",
        (
            ("error_members", "members M", -0.5, "relative error"),
            ("error_samples", "draws N", -0.5, "relative error"),
            ("bias_members", "members M", -1.0, "|relative bias|"),
        ),
        "Approximation error",
        "Error of finite ensembles and samples, and bias of the uncorrected estimator "
        "(V-statistic) against the number of members. Dashed: slopes −½ and −1.",
    )
