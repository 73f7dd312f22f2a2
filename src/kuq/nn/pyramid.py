"""From the stages of an image encoder to maps on the grid of the outcome."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from kuq.errors import ShapeError

#: The coarsest features have one cell for this many pixels.
_STRIDE = 32


class Pyramid(nn.Module, ABC):
    """Encoder, top-down sums of its stages, and a path at full resolution for fine detail."""

    def __init__(
        self,
        encoder: Any,
        sizes: Sequence[int],
        width: int,
        inputs: int,
        event_shape: tuple[int, ...],
    ) -> None:
        super().__init__()
        self.event_shape = event_shape
        self.encoder = encoder
        self.lateral = nn.ModuleList(nn.Conv2d(size, width, 1) for size in sizes)
        self.detail = nn.Conv2d(inputs, width, 3, padding=1)
        self.merge = nn.Conv2d(width, width, 3, padding=1)

    @abstractmethod
    def stages(self, x: Tensor) -> Sequence[Tensor]:
        """Features of the encoder from fine to coarse; sides of x are multiples of 32."""

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        rest = (0, -width % _STRIDE, 0, -height % _STRIDE)
        padded = functional.pad(x, rest, mode="replicate")
        stages = self.stages(padded)
        merged = self.lateral[-1](stages[-1])
        for lateral, stage in zip(self.lateral[-2::-1], stages[-2::-1], strict=True):
            merged = functional.interpolate(merged, stage.shape[-2:]) + lateral(stage)
        merged = functional.interpolate(merged, padded.shape[-2:], mode="bilinear")
        features = functional.gelu(merged[..., :height, :width] + self.detail(x))
        features = functional.gelu(self.merge(features))
        if tuple(features.shape[-2:]) != self.event_shape:
            features = functional.interpolate(features, self.event_shape, mode="bilinear")
        return features


@torch.no_grad()
def adapt(new: nn.Conv2d, old: nn.Conv2d) -> None:
    """Weights of a first layer for other channels: a grey image gets the response that it had.

    Every channel gets the mean of the old ones, scaled by their number.
    """
    mean = old.weight.mean(1, keepdim=True) * (old.in_channels / new.in_channels)
    new.weight.copy_(mean.expand_as(new.weight))
    if old.bias is not None:
        assert new.bias is not None
        new.bias.copy_(old.bias)


def check_images(name: str, x_shape: tuple[int, ...], event_shape: tuple[int, ...]) -> None:
    if len(x_shape) != 3 or len(event_shape) != 2:
        raise ShapeError(
            f"{name} needs X (n, channels, height, width) and y (n, height, width), got rows "
            f"of shape {x_shape} and {event_shape}"
        )
