"""Flows and samplers on two equations in equal time: ``python -m benchmarks.operators``.

Small Fourier neural operators on 64 points, two members, three seeds of simulations.
Each representation gets as many epochs as fit into the same CPU time. The table goes into
docs/flows.md, the numbers into operators.json (``--render``: only the table). About eight minutes
of one core.
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
REPRESENTATIONS = ("normal", "sampler", "flow")
SEEDS = range(3)
#: CPU seconds of a training.
SECONDS = 20.0
DATA = {"trajectories": 200, "points": 64, "pairs": 10, "own_simulations": True}
NETWORK = {"modes": 24, "channels": 16, "lifting_channels": 32, "projection_channels": 32}


def regressor(representation: str, seed: int, epochs: int) -> Any:
    import kuq

    backbone = kuq.nn.FNO(**NETWORK, layers=3)
    return kuq.nn.Regressor(
        representation, n_members=2, backbone=backbone, max_epochs=epochs, seed=seed
    )


def cpu_seconds(model: Any, data: Any) -> float:
    started = time.process_time()
    model.fit(data.train.x, data.train.y, validation=(data.validation.x, data.validation.y))
    return time.process_time() - started


def epochs_in_time(representation: str, seed: int, data: Any) -> int:
    """How many epochs take ``SECONDS``; the first of all is for what happens once."""
    few, more = (cpu_seconds(regressor(representation, seed, count), data) for count in (1, 4))
    return max(1, round(SECONDS / ((more - few) / 3)))


def cell(equation: str, seed: int, representation: str) -> dict[str, float]:
    """Relative error of the mean and energy score of the ensemble on test rows."""
    import kuq
    from kuq.datasets import load

    data = load(equation, seed=seed, **DATA)
    model = regressor(representation, seed, epochs_in_time(representation, seed, data))
    seconds = cpu_seconds(model, data)
    x, y = data.test.x, data.test.y
    size = np.linalg.norm
    error = size(model.predict(x) - y, axis=-1).mean() / size(y, axis=-1).mean()
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
            own = {which: results[f"{equation} {seed} {which}"] for which in REPRESENTATIONS}
            shown = [f"{c['error']:.3f}, {c['energy']:.3f} ({c['epochs']})" for c in own.values()]
            ratios.append(own["flow"]["error"] / own["sampler"]["error"])
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
