"""Forecasts of a field that a network has to beat: least squares and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kuq._numbers import whole_number
from kuq.datasets.base import Split
from kuq.errors import ShapeError


def reference_forecasts(
    train: Split, x: Any, *, components: int = 15
) -> Mapping[str, NDArray[np.float64]]:
    """Forecasts of the fields y from the inputs x, by four rules fitted to ``train``.

    Inputs (n, 2, …) are the anomalies of two steps, the last of them as channel 1, and y that of
    the next: "persistence" repeats the last; "climatology" says zero; "damped anomaly" is the last
    times the best factor of each cell; "principal components" regresses the field on the leading
    ``components`` of both, by ordinary least squares.

    >>> import kuq
    >>> data = kuq.datasets.load("reanalysis")
    >>> forecasts = kuq.datasets.reference_forecasts(data.train, data.test.x)
    >>> {name: round(float(((f - data.test.y) ** 2).mean()), 1) for name, f in forecasts.items()}
    {'persistence': 4.2, 'climatology': 4.6, 'damped anomaly': 3.4, 'principal components': 3.1}
    """
    past, y = np.asarray(train.x, np.float64), np.asarray(train.y, np.float64)
    x = np.asarray(x, np.float64)
    shape = (len(y), 2, *y.shape[1:])
    if past.shape != shape or x.shape[1:] != shape[1:]:
        raise ShapeError(
            f"inputs need the shape (n, 2, …) with the shape of targets {y.shape[1:]}, got "
            f"{past.shape} in training and {x.shape}"
        )
    whole_number(components, "components", 1)
    power = (past[:, 1] ** 2).sum(axis=0)
    damping = (past[:, 1] * y).sum(axis=0) / np.where(power > 0, power, 1.0)
    return {
        "persistence": x[:, 1],
        "climatology": np.zeros_like(x[:, 1]),
        "damped anomaly": damping * x[:, 1],
        "principal components": _regression(past, y, x, components),
    }


def _regression(
    past: NDArray[np.float64], y: NDArray[np.float64], x: NDArray[np.float64], components: int
) -> NDArray[np.float64]:
    fields = y.reshape(len(y), -1)
    centre = fields.mean(axis=0)
    leading = np.linalg.svd(fields - centre, full_matrices=False)[2][:components]

    def predictors(inputs: NDArray[np.float64]) -> NDArray[np.float64]:
        flat = inputs.reshape(len(inputs), 2, -1) - centre
        return np.column_stack(
            [np.ones(len(inputs)), flat[:, 1] @ leading.T, flat[:, 0] @ leading.T]
        )

    weights = np.linalg.lstsq(predictors(past), fields, rcond=None)[0]
    return np.asarray((predictors(x) @ weights).reshape(len(x), *y.shape[1:]))
