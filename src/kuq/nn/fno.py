"""Fourier neural operators for functions of one variable."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional

from kuq.errors import ShapeError
from kuq.nn.backbones import Backbone, Body, check_positive
from kuq.nn.layers import ChannelLinear, MemberLayer, Members, chosen


@final
@dataclass(frozen=True)
class FNO(Backbone):
    """A Fourier neural operator: inputs (channels, points) to functions (points,).

    ``modes`` counts as the neuraloperator library does: the frequencies 0 … modes // 2 are kept.
    Each layer adds a spectral convolution and a linear map, then a small network over channels
    with a gated shortcut. The defaults are the paper's.

    >>> import kuq, torch
    >>> small = kuq.nn.FNO(modes=8, channels=4, layers=2)
    >>> kuq.nn.Network(small, kuq.nn.NormalHead, (2, 16), (16,), n_members=3)(torch.zeros(5, 2, 16))
    Normal(batch=(3, 5), event=(16,))
    """

    modes: int = 20
    channels: int = 64
    lifting_channels: int = 256
    projection_channels: int = 256
    layers: int = 8

    def __post_init__(self) -> None:
        check_positive(
            modes=self.modes,
            channels=self.channels,
            lifting_channels=self.lifting_channels,
            projection_channels=self.projection_channels,
            layers=self.layers,
        )

    def check(self, x_shape: tuple[int, ...], event_shape: tuple[int, ...]) -> None:
        if len(x_shape) != 2 or event_shape != x_shape[1:]:
            raise ShapeError(
                "a Fourier neural operator needs X (n, channels, points) and y (n, points) on the "
                f"same points, got rows of shape {x_shape} and {event_shape}"
            )
        if self.modes > x_shape[1]:
            raise ShapeError(
                f"{self.modes} modes need at least as many points, got {x_shape[1]}; pass "
                f"backbone=kuq.nn.FNO(modes={x_shape[1]}) or fewer"
            )

    def build(
        self, n_members: int, x_shape: tuple[int, ...], event_shape: tuple[int, ...], seed: int
    ) -> Body:
        return _FNOBody(self, n_members, *x_shape)


class _FNOBody(Body):
    on_grid = True
    at_once = True
    position: Tensor

    def __init__(self, fno: FNO, n_members: int, inputs: int, points: int) -> None:
        super().__init__()
        self.features = fno.projection_channels
        position = torch.arange(points, dtype=torch.float32) / points
        self.register_buffer("position", position, persistent=False)
        self.lift = nn.ModuleList(
            [
                ChannelLinear(n_members, inputs + 1, fno.lifting_channels),
                ChannelLinear(n_members, fno.lifting_channels, fno.channels),
            ]
        )
        self.blocks = nn.ModuleList(
            _Block(n_members, fno.channels, fno.modes, points, last=k == fno.layers - 1)
            for k in range(fno.layers)
        )
        self.project = ChannelLinear(n_members, fno.channels, fno.projection_channels)

    def forward(self, x: Tensor, members: Members = None) -> Tensor:
        where = self.position.expand(*x.shape[:2], 1, -1)
        # Channels before rows in memory, as all layers keep them.
        x = torch.cat([x, where], dim=2).transpose(1, 2).contiguous().transpose(1, 2)
        x = self.lift[1](functional.gelu(self.lift[0](x, members)), members)
        for block in self.blocks:
            x = block(x, members)
        return functional.gelu(self.project(x, members))


class _Block(MemberLayer):
    """One layer: gelu(K x + b + W x), then a network over channels plus gate · x.

    The last layer leaves out both nonlinearities, as in the neuraloperator library.
    """

    def __init__(self, n_members: int, channels: int, modes: int, points: int, last: bool) -> None:
        super().__init__()
        self.last = last
        self.spectral = SpectralConvolution(n_members, channels, modes, points)
        self.skip = ChannelLinear(n_members, channels, channels)
        self.gate = nn.Parameter(torch.ones(n_members, 1, channels, 1))
        self.inner = ChannelLinear(n_members, channels, max(1, channels // 2))
        self.outer = ChannelLinear(n_members, max(1, channels // 2), channels)

    def forward(self, x: Tensor, members: Members = None) -> Tensor:
        hidden = self.spectral(x, members) + self.skip(x, members)
        if not self.last:
            hidden = functional.gelu(hidden)
        mixed = self.outer(functional.gelu(self.inner(hidden, members)), members)
        out = torch.addcmul(mixed, x.to(mixed.dtype), chosen(self.gate, members).to(mixed.dtype))
        return out if self.last else functional.gelu(out)

    @torch.no_grad()
    def reset_member(self, member: int, generator: torch.Generator) -> None:
        self.gate[member].fill_(1.0)


class SpectralConvolution(MemberLayer):
    """Multiply the lowest frequencies of every function by a complex matrix over channels.

    Few frequencies are kept, so that the transforms are products with real matrices (points,
    2 · frequencies): faster than a fast transform whose result is mostly thrown away.
    """

    to_frequencies: Tensor
    to_points: Tensor

    def __init__(self, n_members: int, channels: int, modes: int, points: int) -> None:
        super().__init__()
        self.channels = channels
        self.kept = modes // 2 + 1
        self.weight = nn.Parameter(torch.zeros(n_members, self.kept, channels, channels, 2))
        forward, backward = transforms(points, self.kept)
        self.register_buffer("to_frequencies", forward.float(), persistent=False)
        self.register_buffer("to_points", backward.float(), persistent=False)

    def forward(self, x: Tensor, members: Members = None) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):  # there are no complex halves
            first = x.float().transpose(1, 2)
            pairs = (first @ self.to_frequencies).view(*first.shape[:3], self.kept, 2)
            spectrum = torch.view_as_complex(pairs)
            by_frequency = spectrum.permute(0, 3, 2, 1).flatten(0, 1)
            weight = torch.view_as_complex(chosen(self.weight, members)).flatten(0, 1)
            mixed = torch.bmm(by_frequency, weight)
            mixed = mixed.view(len(first), self.kept, first.shape[2], self.channels)
            back = torch.view_as_real(mixed.permute(0, 3, 2, 1).contiguous()).flatten(-2)
            return (back @ self.to_points).transpose(1, 2)

    @torch.no_grad()
    def reset_member(self, member: int, generator: torch.Generator) -> None:
        deviation = math.sqrt(0.5 / self.channels)
        weight = self.weight[member]
        weight.copy_(deviation * torch.randn(weight.shape, generator=generator))


def transforms(points: int, kept: int) -> tuple[Tensor, Tensor]:
    """Matrices of the real Fourier transform that keep some frequencies, and of its inverse.

    The first gives real and imaginary parts in turn, divided by the number of points.
    """
    frequency = torch.arange(kept, dtype=torch.float64)
    angle = 2 * math.pi / points * torch.outer(torch.arange(points).double(), frequency)
    forward = torch.stack([torch.cos(angle), -torch.sin(angle)], dim=-1) / points
    twice = torch.where((frequency == 0) | (2 * frequency == points), 1.0, 2.0)
    backward = torch.stack([twice * torch.cos(angle), -twice * torch.sin(angle)], dim=-1)
    return forward.flatten(1), backward.flatten(1).T.contiguous()
