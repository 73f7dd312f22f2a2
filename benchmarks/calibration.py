"""Coverage and width of intervals on the UCI tables: ``python -m benchmarks.calibration``.

Small ensembles of normal networks, trained on the training rows of every split, are recalibrated on
its validation rows and judged on its test rows. Predictions are kept in ``build/calibration``, so
that a run goes on where it was stopped. ``--peers PYTHON`` names an interpreter with MAPIE and
clear-uq, which see the same predictions; the table goes into ``docs/howto/calibration.md``.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

import numpy as np

import kuq
from benchmarks.cells import put_between

TABLES = (
    "yacht",
    "energy",
    "concrete",
    "kin8nm",
    "power-plant",
    "naval-propulsion-plant",
    "protein-tertiary-structure",
)
COVERAGE = 0.9
PAGE = Path("docs/howto/calibration.md")
BEGIN, END = "<!-- table: python -m benchmarks.calibration -->", "<!-- end of table -->"
PEERS = Path(__file__).with_name("calibration_peers.py")


def predictions(name: str, split: int, folder: Path, data_dir: str | None) -> Path:
    """A file with loc, scale and outcomes of held-out and of test rows."""
    path = folder / f"{name}-{split}.npz"
    if path.exists():
        return path
    data = kuq.datasets.load(name, data_dir=data_dir, seed=split)
    rows = len(data.train.y)
    model = kuq.nn.Regressor(
        "normal",
        n_members=5,
        loss="log",  # the networks of the table on the page
        hidden_sizes=(50,),
        input_gain=1.0,
        shape_penalty=0.0,
        max_epochs=int(np.clip(100_000 / rows, 8, 150)),
        batch_size=32 if rows < 2000 else 128 if rows < 12000 else 512,
        learning_rate=5e-3,
        annealing=True,
        patience=None,
        plateau=None,
        validation_fraction=0.0,
        restore_best=False,
        seed=split,
    ).fit(data.train.x, data.train.y)
    arrays = {}
    for subset, rows_of in (("held_out", data.validation), ("test", data.test)):
        law = model.predict_distribution(rows_of.x).members
        arrays |= {f"{subset}_loc": law.loc, f"{subset}_scale": law.scale, f"{subset}_y": rows_of.y}
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)
    return path


def rows_of(path: Path, subset: str) -> tuple[kuq.Ensemble, np.ndarray]:
    with np.load(path) as file:
        law = kuq.Normal(file[f"{subset}_loc"], file[f"{subset}_scale"])
        return kuq.Ensemble(law), file[f"{subset}_y"]


def judged(low: np.ndarray, high: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Coverage in percent, and the mean width."""
    return 100 * float(np.mean((low <= y) & (y <= high))), float(np.mean(high - low))


def own_results(path: Path) -> dict[str, tuple[float, float]]:
    held_out, y = rows_of(path, "held_out")
    test, outcome = rows_of(path, "test")
    fitted = kuq.calibration.recalibrate(held_out, y, COVERAGE)
    laws = {"as predicted": test, "kuq": fitted.apply(test)}
    return {name: judged(*law.interval(COVERAGE), outcome) for name, law in laws.items()}


def peer_results(folder: Path, python: str) -> dict[str, dict[str, tuple[float, float]]]:
    out = folder.with_name(f"{folder.name}-peers.npz")
    subprocess.run([python, str(PEERS), str(folder), str(out), str(COVERAGE)], check=True)
    results: dict[str, dict[str, tuple[float, float]]] = {}
    with np.load(out) as file:
        for key, bounds in file.items():
            case, name = key.split("/")
            _, y = rows_of(folder / f"{case}.npz", "test")
            results.setdefault(case, {})[name] = judged(bounds[:, 0], bounds[:, 1], y)
    return results


def table(results: dict[str, dict[str, list[tuple[float, float]]]], rows: dict[str, int]) -> str:
    """Means over splits: coverage in percent and width."""
    methods = list(next(iter(results.values())))
    lines = [
        "| table | test rows | " + " | ".join(methods) + " |",
        "|---|---|" + "---|" * len(methods),
    ]
    for name, by_method in results.items():
        cells = []
        for method in methods:
            coverage, width = np.mean(by_method[method], axis=0)
            cells.append(f"{coverage:.1f}\N{NO-BREAK SPACE}·\N{NO-BREAK SPACE}{width:#.3g}")
        lines.append(f"| {name} | {rows[name]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--folder", type=Path, default=Path("build/calibration"))
    parser.add_argument("--data-dir", default=None, help="a folder with the tables")
    parser.add_argument("--peers", default=None, help="an interpreter with MAPIE and clear-uq")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE}")
    options = parser.parse_args()
    results: dict[str, dict[str, list[tuple[float, float]]]] = {}
    rows: dict[str, int] = {}
    for name in TABLES:
        by_method = results.setdefault(name, {})
        for split in range(options.splits):
            path = predictions(name, split, options.folder, options.data_dir)
            rows[name] = len(rows_of(path, "test")[1])
            for method, numbers in own_results(path).items():
                by_method.setdefault(method, []).append(numbers)
    if options.peers:
        for case, peers in peer_results(options.folder, options.peers).items():
            for method, numbers in peers.items():
                results[case.rpartition("-")[0]].setdefault(method, []).append(numbers)
    text = table(results, rows)
    print(text)
    if options.write:
        put_between(PAGE, BEGIN, END, text)


if __name__ == "__main__":
    main()
