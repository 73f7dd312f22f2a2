"""Predictions as NumPy arrays, and some of their inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kuq.distributions.base import Parametric, Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.samples import Samples
from kuq.errors import ParameterError
from kuq.protocols.vectors import as_numpy


def in_numpy(prediction: Prediction) -> Prediction:
    """The same prediction, of any library, in arrays of NumPy and double precision."""

    def moved(law: Any) -> Any:
        law = law.mapped(lambda array: as_numpy(array, "the prediction"))
        law.dtype = np.dtype(np.float64)
        return law

    if isinstance(prediction, Ensemble):
        weights = None if prediction.weights is None else as_numpy(prediction.weights, "weights")
        whole = prediction.with_groups([moved(law) for law in prediction.groups])
        whole.weights = weights
        return whole
    return _parametric(moved(prediction))


def cases(prediction: Prediction, index: np.ndarray) -> Prediction:
    """The prediction at some positions of its batch, whose axes become one."""
    batch = prediction.batch_shape

    def taken(lead: int) -> Callable[[np.ndarray], np.ndarray]:
        def change(array: np.ndarray) -> np.ndarray:
            inner = array.shape[lead + len(batch) :]
            flat = array.reshape(*array.shape[:lead], math.prod(batch), *inner)
            return np.take(flat, index, axis=lead)

        return change

    if isinstance(prediction, Ensemble):
        return prediction.with_groups([law.mapped(taken(1)) for law in prediction.groups])
    return _parametric(prediction).mapped(taken(0))


def has_draws(prediction: Prediction) -> bool:
    """Whether all laws are draws, for whose number statistics are corrected, and none are whole."""
    laws = prediction.groups if isinstance(prediction, Ensemble) else (prediction,)
    return all(isinstance(law, Samples) and not law.whole for law in laws)


def single_values(prediction: Ensemble) -> float:
    """The share of the laws of members, each at one input, that are a single of several values.

    Points and single draws are no such laws: they say by themselves that noise is not in them.
    """
    single = every = 0
    for law in prediction.groups:
        weights = law.weights if isinstance(law, Samples) and law.whole else None
        every += math.prod(law.batch_shape)
        single += 0 if weights is None else int(np.sum(np.max(weights, axis=-1) >= 1 - 1e-9))
    return single / max(every, 1)


def _parametric(prediction: Prediction) -> Parametric:
    if not isinstance(prediction, Parametric):
        raise ParameterError(f"an Ensemble or a law is needed, got {type(prediction).__name__}")
    return prediction
