"""Point regressors as members, with noise from out-of-bag residuals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

import kuq
from kuq.sklearn.members import Floats, Members, as_event


def out_of_bag_residuals(
    predictions: Floats, samples: list[Any], targets: Floats, sample_weight: Floats | None = None
) -> tuple[Floats, Floats | None]:
    """y − ŷ of training rows, where ŷ averages the members that have not seen the row.

    ``predictions`` (members, rows[, outputs]) of the training rows; ``samples`` are the rows that
    each member was fitted on. With ``sample_weight`` also how much each residual counts.
    """
    unseen = np.ones(predictions.shape[:2])
    for member, rows in enumerate(samples):
        unseen[member, rows] = 0.0
    count = unseen.sum(axis=0)
    valid = count > 0 if sample_weight is None else (count > 0) & (sample_weight > 0)
    if np.count_nonzero(valid) < 2:
        raise kuq.InsufficientDataError(
            "noise from out-of-bag residuals needs training rows that some member has not seen, "
            f"got {np.count_nonzero(valid)} with n_samples = {len(targets)}; use bootstrap=True or "
            "max_samples < 1, and more members"
        )
    weights = unseen[:, valid] / count[valid]
    weights = weights.reshape(weights.shape + (1,) * as_event(predictions))
    residuals: Floats = targets[valid] - np.sum(weights * predictions[:, valid], axis=0)
    return residuals, None if sample_weight is None else sample_weight[valid]


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
    #: How much each residual counts; None: all alike.
    weights: Floats | None = None

    @property
    def numbers_per_row(self) -> int:
        draws = 2 * self.residuals[0].size if self.normal else self.residuals.size
        return self.member_count * draws

    def ensemble(self, X: Any) -> kuq.Ensemble:
        mean = self.predict(X)
        axes = as_event(mean)
        if self.normal:
            square = np.average(self.residuals**2, axis=0, weights=self.weights)
            return kuq.Ensemble(kuq.Normal(mean, np.sqrt(square), axes))
        draws, weights = mean[:, :, None] + self.residuals, self.weights
        if weights is not None:
            weights = np.broadcast_to(weights, draws.shape[:3])
        return kuq.Ensemble(kuq.Samples(draws, event_ndim=axes, weights=weights, whole=True))
