"""Networks that turn noise into draws."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor

from kuq.nn.backbones import check_positive
from kuq.nn.heads.drawing import DrawingHead

#: For tables; more of them learn more of the noise by heart: see "The networks" in the docs.
NOISE_CHANNELS = 8


@final
class SamplerHead(DrawingHead):
    """Draws of the outcome: noise is joined on the way, and every noise gives one draw.

    Trained by the fair energy score of the draws, which for scalars is the fair CRPS: right on
    average for any number of draws. Features have the axes (M, B, N, features), or
    (M, B, N, features, grid…).

    >>> import kuq, torch
    >>> kuq.nn.SamplerHead(8)(torch.zeros(1, 5, 20, 8))
    Samples(batch=(1, 5), N=20, event=())
    """

    def __init__(
        self,
        features: int,
        event_shape: tuple[int, ...] = (),
        n_members: int = 1,
        on_grid: bool = False,
        noise_channels: int = NOISE_CHANNELS,
    ) -> None:
        super().__init__(features, event_shape, n_members, on_grid)
        self.noise_channels = noise_channels

    @classmethod
    def joined_channels(
        cls, x_shape: tuple[int, ...], event_shape: tuple[int, ...], **options: Any
    ) -> int:
        channels: int = options.get("noise_channels", NOISE_CHANNELS)
        check_positive(noise_channels=channels)
        return channels

    def noise(
        self, generator: torch.Generator, rows: int, draws: int, grid: tuple[int, ...]
    ) -> Tensor:
        shape = (rows, draws, self.noise_channels, *grid)
        return torch.randn(shape, generator=generator, device=generator.device)
