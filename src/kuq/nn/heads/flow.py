"""Networks that move noise to draws along a flow."""

from __future__ import annotations

import math
from typing import Any, final

import torch
from torch import Tensor

from kuq.nn import flows
from kuq.nn.backbones import check_positive
from kuq.nn.heads.base import SHAPE_PENALTY
from kuq.nn.heads.drawing import DrawingHead

#: Steps of the midpoint rule: draws are then nearer to those of very many steps than two sets of
#: 200 draws of one law are to each other; see "Flows" in the docs.
STEPS = 8


@final
class FlowHead(DrawingHead):
    """Velocities that carry standard normal noise to the outcome, by conditional flow matching.

    The network (``kuq.nn.Network``) first predicts a normal law, trained by its CRPS as that of
    ``NormalHead`` is, with the same options; the flow is that of the residual
    (y − mean) / deviation, along straight paths from the noise to it, and a draw follows it by
    ``n_steps`` steps of the midpoint rule. A score that is given judges draws on held-out rows, by
    default the fair energy score. Features have the axes (M, B, N, features), or
    (M, B, N, features, grid…).

    >>> import kuq, torch
    >>> network = kuq.nn.Network(kuq.nn.MLP(), kuq.nn.FlowHead, (3,), (2,), n_members=4)
    >>> network(torch.zeros(5, 3), n_samples=20)
    Samples(batch=(4, 5), N=20, event=(2,))
    """

    starts_normal = True
    normalised = True

    def __init__(
        self,
        features: int,
        event_shape: tuple[int, ...] = (),
        n_members: int = 1,
        on_grid: bool = False,
        n_steps: int = STEPS,
        clipped_squares: bool = True,
        shape_penalty: float = SHAPE_PENALTY,
    ) -> None:
        super().__init__(features, event_shape, n_members, on_grid)
        #: How the normal law is trained.
        self.start_options: dict[str, Any] = {
            "clipped_squares": clipped_squares,
            "shape_penalty": shape_penalty,
        }
        check_positive(n_steps=n_steps)
        self.n_steps = n_steps

    @classmethod
    def joined_channels(
        cls, x_shape: tuple[int, ...], event_shape: tuple[int, ...], **options: Any
    ) -> int:
        same_grid = tuple(event_shape) == tuple(x_shape[1:])
        return (1 if same_grid else math.prod(event_shape)) + flows.ANGLE_FEATURES

    def noise(
        self, generator: torch.Generator, rows: int, draws: int, grid: tuple[int, ...]
    ) -> Tensor:
        """Starting points (rows, draws, event…) as vectors, and in the last place the angle."""
        shape = (rows, draws, math.prod(self.event_shape))
        starts = torch.randn(shape, generator=generator, device=generator.device)
        angles = flows.stratified_angles(generator, rows, draws, generator.device)
        return torch.cat([starts, angles.unsqueeze(-1)], dim=-1)

    def starts_and_angles(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Starting points (M, B, N, event…) and angles (M, B, N) of ``noise``."""
        return noise[..., :-1].reshape(*noise.shape[:3], *self.event_shape), noise[..., -1]

    def joined(self, place: Tensor, angle: Tensor, grid: tuple[int, ...]) -> Tensor:
        """What the trunk joins: a place (M, B, N, event…) and its angle (M, B or 1, N or 1).

        The outcome is a channel on the grid of the inputs where it lives there, and otherwise each
        of its coordinates a channel that is constant over the grid, as the angle's are.
        """
        lead = place.shape[:3]
        ones = (1,) * len(grid)
        time = flows.angle_features(angle)
        channels = [
            place.unsqueeze(3) if self.event_shape == grid else place.reshape(*lead, -1, *ones),
            time.view(*time.shape, *ones),
        ]
        return torch.cat([channel.expand(*lead, -1, *grid) for channel in channels], dim=3)
