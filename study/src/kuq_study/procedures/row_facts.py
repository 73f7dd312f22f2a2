"""What is known of the rows of a data set beside inputs and targets: their groups and rivals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kuq.datasets.base import Dataset, Split
from kuq.datasets.reference_forecasts import reference_forecasts
from kuq_study.cell import Cell
from kuq_study.procedure import Context

#: The twin of the reanalysis once more, as anomalies of the climate of Europe.
SHARED = "shared_climatology"
_REANALYSIS = "reanalysis"
_REFERENCE = "reference."


def what_rows_are(split: Split, name: str) -> dict[str, np.ndarray]:
    """The group of each row, and its frame if it has one: by names that begin with ``name``.

    Rows of a trajectory, or of a year, are not independent: they are one group.
    """
    rows = split.rows
    if "trajectory" in rows:
        return {f"{name}.group": rows["trajectory"], f"{name}.frame": rows["frame"]}
    if "time" in rows:
        return {f"{name}.group": rows["time"].astype("datetime64[Y]").astype(np.int64)}
    return {}


def other_twins(cell: Cell, context: Context) -> dict[str, Split]:
    """Further shifted rows, which the same model is asked about: of the reanalysis alone."""
    if cell.dataset != _REANALYSIS or cell.dataset in cell.entries:
        return {}
    from kuq.datasets import load

    options: Mapping[str, Any] = {**cell.data, "climatology": "shared"}
    twin = load(cell.dataset, data_dir=context.data_dir, seed=cell.seed, **options).shifted
    assert twin is not None
    return {SHARED: twin}


def reference_errors(cell: Cell, data: Dataset) -> dict[str, np.ndarray]:
    """Mean squared errors on the test rows of forecasts that need no network."""
    if cell.dataset != _REANALYSIS or cell.dataset in cell.entries:
        return {}
    forecasts = reference_forecasts(data.train, data.test.x)
    return {
        f"{_REFERENCE}{name}": np.array(np.mean((forecast - data.test.y) ** 2))
        for name, forecast in forecasts.items()
    }


def kept_reference_errors(arrays: Mapping[str, Any]) -> dict[str, float]:
    """What ``reference_errors`` gave, by the name of the forecast."""
    return {
        name.removeprefix(_REFERENCE): float(value)
        for name, value in arrays.items()
        if name.startswith(_REFERENCE)
    }
