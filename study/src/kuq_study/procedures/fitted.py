"""Train once and keep the predictions: what several procedures evaluate in their own ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np

import kuq
from kuq.kernels.base import Score
from kuq_study.bandwidths import Bandwidth, bandwidth_of
from kuq_study.cell import Cell
from kuq_study.kept import from_arrays, to_arrays
from kuq_study.learners import fit_model, load_data, target_distance
from kuq_study.named_scores import scores_for
from kuq_study.procedure import Context
from kuq_study.procedures.example_maps import example_maps
from kuq_study.procedures.row_facts import other_twins, reference_errors, what_rows_are

#: Which uncertainty a procedure takes.
Component: TypeAlias = Literal["aleatoric", "epistemic", "total"]


def depends_on(cell: Cell) -> dict[str, Any]:
    """Data, model and seed; not the scores, and not the experiment that asks for them.

    So the experiments on one data set train once for all of them.
    """
    names = {cell.dataset, cell.representation}
    return {
        "predictions of": "test and shifted rows, with what the rows are",
        "kuq": kuq.__version__,
        "dataset": cell.dataset,
        "representation": cell.representation,
        "seed": cell.seed,
        "train_rows": cell.train_rows,
        "data": dict(cell.data),
        "model": dict(cell.model),
        "entries": {n: e.identity for n, e in sorted(cell.entries.items()) if n in names},
        **cell.data_settings(),
    }


def predict(cell: Cell, context: Context) -> Mapping[str, Any]:
    """Train on the data's own split; predictions of test rows, and of shifted rows if any."""
    data = load_data(cell, context)
    context.report("trains", 0.0)
    validation = (data.validation.x, data.validation.y)
    model = fit_model(cell, context, data.train.x, data.train.y, validation)
    arrays = {"target_distance": np.array(target_distance(data.train.y))}
    splits = {"test": data.test} | ({} if data.shifted is None else {"shifted": data.shifted})
    more = other_twins(cell, context)
    for position, (name, split) in enumerate({**splits, **more}.items()):
        context.report(f"predicts {name} rows", position / len({**splits, **more}))
        arrays[f"{name}.y"] = np.asarray(split.y)
        # Not by model.predict, which would make all draws of samplers and flows once more.
        law = model.predict_distribution(split.x)
        arrays[f"{name}.mean"] = np.asarray(law.mean())
        arrays |= to_arrays(law, name)
        arrays |= what_rows_are(split, name)
    arrays |= reference_errors(cell, data)
    return arrays | example_maps(cell, context, splits, model)


def scores_and_bandwidth(
    cell: Cell, arrays: Mapping[str, Any], option: Bandwidth
) -> tuple[dict[str, Score], float]:
    """The scores of a cell with the bandwidth that belongs to its data and predictions."""
    test = from_arrays(arrays, "test")
    bandwidth = bandwidth_of(option, cell.dataset, float(arrays["target_distance"]), test)
    return scores_for(cell, test, bandwidth), bandwidth
