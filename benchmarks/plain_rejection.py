"""Rejection by normal networks in plain torch: ``python -m benchmarks.plain_rejection``.

An implementation beside that of the study, with nothing of kuq in it: data, networks, training,
uncertainty and ratio are written here once more. Energy, ten members, twenty splits; trained for
shorter and longer, and with the mean and the logarithm of the variance as outputs. The table goes
into docs/results/quick.md, the numbers into plain_rejection.json (``--render``: only the table).
Two and a half minutes of one core.
"""

from __future__ import annotations

import gzip
import math
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from benchmarks import cells
from benchmarks.fresh import ROOT
from benchmarks.page import markdown

MEMBERS, HIDDEN, BATCH, RATE = 10, 50, 32, 1e-3
PATIENCE, PLATEAU = 25, 5
#: Epochs at most, and whether outputs are η₁ = μ/σ² and η₂ = −1/(2σ²), as in the study.
VARIANTS = {
    "50 epochs": (50, True),
    "100 epochs": (100, True),
    "300 epochs, as in the study": (300, True),
    "300 epochs, outputs μ and log σ²": (300, False),
}


def rows_of(folder: Path) -> np.ndarray:
    """Inputs and, last, the target, in the lexicographic order that splits are drawn from."""
    with gzip.open(folder / "energy.csv.gz", "rt") as file:
        rows = np.loadtxt(file, delimiter=",", skiprows=1)
    return rows[np.lexsort(rows.T[::-1])]


def split(rows: np.ndarray, seed: int) -> list[Tensor]:
    """Rows to train, to validate and to test by, at the scale of the first."""
    order = np.random.default_rng(seed).permutation(len(rows))
    test = round(0.1 * len(rows))
    learned = test + round(0.1 * (len(rows) - test))
    subsets = [rows[order[learned:]], rows[order[test:learned]], rows[order[:test]]]
    mean, scale = subsets[0].mean(0), subsets[0].std(0)
    return [torch.tensor((subset - mean) / scale, dtype=torch.float32) for subset in subsets]


def outputs(weights: list[Tensor], x: Tensor, natural: bool) -> tuple[Tensor, Tensor]:
    """Means and variances (members, rows) of inputs (members, rows, features)."""
    for layer in range(0, len(weights), 2):
        x = torch.baddbmm(weights[layer + 1], x, weights[layer])
        x = functional.gelu(x) if layer + 2 < len(weights) else x
    first, second = x.unbind(-1)
    if natural:
        # The shift makes a network that outputs zeros predict N(0, 1).
        variance = 0.5 / (functional.softplus(second + math.log(math.sqrt(math.e) - 1)) + 1e-6)
        return first * variance, variance
    return first, torch.exp(second.clamp(max=30)) + 1e-6


def loss(mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
    """Negative log-likelihood of each member, up to a constant."""
    return (torch.log(variance) / 2 + (y - mean) ** 2 / (2 * variance)).mean(1)


def trained(train: Tensor, validation: Tensor, seed: int, epochs: int, natural: bool) -> Any:
    """The members, each where it was best on validation rows, and their mean number of epochs."""
    generator = torch.Generator().manual_seed(seed)
    sizes = (train.shape[1] - 1, HIDDEN, HIDDEN, 2)
    weights = []
    for inputs, width in pairwise(sizes):
        for shape in ((MEMBERS, inputs, width), (MEMBERS, 1, width)):
            uniform = torch.rand(shape, generator=generator) * 2 - 1
            weights.append((uniform / math.sqrt(inputs)).requires_grad_())
    first, second = ([torch.zeros_like(w) for w in weights] for _ in range(2))
    best_weights = [w.detach().clone() for w in weights]
    best = torch.full((MEMBERS,), math.inf)
    rate = torch.full((MEMBERS,), RATE)
    waited, since_cut, length = (torch.zeros(MEMBERS) for _ in range(3))
    held = validation[:, :-1].expand(MEMBERS, -1, -1)
    step = 0
    for _ in range(epochs):
        going = waited < PATIENCE
        if not going.any():
            break
        length += going
        order = torch.stack(
            [torch.randperm(len(train), generator=generator) for _ in range(MEMBERS)]
        )
        for batch in order.split(BATCH, 1):
            rows = train[batch]
            predicted = outputs(weights, rows[..., :-1], natural)
            gradients = torch.autograd.grad(loss(*predicted, rows[..., -1]).sum(), weights)
            step += 1
            with torch.no_grad():
                for w, g, a, b in zip(weights, gradients, first, second, strict=True):
                    a.lerp_(g, 0.1)
                    b.mul_(0.999).addcmul_(g, g, value=0.001)
                    size = (b / (1 - 0.999**step)).sqrt() + 1e-8
                    w -= (rate * going).view(-1, 1, 1) * a / (1 - 0.9**step) / size
        with torch.no_grad():
            now = loss(*outputs(weights, held, natural), validation[:, -1])
        better = going & (now < best)
        best = torch.where(better, now, best)
        for w, kept in zip(weights, best_weights, strict=True):
            kept[better] = w.detach()[better]
        waited = torch.where(better, 0.0, waited + 1)
        since_cut = torch.where(better, 0.0, since_cut + 1)
        rate[since_cut > PLATEAU] /= 2
        since_cut[since_cut > PLATEAU] = 0
    return best_weights, float(length.mean())


def ratio(uncertainty: np.ndarray, error: np.ndarray) -> float:
    """Prediction-rejection ratio over retentions from a half to one."""
    counts = np.arange(math.ceil(len(error) / 2), len(error) + 1)

    def area(by: np.ndarray) -> float:
        kept = error[np.argsort(by)]
        return float(np.trapezoid([kept[:n].mean() for n in counts], counts / len(error)))

    best = area(error)
    chance = float(error.mean() * (counts[-1] - counts[0]) / len(error))
    return (area(uncertainty) - best) / (chance - best)


def cell(variant: str, splits: int, folder: str | None) -> dict[str, list[float]]:
    """By split, the error of the mean, the ratio by total uncertainty, and how many epochs."""
    if folder is None:
        raise SystemExit("--data-dir is needed: the folder that has energy.csv.gz")
    rows = rows_of(Path(folder))
    columns: dict[str, list[float]] = {"mse": [], "prr": [], "epochs": []}
    for seed in range(splits):
        train, validation, test = split(rows, seed)
        weights, length = trained(train, validation, seed, *VARIANTS[variant])
        x = test[:, :-1].expand(MEMBERS, -1, -1)
        mean, variance = (
            output.double().numpy() for output in outputs(weights, x, VARIANTS[variant][1])
        )
        error = (mean.mean(0) - test[:, -1].double().numpy()) ** 2
        columns["mse"].append(float(f"{error.mean():.4g}"))
        columns["prr"].append(round(ratio(variance.mean(0) + mean.var(0, ddof=1), error), 4))
        columns["epochs"].append(length)
    return columns


def rendered(results: dict[str, Any]) -> str:
    lines = []
    for variant in VARIANTS:
        columns = results[variant]
        lines.append(
            [
                variant,
                f"{np.mean(columns['epochs']):.0f}",
                f"{np.mean(columns['mse']):.4f}",
                f"{np.mean(columns['prr']):.2f}",
                f"{np.std(columns['prr'], ddof=1):.2f}",
            ]
        )
    heads = ["training", "epochs of a member", "MSE", "ratio", "its deviation over splits"]
    return markdown(heads, lines, 1)


STUDY = cells.Study(
    "plain_rejection",
    __doc__ or "",
    Path(__file__).parent / "plain_rejection.json",
    ROOT / "docs" / "results" / "quick.md",
    rendered,
)


def main(arguments: list[str] | None = None) -> int:
    return STUDY.command(
        lambda options: {
            variant: partial(cell, variant, options.splits, options.data_dir)
            for variant in VARIANTS
        },
        arguments,
        splits=20,
    )


if __name__ == "__main__":
    sys.exit(main())
