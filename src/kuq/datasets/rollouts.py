"""Whole trajectories, inside and outside of the distribution, for the eye."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from kuq.datasets.burgers import burgers
from kuq.datasets.etdrk4 import Real
from kuq.datasets.kuramoto_sivashinsky import kuramoto_sivashinsky


@final
@dataclass(frozen=True)
class Rollouts:
    """A few trajectories (n, frames, points) each, with labels, lengths and the final time."""

    inside: Real
    outside: Real
    labels: tuple[str, str]
    lengths: tuple[float, float]
    final_time: float


def kuramoto_sivashinsky_rollouts() -> Rollouts:
    """Three trajectories of the paper's size on each of the two intervals."""
    inside, outside = (kuramoto_sivashinsky(3, length, seed=7) for length in (64.0, 80.0))
    return Rollouts(inside, outside, ("L = 64", "L = 80"), (64.0, 80.0), 98.0)


def burgers_rollouts() -> Rollouts:
    """Three trajectories from the same states at each of the two viscosities."""
    inside, outside = (burgers(3, viscosity, seed=3) for viscosity in (0.1, 0.01))
    return Rollouts(inside, outside, ("ν = 0.1", "ν = 0.01"), (1.0, 1.0), 2.0)
