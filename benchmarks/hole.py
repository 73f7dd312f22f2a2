"""Networks with their defaults on a curve with a hole: ``python -m benchmarks.hole``.

300 points of a curve whose noise grows along it, none between −1 and 1; five seeds, five members.
Other curves, three seeds each, show where that curve is kind. The tables go into docs/models.md,
the numbers into hole.json (``--render``: only the tables). About twelve minutes of one core.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import cells, models
from benchmarks.fresh import ROOT
from benchmarks.page import markdown

REPRESENTATIONS = ("normal", "mixture", "sampler", "flow")
#: With normalised layers, as the networks of Kelen et al. (2025) have them.
NORMALISED = {"mixture, normalised": "mixture", "sampler, normalised": "sampler"}
SEEDS, SEEDS_OF_OTHERS = range(5), range(3)
POINTS, MEMBERS = 300, 5


@dataclass(frozen=True)
class Curve:
    """A mean, the deviation of the noise around it, and noise of deviation one."""

    mean: Callable[[np.ndarray], np.ndarray] = lambda x: np.sin(2 * x) + 0.3 * x
    noise: Callable[[np.ndarray], np.ndarray] = lambda x: 0.05 + 0.04 * (x + 3)
    unit: Callable[[np.random.Generator], np.ndarray] = lambda rng: rng.normal(size=POINTS)


def two_peaks(rng: np.random.Generator) -> np.ndarray:
    """Of deviation one: at ±0.95, each of deviation 0.3."""
    return 0.95 * rng.choice([-1, 1], POINTS) + 0.3 * rng.normal(size=POINTS)


CURVE = Curve()
OTHERS = {
    "heavy tails": Curve(unit=lambda rng: rng.standard_t(3, size=POINTS) / math.sqrt(3)),
    "skewed noise": Curve(unit=lambda rng: rng.exponential(size=POINTS) - 1),
    "noise at both ends": Curve(mean=lambda x: 0.2 * x**3 - x, noise=lambda x: 0.1 + 0.06 * x * x),
    "flat between steps": Curve(mean=lambda x: np.tanh(6 * (x + 2)) - np.tanh(6 * (x - 2))),
    "two peaks": Curve(unit=two_peaks),
    "a straight line": Curve(mean=lambda x: 0.5 * x, noise=lambda x: 0.05 + 0.05 * np.abs(x)),
}


def cell(curve: Curve, representation: str, seed: int) -> dict[str, Any]:
    """Error of the mean, AUROC of the hole by EU, and rank correlation of AU with the noise."""
    from scipy.stats import spearmanr

    import kuq

    rng = np.random.default_rng(seed)
    x = rng.uniform(1, 3, POINTS) * rng.choice([-1, 1], POINTS)
    y = curve.mean(x) + curve.noise(x) * curve.unit(rng)
    kind = NORMALISED.get(representation, representation)
    settings = {"norm": "layer"} if representation in NORMALISED else {}
    model = kuq.nn.Regressor(kind, n_members=MEMBERS, seed=seed, **settings).fit(x[:, None], y)
    side = np.linspace(1.05, 2.95, 100)
    seen, hole = np.concatenate([-side[::-1], side]), np.linspace(-0.75, 0.75, 50)
    error = np.sqrt(np.mean((model.predict(seen[:, None]) - curve.mean(seen)) ** 2))
    here, there = (model.predict_uncertainty(at[:, None], "crps") for at in (seen, hole))
    above = there.epistemic[:, None] - here.epistemic
    detected = (above > 0).mean() + (above == 0).mean() / 2
    rank = spearmanr(here.aleatoric, curve.noise(seen))[0]
    values = {"error": error, "auroc": detected, "rank": rank}
    of_defaults = {"settings": models.settings(kind)}
    return {name: round(float(value), 4) for name, value in values.items()} | of_defaults


def is_of_other_defaults(key: str, result: dict[str, Any]) -> bool:
    representation = next(name for name in (*NORMALISED, *REPRESENTATIONS) if key.endswith(name))
    kind = NORMALISED.get(representation, representation)
    return bool(result["settings"] != models.settings(kind))


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
    tables = (_others(results, kinds) for kinds in (REPRESENTATIONS, tuple(NORMALISED)))
    return "\n\n".join([markdown(["seed", *REPRESENTATIONS], lines), said, *tables])


def _others(results: dict[str, Any], kinds: tuple[str, ...]) -> str:
    """Of every other curve the worst error over that of the normal, AUROC and rank correlation."""
    lines = []
    for name in OTHERS:
        line = [name]
        normal = [results[f"{name} {seed} normal"]["error"] for seed in SEEDS_OF_OTHERS]
        for which in kinds:
            of_seeds = [results[f"{name} {seed} {which}"] for seed in SEEDS_OF_OTHERS]
            ratio = max(c["error"] / error for c, error in zip(of_seeds, normal, strict=True))
            worst = (min(c[measure] for c in of_seeds) for measure in ("auroc", "rank"))
            line.append(", ".join(f"{value:.2f}" for value in (ratio, *worst)))
        lines.append(line)
    return markdown(["at worst", *kinds], lines)


STUDY = cells.Study(
    "hole",
    __doc__ or "",
    Path(__file__).parent / "hole.json",
    ROOT / "docs" / "models.md",
    rendered,
    is_of_other_defaults,
)


def main(arguments: list[str] | None = None) -> int:
    asked = {
        f"{seed} {which}": partial(cell, CURVE, which, seed)
        for seed in SEEDS
        for which in REPRESENTATIONS
    }
    asked |= {
        f"{name} {seed} {which}": partial(cell, curve, which, seed)
        for name, curve in OTHERS.items()
        for seed in SEEDS_OF_OTHERS
        for which in (*REPRESENTATIONS, *NORMALISED)
    }
    return STUDY.command(lambda options: asked, arguments)


if __name__ == "__main__":
    sys.exit(main())
