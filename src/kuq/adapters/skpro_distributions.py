"""Distributions of skpro, which sktime uses as well: what ``predict_proba`` returns."""

from __future__ import annotations

from typing import Any

import numpy as np

from kuq.distributions.base import Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.normal import Normal, Point
from kuq.distributions.samples import Samples
from kuq.distributions.student_t import StudentT


def convert(obj: Any, event_ndim: int | None) -> Prediction | None:
    """Normal, Student-t, point and empirical laws, and a Mixture as an ensemble; else None.

    Laws are tables (rows, variables); a single variable is a number for every row.
    """
    from skpro import distributions as sd

    axes = 0 if event_ndim is None else event_ndim
    if isinstance(obj, sd.Normal):
        loc, scale = _columns(obj, obj.mu, obj.sigma)
        return Normal(loc, scale, axes)
    if isinstance(obj, sd.TDistribution):
        df, loc, scale = _columns(obj, obj.df, obj.mu, obj.sigma)
        return StudentT(df, loc, scale, axes)
    if isinstance(obj, sd.Delta):
        return Point(_columns(obj, obj.c)[0], axes)
    if isinstance(obj, sd.Empirical):
        return _empirical(obj, axes)
    if isinstance(obj, sd.Mixture):
        members = [convert(member, event_ndim) for _, member in obj._distributions]
        converted = [member for member in members if member is not None]
        return Ensemble(converted, obj.weights) if len(converted) == len(members) else None
    return None


def _columns(obj: Any, *parameters: Any) -> list[Any]:
    """Parameters at every row, without the axis of a single variable."""
    full = [np.broadcast_to(np.asarray(p, dtype=np.float64), obj.shape) for p in parameters]
    return [p[:, 0] if p.ndim == 2 and p.shape[1] == 1 else p for p in full]


def _empirical(obj: Any, axes: int) -> Samples:
    """Draws in a table whose index is (draw, row), with weights of the same index or none."""
    if obj.ndim == 0:
        weights = None if obj.weights is None else np.asarray(obj.weights, dtype=np.float64)
        return Samples(np.asarray(obj.spl, dtype=np.float64).reshape(-1), weights=weights)
    draws = obj.spl.index.get_level_values(0).unique()
    values = np.stack([obj.spl.loc[draw].reindex(obj.index).to_numpy(float) for draw in draws])
    weights = None
    if obj.weights is not None:
        weights = np.stack([obj.weights.loc[draw].reindex(obj.index) for draw in draws], axis=-1)
    if values.shape[-1] == 1:
        values = values[..., 0]
    elif weights is not None and axes == 0:
        weights = np.broadcast_to(weights[:, None, :], (*values.shape[1:], len(draws)))
    return Samples(values, axes, sample_axis=0, weights=weights)
