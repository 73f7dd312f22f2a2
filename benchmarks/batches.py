"""Which rule makes the best batches to label: ``python -m benchmarks.batches``.

Active learning on UCI tables, 20 labels at first and 20 more in each of five rounds, by the
epistemic uncertainty under the CRPS: its largest values ("top"), drawn ("sampled"), one after the
other ("diverse"), and at random. Ten seeds, which change the split, the first labels and the model;
all rules start from the same. What is finished stands in batches.json and is not run again; the
table goes into docs/tutorials/active-learning.md (``--render``: only that). About ten minutes of
one core.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import cells
from benchmarks.fresh import ROOT
from benchmarks.page import markdown

TABLES = ("yacht", "energy", "concrete", "kin8nm", "power-plant")
LEARNERS = ("network", "forest")
RULES = ("random", "top", "sampled", "diverse")
MOST_ROWS = 1000
LABELS = {"initial": 20, "batch": 20, "rounds": 5}
#: Errors that differ by less count as equal.
TIE = 0.02


def learner(kind: str, seed: int) -> Callable[..., Any]:
    """The function that trains on labelled rows."""
    import kuq

    if kind == "forest":
        from sklearn.ensemble import RandomForestRegressor

        trees = RandomForestRegressor(20, min_samples_leaf=5)  # as in the table of the page
        forest = kuq.sklearn.UncertaintyRegressor(trees, random_state=seed)
        return lambda x, y: forest.fit(x, y)

    def fit(x: Any, y: Any, scaling: Any) -> Any:
        model = kuq.nn.Regressor(
            "normal",
            n_members=5,
            loss="log",  # the networks of the table on the page
            hidden_sizes=(50,),
            input_gain=1.0,
            shape_penalty=0.0,
            max_epochs=250,
            batch_size=200,  # all rows: as many steps in every round
            learning_rate=1e-2,
            annealing=True,
            patience=None,
            plateau=None,
            validation_fraction=0.0,
            restore_best=False,
            seed=seed,
        )
        return model.fit(x, y, scaling=scaling)

    return fit


def curves(name: str, kind: str, seed: int, data_dir: str | None) -> dict[str, list[float]]:
    """The root mean squared error on rows outside of the pool after every round, for each rule."""
    import kuq

    data = kuq.datasets.load(name, data_dir=data_dir)
    splits = (data.train, data.validation, data.test)
    x, y = (np.concatenate([getattr(split, k) for split in splits]) for k in ("x", "y"))
    rows = np.random.default_rng(seed).permutation(len(x))[:MOST_ROWS]
    pool, test = np.split(rows, [round(0.7 * len(rows))])
    errors = {}
    for rule in RULES:
        how = {"score": None} if rule == "random" else {"score": "crps", "batch_method": rule}
        steps = kuq.protocols.active_learning(
            learner(kind, seed), x[pool], y[pool], x[test], y[test], seed=seed, **LABELS, **how
        )
        errors[rule] = [round(float(np.sqrt(step.error)), 5) for step in steps]
    return errors


def logarithms(results: dict[str, Any], name: str, kind: str) -> dict[str, np.ndarray]:
    """Of the error, as a mean over the rounds that a rule has chosen for, by seed."""
    by_seed = [results[key] for key in sorted(results) if key.split(" ")[::2] == [name, kind]]
    return {rule: np.array([np.mean(np.log(cell[rule][1:])) for cell in by_seed]) for rule in RULES}


def ratio(first: np.ndarray, second: np.ndarray) -> tuple[str, str]:
    """How many times as large an error is as another, with its interval, and the verdict."""
    import kuq

    paired = kuq.protocols.paired_difference(first, second, tie=TIE)
    middle, low, high = np.exp([paired.difference, *paired.interval])
    return f"{middle:.2f} ({low:.2f} to {high:.2f})", paired.verdict


def rendered(results: dict[str, Any]) -> str:
    """The table in Markdown, and how often each rule is better, worse or the same."""
    others = RULES[1:]
    head = ("table", "learner", *(f"{rule} / random" for rule in others), "diverse / top")
    lines = []
    verdicts: dict[str, list[str]] = {column: [] for column in head[2:]}
    for kind in LEARNERS:
        for name in TABLES:
            by_rule = logarithms(results, name, kind)
            pairs = [(by_rule[rule], by_rule["random"]) for rule in others]
            pairs.append((by_rule["diverse"], by_rule["top"]))
            shown = []
            for column, pair in zip(head[2:], pairs, strict=True):
                text, verdict = ratio(*pair)
                shown.append(f"**{text}**" if verdict in ("lower", "higher") else text)
                verdicts[column].append(verdict)
            lines.append([name, kind, *shown])
    said = [
        f"- {column}: lower error in {cases.count('lower')}, higher in {cases.count('higher')}, "
        f"a tie in {cases.count('tie')}, undecided in {cases.count('undecided')} of {len(cases)}"
        for column, cases in verdicts.items()
    ]
    return "\n".join([markdown(head, lines, 2), "", *said])


STUDY = cells.Study(
    "batches",
    __doc__ or "",
    Path(__file__).parent / "batches.json",
    ROOT / "docs" / "tutorials" / "active-learning.md",
    rendered,
)


def main(arguments: list[str] | None = None) -> int:
    return STUDY.command(
        lambda options: {
            f"{name} {seed} {kind}": partial(curves, name, kind, seed, options.data_dir)
            for seed in range(options.seeds)
            for name in TABLES
            for kind in LEARNERS
        },
        arguments,
        seeds=10,
    )


if __name__ == "__main__":
    sys.exit(main())
