"""The paper's tables of results, filled with ours and with its own values beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kuq.bench.estimates import CellKey, Estimate, Evidence, by_cell, estimates, final_values
from kuq.bench.paper import paper_records
from kuq.bench.records import Record
from kuq.bench.table import Table, decimals, mark_best, significant
from kuq.bench.vocabulary import (
    COMPONENTS,
    DATASETS,
    RANDOM,
    REPRESENTATIONS,
    SCORES,
    Name,
    data_name,
    name_of,
    ordered,
)

SETTINGS = {
    "mape_M25_appendix": "25 members, trained as the appendix says (early stopping)",
    "mape_M5_appendix": "5 members, trained as the appendix says (early stopping)",
    "mape_M25_overfitted": "25 members, trained without early stopping (over-confident)",
    "mape_M5_overfitted": "5 members, trained without early stopping (over-confident)",
}


def result_tables(evidence: Evidence) -> list[Table]:
    """Robustness, selective prediction, OOD detection and active learning, where there are data."""
    paper = Evidence(paper_records())
    tables = [_robustness(evidence, paper, quantity) for quantity in _settings(evidence)]
    tables += [
        _grid(
            "selective-prediction",
            "Selective prediction",
            "Prediction-rejection ratio over retentions from 0.5 to 1 by total uncertainty; lower "
            "is better, 0 is the oracle, 1 random rejection.",
            evidence.of("selective_prediction", "prr", "total"),
            paper.of("selective_prediction", "prr", "total"),
            SCORES,
            decimals(3),
            higher_is_better=False,
            paper_table="PRR for all data sets",
        ),
        _grid(
            "test-error",
            "Test error",
            "Mean squared error of the mean prediction behind selective prediction, in units of "
            "the standardised target: what the models can do at all.",
            evidence.of("selective_prediction", "mse"),
            (),
            {"": Name("MSE", "MSE")},
            significant,
            higher_is_better=False,
        ),
        _grid(
            "ood-detection",
            "Out-of-distribution detection",
            "AUROC by epistemic uncertainty; higher is better.",
            evidence.of("ood_detection", "auroc", "epistemic"),
            paper.of("ood_detection", "auroc", "epistemic"),
            SCORES,
            decimals(4),
            higher_is_better=True,
            paper_table="AUROC for all data sets",
        ),
        _grid(
            "ood-precision",
            "Out-of-distribution detection, average precision",
            "AUPR by epistemic uncertainty, equal numbers inside and outside; higher is better.",
            evidence.of("ood_detection", "aupr", "epistemic"),
            (),
            SCORES,
            decimals(4),
            higher_is_better=True,
        ),
        _grid(
            "ood-false-alarms",
            "Out-of-distribution detection, false alarms",
            "Share of inside cases that are flagged when 95 % of the outside ones are; lower is "
            "better.",
            evidence.of("ood_detection", "fpr95", "epistemic"),
            (),
            SCORES,
            decimals(4),
            higher_is_better=False,
        ),
        _grid(
            "active-learning",
            "Active learning",
            "Mean squared error on the test set after the last round; lower is better.",
            final_values(evidence.of("active_learning", "mse")),
            paper.of("active_learning", "mse"),
            {**SCORES, **RANDOM},
            significant,
            higher_is_better=False,
            paper_table="final test loss",
        ),
    ]
    return [table for table in tables if table is not None]


def _settings(evidence: Evidence) -> list[str]:
    found = {q for q in evidence.quantities("robustness") if q.startswith("mape")}
    return ordered(found, SETTINGS)


def _robustness(evidence: Evidence, paper: Evidence, quantity: str) -> Table | None:
    ours = estimates(by_cell(evidence.of("robustness", quantity), along_x=True, component=True))
    if not ours:
        return None
    theirs = by_cell(paper.of("robustness", "mape_M25"), along_x=True, component=True)
    beside = "M5" not in quantity
    deltas = sorted({cell.x or 0.0 for cell in ours})
    rows = []
    for dataset in ordered({c.dataset for c in ours}, DATASETS):
        for component in ordered({c.component for c in ours}, COMPONENTS):
            for score in ordered({c.score for c in ours}, SCORES):
                cells = [CellKey(dataset, "normal", score, component, delta) for delta in deltas]
                found = [ours.get(cell) for cell in cells]
                if not any(found):
                    continue
                paper_values = [_single(theirs.get(c)) if beside else None for c in cells]
                labels = (
                    data_name(dataset).text,
                    name_of(component, COMPONENTS).text,
                    name_of(score, SCORES).text,
                )
                row = list(zip(found, paper_values, strict=True))
                rows.append((labels, mark_best(row, None)))
    return Table(
        name=quantity.replace("mape", "robustness").replace("_", "-"),
        title=f"Robustness, {SETTINGS.get(quantity, quantity)}",
        caption="Mean absolute percentage error of aleatoric and epistemic uncertainty when one "
        "member trained on targets with noise of standard deviation δ joins the ensemble.",
        row_heads=("Data", "Type", "Score"),
        columns=tuple(Name(f"δ = {delta:g}", rf"$\delta={delta:g}$") for delta in deltas),
        rows=tuple(rows),
        number=significant,
        paper_table="MAPE for M = 25" if beside else "",
        notes=(
            "One value of the paper is corrected for a printing error: yacht, aleatoric, SE at "
            "δ = 0.2 is 225, printed as 22.5.",
        )
        if beside and any(labels[0] == "Yacht" for labels, _ in rows)
        else (),
    )


def _grid(
    name: str,
    title: str,
    caption: str,
    ours: Iterable[Record],
    paper: Iterable[Record],
    columns: Mapping[str, Name],
    number: Callable[[float], str],
    *,
    higher_is_better: bool,
    paper_table: str = "",
) -> Table | None:
    """A table of data sets and representations against scores."""
    found = estimates(by_cell(ours))
    if not found:
        return None
    theirs = by_cell(paper)
    scores = ordered({cell.score for cell in found}, columns)
    rows = []
    for dataset in ordered({cell.dataset for cell in found}, DATASETS):
        for method in ordered({c.representation for c in found}, REPRESENTATIONS):
            values: list[Estimate | None] = [found.get(CellKey(dataset, method, s)) for s in scores]
            if not any(values):
                continue
            twin = data_name(dataset).paper
            beside = [_single(theirs.get(CellKey(twin, method, score))) for score in scores]
            labels = (data_name(dataset).text, name_of(method, REPRESENTATIONS).text)
            row = list(zip(values, beside, strict=True))
            rows.append((labels, mark_best(row, higher_is_better)))
    return Table(
        name=name,
        title=title,
        caption=caption,
        row_heads=("Data", "Method"),
        columns=tuple(name_of(score, dict(columns)) for score in scores),
        rows=tuple(rows),
        number=number,
        paper_table=paper_table,
        notes=_notes({cell.dataset for cell in found}, {cell.dataset for cell in theirs}),
    )


def _single(seeds: Mapping[int, float] | None) -> float | None:
    return None if seeds is None else next(iter(seeds.values()))


def _notes(ours: set[str], theirs: set[str]) -> tuple[str, ...]:
    notes = []
    synthetic = [data_name(d) for d in ordered(ours, DATASETS) if data_name(d).synthetic]
    if synthetic:
        names = ", ".join(name.text for name in synthetic)
        notes.append(f"{names}: made here; the paper's value beside it is of the real data.")
    covered = {data_name(dataset).paper for dataset in ours}
    missing = [data_name(d).text for d in ordered(theirs - covered, DATASETS)]
    if missing:
        notes.append(f"In the paper's table, not in this run: {', '.join(missing)}.")
    return tuple(notes)
