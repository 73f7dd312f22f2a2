"""Posterior predictive draws of ArviZ: InferenceData, or the DataTree that newer versions use."""

from __future__ import annotations

from typing import Any

from kuq.distributions.base import Prediction
from kuq.distributions.samples import Samples
from kuq.errors import ParameterError

#: Groups with draws of outcomes: at the inputs of the data, and at new ones.
_GROUPS = ("posterior_predictive", "predictions")
_DRAWS = ("chain", "draw", "sample")


def convert(obj: Any, event_ndim: int | None) -> Prediction | None:
    """The draws of the only outcome in the only group, over all chains; None for other arrays.

    One model with one draw for every draw of its parameters: a law, and no ensemble.
    """
    has_groups = hasattr(obj, "children") or hasattr(obj, "groups")
    if has_groups and not getattr(obj, "data_vars", None):  # a group has variables itself
        obj = _group(obj)
    if hasattr(obj, "data_vars"):
        obj = _outcome(obj)
    along = [dim for dim in _DRAWS if dim in obj.dims]
    if "draw" not in along and "sample" not in along:
        return None
    others = [dim for dim in obj.dims if dim not in along]
    values = obj.transpose(*along, *others).values
    draws = values.reshape(-1, *values.shape[len(along) :])
    return Samples(draws, event_ndim or 0, sample_axis=0)


def _group(data: Any) -> Any:
    names = [name for name in _GROUPS if hasattr(data, name)]
    if len(names) != 1:
        have = " and ".join(names) or "neither posterior_predictive nor predictions"
        raise ParameterError(
            f"this {type(data).__name__} has {have}; say which draws of outcomes are meant, such "
            "as kuq.as_distribution(idata.posterior_predictive). Members with noise of their own "
            "are in the posterior: kuq.Ensemble(kuq.Normal(mu, sigma)) with the draws of mu and "
            "sigma along the first axis"
        )
    return getattr(data, names[0])


def _outcome(data: Any) -> Any:
    names = [str(name) for name in data.data_vars]
    if len(names) != 1:
        raise ParameterError(
            f"there are the variables {names}; say which is meant: "
            f"kuq.as_distribution(dataset[{names[0] if names else 'name'!r}])"
        )
    return data[names[0]]
