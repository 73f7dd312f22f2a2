"""The initial states of PDEBench's Burgers' data: superposed sinusoids, some folded or windowed."""

from __future__ import annotations

import math

import numpy as np

from kuq._numbers import whole_number
from kuq.datasets.etdrk4 import Real

#: The settings of PDEBench's generator for Burgers' equation.
WAVES, HIGHEST = 2, 4
_FOLDED, _WINDOWED = 0.1, 0.1
_LEFT, _RIGHT, _EDGE = (0.1, 0.45), (0.55, 0.9), 0.01


def superposed_waves(n: int, points: int, seed: int = 0) -> Real:
    """Random states (n, points) on [0, 1): sums over k = 1 … 4 of A sin(2π c k x + φ).

    As in PDEBench, two wave numbers are drawn with replacement, and c counts how often k was
    drawn: one that is drawn twice doubles its frequency, and one that is not drawn leaves the
    constant A sin φ, so that states have a mean. A is uniform in (0, 1), φ in (0, 2π). A tenth of
    the states is replaced by its absolute value, all get a random sign, and a tenth is cut to
    a window with soft edges. Unlike PDEBench's, the waves are exactly periodic.

    >>> superposed_waves(3, 256).shape
    (3, 256)
    """
    n, points = whole_number(n, "n", 1), whole_number(points, "points", 4)
    rng = np.random.default_rng(whole_number(seed, "seed", 0))
    x = np.arange(points) / points
    return np.stack([_state(x, rng) for _ in range(n)])


def _state(x: Real, rng: np.random.Generator) -> Real:
    """Every state takes the same number of draws, so that the first n do not depend on n."""
    drawn = np.bincount(rng.integers(HIGHEST, size=WAVES), minlength=HIGHEST)
    amplitude, phase = rng.uniform(0, 1, HIGHEST), rng.uniform(0, 2 * math.pi, HIGHEST)
    folded, flipped, windowed = rng.uniform(size=3) < (_FOLDED, 0.5, _WINDOWED)
    left, right = rng.uniform(*_LEFT), rng.uniform(*_RIGHT)
    frequency = 2 * math.pi * np.arange(1, HIGHEST + 1) * drawn
    state = amplitude @ np.sin(frequency[:, None] * x + phase[:, None])
    if folded:
        state = np.abs(state)
    if flipped:
        state = -state
    if windowed:
        state = state * (np.tanh((x - left) / _EDGE) - np.tanh((x - right) / _EDGE)) / 2
    return np.asarray(state)
