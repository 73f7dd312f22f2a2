"""Virtual ensembles of gradient boosting: one fitted model after fewer and more of its trees."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kuq._numbers import whole_number
from kuq.adapters.wrapped_models import unwrapped
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.normal import Normal, Point
from kuq.errors import ParameterError, ShapeError

Floats = NDArray[np.float64]
#: The predictions for some inputs after each of some numbers of trees.
_Staged = Callable[[Any, list[int]], list[Any]]


def virtual_ensemble(
    model: Any, data: Any, n_members: int = 10, *, held_out: tuple[Any, Any] | None = None
) -> Ensemble:
    """One fitted boosting model after fewer and more of its trees as members; nothing is trained.

    Takes regressors of CatBoost, XGBoost and LightGBM, HistGradientBoostingRegressor and
    GradientBoostingRegressor, also inside of a Pipeline or a search. Members are the model after
    half of its trees up to all of them. They share most trees and tell what late trees still
    change: on Friedman's data one to two hundredths of the variance between models that are trained
    on resampled rows, as ``kuq.sklearn.UncertaintyRegressor(model)`` does, which is the better way
    where there is time. CatBoost's ``posterior_sampling=True`` is made for virtual ensembles.
    ``held_out=(X, y)``, rows that the model was not trained on, give every member the noise of
    its residuals there, a normal of their mean square. Without it members are points, whose own
    noise is unknown, apart from CatBoost's ``loss_function="RMSEWithUncertainty"``, which
    predicts it.

    >>> import kuq, numpy as np
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> X = np.linspace(0.0, 1.0, 200)[:, None]
    >>> y = np.sin(6 * X[:, 0])
    >>> model = HistGradientBoostingRegressor(max_iter=40).fit(X[::2], y[::2])
    >>> kuq.adapters.virtual_ensemble(model, X[:4], n_members=5, held_out=(X[1::2], y[1::2]))
    Ensemble of 5 × Normal(batch=(4,), event=())
    """
    n_members = whole_number(n_members, "n_members", 1)
    model, ready = unwrapped(model)
    if hasattr(model, "virtual_ensembles_predict"):
        mean, deviation = _catboost(model, ready(data), n_members)
        if deviation is not None and held_out is not None:
            raise ParameterError("this CatBoost model predicts its noise; leave held_out out")
        if deviation is not None:
            return Ensemble(Normal(mean, deviation))
        whole = model.predict
    else:
        trees, staged = _stages(model)
        counts = _counts(trees, n_members)
        mean = np.stack([np.asarray(stage, np.float64) for stage in staged(ready(data), counts)])
        whole = partial(_last, staged, trees)
    axes = mean.ndim - 2
    if held_out is None:
        return Ensemble(Point(mean, axes))
    X, y = held_out
    return Ensemble(Normal(mean, _deviation(whole(ready(X)), y), axes))


def _last(staged: _Staged, trees: int, X: Any) -> Any:
    return staged(X, [trees])[0]


def _counts(trees: int, n_members: int) -> list[int]:
    """Numbers of trees from half of them to all, evenly spaced."""
    counts = np.unique(np.linspace(max(1, trees / 2), trees, n_members).round().astype(int))
    if len(counts) < n_members:
        raise ParameterError(
            f"a model of {trees} trees has no {n_members} stages after half of them; take "
            f"n_members={max(1, trees // 2)} at most, or a model with more trees and a lower "
            "learning rate"
        )
    return [int(count) for count in counts]


def _deviation(predicted: Any, y: Any) -> Floats:
    """The root mean square of residuals."""
    mean, targets = np.asarray(predicted, np.float64), np.asarray(y, np.float64)
    if targets.shape != mean.shape:
        raise ShapeError(
            f"the targets of held_out must have the shape {mean.shape} of the predictions, got "
            f"{targets.shape}"
        )
    deviation: Floats = np.sqrt(np.mean((targets - mean) ** 2, axis=0))
    return deviation


def _catboost(model: Any, data: Any, n_members: int) -> tuple[Floats, Floats | None]:
    """Means, and standard deviations if the model predicts them, (members, rows)."""
    outputs = np.asarray(
        model.virtual_ensembles_predict(
            data, prediction_type="VirtEnsembles", virtual_ensembles_count=n_members
        )
    )
    members = np.moveaxis(outputs, 1, 0)
    if members.shape[-1] == 1:
        return members[..., 0], None
    loss = str(model.get_all_params().get("loss_function", "")).partition(":")[0]
    if members.shape[-1] != 2 or loss != "RMSEWithUncertainty":
        raise ParameterError(
            'virtual_ensemble needs loss_function="RMSEWithUncertainty" or "RMSE", got '
            f"{loss!r} with {members.shape[-1]} outputs"
        )
    return members[..., 0], np.sqrt(members[..., 1])


def _stages(model: Any) -> tuple[int, _Staged]:
    """The trees of a model and how to stop after some of them, by the library that it is of."""
    library = type(model).__module__.partition(".")[0]
    if not hasattr(model, "predict_proba"):
        if library == "xgboost":
            return _xgboost(model)
        if library == "lightgbm":
            return _lightgbm(model)
        if hasattr(model, "staged_predict") and hasattr(model, "learning_rate"):
            return _scikit_learn(model)
    raise ParameterError(
        "virtual_ensemble needs a fitted regressor of CatBoost, XGBoost or LightGBM, a "
        "HistGradientBoostingRegressor or a GradientBoostingRegressor, got "
        f"{type(model).__module__}.{type(model).__name__}; bag other models: "
        "kuq.sklearn.UncertaintyRegressor(model)"
    )


def _scikit_learn(model: Any) -> tuple[int, _Staged]:
    """``staged_predict`` of (Hist)GradientBoostingRegressor."""
    if not (hasattr(model, "n_iter_") or hasattr(model, "n_estimators_")):
        raise ParameterError(f"this {type(model).__name__} is not fitted yet")
    trees = model.n_iter_ if hasattr(model, "n_iter_") else model.n_estimators_

    def staged(X: Any, counts: list[int]) -> list[Any]:
        every = enumerate(model.staged_predict(X), start=1)
        return [mean for count, mean in every if count in counts]

    return int(trees), staged


def _xgboost(model: Any) -> tuple[int, _Staged]:
    """A regressor of XGBoost, or a Booster, up to its best iteration."""
    import xgboost

    booster = model if isinstance(model, xgboost.Booster) else model.get_booster()
    kind = json.loads(booster.save_config())["learner"]["gradient_booster"]["name"]
    if kind == "gblinear":
        raise ParameterError(
            'booster="gblinear" is one linear model, and has no trees to stop after; bag it: '
            "kuq.sklearn.UncertaintyRegressor(model)"
        )
    attributes = booster.attributes()
    best = attributes.get("best_iteration")
    trees = booster.num_boosted_rounds() if best is None else int(best) + 1

    def staged(X: Any, counts: list[int]) -> list[Any]:
        if booster is model and not isinstance(X, xgboost.DMatrix):
            X = xgboost.DMatrix(X)
        return [model.predict(X, iteration_range=(0, count)) for count in counts]

    return trees, staged


def _lightgbm(model: Any) -> tuple[int, _Staged]:
    """A regressor of LightGBM, or a Booster, up to its best iteration."""
    booster = model if type(model).__name__ == "Booster" else model.booster_
    if booster.dump_model(num_iteration=1)["average_output"]:
        raise ParameterError(
            'boosting_type="rf" averages its trees, and does not go on after some of them; bag it: '
            "kuq.sklearn.UncertaintyRegressor(model)"
        )
    trees = booster.best_iteration if booster.best_iteration > 0 else booster.current_iteration()

    def staged(X: Any, counts: list[int]) -> list[Any]:
        return [model.predict(X, num_iteration=count) for count in counts]

    return int(trees), staged
