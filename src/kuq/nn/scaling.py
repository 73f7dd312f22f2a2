"""Inputs and targets brought to unit scale, and predictions back to their own units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

#: Spread below this share of the size of the numbers is rounding, not data.
_ROUNDING = 1e-12


@final
@dataclass(frozen=True)
class Scaling:
    """(value − shift) / scale, in float64; arrays broadcast against one row."""

    shift: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, axes: tuple[int, ...]) -> Scaling:
        """Mean and standard deviation over some axes, axis 0 among them.

        What is constant gets the typical scale of the rest: it is shifted to zero, and numbers
        unlike it, which may come later, stay of ordinary size.
        """
        shift = rows.mean(axes, keepdims=True)[0]
        unit = np.maximum(np.abs(rows - shift).max(axes, keepdims=True)[0], np.finfo(float).tiny)
        deviation = unit * np.sqrt((((rows - shift) / unit) ** 2).mean(axes, keepdims=True)[0])
        largest = np.abs(rows).max(axes, keepdims=True)[0]
        varies = deviation > _ROUNDING * largest
        typical = float(np.exp(np.log(deviation[varies]).mean())) if varies.any() else 1.0
        return cls(shift, np.where(varies, deviation, typical))

    @classmethod
    def of_inputs(cls, x: np.ndarray) -> Scaling:
        """Each column of a table, each channel of functions and images."""
        return cls.of(x, (0, *range(2, x.ndim)))

    @classmethod
    def of_targets(cls, y: np.ndarray, on_grid: bool) -> Scaling:
        """Each coordinate of a vector; one scale for all points of a function or image."""
        scaling = cls.of(y, tuple(range(y.ndim)) if on_grid else (0,))
        full = y.shape[1:]
        return cls(np.broadcast_to(scaling.shift, full), np.broadcast_to(scaling.scale, full))

    def apply(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray((rows - self.shift) / self.scale, np.float32)
