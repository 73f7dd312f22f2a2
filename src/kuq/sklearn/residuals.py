"""Point regressors as members, with noise from out-of-bag residuals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

import kuq
from kuq.sklearn.members import Floats, Members, as_event, decompose_in_parts


def out_of_bag_residuals(predictions: Floats, samples: list[Any], targets: Floats) -> Floats:
    """y − ŷ of training rows, where ŷ averages the members that have not seen the row.

    ``predictions`` (members, rows[, outputs]) of the training rows; ``samples`` are the rows that
    each member was fitted on.
    """
    unseen = np.ones(predictions.shape[:2])
    for member, rows in enumerate(samples):
        unseen[member, rows] = 0.0
    count = unseen.sum(axis=0)
    known = count > 0
    if np.count_nonzero(known) < 2:
        raise kuq.InsufficientDataError(
            "noise from out-of-bag residuals needs training rows that some member has not seen, "
            f"got {np.count_nonzero(known)} with n_samples = {len(targets)}; use bootstrap=True or "
            "max_samples < 1, and more members"
        )
    weights = unseen[:, known] / count[known]
    weights = weights.reshape(weights.shape + (1,) * as_event(predictions))
    residuals: Floats = targets[known] - np.sum(weights * predictions[:, known], axis=0)
    return residuals


@final
@dataclass(frozen=True)
class ResidualMembers(Members):
    """One member per regressor: its prediction plus residuals, as a normal or as they are."""

    predict: Callable[[Any], Floats]
    #: (training rows that were out of some bag[, outputs])
    residuals: Floats
    member_count: int
    #: Whether residuals stand for a normal of their mean square.
    normal: bool

    @property
    def numbers_per_row(self) -> int:
        draws = 2 * self.residuals[0].size if self.normal else self.residuals.size
        return self.member_count * draws

    def ensemble(self, X: Any) -> kuq.Ensemble:
        mean = self.predict(X)
        axes = as_event(mean)
        if self.normal:
            return kuq.Ensemble(kuq.Normal(mean, np.sqrt(np.mean(self.residuals**2, axis=0)), axes))
        return kuq.Ensemble(kuq.Samples(mean[:, :, None] + self.residuals, event_ndim=axes))

    def decompose(
        self, X: Any, score: kuq.Score, estimator: str, unbiased: bool | str, max_memory: float
    ) -> kuq.Uncertainty:
        return decompose_in_parts(self, X, score, estimator, unbiased, max_memory)
