"""Kernel scores of predicted distributions as scorers for model selection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from sklearn.pipeline import Pipeline

import kuq
from kuq.kernels.names import as_score


@final
@dataclass(frozen=True)
class DistributionScorer:
    """Minus the mean kuq score of predicted distributions at outcomes: more is better."""

    rule: kuq.Score

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        while isinstance(estimator, Pipeline):
            X, estimator = estimator[:-1].transform(X), estimator.steps[-1][1]
        if not hasattr(estimator, "predict_distribution"):
            raise kuq.ParameterError(
                f"{type(estimator).__name__} predicts no distributions; wrap it: "
                "kuq.sklearn.UncertaintyRegressor(estimator)"
            )
        # What it would say about the split concerns nobody here.
        predict = getattr(estimator, "_ensemble", estimator.predict_distribution)
        prediction = predict(X)
        outcomes = np.asarray(y, dtype=np.float64).reshape(
            (*prediction.batch_shape, *prediction.event_shape)
        )
        return -float(np.mean(kuq.score(prediction, outcomes, self.rule, unbiased=False)))


def scorer(rule: kuq.Score | str) -> DistributionScorer:
    """A scorer for GridSearchCV and cross_val_score: minus the mean of a kuq score.

    So models are chosen by how good their distributions are, not only their means. Works on
    anything with ``predict_distribution``, also at the end of a Pipeline.

    >>> import kuq, numpy as np
    >>> from sklearn.model_selection import GridSearchCV
    >>> X = np.arange(60.0)[:, None]
    >>> model = kuq.sklearn.UncertaintyRegressor(n_members=5, random_state=0)
    >>> search = GridSearchCV(model, {"n_members": [2, 5]}, scoring=kuq.sklearn.scorer(kuq.CRPS()))
    >>> bool(search.fit(X, X[:, 0] % 3).best_score_ < 0)
    True
    """
    return DistributionScorer(as_score(rule))
