"""Forecasts that carry their draws or quantiles, as those of GluonTS and darts do."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from kuq.adapters.quantile_forecasts import quantiles
from kuq.distributions.base import Prediction
from kuq.distributions.normal import Normal, Point
from kuq.distributions.samples import Samples

#: A component of a series that is a parameter, by the name that darts gives it.
_PARAMETER = re.compile(r"(?P<variable>.+)_(?P<parameter>q[01]\.\d+|mu|sigma)")


def from_forecast(obj: Any, event_ndim: int | None) -> Prediction | None:
    """A forecast, known by its attributes, or None where nothing is known of the object.

    GluonTS: ``samples`` (draws, time[, dimensions]), ``forecast_array`` (quantiles, time) with
    ``forecast_keys``, or a ``distribution`` of torch. darts: ``all_values()`` (time, components,
    draws), one draw for a deterministic series, whose components may be parameters of laws
    (``predict_likelihood_parameters=True``): ``y_q0.100``, ``y_q0.900``, or ``y_mu``, ``y_sigma``.
    """
    if hasattr(obj, "distribution") and hasattr(obj, "prediction_length"):
        from kuq.adapters.torch_distributions import convert

        return convert(obj.distribution, event_ndim)
    event_ndim = 0 if event_ndim is None else event_ndim
    if hasattr(obj, "forecast_array") and hasattr(obj, "forecast_keys"):
        return _from_quantiles(obj.forecast_array, obj.forecast_keys, event_ndim)
    if callable(getattr(obj, "all_values", None)):
        values = obj.all_values()
        if values.shape[-1] > 1:
            return Samples(values, event_ndim, sample_axis=-1)
        parts = _parameters([str(name) for name in getattr(obj, "components", ())])
        return _from_parameters(values[..., 0], parts, event_ndim)
    if hasattr(obj, "samples") and not callable(obj.samples):
        return Samples(obj.samples, event_ndim, sample_axis=0)
    return None


def _parameters(names: list[str]) -> dict[str, dict[str, int]]:
    """Which components belong to which variable: the variable, and the name of the parameter."""
    variables: dict[str, dict[str, int]] = {}
    for place, name in enumerate(names):
        match = _PARAMETER.fullmatch(name)
        if match is None:
            return {}
        variables.setdefault(match["variable"], {})[match["parameter"]] = place
    kinds = {tuple(places) for places in variables.values()}
    return variables if len(kinds) == 1 else {}


def _from_parameters(
    values: np.ndarray, parts: dict[str, dict[str, int]], event_ndim: int
) -> Prediction:
    """Points, or the laws whose parameters the components are, (time, variables)."""
    names = list(next(iter(parts.values()), ()))
    each = [values[:, list(places.values())] for places in parts.values()]
    if names == ["mu", "sigma"]:
        stacked = np.stack(each, axis=1)
        return Normal(stacked[..., 0], stacked[..., 1], event_ndim)
    if len(names) > 1 and all(name.startswith("q") for name in names):
        return quantiles([float(name[1:]) for name in names], np.stack(each, axis=1), event_ndim)
    return Point(values, event_ndim)


def _from_quantiles(rows: Any, keys: list[str], event_ndim: int) -> Prediction:
    """Rows of quantiles in any order, possibly with the mean among them."""
    levels = {float(key): k for k, key in enumerate(keys) if key != "mean"}
    values = np.stack([np.asarray(rows)[levels[level]] for level in sorted(levels)], axis=-1)
    return quantiles(sorted(levels), values, event_ndim)
