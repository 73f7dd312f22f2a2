"""Networks with their defaults on a curve with a hole: ``python -m benchmarks.hole``.

300 points of a curve whose noise grows along it, none between −1 and 1; five seeds, five members.
The table goes into docs/models.md, the numbers into hole.json (``--render``: only the table).
About a minute and a half of one core.
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

REPRESENTATIONS = ("normal", "mixture", "sampler", "flow")
SEEDS = range(5)
POINTS, MEMBERS = 300, 5


def curve(x: np.ndarray) -> np.ndarray:
    return np.sin(2 * x) + 0.3 * x


def noise(x: np.ndarray) -> np.ndarray:
    return 0.05 + 0.04 * (x + 3)


def cell(representation: str, seed: int) -> dict[str, float]:
    """Error of the mean, AUROC of the hole by EU, and rank correlation of AU with the noise."""
    from scipy.stats import spearmanr

    import kuq

    rng = np.random.default_rng(seed)
    x = rng.uniform(1, 3, POINTS) * rng.choice([-1, 1], POINTS)
    y = curve(x) + noise(x) * rng.normal(size=POINTS)
    model = kuq.nn.Regressor(representation, n_members=MEMBERS, seed=seed).fit(x[:, None], y)
    side = np.linspace(1.05, 2.95, 100)
    seen, hole = np.concatenate([-side[::-1], side]), np.linspace(-0.75, 0.75, 50)
    error = np.sqrt(np.mean((model.predict(seen[:, None]) - curve(seen)) ** 2))
    here, there = (model.predict_uncertainty(at[:, None], "crps") for at in (seen, hole))
    above = there.epistemic[:, None] - here.epistemic
    detected = (above > 0).mean() + (above == 0).mean() / 2
    rank = spearmanr(here.aleatoric, noise(seen))[0]
    values = {"error": error, "auroc": detected, "rank": rank}
    return {name: round(float(value), 4) for name, value in values.items()}


def rendered(results: dict[str, Any]) -> str:
    lines = []
    for seed in SEEDS:
        of_seed = [results[f"{seed} {which}"] for which in REPRESENTATIONS]
        shown = [f"{c['error']:.3f}, {c['auroc']:.2f}, {c['rank']:.2f}" for c in of_seed]
        lines.append([str(seed), *shown])
    others = [
        (results[f"{seed} {which}"], results[f"{seed} normal"]["error"])
        for seed in SEEDS
        for which in REPRESENTATIONS
    ]
    said = (
        f"At worst: error {max(c['error'] / normal for c, normal in others):.2f} times the "
        f"normal's, AUROC {min(c['auroc'] for c, _ in others):.3f}, rank correlation "
        f"{min(c['rank'] for c, _ in others):.3f}."
    )
    return markdown(["seed", *REPRESENTATIONS], lines) + "\n\n" + said


STUDY = cells.Study(
    "hole",
    __doc__ or "",
    Path(__file__).parent / "hole.json",
    ROOT / "docs" / "models.md",
    rendered,
)


def main(arguments: list[str] | None = None) -> int:
    asked = {
        f"{seed} {which}": partial(cell, which, seed) for seed in SEEDS for which in REPRESENTATIONS
    }
    return STUDY.command(lambda options: asked, arguments)


if __name__ == "__main__":
    sys.exit(main())
