"""Regressors that predict a mean and a standard deviation as members."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from sklearn.pipeline import Pipeline

import kuq
from kuq.sklearn.members import Floats, Members, as_event
from kuq.sklearn.table_rows import TableRegressor


def gives_deviations(estimator: Any) -> bool:
    """Whether ``predict`` takes ``return_std``, as it does in Gaussian processes."""
    while isinstance(estimator, (Pipeline, TableRegressor)):
        inside = isinstance(estimator, Pipeline)
        estimator = estimator.steps[-1][1] if inside else estimator.estimator
    return "return_std" in inspect.signature(estimator.predict).parameters


@final
@dataclass(frozen=True)
class NormalMembers(Members):
    """One member per regressor: the normal of its mean and standard deviation."""

    predict: Callable[[Any], list[tuple[Floats, Floats]]]
    member_count: int
    outputs: int
    weights: Floats | None = None

    @property
    def numbers_per_row(self) -> int:
        return 2 * self.member_count * self.outputs

    def ensemble(self, X: Any) -> kuq.Ensemble:
        predicted = self.predict(X)
        mean = np.stack([member[0] for member in predicted])
        deviation = np.stack([member[1] for member in predicted])
        return kuq.Ensemble(kuq.Normal(mean, deviation, as_event(mean)), self.weights)
