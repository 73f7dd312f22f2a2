"""Forecasts that carry their draws or quantiles, as those of GluonTS and darts do."""

from __future__ import annotations

from typing import Any

import numpy as np

from kuq.adapters.quantile_forecasts import quantiles
from kuq.distributions.base import Prediction
from kuq.distributions.normal import Point
from kuq.distributions.samples import Samples


def from_forecast(obj: Any, event_ndim: int | None) -> Prediction | None:
    """A forecast, known by its attributes, or None where nothing is known of the object.

    GluonTS: ``samples`` (draws, time[, dimensions]), ``forecast_array`` (quantiles, time) with
    ``forecast_keys``, or a ``distribution`` of torch. darts: ``all_values()`` (time, components,
    draws), one draw for a deterministic series.
    """
    if hasattr(obj, "distribution") and hasattr(obj, "prediction_length"):
        from kuq.adapters.torch_distributions import convert

        return convert(obj.distribution, event_ndim)
    event_ndim = 0 if event_ndim is None else event_ndim
    if hasattr(obj, "forecast_array") and hasattr(obj, "forecast_keys"):
        return _from_quantiles(obj.forecast_array, obj.forecast_keys, event_ndim)
    if callable(getattr(obj, "all_values", None)):
        values = obj.all_values()
        if values.shape[-1] == 1:
            return Point(values[..., 0], event_ndim)
        return Samples(values, event_ndim, sample_axis=-1)
    if hasattr(obj, "samples") and not callable(obj.samples):
        return Samples(obj.samples, event_ndim, sample_axis=0)
    return None


def _from_quantiles(rows: Any, keys: list[str], event_ndim: int) -> Prediction:
    """Rows of quantiles in any order, possibly with the mean among them."""
    levels = {float(key): k for k, key in enumerate(keys) if key != "mean"}
    values = np.stack([np.asarray(rows)[levels[level]] for level in sorted(levels)], axis=-1)
    return quantiles(sorted(levels), values, event_ndim)
