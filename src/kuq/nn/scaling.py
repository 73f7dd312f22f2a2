"""Inputs and targets brought to unit scale, and predictions back to their own units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

#: Spread below this share of the size of the numbers is rounding, not data.
_ROUNDING = 1e-12


@final
@dataclass(frozen=True)
class Moments:
    """Mean, standard deviation and largest size of rows; those of parts join to the whole's."""

    #: How much the rows count together.
    weight: float
    mean: np.ndarray
    deviation: np.ndarray
    largest: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, axes: tuple[int, ...], weight: np.ndarray | None) -> Moments:
        """Over some axes, axis 0 among them, of rows that count once or by their weight."""
        mean = _mean(rows, axes, weight)
        unit = np.maximum(np.abs(rows - mean).max(axes, keepdims=True)[0], np.finfo(float).tiny)
        deviation = unit * np.sqrt(_mean(((rows - mean) / unit) ** 2, axes, weight))
        largest = np.abs(rows).max(axes, keepdims=True)[0]
        count = float(len(rows) if weight is None else weight.sum())
        return cls(count, mean, deviation, largest)

    @classmethod
    def of_inputs(cls, x: np.ndarray, weight: np.ndarray | None = None) -> Moments:
        """Each column of a table, each channel of functions and images."""
        return cls.of(x, (0, *range(2, x.ndim)), weight)

    @classmethod
    def of_targets(cls, y: np.ndarray, on_grid: bool, weight: np.ndarray | None = None) -> Moments:
        """Each coordinate of a vector; all points of a function or image together."""
        return cls.of(y, tuple(range(y.ndim)) if on_grid else (0,), weight)

    def joined(self, other: Moments) -> Moments:
        """The moments of both sets of rows."""
        weight = self.weight + other.weight
        share, rest = self.weight / weight, other.weight / weight
        gap = other.mean - self.mean
        within = np.hypot(math.sqrt(share) * self.deviation, math.sqrt(rest) * other.deviation)
        return Moments(
            weight,
            self.mean + rest * gap,
            np.hypot(within, math.sqrt(share * rest) * gap),
            np.maximum(self.largest, other.largest),
        )


def _mean(rows: np.ndarray, axes: tuple[int, ...], weight: np.ndarray | None) -> np.ndarray:
    if weight is None:
        return np.asarray(rows.mean(axes, keepdims=True)[0])
    share = (weight / weight.max()).reshape(-1, *(1,) * (rows.ndim - 1))
    points = math.prod(rows.shape[axis] for axis in axes[1:])
    return np.asarray((share * rows).sum(axes, keepdims=True)[0] / (share.sum() * points))


@final
@dataclass(frozen=True)
class Scaling:
    """(value − shift) / scale, in float64; arrays broadcast against one row."""

    shift: np.ndarray
    scale: np.ndarray

    @classmethod
    def by(cls, moments: Moments, shape: tuple[int, ...] | None = None) -> Scaling:
        """To mean zero and deviation one, with arrays of a whole row's shape if that is given.

        What is constant gets the typical scale of the rest: it is shifted to zero, and numbers
        unlike it, which may come later, stay of ordinary size.
        """
        deviation = moments.deviation
        varies = deviation > _ROUNDING * moments.largest
        typical = float(np.exp(np.log(deviation[varies]).mean())) if varies.any() else 1.0
        shift, scale = moments.mean, np.where(varies, deviation, typical)
        if shape is not None:
            shift, scale = np.broadcast_to(shift, shape), np.broadcast_to(scale, shape)
        return cls(shift, scale)

    @classmethod
    def of_inputs(cls, x: np.ndarray, weight: np.ndarray | None = None) -> Scaling:
        return cls.by(Moments.of_inputs(x, weight))

    @classmethod
    def of_targets(cls, y: np.ndarray, on_grid: bool, weight: np.ndarray | None = None) -> Scaling:
        return cls.by(Moments.of_targets(y, on_grid, weight), y.shape[1:])

    def apply(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray((rows - self.shift) / self.scale, np.float32)
