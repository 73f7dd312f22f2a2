"""Predictions of NGBoost: what ``pred_dist`` returns."""

from __future__ import annotations

from typing import Any

from ngboost import distns

from kuq.adapters.full_covariance import full_normal
from kuq.distributions.base import Prediction
from kuq.distributions.normal import Normal
from kuq.distributions.student_t import StudentT


def convert(obj: Any, event_ndim: int | None) -> Prediction | None:
    """Normal, Student-t and multivariate normal predictions by their parameters; else None."""
    axes = 0 if event_ndim is None else event_ndim
    if isinstance(obj, distns.Normal):
        return Normal(obj.loc, obj.scale, axes)
    if isinstance(obj, (distns.T, distns.TFixedDf, distns.TFixedDfFixedVar)):
        return StudentT(obj.df, obj.loc, obj.scale, axes)
    if getattr(obj, "cov_inv", None) is not None:  # a class made by MultivariateNormal(k)
        return full_normal(obj.loc, obj.cov, event_ndim)
    return None
