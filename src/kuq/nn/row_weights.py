"""How much each row counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from kuq.errors import ParameterError, ShapeError


def checked_weights(weights: Any, rows: int, name: str = "sample_weight") -> np.ndarray:
    """Weights (n,) as float64, not negative, at least one of them positive."""
    if isinstance(weights, torch.Tensor):
        weights = weights.detach().cpu()
    try:
        taken = np.asarray(weights, np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{name} must hold numbers: {error}") from error
    if taken.shape != (rows,):
        raise ShapeError(
            f"{name} must have one number for each row, shape ({rows},), got {taken.shape}"
        )
    if not np.isfinite(taken).all():
        raise ParameterError(f"{name} contains NaN or infinity; give such rows the weight 0")
    if (taken < 0).any():
        raise ParameterError(f"{name} must not be negative, got {taken.min():g}")
    return taken


def require_some(weights: np.ndarray, name: str = "sample_weight") -> None:
    if not (weights > 0).any():
        raise ParameterError(f"{name} must be positive for at least one row, and all are zero")
