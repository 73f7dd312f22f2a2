"""Layers that hold the weights of all members of an ensemble and apply them at once."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional

#: Which members a layer is to apply: their positions, or None for all in order.
Members = Tensor | None


class MemberLayer(nn.Module, ABC):
    """A layer whose parameters have the members as axis 0."""

    @abstractmethod
    def reset_member(self, member: int, generator: torch.Generator) -> None:
        """Draw the initial weights of one member."""


def chosen(parameter: Tensor, members: Members) -> Tensor:
    """The weights of some members."""
    return parameter if members is None else parameter.index_select(0, members)


def fill_uniform(tensor: Tensor, bound: float, generator: torch.Generator) -> None:
    """Uniform numbers in ±bound, drawn on the CPU: the same on every device."""
    drawn = torch.rand(tensor.shape, generator=generator, dtype=torch.float32)
    tensor.copy_((2 * drawn - 1) * bound)


class MemberLinear(MemberLayer):
    """x W + b on the last axis: (M, …, inputs) to (M, …, outputs), one matrix for each member.

    Weights start uniform in ±gain / √inputs; 1 is what torch does.
    """

    def __init__(
        self, n_members: int, inputs: int, outputs: int, bias: bool = True, gain: float = 1.0
    ) -> None:
        super().__init__()
        self.inputs, self.outputs, self.gain = inputs, outputs, gain
        self.weight = nn.Parameter(torch.zeros(n_members, inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(n_members, 1, outputs)) if bias else None

    def before_noise(self, x: Tensor, members: Members = None) -> Tensor:
        """x W + b of the first inputs (M, B, …), where the others are noise: (M, B, outputs)."""
        by_x = torch.bmm(x, chosen(self.weight, members)[:, : x.shape[-1]])
        return by_x if self.bias is None else by_x + chosen(self.bias, members)

    def with_noise(self, by_x: Tensor, noise: Tensor, members: Members = None) -> Tensor:
        """That and the product with noise (M, B or 1, N, …), the last inputs: (M, B, N, outputs).

        So the product with x is taken once for all draws.
        """
        weight = chosen(self.weight, members)[:, self.inputs - noise.shape[-1] :]
        by_noise = torch.bmm(noise.flatten(1, 2), weight).view(*noise.shape[:3], self.outputs)
        return by_x.unsqueeze(2) + by_noise

    def forward(self, x: Tensor, members: Members = None) -> Tensor:
        flat = x if x.ndim == 3 else x.flatten(1, -2)
        weight = chosen(self.weight, members)
        if self.bias is None:
            out = torch.bmm(flat, weight)
        else:
            out = torch.baddbmm(chosen(self.bias, members), flat, weight)
        return out if x.ndim == 3 else out.view(*x.shape[:-1], self.outputs)

    @torch.no_grad()
    def reset_member(self, member: int, generator: torch.Generator) -> None:
        bound = self.gain / math.sqrt(self.inputs)
        fill_uniform(self.weight[member], bound, generator)
        if self.bias is not None:
            fill_uniform(self.bias[member], bound, generator)


class MemberLayerNorm(MemberLayer):
    """Every row brought to mean 0 and variance 1, then scaled and shifted: (M, R, features)."""

    def __init__(self, n_members: int, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n_members, 1, features))
        self.bias = nn.Parameter(torch.zeros(n_members, 1, features))

    def forward(self, x: Tensor, members: Members = None) -> Tensor:
        normed = functional.layer_norm(x, x.shape[-1:])
        return torch.addcmul(chosen(self.bias, members), normed, chosen(self.weight, members))

    @torch.no_grad()
    def reset_member(self, member: int, generator: torch.Generator) -> None:
        self.weight[member].fill_(1.0)
        self.bias[member].fill_(0.0)


class ChannelLinear(MemberLayer):
    """The same on axis 2, at every point of a grid: (M, B, inputs, …) to (M, B, outputs, …).

    Rows and points are one axis of one product for each member; memory has channels before rows,
    so that a chain of such layers copies nothing.
    """

    def __init__(self, n_members: int, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__()
        self.inputs, self.outputs = inputs, outputs
        self.weight = nn.Parameter(torch.zeros(n_members, outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(n_members, outputs, 1)) if bias else None

    def forward(self, x: Tensor, members: Members = None) -> Tensor:
        flat = x.transpose(1, 2).flatten(2)
        weight = chosen(self.weight, members)
        if self.bias is None:
            out = torch.bmm(weight, flat)
        else:
            out = torch.baddbmm(chosen(self.bias, members), weight, flat)
        shape = (len(out), self.outputs, x.shape[1], *x.shape[3:])
        return out.view(shape).transpose(1, 2)

    @torch.no_grad()
    def reset_member(self, member: int, generator: torch.Generator) -> None:
        bound = 1 / math.sqrt(self.inputs)
        fill_uniform(self.weight[member], bound, generator)
        if self.bias is not None:
            fill_uniform(self.bias[member], bound, generator)
