"""Where outcomes fall in the distributions that were predicted for them."""

from __future__ import annotations

import numpy as np

from kuq.calibration.outcomes import chances
from kuq.distributions.base import Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.normal import Point
from kuq.distributions.samples import Samples


def pit_values(prediction: Prediction, y: np.ndarray, seed: int = 0) -> np.ndarray:
    """The share of the predicted distribution below each coordinate of the outcome, like ``y``.

    Uniform between 0 and 1 if predictions are calibrated. Where distributions have jumps, it is
    drawn at random within them; the ranks among n draws or points count as (rank + 0…1) / (n + 1),
    since n draws cut the line into n + 1 intervals of equal chance.
    """
    below, upto = chances(prediction, y)
    within = np.random.default_rng(seed).uniform(size=np.shape(below))
    draws = draws_of(prediction)
    if draws:
        return np.asarray((draws * (below + within * (upto - below)) + within) / (draws + 1))
    return np.asarray(below + within * (upto - below))


def draws_of(law: Prediction) -> int:
    """Draws of equal weight; none of other laws."""
    if isinstance(law, Ensemble):
        if law.weights is not None or len(law.groups) > 1:
            return 0
        return law.member_count * draws_of(law.groups[0])
    if isinstance(law, Point):
        return 1
    if not isinstance(law, Samples) or law.whole or law.weights is not None:
        return 0
    return 0 if np.isnan(law.values).any() else law.draw_count
