"""From the stages of an image encoder, and noise, to maps on the grid of the outcome."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from kuq.errors import ParameterError, ShapeError
from kuq.nn.backbones import Backbone, Body, check_positive
from kuq.nn.generators import Purpose, member_seed
from kuq.nn.memory import require_room
from kuq.nn.one_by_one import OneByOneBody, seeded

#: The coarsest features have one cell for this many pixels.
STRIDE = 32
#: Where noise is joined: after the encoder, or to the images as channels.
_PLACES_OF_NOISE = ("decoder", "inputs")
#: Four times the weights that a layer of the decoder has for each of its channels. Noise that needs
#: more is left to the encoder: the path of a flow to another grid, whose every point is a channel.
_HEAVY = 36


class PyramidBackbone(Backbone):
    """A description of an encoder with a pyramid, of which every member is built by itself."""

    decoder_channels: int
    noise_at: str

    @abstractmethod
    def _learned(self, inputs: int) -> Any | None:
        """With ImageNet weights, for so many channels; None: members start from random ones."""

    @abstractmethod
    def _random(self, inputs: int) -> Any: ...

    @abstractmethod
    def _pyramid(
        self,
        encoder: Any,
        x_shape: tuple[int, ...],
        event_shape: tuple[int, ...],
        noise_channels: int,
    ) -> Pyramid: ...

    def _check_decoder(self) -> None:
        if self.noise_at not in _PLACES_OF_NOISE:
            raise ParameterError(
                f"noise_at must be one of {list(_PLACES_OF_NOISE)}, got {self.noise_at!r}"
            )
        check_positive(decoder_channels=self.decoder_channels)

    def check(self, x_shape: tuple[int, ...], event_shape: tuple[int, ...]) -> None:
        if len(x_shape) != 3 or len(event_shape) != 2:
            raise ShapeError(
                f"{type(self).__name__} needs X (n, channels, height, width) and y (n, height, "
                f"width), got rows of shape {x_shape} and {event_shape}"
            )

    def build(
        self, n_members: int, x_shape: tuple[int, ...], event_shape: tuple[int, ...], seed: int
    ) -> Body:
        return self._built(n_members, x_shape, event_shape, seed, 0)

    def build_sampler(
        self,
        n_members: int,
        x_shape: tuple[int, ...],
        event_shape: tuple[int, ...],
        seed: int,
        noise_channels: int,
    ) -> Body | None:
        heavy = noise_channels * _scales(x_shape[1:]) > _HEAVY * self.decoder_channels
        if self.noise_at == "inputs" or heavy:
            return None
        return self._built(n_members, x_shape, event_shape, seed, noise_channels)

    def _built(
        self,
        n_members: int,
        x_shape: tuple[int, ...],
        event_shape: tuple[int, ...],
        seed: int,
        noise_channels: int,
    ) -> Body:
        members: list[nn.Module] = []
        learned = self._learned(x_shape[0])
        for member in range(n_members):
            with seeded(member_seed(seed, member, Purpose.WEIGHTS)):
                encoder = self._random(x_shape[0]) if learned is None else copy.deepcopy(learned)
                members.append(self._pyramid(encoder, x_shape, event_shape, noise_channels))
            if member == 0:
                require_room(n_members, sum(p.numel() for p in members[0].parameters()))
        return OneByOneBody(members, x_shape, event_shape, joins_noise=noise_channels > 0)


class Pyramid(nn.Module, ABC):
    """Encoder, top-down sums of its stages, and a path at full resolution for fine detail.

    With ``noise_channels`` noise is added to the features of that path, so that the encoder runs
    once for an image, whatever the number of draws, and sees nothing but the image.
    """

    def __init__(
        self,
        encoder: Any,
        sizes: Sequence[int],
        width: int,
        x_shape: tuple[int, ...],
        event_shape: tuple[int, ...],
        noise_channels: int = 0,
    ) -> None:
        super().__init__()
        self.event_shape = event_shape
        self.encoder = encoder
        self.lateral = nn.ModuleList(nn.Conv2d(size, width, 1) for size in sizes)
        self.detail = nn.Conv2d(x_shape[0], width, 3, padding=1)
        self.merge = nn.Conv2d(width, width, 3, padding=1)
        # Last, so that the other weights start as those of a network without noise.
        self.noise = _Noise(noise_channels, width, x_shape[1:]) if noise_channels else None

    @abstractmethod
    def stages(self, x: Tensor) -> Sequence[Tensor]:
        """Features of the encoder from fine to coarse; sides of x are multiples of 32."""

    def forward(self, x: Tensor) -> Tensor:
        return self._after(functional.gelu(self.before_noise(x)))

    def before_noise(self, x: Tensor) -> Tensor:
        """Images (B, channels, H, W) to features (B, width, H, W) that noise is added to."""
        height, width = x.shape[-2:]
        rest = (0, -width % STRIDE, 0, -height % STRIDE)
        padded = functional.pad(x, rest, mode="replicate")
        stages = self.stages(padded)
        merged = self.lateral[-1](stages[-1])
        for lateral, stage in zip(self.lateral[-2::-1], stages[-2::-1], strict=True):
            merged = functional.interpolate(merged, stage.shape[-2:]) + lateral(stage)
        merged = functional.interpolate(merged, padded.shape[-2:], mode="bilinear")
        features: Tensor = merged[..., :height, :width] + self.detail(x)
        if self.noise is not None:
            features = self.noise.norm(features)
        return features

    def with_noise(self, before: Tensor, noise: Tensor) -> Tensor:
        """Features (B, N, width, …) of these and noise (B or 1, N, channels, H, W)."""
        assert self.noise is not None
        by_noise: Tensor = self.noise(noise.flatten(0, 1))
        by_noise = by_noise.view(*noise.shape[:2], *by_noise.shape[1:])
        joined = functional.gelu(before.unsqueeze(1) + by_noise)
        features = self._after(joined.flatten(0, 1))
        return features.view(*joined.shape[:2], *features.shape[1:])

    def _after(self, features: Tensor) -> Tensor:
        features = functional.gelu(self.merge(features))
        if tuple(features.shape[-2:]) != self.event_shape:
            features = functional.interpolate(features, self.event_shape, mode="bilinear")
        return features


class _Noise(nn.Module):
    """Noise at every scale, from single pixels to the whole image, as features to be added.

    A coarser scale has the sums over 2 × 2 cells of the one before, over the root of the number of
    points in them, which are fewer at the edges of many grids. Independent noise of variance 1
    stays that, so that draws can differ as a whole as well as in details, and a flow sees at every
    point where it is as a whole.
    """

    def __init__(self, channels: int, width: int, grid: tuple[int, ...]) -> None:
        super().__init__()
        self.scales = _scales(grid)
        self.near = nn.Conv2d(channels, width, 3, padding=1)
        self.far = nn.Conv2d(channels * self.scales, width, 1, bias=False)
        # Features of an encoder may be large, and noise would be lost beside them.
        self.norm = nn.GroupNorm(1, width)

    def forward(self, noise: Tensor) -> Tensor:
        """Noise (R, channels, H, W) to features (R, width, H, W)."""
        maps, sums, counts = [], noise, torch.ones_like(noise[:1, :1])
        for _ in range(self.scales):
            sums, counts = _summed(sums), _summed(counts)
            # Sums of what is alike everywhere, such as the angle of a flow, would be very large.
            mild = (sums / counts.sqrt()).asinh()
            maps.append(functional.interpolate(mild, noise.shape[-2:], mode="bilinear"))
        features: Tensor = self.near(noise) + self.far(torch.cat(maps, 1))
        return features


def _scales(grid: tuple[int, ...]) -> int:
    """How often cells are joined until one is left."""
    return max(1, math.ceil(math.log2(max(grid))))


def _summed(cells: Tensor) -> Tensor:
    """Sums over 2 × 2 cells, at the edges over those that are there."""
    return functional.avg_pool2d(cells, 2, ceil_mode=True, divisor_override=1)


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
