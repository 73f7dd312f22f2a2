"""Flows and samplers on two equations in equal time: ``python -m benchmarks.operators``.

Small Fourier neural operators on 64 points, two members, three seeds of simulations.
Each representation gets as many epochs as fit into the same CPU time. The table goes into
docs/flows.md, the numbers into operators.json (``--render``: only the table). About three
minutes of one core.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import cells
from benchmarks.fresh import ROOT
from benchmarks.page import markdown

EQUATIONS = {"burgers": "Burgers'", "kuramoto-sivashinsky": "Kuramoto-Sivashinsky"}
REPRESENTATIONS = ("sampler", "flow")
SEEDS = range(3)
#: CPU seconds of a training, and how many trajectories there are to learn from and to test on.
SECONDS, LEARNED, TESTED = 8.0, 300, 100


def states(equation: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """States (n, 1, points) of trajectories and the states that follow, (n, points)."""
    from kuq.datasets import burgers, kuramoto_sivashinsky

    count = LEARNED + TESTED
    if equation == "burgers":
        frames = burgers(count, points=64, frames=2, final_time=0.2, seed=seed)
        return frames[:, :1], frames[:, 1]
    frames = kuramoto_sivashinsky(count, 22.0, points=64, frames=22, interval=2.0, seed=seed)
    return frames[:, -2:-1], frames[:, -1]


def regressor(representation: str, seed: int, epochs: int) -> Any:
    import kuq

    backbone = kuq.nn.FNO(16, 16, 32, 32, layers=2)
    return kuq.nn.Regressor(
        representation, n_members=2, backbone=backbone, max_epochs=epochs, seed=seed
    )


def cpu_seconds(model: Any, x: np.ndarray, y: np.ndarray) -> float:
    started = time.process_time()
    model.fit(x, y)
    return time.process_time() - started


def epochs_in_time(representation: str, seed: int, x: np.ndarray, y: np.ndarray) -> int:
    """How many epochs take ``SECONDS``; the first of all trainings compiles what is needed."""
    tried = [cpu_seconds(regressor(representation, seed, count), x, y) for count in (1, 1, 5)]
    few, more = tried[1:]
    return max(1, round(SECONDS / ((more - few) / 4)))


def cell(equation: str, seed: int, representation: str) -> dict[str, float]:
    """Relative error of the mean and energy score of the ensemble on test rows."""
    import kuq

    x, y = states(equation, seed)
    learned = x[:LEARNED], y[:LEARNED]
    model = regressor(representation, seed, epochs_in_time(representation, seed, *learned))
    seconds = cpu_seconds(model, *learned)
    x, y = x[LEARNED:], y[LEARNED:]
    error = np.sqrt(np.mean((model.predict(x) - y) ** 2) / np.mean(y**2))
    score = np.asarray(kuq.score(model.predict_distribution(x), y, "energy")).mean()
    return {
        "error": round(float(error), 4),
        "energy": round(float(score), 4),
        "epochs": int(model.history_.epochs),
        "cpu_s": round(seconds, 1),
    }


def rendered(results: dict[str, Any]) -> str:
    lines, ratios = [], []
    for equation, title in EQUATIONS.items():
        for seed in SEEDS:
            both = {which: results[f"{equation} {seed} {which}"] for which in REPRESENTATIONS}
            shown = [f"{c['error']:.3f}, {c['energy']:.3f} ({c['epochs']})" for c in both.values()]
            ratios.append(both["flow"]["error"] / both["sampler"]["error"])
            lines.append([title, str(seed), *shown])
    low, high = min(ratios), max(ratios)
    said = f"The error of the flow is {low:.2f} to {high:.2f} times that of the sampler."
    return markdown(["", "seed", *REPRESENTATIONS], lines, 2) + "\n\n" + said


STUDY = cells.Study(
    "operators",
    __doc__ or "",
    Path(__file__).parent / "operators.json",
    ROOT / "docs" / "flows.md",
    rendered,
)


def main(arguments: list[str] | None = None) -> int:
    asked = {
        f"{equation} {seed} {which}": partial(cell, equation, seed, which)
        for seed in SEEDS
        for equation in EQUATIONS
        for which in REPRESENTATIONS
    }
    return STUDY.command(lambda options: asked, arguments)


if __name__ == "__main__":
    sys.exit(main())
