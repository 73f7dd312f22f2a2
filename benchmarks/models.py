"""How well kuq's networks predict, with their defaults, beside published results.

python -m benchmarks.models [--sets …] [--representations …] [--splits 5] [--data-dir FOLDER]

Six tables of UCI in the 90/10 splits of Gal and Ghahramani (2016), five members, nothing tuned.
What is finished stands in models.json and is not run again while the defaults are the same; the
table of docs/models.md is made from it (``--render``: only that).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import cells
from benchmarks.fresh import ROOT, limit_threads
from benchmarks.page import markdown
from benchmarks.published import ENSEMBLE, PUBLISHED

STORE = Path(__file__).parent / "models.json"
PAGE = ROOT / "docs" / "models.md"
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
REPRESENTATIONS = ("normal", "mixture", "sampler", "flow", "evidential")
MEMBERS, DRAWS = 5, 200
#: The rows as the collection of Gal and Ghahramani has them: the numbers in that order, in SHA-256.
ORDER = {
    "concrete": "d0e2d2f0f50277624d7d00b98c4e8b66",
    "energy": "3563209cb65c108b72e6ee45f56f12e5",
    "kin8nm": "7fad37438fc1228ed099177766b084fb",
    "power-plant": "d3c75624ea5df1256c9b8e81560e1f93",
    "protein-tertiary-structure": "19667c545027b658fa8b2fa3620154e7",
    "yacht": "ec08588637fd93582116a1ead33f0c1e",
}


def gal_split(rows: int, split: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and to test on, as ``split_data_train_test.py`` of that collection draws."""
    stream = np.random.RandomState(1)
    for _ in range(split + 1):
        order = stream.choice(range(rows), rows, replace=False)
    end = round(rows * 9.0 / 10)
    return order[:end], order[end:]


def table(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets in the order that the splits are for."""
    from kuq.datasets import table_files

    paths = (folder / f"{name}.csv.gz", folder / "uci" / f"{name}.csv.gz")
    path = next((path for path in paths if path.is_file()), paths[0])
    numbers = table_files.read(path)
    if digest(numbers) != ORDER[name]:
        raise SystemExit(f"{path}: the rows are not those of the collection, or in another order")
    return numbers[:, :-1], numbers[:, -1]


def digest(numbers: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(numbers, "<f8").tobytes()).hexdigest()[:32]


def regressor(representation: str, split: int) -> Any:
    """The model with its defaults; only how many members and draws are scored is fixed."""
    import kuq

    return kuq.nn.Regressor(representation, n_members=MEMBERS, n_samples=DRAWS, seed=split)


def settings(representation: str) -> str:
    """A digest of everything that a cell depends on beside the data.

    Settings that are left to the representation are seen in its network and its score.
    """
    import torch

    from kuq.nn.checkpoints import TRAINING
    from kuq.nn.representations import REPRESENTATIONS as HEADS

    foreign = {name for _, names in HEADS.values() for name in names}
    foreign -= set(HEADS[representation][1])
    model = regressor(representation, 0)
    given = model.get_params(deep=False)
    few, many = (model._network((3,), (), rows) for rows in (0, 10**5))
    facts = sorted(item for item in given.items() if item[0] not in foreign)
    facts += [("networks", (few, many)), ("score", few.head.default_score(torch.zeros(2)))]
    facts.append(("training", TRAINING))
    return hashlib.sha256(json.dumps(facts, default=repr).encode()).hexdigest()[:12]


def cell(x: np.ndarray, y: np.ndarray, split: int, representation: str) -> dict[str, Any]:
    """Test CRPS and error of the ensemble, and the mean CRPS of its members, in units of y."""
    import kuq

    train, test = gal_split(len(x), split)
    started = time.process_time()
    model = regressor(representation, split).fit(x[train], y[train])
    seconds = time.process_time() - started
    chunks = []
    for rows in np.array_split(test, -(-len(test) // 250)):
        law = model.predict_distribution(x[rows])
        together = np.asarray(kuq.score(law, y[rows], "crps"))
        # The members of an evidential law are draws, not networks.
        alone = np.full_like(together, np.nan)
        if representation != "evidential":
            alone = np.asarray(kuq.score(law.members, y[rows], "crps")).mean(0)
        chunks.append(np.stack([together, alone, (model.predict(x[rows]) - y[rows]) ** 2]))
    crps, single, square = np.concatenate(chunks, axis=1).mean(1)
    return {
        "crps": round(float(crps), 6),
        "single": None if np.isnan(single) else round(float(single), 6),
        "rmse": round(float(np.sqrt(square)), 6),
        "kept": int(model.history_.kept_epoch.min()),
        "cpu_s": round(seconds, 1),
        "settings": settings(representation),
    }


def stored() -> dict[str, Any]:
    return cells.stored(STORE)


def run(sets: list[str], representations: list[str], splits: int, folder: Path) -> None:
    """Every cell that is not there yet, split by split, so that all sets get their first one."""
    for split in range(splits):
        for name in sets:
            x, y = table(name, folder)
            for representation in representations:
                key = f"{name} {split} {representation}"
                if stored().get(key, {}).get("settings") == settings(representation):
                    continue
                result = cell(x, y, split, representation)
                print(key, result, flush=True)
                cells.keep(stored() | {key: result}, STORE)


def of_table(results: dict[str, Any], name: str, representation: str) -> dict[int, dict[str, Any]]:
    """The cells of a table and a representation, by split."""
    by_split = {}
    for key, values in results.items():
        dataset, split, which = key.split(" ")
        if (dataset, which) == (name, representation):
            by_split[int(split)] = values
    return by_split


def ratio(by_split: dict[int, dict[str, Any]], name: str) -> float:
    """The ensemble's CRPS over the published one in the same splits."""
    ours = np.mean([values["crps"] for values in by_split.values()])
    return float(ours / np.mean([ENSEMBLE[name][split] for split in by_split]))


def rendered(results: dict[str, Any]) -> str:
    """The tables in Markdown: cells that were not run are empty."""
    head = ["", "published, all splits", *REPRESENTATIONS]
    lines = []
    ratios: dict[str, dict[str, float]] = {which: {} for which in REPRESENTATIONS}
    for name, (single, ensemble) in PUBLISHED.items():
        line = [name, f"{single:.4g} / {ensemble:.4g}"]
        for which in REPRESENTATIONS:
            by_split = of_table(results, name, which)
            line.append(_shown(by_split, name) if by_split else "")
            if by_split:
                ratios[which][name] = ratio(by_split, name)
        lines.append(line)
    said = [
        f"{which}: at or below on {sum(r <= 1 for r in by_set.values())} of {len(by_set)} tables, "
        f"at most {max(by_set.values()):.2f} times ({max(by_set, key=lambda name: by_set[name])})"
        for which, by_set in ratios.items()
        if by_set
    ]
    table = markdown(head, lines, len(head))
    return table + "\n\nOver the published ensemble in the same splits:\n\n- " + "\n- ".join(said)


def _shown(by_split: dict[int, dict[str, Any]], name: str) -> str:
    ours = np.mean([values["crps"] for values in by_split.values()])
    alone = [values["single"] for values in by_split.values()]
    before = "" if None in alone else f"{np.mean(alone):.4g} / "
    return f"{before}{ours:.4g} ({ratio(by_split, name):.2f}, n={len(by_split)})"


def render() -> None:
    cells.put_between(PAGE, BEGIN, END, rendered(stored()))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.models",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sets", nargs="+", choices=list(ORDER), default=list(ORDER))
    parser.add_argument(
        "--representations", nargs="+", choices=REPRESENTATIONS, default=list(REPRESENTATIONS)
    )
    parser.add_argument("--splits", type=int, default=5, help="the first so many of Gal's splits")
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("KUQ_DATA"))
    parser.add_argument("--render", action="store_true", help="write the page from what is stored")
    options = parser.parse_args(arguments)
    os.environ.update(limit_threads(1))
    if not options.render:
        if options.data_dir is None:
            parser.error("--data-dir or KUQ_DATA must name the folder with the tables")
        run(options.sets, options.representations, options.splits, Path(options.data_dir))
    render()
    return 0


if __name__ == "__main__":
    sys.exit(main())
