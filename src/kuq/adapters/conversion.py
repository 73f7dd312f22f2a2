"""Finding the adapter for an object of another library."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kuq.adapters.sample_arrays import from_forecast
from kuq.distributions.base import Prediction
from kuq.distributions.plain_numbers import are_numbers, what_they_may_mean
from kuq.errors import ParameterError
from kuq.partition import Partition
from kuq.result import Uncertainty

#: The module with ``convert(obj, event_ndim)`` for objects of a library; imported for those only.
ADAPTERS = {
    "torch": "kuq.adapters.torch_distributions",
    "scipy": "kuq.adapters.scipy_stats",
    "ngboost": "kuq.adapters.ngboost_predictions",
    "skpro": "kuq.adapters.skpro_distributions",
    "botorch": "kuq.adapters.botorch_posteriors",
    "arviz": "kuq.adapters.inference_data",
    "xarray": "kuq.adapters.inference_data",
    "pandas": "kuq.adapters.quantile_tables",
}
#: What to call where an object is a model, which predicts nothing without data.
MODELS = {
    "catboost": "kuq.adapters.virtual_ensemble(model, data)",
    "ngboost": "kuq.as_distribution(model.pred_dist(X))",
    "lightgbm": "kuq.adapters.virtual_ensemble(model, X, held_out=(X, y))",
    "sklearn": "kuq.sklearn.UncertaintyRegressor.from_fitted(model, X_train, y_train), for "
    "gradient boosting kuq.adapters.virtual_ensemble(model, X, held_out=(X, y)), for Gaussian "
    "processes kuq.sklearn.posterior_ensemble(model, X)",
    "xgboost": "kuq.adapters.virtual_ensemble(model, X, held_out=(X, y))",
}


def as_distribution(obj: Any, *, event_ndim: int | None = None) -> Prediction:
    """The kuq distribution that an object of another library stands for.

    Takes ``torch.distributions`` (Normal, StudentT, MultivariateNormal, LowRankMultivariateNormal,
    MixtureSameFamily of normals, Independent and affine transforms around them), posteriors of
    GPyTorch and BoTorch, frozen ``norm``, ``t`` and ``multivariate_normal`` of ``scipy.stats`` and
    its ``Normal``, NGBoost predictions, distributions of skpro and sktime, tables of quantiles and
    intervals of sktime, forecasts of GluonTS and darts, and posterior predictive draws of ArviZ.
    Parameters are taken as they are; gradients flow. ``event_ndim`` is how many of the last axes
    form one outcome: by default as many as the object says, and none for libraries that have no
    word for it. So a posterior at 50 points is one outcome; ``event_ndim=0`` takes every point by
    itself. What stands for members, such as a Mixture of skpro, becomes an Ensemble.

    >>> import kuq, scipy.stats
    >>> kuq.as_distribution(scipy.stats.t(5.0, loc=[0.0, 1.0], scale=2.0))
    StudentT(batch=(2,), event=())
    """
    if isinstance(obj, Prediction):
        if event_ndim is not None:
            raise ParameterError(f"{obj!r} has its event already; leave event_ndim out")
        return obj
    library = _library(obj)
    if refusal := no_prediction(obj):
        raise ParameterError(refusal)
    prediction: Prediction | None
    if library in ADAPTERS:
        prediction = import_module(ADAPTERS[library]).convert(obj, event_ndim)
    else:
        prediction = from_forecast(obj, event_ndim)
    if prediction is None:
        raise ParameterError(_unknown(obj, library))
    return prediction


def _library(obj: object) -> str:
    """The library that an object comes from: a class derived from one of torch's is torch's."""
    roots = [kind.__module__.partition(".")[0] for kind in type(obj).__mro__]
    return next((root for root in roots if root in ADAPTERS), roots[0])


def no_prediction(obj: object) -> str:
    """What to pass in place of a model of kuq or of a result; empty for anything else."""
    name = type(obj).__name__
    if isinstance(obj, (Uncertainty, Partition)):
        return f"a result ({name}) is no prediction; pass the prediction that it was computed from"
    if hasattr(type(obj), "predict_distribution"):  # objects of NGBoost have whatever one asks for
        return f"a model ({name}) is no prediction; pass model.predict_distribution(X)"
    return ""


def _unknown(obj: object, library: str) -> str:
    kind = type(obj)
    if isinstance(obj, type):
        return f"an object is needed, got the class {obj.__name__} itself"
    if are_numbers(obj):
        return what_they_may_mean(obj)
    if isinstance(obj, (list, tuple)):
        return (
            "a list of predictions is no distribution; wrap it: kuq.Ensemble(predictions) converts "
            "each of them"
        )
    if any(f"{base.__module__}.{base.__name__}".startswith("torch.nn.") for base in kind.__mro__):
        return (
            f"a torch module ({kind.__name__}) is no distribution; kuq.nn.members([module, …], X) "
            "makes an Ensemble of what fitted modules predict"
        )
    model = MODELS.get(library)
    hint = f"; if it is a model: {model}" if model else ""
    return (
        f"there is no adapter for {kind.__module__}.{kind.__qualname__}; draw from it and pass "
        f"kuq.Samples(draws, sample_axis=0), or give its parameters to a kuq distribution{hint}"
    )
