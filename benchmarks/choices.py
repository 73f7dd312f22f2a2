"""What normals are trained by, and whether layers are normalised: ``python -m benchmarks.choices``.

Splits 5 and 6 of the tables of benchmarks.models, which are not in its table, and of diabetes,
where noise is large; five members. The table goes into docs/models.md, the numbers into
choices.json
(``--render``: only the table). About seven minutes of one core; KUQ_DATA names the folder with the
tables.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import cells, models
from benchmarks.fresh import ROOT
from benchmarks.page import markdown

#: Settings by what the table calls them.
CANDIDATES: dict[str, dict[str, str]] = {
    "log score": {"loss": "log", "norm": "none"},
    "log score, normalised": {"loss": "log", "norm": "layer"},
    "CRPS": {"loss": "crps", "norm": "none"},
    "CRPS, normalised": {"loss": "crps", "norm": "layer"},
}
SPLITS = {
    "concrete": (5, 6),
    "energy": (5, 6),
    "yacht": (5, 6),
    "diabetes": (5, 6),
    "kin8nm": (5,),
    "power-plant": (5,),
    "protein-tertiary-structure": (5,),
}


def table(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    if name != "diabetes":
        return models.table(name, folder)
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    return np.asarray(x), np.asarray(y)


def cell(name: str, split: int, candidate: str, folder: Path) -> dict[str, float]:
    """CRPS, log score and error of the mean on test rows, in units of the target."""
    import kuq

    x, y = table(name, folder)
    train, test = models.gal_split(len(x), split)
    model = models.regressor("normal", split).set_params(**CANDIDATES[candidate])
    model.fit(x[train], y[train])
    found = []
    for rows in np.array_split(test, -(-len(test) // 250)):
        law = model.predict_distribution(x[rows])
        scores = [np.asarray(kuq.score(law, y[rows], score)) for score in ("crps", "log")]
        found.append(np.stack([*scores, (model.predict(x[rows]) - y[rows]) ** 2]))
    crps, log, square = np.concatenate(found, axis=1).mean(1)
    values = {"crps": crps, "log": log, "rmse": np.sqrt(square)}
    return {key: round(float(value), 5) for key, value in values.items()}


def rendered(results: dict[str, Any]) -> str:
    lines = []
    for name, splits in SPLITS.items():
        for split in splits:
            own = [results[f"{name} {split} {candidate}"] for candidate in CANDIDATES]
            shown = [f"{c['crps']:.3g}, {c['rmse']:.3g}, {c['log']:.2f}" for c in own]
            lines.append([name, str(split), *shown])
    return markdown(["", "split", *CANDIDATES], lines, 2)


STUDY = cells.Study(
    "choices",
    __doc__ or "",
    Path(__file__).parent / "choices.json",
    ROOT / "docs" / "models.md",
    rendered,
)


def main(arguments: list[str] | None = None) -> int:
    folder = Path(os.environ.get("KUQ_DATA", "."))
    asked = {
        f"{name} {split} {candidate}": partial(cell, name, split, candidate, folder)
        for name, splits in SPLITS.items()
        for split in splits
        for candidate in CANDIDATES
    }
    return STUDY.command(lambda options: asked, arguments)


if __name__ == "__main__":
    sys.exit(main())
