"""One example of functions or images with maps of both uncertainties, for the pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kuq.datasets.base import Split
from kuq.kernels.marginal import CRPS
from kuq.uncertainty import decompose
from kuq_study.cell import Cell, one_part
from kuq_study.procedure import Context

#: Data sets whose rows are steps of a trajectory: x holds the last two states, y the increment.
_TRAJECTORIES = {"burgers": 41, "kuramoto-sivashinsky": 50}
_MAPS = ("truth", "prediction", "aleatoric", "epistemic")


def example_maps(
    cell: Cell, context: Context, splits: Mapping[str, Split], model: Any
) -> dict[str, np.ndarray]:
    """Truth, mean prediction, AU and EU under CRPS of one image, or of one trajectory in time.

    Only the cells of seed 0 have an example; those of scalar outcomes have none.
    """
    if cell.seed != 0 or np.ndim(splits["test"].y) < 2:
        return {}
    if cell.dataset in _TRAJECTORIES and cell.dataset not in cell.entries:
        splits = _all_steps(cell, context)
    arrays = {}
    for name, split in splits.items():
        steps = np.ndim(split.y) == 2
        x, y = np.asarray(split.x), np.asarray(split.y)
        x, y = (x, y) if steps else (x[:1], y[:1])
        before = x[:, 1] if cell.dataset in _TRAJECTORIES and steps else np.zeros_like(y)
        law = model.predict_distribution(x)
        u = decompose(law, CRPS(reduce=None))
        mean = np.asarray(law.mean()).reshape(y.shape)
        fields = (before + y, before + mean, u.aleatoric, u.epistemic)
        for what, values in zip(_MAPS, fields, strict=True):
            plain = np.asarray(values).reshape(y.shape)
            arrays[f"example.{name}.{what}"] = plain if steps else plain[0]
    return arrays


def _all_steps(cell: Cell, context: Context) -> dict[str, Split]:
    """Every step of the first trajectory of each split, of which the data may have only some."""
    from kuq.datasets import load

    frames = int(cell.data.get("frames", _TRAJECTORIES[cell.dataset]))
    options = {**cell.data, "pairs": frames - 2, "test_pairs": frames - 2}
    data = load(cell.dataset, data_dir=context.data_dir, seed=cell.seed, **options)
    first = slice(frames - 2)
    splits = {"test": data.test} | ({} if data.shifted is None else {"shifted": data.shifted})
    return {name: Split(split.x[first], split.y[first]) for name, split in splits.items()}


def save_examples(cell: Cell, arrays: Mapping[str, Any], context: Context) -> None:
    """Write the examples of a cell as ``RUN/fields/DATASET-REPRESENTATION[-shifted].npz``."""
    for name in ("test", "shifted"):
        if f"example.{name}.truth" in arrays:
            suffix = "" if name == "test" else f"-{name}"
            maps = {what: arrays[f"example.{name}.{what}"] for what in _MAPS}
            name_of_cell = f"{one_part(cell.dataset)}-{one_part(cell.representation)}"
            context.save_field(f"{name_of_cell}{suffix}", **maps)
