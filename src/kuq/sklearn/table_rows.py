"""Bags of regressors that take tables: what a bag hands on as arrays becomes a table again."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.tree import DecisionTreeRegressor


def takes_tables(estimator: Any, X: Any) -> bool:
    """Whether a table of pandas is to reach the regressors of a bag as it is: names, text and all.

    Trees take numbers, and their leaves are read where they stand in the bag by themselves.
    """
    return hasattr(X, "iloc") and not isinstance(estimator, DecisionTreeRegressor)


class TableRegressor(RegressorMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor whose inputs get the columns and types of ``like``, a table without rows."""

    def __init__(self, estimator: Any, like: Any) -> None:
        self.estimator = estimator
        self.like = like

    def fit(self, X: Any, y: Any) -> Self:
        self.estimator_ = clone(self.estimator).fit(self._table(X), y)
        return self

    def predict(self, X: Any, **options: Any) -> Any:
        """What the regressor predicts, with options such as ``return_std`` handed on."""
        return self.estimator_.predict(self._table(X), **options)

    def _table(self, X: Any) -> Any:
        return type(self.like)(X, columns=self.like.columns).astype(self.like.dtypes.to_dict())
