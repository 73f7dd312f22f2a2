"""The paper's tables of results, filled with ours and with its own values beside them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from kuq_study.estimates import (
    UNLIMITED,
    CellKey,
    Estimate,
    Evidence,
    Limits,
    by_cell,
    estimates,
    final_values,
    with_bounds,
)
from kuq_study.paper import paper_records
from kuq_study.records import Record
from kuq_study.table import Table, decimals, mark_best, significant
from kuq_study.vocabulary import (
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

_TRAINING = {
    "appendix": "trained as the appendix says (early stopping)",
    "overfitted": "trained without early stopping (over-confident)",
}
_POSITIVE, _SHARE = (0.0, math.inf), (0.0, 1.0)
#: Further ways to detect, with title and caption.
_DETECTIONS = {
    "auroc_grouped": (
        "by groups",
        "Whole trajectories and years, each judged by the mean of its rows.",
    ),
    "auroc_late": (
        "without the transient",
        "Single steps, without those of the first frames, where all initial noise looks alike.",
    ),
    "auroc_grouped_late": (
        "by groups, without the transient",
        "Whole trajectories, each judged by the mean of its steps, without those of the first "
        "frames.",
    ),
    "auroc_shared_climatology": (
        "shared climatology",
        "Reanalysis with the climate of Europe removed from both regions, so that the twin also "
        "shows that it lies elsewhere.",
    ),
}
_FORECASTS = {
    "mse": "networks",
    "mse_climatology": "climatology",
    "mse_persistence": "persistence",
    "mse_damped_anomaly": "damped anomaly",
    "mse_principal_components": "principal components",
}
_SETTING = re.compile(r"mape_M(\d+)_(\w+)")


def robustness_settings(evidence: Evidence) -> list[str]:
    """The quantities of robustness that a run has: by training, then by number of members."""
    quantities = {q for q in evidence.quantities("robustness") if q.startswith("mape")}

    def order(quantity: str) -> tuple[str, int]:
        match = _SETTING.fullmatch(quantity)
        return (match[2], -int(match[1])) if match else (quantity, 0)

    return sorted(quantities, key=order)


def setting_name(quantity: str) -> str:
    """A setting of robustness in words.

    >>> setting_name("mape_M25_appendix")
    '25 members, trained as the appendix says (early stopping)'
    """
    match = _SETTING.fullmatch(quantity)
    if match is None:
        return quantity
    return f"{match[1]} members, {_TRAINING.get(match[2], match[2])}"


def is_of_the_paper(quantity: str) -> bool:
    """Whether a setting has the number of members of the paper's table, 25."""
    return quantity.startswith("mape_M25")


def result_tables(evidence: Evidence) -> list[Table]:
    """Robustness, selective prediction, OOD detection and active learning, where there are data."""
    paper = Evidence(paper_records() if evidence.measured else ())
    tables = [_robustness(evidence, paper, quantity) for quantity in robustness_settings(evidence)]
    tables += [
        _with_errors(
            _grid(
                "selective-prediction",
                "Selective prediction",
                "Prediction-rejection ratio over retentions from 0.5 to 1 by total uncertainty; "
                "lower is better, 0 is the oracle, 1 random rejection. Beside it the mean squared "
                "error of all predictions, since the ratio follows the degree of training.",
                evidence.single("selective_prediction", "prr", "total"),
                paper.of("selective_prediction", "prr", "total"),
                SCORES,
                significant,
                higher_is_better=False,
                paper_table="PRR for all data sets",
                limits=_POSITIVE,
            ),
            evidence,
        ),
        _differences(evidence),
        _grid(
            "test-error",
            "Test error",
            "Mean squared error of the mean prediction behind selective prediction: what the "
            "models can do at all. Tables are standardised; functions and images have their own "
            "units.",
            evidence.single("selective_prediction", "mse"),
            (),
            {"": Name("MSE", "MSE")},
            significant,
            higher_is_better=False,
            limits=_POSITIVE,
        ),
        _grid(
            "ood-detection",
            "Out-of-distribution detection",
            "AUROC by epistemic uncertainty; higher is better. Intervals are bootstrap, by whole "
            "trajectories and years where rows are of these, and averaged over seeds.",
            evidence.single("ood_detection", "auroc", "epistemic"),
            paper.of("ood_detection", "auroc", "epistemic"),
            SCORES,
            decimals(4),
            higher_is_better=True,
            paper_table="AUROC for all data sets",
            limits=_SHARE,
            bounds=_bounds(evidence, "auroc"),
        ),
        *(
            _grid(
                f"ood-{quantity.removeprefix('auroc_').replace('_', '-')}",
                f"Out-of-distribution detection, {title}",
                f"AUROC by epistemic uncertainty; higher is better. {caption}",
                evidence.single("ood_detection", quantity, "epistemic"),
                (),
                SCORES,
                decimals(4),
                higher_is_better=True,
                limits=_SHARE,
                bounds=_bounds(evidence, quantity),
            )
            for quantity, (title, caption) in _DETECTIONS.items()
        ),
        _two_bandwidths(evidence),
        _skill(evidence),
        _grid(
            "ood-precision",
            "Out-of-distribution detection, average precision",
            "AUPR by epistemic uncertainty, equal numbers inside and outside; higher is better.",
            evidence.single("ood_detection", "aupr", "epistemic"),
            (),
            SCORES,
            decimals(4),
            higher_is_better=True,
            limits=_SHARE,
        ),
        _grid(
            "ood-false-alarms",
            "Out-of-distribution detection, false alarms",
            "Share of inside cases that are flagged when 95 % of the outside ones are; lower is "
            "better.",
            evidence.single("ood_detection", "fpr95", "epistemic"),
            (),
            SCORES,
            decimals(4),
            higher_is_better=False,
            limits=_SHARE,
        ),
        *(
            table
            for quantity in learning_settings(evidence)
            for table in (
                _active_learning(evidence, paper, quantity),
                _against_random(evidence, quantity),
            )
        ),
        _bandwidths(evidence),
    ]
    return [table for table in tables if table is not None]


def learning_settings(evidence: Evidence) -> list[str]:
    """The quantities of active learning that a run has, the paper's setting first."""
    return sorted(q for q in evidence.quantities("active_learning") if re.match("mse(_|$)", q))


def learning_name(quantity: str) -> str:
    """A setting of active learning in words.

    >>> learning_name("mse"), learning_name("mse_trained")
    ('Active learning', 'Active learning, setting "trained"')
    """
    setting = quantity.removeprefix("mse").removeprefix("_")
    return "Active learning" + (f', setting "{setting}"' if setting else "")


def _active_learning(evidence: Evidence, paper: Evidence, quantity: str) -> Table | None:
    return _grid(
        quantity.replace("mse", "active-learning").replace("_", "-"),
        learning_name(quantity),
        "Mean squared error on the test set after the last round; lower is better.",
        final_values(evidence.of("active_learning", quantity)),
        paper.of("active_learning", quantity),
        {**SCORES, **RANDOM},
        significant,
        higher_is_better=False,
        paper_table="final test loss",
        limits=_POSITIVE,
    )


def _against_random(evidence: Evidence, quantity: str) -> Table | None:
    """Errors of a seed divided by that of random acquisition from the same first labels."""
    table = by_cell(final_values(evidence.of("active_learning", quantity)))
    ratios = {}
    for cell, seeds in table.items():
        chance = table.get(replace(cell, score="random"), {})
        by_seed = {seed: value / chance[seed] for seed, value in seeds.items() if chance.get(seed)}
        if cell.score != "random" and by_seed:
            ratios[cell] = by_seed
    return _grid(
        quantity.replace("mse", "active-learning-against-random").replace("_", "-"),
        f"{learning_name(quantity)}: against random acquisition",
        "Test error after the last round, divided by that of random acquisition with the same "
        "seed; geometric mean over seeds. Below 1 it is worth asking the uncertainty.",
        estimates(ratios, factors=True),
        (),
        SCORES,
        decimals(3),
        higher_is_better=False,
    )


def _robustness(evidence: Evidence, paper: Evidence, quantity: str) -> Table | None:
    records = evidence.of("robustness", quantity)
    ours = estimates(by_cell(records, along_x=True, component=True), factors=True)
    if not ours:
        return None
    theirs = by_cell(paper.of("robustness", "mape_M25"), along_x=True, component=True)
    beside = is_of_the_paper(quantity) and bool(theirs)
    deltas = sorted({cell.x or 0.0 for cell in ours})
    rows = []
    for dataset in ordered({c.dataset for c in ours}, DATASETS):
        for component in ordered({c.component for c in ours}, COMPONENTS):
            for score in ordered({c.score for c in ours}, SCORES):
                cells = [CellKey(dataset, "normal", score, component, delta) for delta in deltas]
                our_values = [ours.get(cell) for cell in cells]
                if not any(our_values):
                    continue
                paper_values = [_single(theirs.get(c)) if beside else None for c in cells]
                labels = (
                    data_name(dataset).text,
                    name_of(component, COMPONENTS).text,
                    name_of(score, SCORES).text,
                )
                row = list(zip(our_values, paper_values, strict=True))
                rows.append((labels, mark_best(row, None)))
    return Table(
        name=quantity.replace("mape", "robustness").replace("_", "-"),
        title=f"Robustness, {setting_name(quantity)}",
        caption="Mean absolute percentage error of aleatoric and epistemic uncertainty when one "
        "member trained on targets with noise of standard deviation δ joins the ensemble; "
        "geometric mean over seeds, since they differ by factors.",
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
    ours: Iterable[Record] | Mapping[CellKey, Estimate],
    paper: Iterable[Record],
    columns: Mapping[str, Name],
    number: Callable[[float], str],
    *,
    higher_is_better: bool | None,
    paper_table: str = "",
    bounds: tuple[Iterable[Record], Iterable[Record]] = ((), ()),
    limits: Limits = UNLIMITED,
) -> Table | None:
    """A table of data sets and representations against scores.

    ``bounds`` are intervals of single values, such as bootstrap, in place of those over seeds.
    ``limits`` are those of the quantity, beyond which no interval needs to go.
    """
    means = ours if isinstance(ours, Mapping) else estimates(by_cell(ours), limits=limits)
    shown = with_bounds(means, *(by_cell(ends) for ends in bounds))
    if not shown:
        return None
    theirs = by_cell(paper)
    scores = ordered({cell.score for cell in shown}, columns)
    rows = []
    for dataset in ordered({cell.dataset for cell in shown}, DATASETS):
        for method in ordered({c.representation for c in shown}, REPRESENTATIONS):
            values: list[Estimate | None] = [shown.get(CellKey(dataset, method, s)) for s in scores]
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
        paper_table=paper_table if theirs else "",
        notes=_notes({cell.dataset for cell in shown}, {cell.dataset for cell in theirs}),
    )


def _bounds(evidence: Evidence, quantity: str) -> tuple[list[Record], list[Record]]:
    low, high = (
        evidence.single("ood_detection", f"{quantity}_{end}", "epistemic")
        for end in ("low", "high")
    )
    return low, high


def _with_errors(table: Table | None, evidence: Evidence) -> Table | None:
    """A table of selective prediction with the mean squared error as its first column."""
    if table is None:
        return None
    mse = by_cell(evidence.single("selective_prediction", "mse"))
    errors = {
        (data_name(c.dataset).text, name_of(c.representation, REPRESENTATIONS).text): e
        for c, e in estimates(mse, limits=_POSITIVE).items()
    }
    if not errors:
        return table
    rows = tuple(
        (labels, (*mark_best([(errors.get((labels[0], labels[1])), None)], None), *entries))
        for labels, entries in table.rows
    )
    return replace(table, columns=(Name("MSE", "MSE"), *table.columns), rows=rows)


def _differences(evidence: Evidence) -> Table | None:
    """Ratios of every score minus those of the CRPS on the same split."""
    table = by_cell(evidence.single("selective_prediction", "prr", "total"))
    gaps = {}
    for cell, seeds in table.items():
        base = table.get(replace(cell, score="crps"), {})
        by_seed = {seed: value - base[seed] for seed, value in seeds.items() if seed in base}
        if cell.score != "crps" and by_seed:
            gaps[cell] = by_seed
    return _grid(
        "selective-prediction-differences",
        "Selective prediction: paired differences",
        "Prediction-rejection ratio minus that of the CRPS on the same split, mean over splits; "
        "below zero is better than the CRPS, and less than 0.01 is a tie.",
        estimates(gaps),
        (),
        SCORES,
        decimals(3),
        higher_is_better=None,
    )


def _two_bandwidths(evidence: Evidence) -> Table | None:
    """Detection by the Gaussian kernel of both bandwidths."""
    columns = {"auroc": "of targets", "auroc_other_bandwidth": "of members"}
    ours = {
        replace(cell, score=title): value
        for quantity, title in columns.items()
        for cell, value in estimates(
            by_cell(evidence.single("ood_detection", quantity, "epistemic")), limits=_SHARE
        ).items()
        if cell.score == "gaussian"
    }
    both = {(c.dataset, c.representation) for c in ours if c.score == "of members"}
    return _grid(
        "ood-two-bandwidths",
        "Out-of-distribution detection, two bandwidths",
        "AUROC by epistemic uncertainty under the Gaussian kernel, whose bandwidth is the median "
        "distance between training targets or that between outcomes of two members.",
        {c: e for c, e in ours.items() if (c.dataset, c.representation) in both},
        (),
        {title: Name(title, title) for title in columns.values()},
        decimals(4),
        higher_is_better=True,
    )


def _skill(evidence: Evidence) -> Table | None:
    """Errors of networks on the reanalysis beside forecasts that need none."""
    ours = {
        replace(cell, score=title): value
        for quantity, title in _FORECASTS.items()
        for cell, value in estimates(by_cell(evidence.single("ood_detection", quantity))).items()
    }
    there = {c.dataset for c in ours if c.score == _FORECASTS["mse_climatology"]}
    return _grid(
        "reanalysis-skill",
        "Reanalysis, skill on held-out years",
        "Mean squared error of the forecast of next month's temperature, in K²: what networks have "
        "to beat.",
        {c: e for c, e in ours.items() if c.dataset in there},
        (),
        {title: Name(title, title) for title in _FORECASTS.values()},
        decimals(2),
        higher_is_better=False,
    )


def _bandwidths(evidence: Evidence) -> Table | None:
    """The bandwidths of the Gaussian kernel, by experiment: they decide some outcomes."""
    columns = {
        name: estimates(by_cell(evidence.single(name, "bandwidth")))
        for name in ("selective_prediction", "ood_detection", "active_learning")
    }
    columns = {name: column for name, column in columns.items() if column}
    cells = {(c.dataset, c.representation) for column in columns.values() for c in column}
    rows = []
    for dataset in ordered({d for d, _ in cells}, DATASETS):
        for method in ordered({m for d, m in cells if d == dataset}, REPRESENTATIONS):
            key = CellKey(dataset, method, "gaussian")
            row: list[tuple[Estimate | None, float | None]] = [
                (column.get(key), None) for column in columns.values()
            ]
            labels = (data_name(dataset).text, name_of(method, REPRESENTATIONS).text)
            rows.append((labels, mark_best(row, None)))
    if not rows:
        return None
    return Table(
        name="bandwidths",
        title="Bandwidths of the Gaussian kernel",
        caption="Mean over seeds. Targets of tables are standardised; functions and images have "
        "units of their own, and their distances count all points.",
        row_heads=("Data", "Method"),
        columns=tuple(name_of(name.replace("_", " "), {}) for name in columns),
        rows=tuple(rows),
        number=significant,
    )


def _single(seeds: Mapping[int, float] | None) -> float | None:
    return None if seeds is None else next(iter(seeds.values()))


def _notes(ours: set[str], theirs: set[str]) -> tuple[str, ...]:
    notes = []
    synthetic = [data_name(d) for d in ordered(ours, DATASETS) if data_name(d).synthetic]
    if synthetic:
        names = ", ".join(name.text for name in synthetic)
        beside = "; the paper's value beside it is of the real data" if theirs else ""
        notes.append(f"{names}: made here{beside}.")
    covered = {data_name(dataset).paper for dataset in ours}
    missing = [data_name(d).text for d in ordered(theirs - covered, DATASETS)]
    if missing:
        notes.append(f"In the paper's table, not in this run: {', '.join(missing)}.")
    return tuple(notes)
