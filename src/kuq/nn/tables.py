"""Inputs and targets as scikit-learn's users give them, checked."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data
from torch import Tensor

from kuq._numbers import require_no_mask
from kuq.errors import InsufficientDataError, ParameterError, ShapeError
from kuq.nn.streams import are_batches


def checked_rows(model: Any, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """X (n, …) and y (n, event…) as float64, finite."""
    if y is None:
        raise ParameterError(
            f"{type(model).__name__} requires y to be passed, but the target y is None: give "
            "fit(X, y), or fit(batches) with a DataLoader or a list of pairs (x, y)"
        )
    if are_batches(X) and not isinstance(X, (tuple, list)):
        raise ParameterError(
            f"a {type(X).__name__} gives batches (x, y) itself: pass it alone, fit(batches)"
        )
    y = _array(y, "y")
    X = checked_inputs(model, X, reset=True)
    if len(X) != len(y):
        raise ShapeError(f"X and y need as many rows as each other, got {len(X)} and {len(y)}")
    if y.size == 0:
        raise ShapeError(f"y must not be empty, got shape {y.shape}")
    return X, y


def check_learnable(rows: int, low: np.ndarray, high: np.ndarray) -> None:
    """At least two rows, and targets between ``low`` and ``high`` that are not all equal."""
    if rows < 2:
        raise InsufficientDataError(
            f"a regressor needs at least two rows to learn from, got n_samples = {rows}"
        )
    if np.max(high - low) <= 1e-12 * np.maximum(np.abs(low), np.abs(high)).max():
        raise ParameterError(
            f"all targets are equal (to {np.ravel(low)[0]:g}): there is no uncertainty to learn; "
            "kuq.Point describes such a prediction"
        )


def checked_inputs(model: Any, X: Any, *, reset: bool) -> np.ndarray:
    """X as float64; its features must be those of training unless ``reset``."""
    require_no_mask(X, "X")
    require_numbers_in_columns(X)
    try:
        taken = validate_data(
            model, as_array(X), reset=reset, dtype=np.float64, allow_nd=True, ensure_min_features=1
        )
    except ValueError as error:
        # scikit-learn repeats the numbers of an array that has the wrong axes.
        raise ParameterError(re.sub(r":\narray=.*\]\.\n", ". ", str(error), flags=re.S)) from error
    return np.asarray(taken)


def batch_inputs(model: Any) -> Callable[[Any], np.ndarray]:
    """Reads the inputs of batches: the first tells the features, which the others must have."""
    is_first = True

    def read(x: Any) -> np.ndarray:
        nonlocal is_first
        taken = checked_inputs(model, x, reset=is_first)
        is_first = False
        return taken

    return read


def require_numbers_in_columns(X: Any) -> None:
    """Refuse the columns of a frame that networks cannot learn from, by their names."""
    if not hasattr(X, "select_dtypes"):
        return
    others = X.select_dtypes(exclude=["number", "bool"]).items()
    refused = [f"{name} ({column.dtype})" for name, column in others if not _are_numbers(column)]
    if refused:
        raise ParameterError(
            f"X must hold numbers, but not all of its columns do: {', '.join(refused[:5])}; encode "
            "them, for example with pandas.get_dummies, or leave them out"
        )


def _are_numbers(column: Any) -> bool:
    try:
        column.astype(float)
    except (TypeError, ValueError):
        return False
    return True


def as_array(values: Any) -> Any:
    """Tensors as arrays, whatever torch records of them; bfloat16 is unknown to NumPy."""
    return values.detach().cpu().double().numpy() if isinstance(values, Tensor) else values


def _array(y: Any, name: str) -> np.ndarray:
    require_no_mask(y, name)
    array = np.asarray(as_array(y))
    if array.dtype.kind in "OUS":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ParameterError(f"{name} must hold numbers: {error}") from error
    if array.dtype.kind == "c":
        raise ParameterError(f"Complex data not supported: {name} has dtype {array.dtype}")
    if array.dtype.kind not in "biuf":
        raise ParameterError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if array.ndim == 0:
        raise ShapeError(f"{name} needs rows along its first axis, got a single number")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise ParameterError(f"Input {name} contains NaN or infinity; remove or impute such rows")
    return array


def checked_member_targets(targets: Any, y: np.ndarray) -> np.ndarray:
    """Targets (M, n, event…) of every member."""
    each = _array(targets, "member_targets")
    if each.shape[1:] != y.shape:
        raise ShapeError(f"member_targets must have shape (members, *{y.shape}), got {each.shape}")
    return each


def checked_pair(model: Any, X: Any, y: Any, event: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """Rows to validate on, of the same shapes as those to train on."""
    X, y = checked_inputs(model, X, reset=False), _array(y, "validation y")
    if len(X) != len(y) or y.shape[1:] != event or len(X) == 0:
        raise ShapeError(
            f"validation needs X and y with as many rows as each other and targets of shape "
            f"{event}, got {X.shape} and {y.shape}"
        )
    return X, y


def checked_scaling(
    model: Any, scaling: Any, x_shape: tuple[int, ...], event: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Rows that fix the scale: of inputs and targets as those to train on, in any number."""
    if not isinstance(scaling, (tuple, list)) or len(scaling) != 2:
        raise ParameterError(
            "scaling must be a pair (inputs, targets) of rows that fix the scale, got "
            f"{type(scaling).__name__}"
        )
    inputs, targets = checked_inputs(model, scaling[0], reset=False), _array(scaling[1], "scaling")
    if inputs.shape[1:] != x_shape or targets.shape[1:] != event or not len(targets):
        raise ShapeError(
            f"scaling needs rows of inputs of shape {x_shape} and of targets of shape "
            f"{event}, got {inputs.shape} and {targets.shape}"
        )
    return inputs, targets


def check_row_shape(X: np.ndarray, expected: tuple[int, ...]) -> None:
    if X.shape[1:] != expected:
        raise ShapeError(f"X must have shape (n, *{expected}) as in training, got {X.shape}")
