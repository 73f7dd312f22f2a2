"""The paths of a flow, its times, and the steps that follow it.

Straight paths z_t = (1 − t) z₀ + t z₁ from noise to an outcome are followed by their angle:
tan θ = t / (1 − t), and w = z_t / √c with c = (1 − t)² + t² is w = cos θ z₀ + sin θ z₁. There the
velocity dw/dθ = cos θ z₁ − sin θ z₀ is what is left of z₁ − z₀ when its best linear guess for
standard normal outcomes is taken off and the rest is multiplied by √c. Since dθ = dt / c, its
squared error over uniform angles is that of z₁ − z₀ over uniform times; and for standard normal
outcomes it is zero on average everywhere, so that there is nothing to learn and nothing to solve.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

#: The angle at which a path arrives.
END = math.pi / 2
#: Multiples of the angle whose sine and cosine tell a network where on the path it is.
_MULTIPLES = (1, 2, 4)
ANGLE_FEATURES = 2 * len(_MULTIPLES)


def angle_features(angle: Tensor) -> Tensor:
    """Sines and cosines of multiples of the angle, (…) to (…, ANGLE_FEATURES)."""
    turns = angle.unsqueeze(-1) * torch.tensor(_MULTIPLES, dtype=angle.dtype, device=angle.device)
    return torch.cat([torch.sin(turns), torch.cos(turns)], dim=-1)


def stratified_angles(
    generator: torch.Generator, rows: int, pairs: int, device: torch.device
) -> Tensor:
    """Uniform angles (rows, pairs), one in each of rows · pairs equal parts of the quarter turn."""
    count = rows * pairs
    stratum = torch.randperm(count, generator=generator, device=device)
    within = torch.rand(count, generator=generator, device=device)
    return ((stratum + within) * (END / count)).view(rows, pairs)


def on_path(start: Tensor, end: Tensor, angle: Tensor) -> tuple[Tensor, Tensor]:
    """The place w at an angle and the velocity dw/dθ there, of paths between two points."""
    cosine, sine = torch.cos(angle), torch.sin(angle)
    return cosine * start + sine * end, cosine * end - sine * start


def follow(velocity: Callable[[Tensor, float], Tensor], start: Tensor, steps: int) -> Tensor:
    """Where the flow takes its starting points, by equal steps of the midpoint rule."""
    place, step = start, END / steps
    for k in range(steps):
        half = place + step / 2 * velocity(place, k * step)
        place = place + step * velocity(half, (k + 0.5) * step)
    return place
