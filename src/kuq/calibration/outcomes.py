"""Outcomes beside predictions, and confidence intervals of shares."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from kuq._array import axis_of_one
from kuq.adapters.conversion import no_prediction
from kuq.distributions.base import Prediction
from kuq.distributions.marginals import chance
from kuq.errors import InsufficientDataError, ParameterError, ShapeError
from kuq.protocols.vectors import Vector, as_numpy


def observed(prediction: Prediction, y: Any) -> Vector:
    """Outcomes of the shape of the prediction as NumPy numbers; every one is needed."""
    check_prediction(prediction)
    values = as_numpy(y, "y")
    shape = (*prediction.batch_shape, *prediction.event_shape)
    if values.shape != shape:
        raise ShapeError(
            f"y must have the shape {shape} of the prediction, got {values.shape}"
            f"{axis_of_one(values.shape, shape)}"
        )
    if values.size == 0:
        raise InsufficientDataError("there are no outcomes; at least one is needed")
    missing = int(np.sum(~np.isfinite(values)))
    if missing:
        raise ParameterError(
            f"y has NaN or infinite values in {missing} of {values.size} places; drop these"
        )
    return values


def check_prediction(prediction: Any) -> None:
    if not isinstance(prediction, Prediction):
        raise ParameterError(
            no_prediction(prediction)
            or f"a prediction is expected, such as kuq.Normal or kuq.Ensemble, got "
            f"{type(prediction).__name__}; kuq.as_distribution takes those of other libraries"
        )


def chances(prediction: Prediction, y: Vector) -> tuple[Vector, Vector]:
    """P(X < y) and P(X ≤ y) at outcomes of the shape of the prediction."""
    rows, components = y.reshape(1, -1), prediction.components()
    below, upto = (chance(components, rows, strict).reshape(y.shape) for strict in (True, False))
    missing = int(np.sum(np.isnan(upto)))
    if missing:
        raise ParameterError(
            f"the prediction is NaN in {missing} of {upto.size} places; drop these"
        )
    return below, upto


def within(below: Vector, upto: Vector, coverage: Any) -> np.ndarray:
    """Whether outcomes lie in ``prediction.interval(coverage)``, by their :func:`chances`.

    y ≥ Q(t) means P(X ≤ y) ≥ t, and y ≤ Q(1 − t) means P(X < y) < 1 − t: an outcome beyond a draw
    has that draw below it. Sums of shares are rounded.
    """
    outside = (1 - np.asarray(coverage)) / 2
    held: np.ndarray = (upto >= outside * (1 - 1e-12)) & (1 - below > outside * (1 + 1e-12))
    return held


def share_interval(hits: Any, count: float, confidence: float) -> tuple[Vector, Vector]:
    """Wilson's interval for probabilities, from hits among independent cases."""
    z2 = float(special.ndtri((1 + confidence) / 2)) ** 2
    share = np.asarray(hits, dtype=np.float64) / count
    centre = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = np.sqrt(z2 * (share * (1 - share) / count + z2 / (4 * count**2))) / (1 + z2 / count)
    return np.clip(centre - half, 0.0, 1.0), np.clip(centre + half, 0.0, 1.0)
