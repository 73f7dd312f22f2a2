"""The members inside a fitted ensemble of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.validation import check_is_fitted, validate_data

import kuq
from kuq.adapters.wrapped_models import unwrapped
from kuq.sklearn.leaves import Indices, Leaves
from kuq.sklearn.members import Floats, Members
from kuq.sklearn.posterior import MEMBERS, PosteriorMembers, has_posterior, posterior_of
from kuq.sklearn.probabilistic import NormalMembers, gives_deviations
from kuq.sklearn.residuals import ResidualMembers, out_of_bag_residuals
from kuq.sklearn.trees import TreeMembers

FORESTS = (RandomForestRegressor, ExtraTreesRegressor)
#: Criteria under which the value of a leaf is the mean of its targets.
_MEAN_CRITERIA = ("squared_error", "friedman_mse", "poisson")
NOISE = ("auto", "leaves", "normal", "residuals")


def members_of(
    fitted: Any, X_train: Any, y_train: Any, noise: str, sample_weight: Any = None
) -> Members:
    """The members of a fitted ensemble by what they can say about noise.

    Trees have leaves, Gaussian processes and the like a standard deviation, and all others the
    residuals of training rows that they have not seen; a ``noise`` other than "auto" is taken.
    Targets and residuals count by the ``sample_weight`` of their rows.
    """
    check_noise(noise)
    inner, _ = unwrapped(fitted)
    if noise in ("normal", "residuals"):
        return residual_members(fitted, X_train, y_train, noise, sample_weight)
    if noise == "leaves" or has_leaves(inner):
        return tree_members(fitted, X_train, y_train, sample_weight, cautious=noise == "auto")
    if has_posterior(inner):
        return posterior_members(fitted)
    if isinstance(inner, VotingRegressor) or (
        isinstance(inner, BaggingRegressor) and all(map(gives_deviations, inner.estimators_))
    ):
        return normal_members(fitted, np.asarray(y_train))
    return residual_members(fitted, X_train, y_train, "normal", sample_weight)


def has_leaves(fitted: Any) -> bool:
    """Whether the members of a fitted ensemble are trees with training rows in their leaves."""
    return isinstance(fitted, FORESTS) or _is_bagged(fitted, DecisionTreeRegressor)


def tree_members(
    fitted: Any, X_train: Any, y_train: Any, sample_weight: Any = None, *, cautious: bool = True
) -> TreeMembers:
    """The trees of a forest, or of bagged trees, with the targets in their leaves."""
    fitted, ready = unwrapped(fitted)
    check_is_fitted(fitted)
    if not has_leaves(fitted):
        raise kuq.ParameterError(
            "a fitted RandomForestRegressor, ExtraTreesRegressor or BaggingRegressor of decision "
            f"trees is needed, got {type(fitted).__name__}{_other_ways(fitted)}"
        )
    targets = _targets(y_train)
    leaf_numbers = fitted.apply if isinstance(fitted, FORESTS) else partial(_bagged_leaves, fitted)
    apply = partial(_after, leaf_numbers, ready)
    leaf = np.asarray(apply(X_train))
    if len(leaf) != len(targets):
        raise kuq.ShapeError(
            f"X_train and y_train need equally many rows, got {len(leaf)} and {len(targets)}"
        )
    every = _growing_weights(fitted, len(targets), sample_weight)
    trees = fitted.estimators_
    leaves = []
    for position, (tree, weights) in enumerate(zip(trees, every, strict=True)):
        leaves.append(Leaves.of_tree(tree.tree_.node_count, leaf[:, position], weights))
        _check_leaf_values(tree, leaves[-1], targets, position)
    offsets = np.cumsum([0, *(tree.tree_.node_count for tree in trees[:-1])])
    # Trees are new ones after each fit, the forest that holds them is not.
    return TreeMembers(apply, Leaves.joined(leaves), offsets, targets, cautious, trees[0])


def posterior_members(fitted: Any, n_members: int = MEMBERS) -> PosteriorMembers:
    """A Gaussian process, or another regressor that knows its noise, as functions it may be."""
    fitted, ready = unwrapped(fitted)
    check_is_fitted(fitted)
    if not has_posterior(fitted):
        raise kuq.ParameterError(
            "a fitted GaussianProcessRegressor, BayesianRidge or ARDRegression is needed, got "
            f"{type(fitted).__name__}; for a bag or a vote of them: normal_ensemble"
        )
    return PosteriorMembers(partial(_after, partial(posterior_of, fitted), ready), n_members)


_BAG = "; bag the regressor: UncertaintyRegressor(model).fit(X, y)"


def _named(fitted: Any) -> str:
    """The kind of an ensemble and of what is in it."""
    inside = ", ".join(
        dict.fromkeys(type(one).__name__ for one in getattr(fitted, "estimators_", ()))
    )
    return type(fitted).__name__ + (f" of {inside}" if inside else "")


def normal_members(fitted: Any, y_train: Floats | None = None) -> NormalMembers:
    """The regressors with ``return_std`` of a BaggingRegressor or VotingRegressor."""
    fitted, ready = unwrapped(fitted)
    check_is_fitted(fitted)
    if not isinstance(fitted, (BaggingRegressor, VotingRegressor)) or not all(
        map(gives_deviations, fitted.estimators_)
    ):
        raise kuq.ParameterError(
            "a fitted BaggingRegressor or VotingRegressor of regressors whose predict takes "
            f"return_std (GaussianProcessRegressor, BayesianRidge) is needed, got {_named(fitted)}"
            + ("; for one of them alone: posterior_ensemble" if has_posterior(fitted) else _BAG)
        )
    outputs = 1 if y_train is None or y_train.ndim < 2 else y_train.shape[1]
    weights = None
    if isinstance(fitted, VotingRegressor) and fitted.weights is not None:
        pairs = zip(fitted.estimators, fitted.weights, strict=True)
        weights = np.asarray([weight for (_, model), weight in pairs if not _is_dropped(model)])
    predict = partial(_after, partial(_normals_of_each, fitted), ready)
    return NormalMembers(predict, len(fitted.estimators_), outputs, weights)


def residual_members(
    fitted: Any, X_train: Any, y_train: Any, noise: str, sample_weight: Any = None
) -> ResidualMembers:
    """The regressors of a BaggingRegressor or forest, with noise from rows outside their bags."""
    if noise not in ("normal", "residuals"):
        raise kuq.ParameterError(f'noise must be "normal" or "residuals", got {noise!r}')
    fitted, ready = unwrapped(fitted)
    if not isinstance(fitted, (BaggingRegressor, *FORESTS)):
        raise kuq.ParameterError(
            "noise from out-of-bag residuals needs a fitted BaggingRegressor, "
            f"RandomForestRegressor or ExtraTreesRegressor, got {type(fitted).__name__}"
            f"{_other_ways(fitted) or _BAG}"
        )
    check_is_fitted(fitted)
    predict = partial(_after, partial(_means_of_each, fitted), ready)
    targets, means = _targets(y_train), predict(X_train)
    if means.shape[1:] != targets.shape:
        raise kuq.ShapeError(
            f"y_train must have the shape {means.shape[1:]} of the predictions for X_train, got "
            f"{targets.shape}"
        )
    weights = None if sample_weight is None else _row_weights(sample_weight, len(targets))
    residuals, shares = out_of_bag_residuals(means, fitted.estimators_samples_, targets, weights)
    return ResidualMembers(predict, residuals, len(fitted.estimators_), noise == "normal", shares)


def _other_ways(fitted: Any) -> str:
    """What takes a model that has no members in a bag."""
    if any(hasattr(fitted, name) for name in ("staged_predict", "get_booster", "booster_")):
        return "; for gradient boosting: kuq.adapters.virtual_ensemble(model, X, held_out=(X, y))"
    if has_posterior(fitted):
        return "; for a posterior: kuq.sklearn.posterior_ensemble(model, X)"
    if hasattr(fitted, "predict_uncertainty"):
        return ", which predicts its uncertainty itself: model.predict_uncertainty(X)"
    return ""


def _after(call: Callable[[Any], Any], ready: Callable[[Any], Any], X: Any) -> Any:
    return call(ready(X))


def check_noise(noise: str) -> None:
    if noise not in NOISE:
        raise kuq.ParameterError(f"noise must be one of {NOISE}, got {noise!r}")


def _is_bagged(fitted: Any, kind: type) -> bool:
    return isinstance(fitted, BaggingRegressor) and all(
        isinstance(model, kind) for model in getattr(fitted, "estimators_", [])
    )


def _is_dropped(model: Any) -> bool:
    return isinstance(model, str) and model == "drop"


def _targets(y: Any) -> Floats:
    targets = np.asarray(y, dtype=np.float64)
    if targets.ndim == 2 and targets.shape[1] == 1:
        targets = targets[:, 0]
    if targets.ndim not in (1, 2):
        raise kuq.ShapeError(
            f"y_train must have the shape (rows,) or (rows, outputs), got {targets.shape}"
        )
    return targets


def _of_each(fitted: Any, X: Any, call: Callable[[Any, Any], Any]) -> list[Any]:
    """What every member says about its own columns of X."""
    if isinstance(fitted, VotingRegressor):
        return [call(model, X) for model in fitted.estimators_]
    if isinstance(fitted, FORESTS):
        X = validate_data(
            fitted, X, reset=False, dtype=np.float32, accept_sparse="csr", ensure_all_finite=False
        )
        return [call(tree, X) for tree in fitted.estimators_]
    X = validate_data(fitted, X, reset=False, dtype=None, ensure_all_finite=False)
    every = zip(fitted.estimators_, fitted.estimators_features_, strict=True)
    return [call(model, X[:, columns]) for model, columns in every]


def _means_of_each(fitted: Any, X: Any) -> Floats:
    # Some libraries predict in single precision, in which spreads of members lose digits.
    return np.stack(_of_each(fitted, X, lambda model, x: np.asarray(model.predict(x), np.float64)))


def _normals_of_each(fitted: Any, X: Any) -> list[tuple[Floats, Floats]]:
    return _of_each(fitted, X, lambda model, x: model.predict(x, return_std=True))


def _bagged_leaves(fitted: BaggingRegressor, X: Any) -> Indices:
    return np.stack(_of_each(fitted, X, lambda tree, x: tree.apply(x)), axis=1)


def _growing_weights(fitted: Any, rows: int, sample_weight: Any) -> list[Floats]:
    """How often each training row counted when each tree was grown."""
    seen = getattr(fitted, "_n_samples", rows)
    if seen != rows:
        raise kuq.ShapeError(
            f"the ensemble was fitted on {seen} rows, but X_train has {rows}; pass the data that "
            "it was fitted on"
        )
    counts = [
        np.bincount(chosen, minlength=rows).astype(np.float64)
        for chosen in fitted.estimators_samples_
    ]
    if sample_weight is None or fitted.bootstrap or isinstance(fitted, BaggingRegressor):
        return counts  # where rows are drawn, weights decide how often each of them is
    weights = _row_weights(sample_weight, rows)
    return [count * weights for count in counts]


def _row_weights(sample_weight: Any, rows: int) -> Floats:
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (rows,):
        raise kuq.ShapeError(f"sample_weight must have the shape ({rows},), got {weights.shape}")
    return weights


def _check_leaf_values(tree: Any, leaves: Leaves, targets: Floats, position: int) -> None:
    """The targets in a leaf have to give back its value: other data would give wrong numbers."""
    is_leaf = tree.tree_.children_left < 0
    columns = targets.reshape(len(targets), -1)
    value = tree.tree_.value[:, :, 0]
    fits = bool(np.all((leaves.sizes > 0) == is_leaf)) and value.shape[1] == columns.shape[1]
    if fits and tree.criterion in _MEAN_CRITERIA and tree.monotonic_cst is None:
        gap = np.abs(leaves.means(columns) - value)[is_leaf]
        fits = bool(np.all(gap <= 1e-6 * np.abs(columns).max()))
    if not fits:
        raise kuq.ParameterError(
            f"the leaves of tree {position} do not hold these targets: X_train and y_train must be "
            "the data that the ensemble was fitted on, in the same order, with the same "
            "sample_weight"
        )
