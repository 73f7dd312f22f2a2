"""One estimator that predicts distributions and their uncertainty."""

from __future__ import annotations

from typing import Any, Literal, Self, overload

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.ensemble import BaggingRegressor, RandomForestRegressor, VotingRegressor
from sklearn.metrics import r2_score
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
    validate_data,
)

import kuq
from kuq._numbers import require_no_mask
from kuq.kernels.names import as_score, usual_estimator, usual_score
from kuq.sklearn.fitted import FORESTS, members_of
from kuq.sklearn.table_rows import TableRegressor, takes_tables
from kuq.sklearn.trees import TreeMembers

#: Memory in bytes for one part of the rows.
DEFAULT_MEMORY = 2**28
#: Estimators that are not bagged.
_WITH_MEMBERS = (*FORESTS, BaggingRegressor, VotingRegressor)


def _last(estimator: Any) -> Any:
    """The estimator at the end of pipelines."""
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


class UncertaintyRegressor(RegressorMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor with members, hence with aleatoric and epistemic uncertainty.

    ``estimator`` is a forest, a BaggingRegressor, a VotingRegressor of regressors with
    ``return_std``, one of these at the end of a Pipeline, or any other regressor, of which
    ``n_members`` are bagged, which get tables of pandas as they are, text columns and all; by
    default a RandomForestRegressor with ``min_samples_leaf=5``.
    ``noise="auto"`` takes the noise of members from their leaves (trees) or their standard
    deviations (``return_std``), else from residuals of training rows outside of their bags.
    ``"normal"`` and ``"residuals"`` take such residuals for trees, too, as a normal or as they are:
    then the split does not hang on the size of leaves, of which those of one row know no noise.
    ``score`` is the kuq score of ``predict_uncertainty``, by default ``CRPS()``; as a method,
    ``score(X, y)`` is R² as in every regressor.

    >>> import kuq, numpy as np
    >>> X = np.linspace(0.0, 1.0, 60)[:, None]
    >>> model = kuq.sklearn.UncertaintyRegressor(n_members=20, random_state=0)
    >>> u = model.fit(X, np.sin(6 * X[:, 0])).predict_uncertainty(X)
    >>> u.epistemic.shape
    (60,)
    """

    def __init__(
        self,
        estimator: Any = None,
        n_members: int | None = None,
        score: kuq.Score | str | None = None,
        noise: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.n_members = n_members
        self.score = score
        self.noise = noise
        self.random_state = random_state

    # scikit-learn asks for parameters by attribute and for R² by the method of the same name; a
    # property gives the method to callers and keeps the parameter where get_params finds it.
    @property
    def score(self) -> Any:
        """R² of the predictions: ``score(X, y, sample_weight=None)``."""
        return self._r2

    @score.setter
    def score(self, value: kuq.Score | str | None) -> None:
        self.__dict__["score"] = value

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, and those of the inner estimator as ``estimator__name``."""
        return {**super().get_params(deep=deep), "score": self.__dict__["score"]}

    def _r2(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        return float(r2_score(y, self.predict(X), sample_weight=sample_weight))

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the members.

        ``sample_weight`` (rows,), for estimators that take it, says how much rows count, in members
        and in their noise; rows of weight zero are left out.
        """
        for name, given in (("X", X), ("y", y)):
            require_no_mask(given, name)
        if self._prepares() or (self._bags() and takes_tables(self.estimator, X)):
            validate_data(self, X, skip_check_array=True)
            y = np.asarray(y, dtype=np.float64)
        else:
            X, y = validate_data(
                self,
                X,
                y,
                multi_output=True,
                y_numeric=True,
                ensure_all_finite=self._finite(),
            )
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        whole, weights = self._whole(X), None
        if sample_weight is not None:
            weights = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
            counting = np.flatnonzero(weights)
            if not len(counting):
                raise kuq.ParameterError("sample_weight must be positive for at least one row")
            X, y, weights = _safe_indexing(X, counting), y[counting], weights[counting]
        self.estimator_ = whole.fit(X, y, **self._weighted(whole, weights))
        self.members_ = members_of(self.estimator_, X, y, self.noise, weights)
        return self

    @staticmethod
    def _weighted(whole: Any, weights: Any) -> dict[str, Any]:
        """Weights under the name by which the last step of a pipeline gets them."""
        if weights is None:
            return {}
        name, inner = "sample_weight", whole
        while isinstance(inner, Pipeline):
            step, inner = inner.steps[-1]
            name = f"{step}__{name}" if inner is _last(whole) else name
        if not (isinstance(inner, VotingRegressor) or has_fit_parameter(inner, "sample_weight")):
            raise kuq.ParameterError(f"{type(inner).__name__} takes no sample_weight")
        return {name: weights}

    @classmethod
    def from_fitted(
        cls,
        estimator: Any,
        X_train: Any,
        y_train: Any,
        *,
        score: kuq.Score | str | None = None,
        noise: str = "auto",
        sample_weight: Any = None,
    ) -> Self:
        """The same around an ensemble that is fitted already, with its training data.

        It may be at the end of a Pipeline, or the best of a search; a GaussianProcessRegressor,
        BayesianRidge or ARDRegression will do as well. ``sample_weight`` is that of its fit.
        """
        check_is_fitted(estimator)
        made = cls(estimator, score=score, noise=noise)
        made.estimator_ = estimator
        made.members_ = members_of(estimator, X_train, y_train, noise, sample_weight)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(estimator, name):
                setattr(made, name, getattr(estimator, name))
        return made

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> np.ndarray: ...

    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean prediction of the ensemble, (rows,) or (rows, outputs).

        With ``return_std`` also the standard deviation of an outcome, of noise and disagreement
        together.
        """
        X = self._checked(X)
        mean = np.asarray(self.estimator_.predict(X))
        if not return_std:
            return mean
        parts = self.members_.parts(X, DEFAULT_MEMORY)
        return mean, np.concatenate([self.members_.ensemble(rows).std() for rows in parts])

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of the central interval of every row, each as ``predict``.

        They are quantiles of the predicted mixture; ``kuq.calibration.recalibrate`` makes them hold
        what they promise on held-out data.

        >>> import kuq, numpy as np
        >>> X = np.linspace(0.0, 1.0, 60)[:, None]
        >>> model = kuq.sklearn.UncertaintyRegressor(n_members=20, random_state=0)
        >>> low, high = model.fit(X, np.sin(6 * X[:, 0])).predict_interval(X, coverage=0.8)
        >>> bool(np.all(low <= high))
        True
        """
        X = self._checked(X)
        parts = self.members_.parts(X, DEFAULT_MEMORY)
        bounds = [self.members_.ensemble(rows).interval(coverage) for rows in parts]
        low, high = (np.concatenate(side) for side in zip(*bounds, strict=True))
        return low, high

    def predict_distribution(self, X: Any) -> kuq.Ensemble:
        """The distribution that every member predicts.

        Leaves and residuals are ``Samples(..., whole=True)``: the law of a member itself. Trees
        share training rows, so that these are no independent draws, and nothing is corrected for
        their number.
        """
        ensemble = self._ensemble(X)
        if isinstance(self.members_, TreeMembers):
            self.members_.warn_of_single_rows(stacklevel=2)
        return ensemble

    def _ensemble(self, X: Any) -> kuq.Ensemble:
        ensemble: kuq.Ensemble = self.members_.ensemble(self._checked(X))
        return ensemble

    def predict_uncertainty(
        self,
        X: Any,
        score: kuq.Score | str | None = None,
        *,
        estimator: str | None = None,
        unbiased: bool | str = True,
        max_memory: float = DEFAULT_MEMORY,
    ) -> kuq.Uncertainty:
        """Total, aleatoric and epistemic uncertainty of every row, some rows at a time.

        The same as ``kuq.decompose`` of ``predict_distribution(X)``, with less memory. ``score`` is
        that of the constructor unless given; a bandwidth of "median" or one for each row takes all
        rows at once. ``max_memory`` bounds memory in bytes.
        """
        X = self._checked(X)
        given = score or self.__dict__["score"] or usual_score(on_grid=False)
        score, estimator = as_score(given), estimator or usual_estimator(given)
        u: kuq.Uncertainty = self.members_.decompose(X, score, estimator, unbiased, max_memory)
        return u

    def _bags(self) -> bool:
        """Whether the estimator has no members of its own."""
        return self.estimator is not None and not isinstance(_last(self.estimator), _WITH_MEMBERS)

    def _whole(self, X: Any) -> Any:
        """The ensemble to fit: the inner estimator if it has members, else a bag of it."""
        if self.estimator is None:
            whole = RandomForestRegressor(min_samples_leaf=5)
        elif not self._bags():
            whole = clone(self.estimator)
        elif takes_tables(self.estimator, X):
            whole = BaggingRegressor(TableRegressor(self.estimator, X.iloc[:0]))
        else:
            whole = BaggingRegressor(self.estimator)
        inner = _last(whole)
        parameters = inner.get_params(deep=False)
        if self.n_members is not None:
            if "n_estimators" not in parameters:
                raise kuq.ParameterError(
                    f"{type(inner).__name__} has its members already; leave n_members out"
                )
            inner.set_params(n_estimators=self.n_members)
        if self.random_state is not None and "random_state" in parameters:
            inner.set_params(random_state=self.random_state)
        return whole

    def _prepares(self) -> bool:
        """Whether the estimator takes tables as they are and makes numbers of them itself."""
        return isinstance(self.estimator, Pipeline) and not self._bags()

    def _checked(self, X: Any) -> Any:
        checked = self._as_in_training(X)
        if checked.shape[0] == 0:
            raise kuq.InsufficientDataError("there are no rows to predict: X is empty")
        return checked

    def _as_in_training(self, X: Any) -> Any:
        check_is_fitted(self)
        if self._prepares() or isinstance(
            getattr(self.estimator_, "estimator", None), TableRegressor
        ):
            return X if hasattr(X, "shape") else np.asarray(X)
        if self.estimator_ is self.estimator:  # fitted elsewhere, perhaps on a table with names
            return X if hasattr(X, "iloc") or issparse(X) else np.asarray(X)
        return validate_data(self, X, reset=False, ensure_all_finite=self._finite())

    def _finite(self) -> bool | str:
        return "allow-nan" if get_tags(self).input_tags.allow_nan else True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(RandomForestRegressor() if self.estimator is None else self.estimator)
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.target_tags.multi_output = inner.target_tags.multi_output
        return tags
