"""A few convolutions that see where they are: for fields too small for networks of images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional

from kuq.errors import ShapeError
from kuq.nn.backbones import Backbone, Body, check_positive
from kuq.nn.generators import Purpose, member_seed
from kuq.nn.one_by_one import OneByOneBody, seeded


@final
@dataclass(frozen=True)
class Convolutions(Backbone):
    """Layers of 5 × 5 convolutions with shortcuts: (channels, H, W) to ``width`` maps of that grid.

    Two more channels have the place of each cell, since no two cells of a region are alike.
    """

    width: int = 16
    layers: int = 3

    def __post_init__(self) -> None:
        check_positive(width=self.width, layers=self.layers)

    def check(self, x_shape: tuple[int, ...], event_shape: tuple[int, ...]) -> None:
        if len(x_shape) != 3 or event_shape != x_shape[1:]:
            raise ShapeError(
                "convolutions need X (n, channels, H, W) and y (n, H, W) on the same grid, got "
                f"rows of shape {x_shape} and {event_shape}"
            )

    def build(
        self, n_members: int, x_shape: tuple[int, ...], event_shape: tuple[int, ...], seed: int
    ) -> Body:
        members: list[nn.Module] = []
        for member in range(n_members):
            with seeded(member_seed(seed, member, Purpose.WEIGHTS)):
                members.append(_Layers(x_shape[0], self.width, self.layers))
        return OneByOneBody(members, x_shape, event_shape)


@final
class _Layers(nn.Module):
    def __init__(self, channels: int, width: int, layers: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels + 2, width, 5, padding=2)
        self.more = nn.ModuleList(nn.Conv2d(width, width, 5, padding=2) for _ in range(layers - 1))

    def forward(self, x: Tensor) -> Tensor:
        rows, _, height, columns = x.shape
        down = torch.linspace(-1, 1, height)[:, None].expand(rows, 1, height, columns)
        right = torch.linspace(-1, 1, columns).expand(rows, 1, height, columns)
        x = functional.gelu(self.first(torch.cat([x, down, right], 1)))
        for layer in self.more:
            x = x + functional.gelu(layer(x))
        return x
