"""A procedure that needs no training: bootstrapped lines, fast and the same at every repetition."""

import os
import time
from pathlib import Path

import numpy as np

import kuq
from kuq_study import Procedure


def predict(cell, context):
    """Lines through resampled points; ``log`` in the settings counts how often this was done."""
    options = cell.model
    if "log" in options:
        with Path(options["log"]).open("a") as log:
            log.write(f"{cell.key}\n")
    if "limit" in options:
        _wait_for_turn(Path(options["log"]), Path(options["limit"]))
    if options.get("raises") == cell.dataset:
        raise RuntimeError("the moon is not where it should be")
    if options.get("dies") == cell.dataset:
        os._exit(3)
    if options.get("full") == cell.dataset:
        raise OSError(28, "No space left on device")
    rng = np.random.default_rng([cell.seed, len(cell.dataset)])
    x = rng.uniform(-1.0, 1.0, 20)
    y = x + 0.1 * rng.standard_normal(20)
    means, scales = [], []
    for member in range(3):
        chosen = rng.integers(20, size=20)
        slope, offset = np.polyfit(x[chosen], y[chosen], 1)
        means.append(slope * np.linspace(-2.0, 2.0, 5) + offset)
        scales.append(np.full(5, np.std(y - slope * x - offset)))
        time.sleep(options.get("sleep", 0.0))
        context.report("fits", (member + 1) / 3)
    return {"mean": np.stack(means), "scale": np.stack(scales)}


def _wait_for_turn(log, limit, seconds=120):
    """No more cells go on than the file ``limit`` allows: a test is sure of the rest."""
    deadline = time.monotonic() + seconds
    while len(log.read_text().splitlines()) > int(limit.read_text() or 0):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{limit} was not raised")
        time.sleep(0.005)


def evaluate(cell, arrays, context):
    """Mean uncertainties under two scores."""
    ensemble = kuq.Ensemble(kuq.Normal(arrays["mean"], arrays["scale"]))
    for name, score in (("crps", kuq.CRPS()), ("squared", kuq.SquaredError())):
        u = kuq.decompose(ensemble, score)
        for component in ("aleatoric", "epistemic"):
            for x, value in zip(np.linspace(-2.0, 2.0, 5), u[component], strict=True):
                yield cell.record("uncertainty", value, score=name, component=component, x=x)


tiny = Procedure(predict, evaluate)

TEMPLATE = """
experiment = "tiny"
procedure = "{module}:tiny"

[grid.lines]
datasets = {datasets}
representations = ["normal"]
seeds = {seeds}
model = {{ {model} }}
"""


def write_experiment(folder, datasets=("a", "bb"), seeds=(0, 1), name="tiny.toml", **model):
    """An experiment file that uses this procedure; ``model`` become its settings."""
    values = ", ".join(f"{key} = {_toml(value)}" for key, value in model.items())
    text = TEMPLATE.format(
        module=Path(__file__).as_posix(), datasets=list(datasets), seeds=list(seeds), model=values
    )
    path = Path(folder) / name
    path.write_text(text)
    return path


def _toml(value):
    return f'"{value}"' if isinstance(value, (str, Path)) else repr(value)
