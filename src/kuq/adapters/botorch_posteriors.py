"""Posteriors of BoTorch."""

from __future__ import annotations

from typing import Any

import torch

from kuq.adapters import torch_distributions
from kuq.distributions.base import Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.normal import Normal, Point
from kuq.errors import ParameterError


def convert(obj: Any, event_ndim: int | None) -> Prediction | None:
    """A posterior by its distribution; one of several models as an ensemble; else None.

    Fully Bayesian models have a posterior for every draw of their parameters, and ensembles the
    values of every member, both along the third axis from the end: (…, members, points, outputs).
    """
    several = hasattr(obj, "mixture_mean") or hasattr(obj, "values")
    if several and event_ndim:
        raise ParameterError(
            f"members of {type(obj).__name__} are taken at every point by itself, got "
            f"event_ndim = {event_ndim}; leave it out"
        )
    if hasattr(obj, "values"):
        return Ensemble(Point(_members(obj.values)), obj.weights)
    if several:
        return Ensemble(Normal(_members(obj.mean), torch.sqrt(_members(obj.variance))))
    if hasattr(obj, "distribution"):
        return torch_distributions.convert(obj.distribution, event_ndim)
    return None


def _members(values: Any) -> Any:
    """Members first, and no axis of a single output."""
    values = values.movedim(-3, 0)
    return values[..., 0] if values.shape[-1] == 1 else values
