"""The door: arrays whose values can be read on the CPU are seen as NumPy, without a copy.

NumPy arrays, torch tensors that record no gradient and jax arrays outside of a trace go through;
results take the same way back. Everything else stays in its library and is recorded there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from kuq._array import Array, is_array, is_jax, is_torch, is_traced, library_of
from kuq.distributions.base import Parametric, Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.kernels.base import Kernel, MarginalStage, Radial, Score
from kuq.kernels.transforms import Select
from kuq.result import Uncertainty


def seen(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]] | None:
    """The arguments of a call as NumPy sees them; None if one has to stay in its library.

    A law or a score of the user's own may be written for one library only.
    """
    changed: list[Any] = []
    libraries = set()
    for value in (*args, *kwargs.values()):
        own = value
        if isinstance(value, Prediction):
            libraries.add(library_of(value.reference))
            own = _seen_prediction(value)
        elif isinstance(value, Score):
            own = value if _is_neutral(value) else None
        elif is_array(value):
            libraries.add(library_of(value))
            own = entered(value) if _is_readable(value) else None
        if own is None and value is not None:
            return None
        changed.append(own)
    if len(libraries) > 1:  # which is refused behind it
        return None
    return changed[: len(args)], dict(zip(kwargs, changed[len(args) :], strict=True))


def _seen_prediction(prediction: Prediction) -> Prediction | None:
    laws, weights = _laws_of(prediction)
    if weights is not None and not _is_readable(weights):
        return None
    for law in laws:
        ours = isinstance(law, Parametric) and type(law).__module__.startswith("kuq.")
        if not ours or law.reference.dtype != law.dtype or not all(map(_is_readable, law.arrays())):
            return None
    moved = prediction.mapped(entered)
    laws, _ = _laws_of(moved)
    for law in laws:
        law.dtype = law.reference.dtype
    moved.dtype = np.result_type(*[law.dtype for law in laws])
    return moved


def _laws_of(prediction: Prediction) -> tuple[tuple[Any, ...], Array | None]:
    """The laws of which a prediction consists, and the weights of members."""
    if not isinstance(prediction, Ensemble):
        return (prediction,), None
    members = prediction.members
    return members if isinstance(members, tuple) else (members,), prediction.weights


def _is_neutral(score: Score) -> bool:
    """Whether a score brings no arrays and no functions along."""
    if not isinstance(score, Kernel):
        return True
    for term in score.parts:
        if not isinstance(term.kernel, Radial):
            return False
        for stage in term.stages:
            if not isinstance(stage, (MarginalStage, Select)):
                return False
    return not score.arrays


def opens_for(arrays: Iterable[Any]) -> bool:
    """Whether all arrays can be seen as NumPy; what is no array does not matter."""
    return all(_is_readable(array) for array in arrays if is_array(array))


def _is_readable(array: Array) -> bool:
    if isinstance(array, np.ndarray):
        return True
    if is_torch(array):
        torch = sys.modules["torch"]
        recorded = array.requires_grad and torch.is_grad_enabled()
        return array.device.type == "cpu" and not recorded and not is_traced(array)
    if is_jax(array) and not is_traced(array):
        devices = array.devices()
        return len(devices) == 1 and next(iter(devices)).platform == "cpu"
    return False


def entered(array: Array) -> np.ndarray:
    """An array as NumPy sees it."""
    if isinstance(array, np.ndarray):
        return array
    if is_torch(array):
        seen: np.ndarray = array.detach().numpy()
        return seen
    return np.asarray(array)


def left(value: Array, like: Array) -> Array:
    """A result in the library of an array that came in."""
    if isinstance(like, np.ndarray) or not isinstance(value, (np.ndarray, np.generic)):
        return value
    if is_torch(like):
        return sys.modules["torch"].from_numpy(np.asarray(value))
    return sys.modules["jax"].numpy.asarray(value)


def left_result(result: Array | Uncertainty, like: Array) -> Array | Uncertainty:
    """The same for what a call gives."""
    if not isinstance(result, Uncertainty):
        return left(result, like)
    total, aleatoric, epistemic = (left(result[part], like) for part in result)
    how = result.score, result.estimator, result.unbiased, result.method, result.units
    return Uncertainty(total, aleatoric, epistemic, *how)
