"""Small networks on the reanalysis: skill on held-out years, and what detection of the twin sees.

``python -m docs.reanalysis`` prints the tables of docs/howto/data-sets.md in about two minutes of
one core, and ``--update`` writes them there; ``--seeds 3`` also tells their spread. Numbers of
other machines differ in the last digits.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

import kuq

PAGE = Path(__file__).parent / "howto" / "data-sets.md"
BEGIN, END = "<!-- reanalysis: begin -->\n", "<!-- reanalysis: end -->\n"
REPRESENTATIONS = ("normal", "sampler")


def network(inputs, width):
    """Three convolutions that see where they are, a function that makes one for each member."""
    import torch
    from torch import nn
    from torch.nn.functional import gelu

    class Convolutions(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Conv2d(inputs + 2, width, 5, padding=2)
            self.more = nn.ModuleList(nn.Conv2d(width, width, 5, padding=2) for _ in range(2))

        def forward(self, x):
            rows, _, height, columns = x.shape
            south = torch.linspace(-1, 1, height)[:, None].expand(rows, 1, height, columns)
            east = torch.linspace(-1, 1, columns).expand(rows, 1, height, columns)
            x = gelu(self.first(torch.cat([x, south, east], 1)))
            for layer in self.more:
                x = x + gelu(layer(x))
            return x

    return Convolutions


def fitted(data, representation, seed, members=3, width=16, epochs=20):
    """An ensemble trained on the years of training, stopped on those of validation."""
    model = kuq.nn.Regressor(
        representation,
        n_members=members,
        # the networks of the table on the page
        loss="log" if representation == "normal" else None,
        backbone=network(data.train.x.shape[1] + (representation == "sampler"), width),
        learning_rate=3e-3,
        max_epochs=epochs,
        patience=8,
        n_samples=10,
        n_train_samples=3,
        seed=seed,
    )
    validation = (data.validation.x, data.validation.y)
    return model.fit(data.train.x, data.train.y, validation=validation)


def scores(data):
    """The scores whose epistemic uncertainty detects, by name."""
    distance = kuq.median_bandwidth(data.train.y, event_ndim=2)
    return {
        "squared error": kuq.SquaredError(),
        "CRPS": kuq.CRPS(),
        "energy score": kuq.Energy(),
        "Gaussian kernel": kuq.Gaussian(distance),
    }


def epistemic(model, split, score):
    """One number per month; scores per cell are averaged over the map."""
    values = np.asarray(model.predict_uncertainty(split.x, score).epistemic)
    return values.reshape(len(values), -1).mean(axis=1)


def error(forecast, split):
    """The mean squared error over months and cells, in K²."""
    return float(((forecast - split.y) ** 2).mean())


def measured(representation, seed, **size):
    """The error of an ensemble on held-out years, and AUROCs by score under both climatologies."""
    regional, shared = (kuq.datasets.load("reanalysis", climatology=c) for c in ("own", "shared"))
    model = fitted(regional, representation, seed, **size)
    aurocs = {}
    for name, score in scores(regional).items():
        inside = epistemic(model, regional.test, score)
        aurocs[name] = tuple(
            kuq.protocols.ood_detection(
                inside, epistemic(model, twin.shifted, score), resamples=0
            ).auroc
            for twin in (regional, shared)
        )
    result = error(model.predict(regional.test.x), regional.test), aurocs
    print(representation, seed, result, file=sys.stderr, flush=True)
    return result


def table(seeds, **size):
    """Errors of references and networks, and AUROCs; of several seeds mean (lowest to highest)."""
    data = kuq.datasets.load("reanalysis")
    lines = ["| forecast | squared error, K² |", "|---|---:|"]
    for name, forecast in kuq.datasets.reference_forecasts(data.train, data.test.x).items():
        lines.append(f"| {name} | {error(forecast, data.test):.2f} |")
    runs = {name: [] for name in REPRESENTATIONS}
    for seed in range(seeds):
        for name, by_seed in runs.items():
            by_seed.append(measured(name, seed, **size))
    for name, by_seed in runs.items():
        lines.append(f"| {name} networks | {_spread([e for e, _ in by_seed], 2)} |")
    lines += ["", "| epistemic uncertainty | own climatology | shared climatology |"]
    lines.append("|---|---:|---:|")
    for name, by_seed in runs.items():
        for score in by_seed[0][1]:
            regional, shared = (_spread([a[score][k] for _, a in by_seed], 3) for k in (0, 1))
            lines.append(f"| {name} networks, {score} | {regional} | {shared} |")
    return "\n".join(lines) + "\n"


def _spread(values, digits):
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    low, high = (f"{value:.{digits}f}" for value in (min(values), max(values)))
    return f"{np.mean(values):.{digits}f} ({low} to {high})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    begin = time.process_time()
    text = table(options.seeds)
    print(text)
    print(f"{time.process_time() - begin:.0f} s of CPU")
    if options.update:
        head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        PAGE.write_text(
            f"{head}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8", newline="\n"
        )


if __name__ == "__main__":
    main()
