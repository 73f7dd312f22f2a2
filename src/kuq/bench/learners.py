"""Data and models of a cell: kuq's own by name, or the user's."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from kuq.bench.cell import Cell
from kuq.bench.procedure import Context
from kuq.datasets.base import Dataset, Split
from kuq.errors import ParameterError
from kuq.kernels.bandwidth import median_bandwidth


def load_data(cell: Cell, context: Context) -> Dataset:
    """The data set of a cell, tables brought to unit scale by their training rows.

    Functions and images stay in their own units. The user's own is a function
    ``(data_dir, seed, **options)`` that returns a ``kuq.datasets.Dataset``.
    """
    context.report("loads data", 0.0)
    if cell.dataset in cell.entries:
        found = cell.entries[cell.dataset].load()(context.data_dir, cell.seed, **cell.data)
        if not isinstance(found, Dataset):
            raise ParameterError(
                f"{cell.dataset!r} must return a kuq.datasets.Dataset, got {type(found).__name__}"
            )
        data = found
    else:
        from kuq.datasets import load

        data = load(cell.dataset, data_dir=context.data_dir, seed=cell.seed, **cell.data)
    return _unit_scale(data) if np.ndim(data.train.y) == 1 else data


def _unit_scale(data: Dataset) -> Dataset:
    """Columns and targets minus their training mean, divided by their training deviation."""
    x, y = np.asarray(data.train.x, float), np.asarray(data.train.y, float)
    deviation = x.std(0)
    spread = np.where(deviation > 0, deviation, 1.0)  # constant columns stay constant

    def scaled(split: Split) -> Split:
        return Split(
            (np.asarray(split.x, float) - x.mean(0)) / spread,
            (np.asarray(split.y, float) - y.mean()) / y.std(),
        )

    return dataclasses.replace(
        data,
        train=scaled(data.train),
        validation=scaled(data.validation),
        test=scaled(data.test),
        shifted=None if data.shifted is None else scaled(data.shifted),
    )


def target_distance(targets: Any) -> float:
    """The median distance between training targets, each of them one outcome."""
    values = np.asarray(targets, float)
    return median_bandwidth(values, event_ndim=values.ndim - 1)


def make_model(cell: Cell, seed: int) -> Any:
    """A model that is not trained: kuq's for the paper's representations, or the user's own.

    The user's own is a function ``(seed, **options)`` that returns anything with
    ``fit(x, y, validation=(x, y))``, ``predict(x)`` and ``predict_distribution(x)``.
    """
    if cell.representation in cell.entries:
        return cell.entries[cell.representation].load()(seed=seed, **cell.model)
    from kuq.nn import Regressor  # here, since it needs an extra and seconds to import

    return Regressor(cell.representation, seed=seed, **cell.model)


def squared_errors(prediction: Any, target: Any) -> np.ndarray:
    """Per case, the mean over its coordinates of (prediction − target)²."""
    mean, y = np.asarray(prediction, float), np.asarray(target, float)
    gap = mean.reshape(len(y), -1) - y.reshape(len(y), -1)
    return np.asarray((gap**2).mean(1))
