"""Whether ``kuq.select_score`` keeps its word on real tables: ``python -m benchmarks.selection``.

Small ensembles are trained on UCI tables. Of the rows that they have not seen one half chooses a
score, and the other half judges it: is it worse than the usual one beyond the interval, and is a
better one found where there is one? The fifth of the rows furthest along a random direction is left
out of training and of both halves, and is what detection has to find. As a control outcomes are
made whose errors have nothing to do with any uncertainty, and such that are largest where the
uncertainty is smallest. What is finished stands in selection.json and is not run again; the table
goes into docs/howto/judge.md (``--render``: only that). About 15 minutes of one core.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import cells
from benchmarks.fresh import ROOT
from benchmarks.page import markdown

TABLES = ("yacht", "energy", "concrete", "kin8nm", "power-plant")
REPRESENTATIONS = ("normal", "mixture", "sampler", "forest")
TASKS = ("ranking", "detection", "acquisition")
#: Ranking with other outcomes.
CONTROLS = {
    "unrelated": "errors that have nothing to do with the uncertainty",
    "contrary": "errors that are largest where the uncertainty is smallest",
}
#: What ``select_score`` takes of scalars unless another score is better beyond noise.
USUAL = "crps"
MOST_ROWS = 2000


def rows_of(name: str, data_dir: str | None, split: int) -> dict[str, tuple[Any, Any]]:
    """Inputs and outcomes to train on, to choose on, to judge on, and outside."""
    import kuq

    data = kuq.datasets.load(name, data_dir=data_dir)
    subsets = (data.train, data.validation, data.test)
    x, y = (np.concatenate([getattr(subset, k) for subset in subsets]) for k in ("x", "y"))
    rng = np.random.default_rng(split)
    chosen = rng.permutation(len(x))[:MOST_ROWS]
    along = x[chosen] @ rng.normal(size=x.shape[1])
    outside = along > np.quantile(along, 0.8)
    inside = chosen[~outside]
    half = len(inside) // 2
    train, choose, judge = np.split(inside, [half, half + (len(inside) - half) // 2])
    places = {"train": train, "choose": choose, "judge": judge, "outside": chosen[outside]}
    return {use: (x[rows], y[rows]) for use, rows in places.items()}


def fitted(representation: str, x: Any, y: Any, seed: int) -> Any:
    import kuq

    if representation == "forest":
        from sklearn.ensemble import RandomForestRegressor

        forest = RandomForestRegressor(20, min_samples_leaf=5)  # as in the table of the page
        model = kuq.sklearn.UncertaintyRegressor(forest, random_state=seed)
        return model.fit(x, y)
    return kuq.nn.Regressor(
        representation,
        n_members=5,
        # the networks of the table on the page
        loss="log" if representation == "normal" else None,
        n_samples=50,
        hidden_sizes=(50,),
        input_gain=1.0,
        shape_penalty=0.0,
        clipped_squares=False,
        max_epochs=int(np.clip(20_000 / len(x), 25, 80)),
        batch_size=32,
        learning_rate=5e-3,
        annealing=True,
        patience=None,
        plateau=None,
        validation_fraction=0.0,
        restore_best=False,
        seed=seed,
    ).fit(x, y)


def judged(name: str, representation: str, split: int, data_dir: str | None) -> dict[str, Any]:
    """For every task: what is chosen on one half, and what it gains on the other."""
    import kuq

    rows = rows_of(name, data_dir, split)
    model = fitted(representation, *rows["train"], split)
    law = {use: model.predict_distribution(x) for use, (x, _) in rows.items() if use != "train"}
    halves = ("choose", "judge")
    y = {half: rows[half][1] for half in halves}
    # Cases outside choose and judge as those inside do: one half each.
    beyond = {
        half: model.predict_distribution(rows["outside"][0][start::2])
        for start, half in enumerate(halves)
    }
    asked: dict[str, dict[str, dict[str, Any]]] = {
        "ranking": {half: {"y": y[half]} for half in halves},
        "detection": {half: {"task": "detection", "outside": beyond[half]} for half in halves},
        "acquisition": {
            half: {"task": "acquisition", "y": y[half], "resamples": 50} for half in halves
        },
    }
    results = {}
    for task, given in asked.items():
        chosen, there = (kuq.select_score(law[half], **given[half]) for half in halves)
        gain, interval = 0.0, (0.0, 0.0)
        if chosen.name != USUAL:  # the interval of this pair alone, which is the narrower one
            pair = [USUAL, chosen.name]
            row = kuq.select_score(law["judge"], **given["judge"], candidates=pair).table[1]
            gain, interval = row.gain, row.gain_interval
        # Errors have units: shares of that of the usual score.
        size = there.table[0].value if task == "acquisition" else 1.0
        best = max(there.table, key=lambda row: row.gain)
        # What no choice can beat: a test of the one that the judges found, and of no other.
        pair = [USUAL, there.name]
        alone = (
            there.name == USUAL
            or kuq.select_score(law["choose"], **given["choose"], candidates=pair).name
            == there.name
        )
        results[task] = {
            "chosen": chosen.name,
            "cases": chosen.cases,
            "usual": round(there.table[0].value, 5),
            **{
                key: round(value / size, 5)
                for key, value in (("gain", gain), ("low", interval[0]), ("high", interval[1]))
            },
            "judges_choose": there.name,
            "alone": alone,
            "best": best.name,
            "best_gain": round(best.gain / size, 5),
        }
    rng = np.random.default_rng(split)
    for task in CONTROLS:
        outcomes = control(task, law["choose"], y["choose"], rng)
        results[task] = {"chosen": kuq.select_score(law["choose"], outcomes).name}
    return results


def control(task: str, law: Any, y: Any, rng: np.random.Generator) -> Any:
    """Outcomes with the errors at other cases: any, or the largest where uncertainty is least."""
    import kuq

    mean = np.asarray(law.mean())
    errors = y - mean
    if task == "unrelated":
        return mean + rng.permutation(errors)
    certain_first = np.argsort(np.asarray(kuq.decompose(law, "crps").total))
    placed = np.empty_like(errors)
    placed[certain_first] = errors[np.argsort(-np.abs(errors))]
    return mean + placed


def of_task(results: dict[str, Any], task: str, representation: str) -> list[dict[str, Any]]:
    """What came out over tables and splits."""
    runs = (cell for key, cell in results.items() if key.split(" ")[2] == representation)
    return [cell[task] for cell in runs]


def counted(rows: list[dict[str, Any]]) -> list[str]:
    """Choices, and what became of them on the half that judges."""
    other = [row for row in rows if row["chosen"] != USUAL]
    exists = [row for row in rows if row["judges_choose"] != USUAL]
    gained = [row for row in exists if row["chosen"] != USUAL and row["gain"] > 0]
    gains = [row["gain"] for row in other]
    alone = [row for row in exists if row["alone"]]
    missed = [row["best_gain"] for row in exists if row not in gained]
    return [
        str(len(rows)),
        str(len(other)),
        f"{np.mean(gains):+.3f}" if gains else "",
        str(sum(row["low"] > 0 for row in other)),
        str(sum(row["high"] < 0 for row in other)),
        f"{len(gained)} of {len(exists)}",
        str(len(alone)),
        f"{np.mean(missed):.3f}" if missed else "",
    ]


def rendered(results: dict[str, Any]) -> str:
    """The table in Markdown, and what the controls gave."""
    head = ("task", "predictions", "choices", "not the usual score", "their mean gain")
    head = (*head, "better", "worse", "found where judges choose another")
    head = (*head, "if tested alone", "mean gain missed")
    lines = []
    for task in TASKS:
        for representation in REPRESENTATIONS:
            rows = of_task(results, task, representation)
            lines.append([task, representation, *counted(rows)])
    said = []
    for task, words in CONTROLS.items():
        every = [row for which in REPRESENTATIONS for row in of_task(results, task, which)]
        usual = sum(row["chosen"] == USUAL for row in every)
        said.append(f"- {words}: the usual score in {usual} of {len(every)} cases")
    return "\n".join([markdown(head, lines, 2), "", "Controls:", "", *said])


STUDY = cells.Study(
    "selection",
    __doc__ or "",
    Path(__file__).parent / "selection.json",
    ROOT / "docs" / "howto" / "judge.md",
    rendered,
)


def main(arguments: list[str] | None = None) -> int:
    return STUDY.command(
        lambda options: {
            f"{name} {split} {which}": partial(judged, name, which, split, options.data_dir)
            for split in range(options.splits)
            for name in TABLES
            for which in REPRESENTATIONS
        },
        arguments,
        splits=4,
    )


if __name__ == "__main__":
    sys.exit(main())
