"""Data and models of a cell: kuq's own by name, or the user's."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kuq.datasets.base import Dataset, Split
from kuq.errors import ParameterError
from kuq.kernels.bandwidth import median_bandwidth
from kuq_study.cell import Cell
from kuq_study.model_settings import (
    ModelSettings,
    backbone_settings,
    recipe,
    without_never,
)
from kuq_study.procedure import Context

#: How often the state of a training is written.
_STATES_OF_A_TRAINING = 10


def load_data(cell: Cell, context: Context) -> Dataset:
    """The data set of a cell: tables at unit scale, functions and images in their own units.

    The user's own is a function ``(data_dir, seed, **options)`` that returns a
    ``kuq.datasets.Dataset``.
    """
    context.report("loads data", 0.0)
    if cell.dataset in cell.entries:
        data = load_own_data(cell, context.data_dir)
    else:
        from kuq.datasets import load

        data = load(cell.dataset, data_dir=context.data_dir, seed=cell.seed, **cell.data)
    return data if cell.train_rows is None else _fewer(data, cell.train_rows, cell.seed)


def load_own_data(cell: Cell, data_dir: Path | None) -> Dataset:
    """What the user's own function gives."""
    data = cell.entries[cell.dataset].load()(data_dir, cell.seed, **cell.data)
    if not isinstance(data, Dataset):
        raise ParameterError(
            f"{cell.dataset!r} must return a kuq.datasets.Dataset, got {type(data).__name__}"
        )
    return data


def _fewer(data: Dataset, rows: int, seed: int) -> Dataset:
    """At most so many training rows, chosen at random; validation and test rows stay."""
    if len(data.train) <= rows:
        return data
    chosen = np.sort(np.random.default_rng([seed, 2]).permutation(len(data.train))[:rows])
    return dataclasses.replace(data, train=Split(data.train.x[chosen], data.train.y[chosen]))


def target_distance(targets: Any) -> float:
    """The median distance between training targets, each of them one outcome."""
    values = np.asarray(targets, float)
    return median_bandwidth(values, event_ndim=values.ndim - 1)


def make_model(cell: Cell, seed: int, **more: Any) -> Any:
    """A model that is not trained: kuq's for the paper's representations, or the user's own.

    The user's own is a function ``(seed, **options)`` that returns anything with
    ``fit(x, y, validation=(x, y))``, ``predict(x)`` and ``predict_distribution(x)``.
    """
    if cell.representation in cell.entries:
        options = without_never(cell.model)
        return cell.entries[cell.representation].load()(seed=seed, **options, **more)
    # Here: they need an extra, and seconds.
    from kuq.nn import FNO, MLP, ConvNeXt, EfficientNetLite0, Regressor
    from kuq_study.convolutions import Convolutions

    options = recipe(cell.representation, cell.model)
    if isinstance(options["backbone"], Mapping):
        kinds: dict[str, Any] = {
            "mlp": MLP,
            "fno": FNO,
            "convnext": ConvNeXt,
            "efficientnet-lite0": EfficientNetLite0,
            "convolutions": Convolutions,
        }
        kind, settings = backbone_settings(options["backbone"], "'model'")
        options["backbone"] = kinds[kind](**settings)
    return Regressor(cell.representation, seed=seed, **options | more)


def fit_model(
    cell: Cell,
    context: Context,
    x: Any,
    y: Any,
    validation: Any = None,
    *,
    options: Mapping[str, Any] | None = None,
    **more: Any,
) -> Any:
    """A model of the cell that is trained, from where an interrupted run left it.

    ``options`` are settings of the model beside those of the cell, ``more`` go to ``fit``.
    """
    options = {} if options is None else options
    # What is the user's own need not know of checkpoints.
    state = None if cell.representation in cell.entries else context.state_file("training")
    if state is None:
        return make_model(cell, cell.seed, **options).fit(x, y, validation=validation, **more)
    epochs = int(cell.model.get("max_epochs", ModelSettings.max_epochs))
    often = max(1, epochs // _STATES_OF_A_TRAINING)
    model = make_model(cell, cell.seed, checkpoint=state, checkpoint_every=often, **options)
    try:
        return model.fit(x, y, validation=validation, **more)
    except ParameterError:
        if not state.exists():
            raise
        state.unlink()  # damaged, or of another version of kuq
        return model.fit(x, y, validation=validation, **more)


def squared_errors(prediction: Any, target: Any) -> np.ndarray:
    """Per case, the mean over its coordinates of (prediction − target)²."""
    mean, y = np.asarray(prediction, float), np.asarray(target, float)
    gap = mean.reshape(len(y), -1) - y.reshape(len(y), -1)
    return np.asarray((gap**2).mean(1))
