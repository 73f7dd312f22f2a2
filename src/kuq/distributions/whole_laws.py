"""Members whose laws are a few values each, such as the training rows in leaves of trees."""

from __future__ import annotations

import numpy as np

from kuq._array import as_numpy, is_traced
from kuq.distributions.base import Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.samples import Samples


def typical_values(prediction: Prediction) -> float | None:
    """The median number of values with weight in the laws of members, each at one input.

    None where some members are no whole laws of values, or cannot be read.
    """
    if not isinstance(prediction, Ensemble) or 0 in prediction.batch_shape:
        return None
    members = prediction.members
    counts = []
    for law in members if isinstance(members, tuple) else (members,):
        if not isinstance(law, Samples) or not law.whole or is_traced(law.values):
            return None
        if law.weights is None:
            counts.append(np.full(law.batch_shape, law.draw_count).ravel())
        else:
            weights = as_numpy(law.weights, "the number of values in a law")
            counts.append(np.count_nonzero(weights, axis=-1).ravel())
    return float(np.median(np.concatenate(counts)))
