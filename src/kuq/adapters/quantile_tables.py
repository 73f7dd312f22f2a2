"""Tables of quantiles and of intervals, as sktime's forecasters return them."""

from __future__ import annotations

from typing import Any

import numpy as np

from kuq.adapters.quantile_forecasts import quantiles
from kuq.distributions.base import Prediction
from kuq.errors import ParameterError


def convert(obj: Any, event_ndim: int | None) -> Prediction | None:
    """Columns (variable, level), or (variable, coverage, "lower" or "upper"); else None.

    A single variable is a number for every row.
    """
    columns = getattr(obj, "columns", None)
    if columns is None or columns.nlevels not in (2, 3):
        return None
    levels: dict[Any, dict[float, int]] = {}
    for place, (variable, *rest) in enumerate(columns):
        level = _level(*rest)
        if level is None:
            return None
        levels.setdefault(variable, {})[level] = place
    level_sets = {tuple(sorted(places)) for places in levels.values()}
    if len(level_sets) > 1:
        raise ParameterError("all variables need the same levels of quantiles")
    (shared,) = level_sets
    values = obj.to_numpy(dtype=np.float64)
    each = [values[:, [places[level] for level in shared]] for places in levels.values()]
    stacked = each[0] if len(each) == 1 else np.stack(each, axis=1)
    return quantiles(shared, stacked, event_ndim or 0)


def _level(number: Any, side: Any = None) -> float | None:
    """The level of a quantile, or of one end of an interval."""
    if not isinstance(number, (float, np.floating)) or side not in (None, "lower", "upper"):
        return None
    if side is None:
        return float(number)
    return float(np.round((1 + number) / 2 if side == "upper" else (1 - number) / 2, 12))
