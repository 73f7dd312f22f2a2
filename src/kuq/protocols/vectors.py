"""What protocols take: arrays of any library, read as NumPy arrays of float64."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kuq._array import detach, is_array
from kuq._numbers import require_no_mask
from kuq.errors import InsufficientDataError, ParameterError, ShapeError

Vector: TypeAlias = NDArray[np.float64]
Table: TypeAlias = NDArray[np.float64]


def as_numpy(value: Any, name: str) -> NDArray[np.float64]:
    """Numbers of any array library, or lists of them, as float64."""
    require_no_mask(value, name)
    if is_array(value) and not isinstance(value, np.ndarray):
        value = detach(value)
        if hasattr(value, "cpu"):  # torch keeps tensors of an accelerator there
            value = value.cpu()
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            array = array.astype(np.float64) if array.dtype.kind == "O" else array
        if array.dtype.kind not in "fiub":
            raise TypeError(f"entries of type {array.dtype}")
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{name} must hold real numbers, got {error}") from None


def one_per_case(value: Any, name: str, *, infinite: bool = False) -> Vector:
    """A vector with one number per case; NaN is refused, infinity unless ``infinite``."""
    vector = as_numpy(value, name)
    if vector.ndim != 1:
        raise ShapeError(
            f"{name} must have one number per case, shape (n,), got shape {vector.shape}; "
            "average over the event first"
        )
    if vector.size == 0:
        raise InsufficientDataError(f"{name} is empty; at least one case is needed")
    wrong = np.isnan(vector) if infinite else ~np.isfinite(vector)
    if wrong.any():
        kind = "NaN" if infinite else "NaN or infinite values"
        raise ParameterError(
            f"{name} has {kind} in {int(wrong.sum())} of {vector.size} cases; drop these cases"
        )
    return vector


def group_numbers(labels: Any, name: str, cases: int) -> NDArray[np.intp]:
    """Groups 0, 1, … of cases by a label each: numbers, words or other things with a text."""
    array = np.asarray(labels)
    if array.dtype == object:
        array = np.asarray([str(label) for label in array.reshape(-1)]).reshape(array.shape)
    if array.shape != (cases,):
        raise ShapeError(
            f"{name} needs one label per case, got {array.size if array.ndim < 2 else array.shape} "
            f"for {cases} cases"
        )
    return np.asarray(np.unique(array, return_inverse=True)[1], dtype=np.intp)


def fraction(value: float, name: str) -> float:
    """A number strictly between zero and one, such as a confidence."""
    if not 0 < value < 1:
        raise ParameterError(f"{name} must lie strictly between 0 and 1, got {value!r}")
    return float(value)
