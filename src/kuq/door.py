"""The door: arrays whose values can be read on the CPU are seen as NumPy, without a copy.

NumPy arrays, torch tensors that record no gradient and jax arrays outside of a trace go through;
results take the same way back. Everything else stays in its library and is recorded there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from kuq._array import Array, is_array, is_jax, is_torch, is_traced


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
