"""All members of an ensemble as one torch module: trunk, noise and head."""

from __future__ import annotations

import math
from typing import Any, final

import torch
from torch import Tensor, nn

from kuq._numbers import whole_number
from kuq.distributions.base import Prediction
from kuq.errors import ParameterError
from kuq.nn.backbones import Backbone
from kuq.nn.generators import Purpose, member_generators
from kuq.nn.heads.base import Head, Parameters
from kuq.nn.heads.sampler import SamplerHead
from kuq.nn.layers import MemberLayer, Members
from kuq.nn.memory import require_room
from kuq.nn.one_by_one import OneByOne


@final
class Network(nn.Module):
    """M networks with one backbone and one head: inputs (B, …) to laws of batch (M, B).

    ``backbone`` is one of kuq's, or a torch module or a function that returns one; ``head`` is
    the class of a head and ``head_options`` what it takes beside shapes. Member i has the same
    initial weights in an ensemble of any size.

    >>> import kuq, torch
    >>> network = kuq.nn.Network(kuq.nn.MLP(), kuq.nn.NormalHead, (3,), n_members=4)
    >>> network(torch.zeros(5, 3))
    Normal(batch=(4, 5), event=())
    """

    def __init__(
        self,
        backbone: Any,
        head: type[Head],
        x_shape: tuple[int, ...],
        event_shape: tuple[int, ...] = (),
        n_members: int = 10,
        seed: int = 0,
        **head_options: Any,
    ) -> None:
        super().__init__()
        n_members, seed = whole_number(n_members, "n_members", 1), whole_number(seed, "seed", 0)
        backbone = backbone if isinstance(backbone, Backbone) else OneByOne(backbone)
        if not (isinstance(head, type) and issubclass(head, Head)):
            raise ParameterError(f"head must be a class such as kuq.nn.NormalHead, got {head!r}")
        noise = head_options.get("noise_channels", 16) if head is SamplerHead else 0
        self.n_members, self.seed = n_members, seed
        self.x_shape, self.event_shape = tuple(x_shape), tuple(event_shape)
        backbone = backbone.suited(head.normalised)
        shapes = (self.x_shape, self.event_shape)
        joined = (self.x_shape[0] + noise, *self.x_shape[1:])
        backbone.check(joined, self.event_shape)
        try:
            body = backbone.build_sampler(n_members, *shapes, seed, noise) if noise else None
            self.joins_noise = body is not None
            if body is None:
                body = backbone.build(n_members, joined, self.event_shape, seed)
            self.body = body
            self.head = head(
                self.body.features, self.event_shape, n_members, self.body.on_grid, **head_options
            )
        except (MemoryError, RuntimeError) as error:
            if "memory" not in str(error).lower():
                raise
            raise ParameterError(
                f"{n_members} members do not fit into memory; take fewer or a smaller backbone"
            ) from error
        require_room(n_members, self.weight_count())
        cpu = torch.device("cpu")
        for member, generator in enumerate(
            member_generators(seed, n_members, Purpose.WEIGHTS, cpu)
        ):
            for module in self.modules():
                if isinstance(module, MemberLayer):
                    module.reset_member(member, generator)

    @property
    def at_once(self) -> bool:
        """Whether all members are one computation."""
        return bool(self.body.at_once)

    def forward(self, x: Tensor, n_samples: int = 50) -> Prediction:
        """The laws of all members; a sampler draws ``n_samples`` times, with the same noise."""
        shared = x.expand(self.n_members, *x.shape)
        return self.head.law(self.outputs(shared, self.prediction_noise(n_samples)))

    def outputs(
        self, x: Tensor, noise: Tensor | None = None, members: Members = None
    ) -> Parameters:
        """The parameters of the laws for inputs (M, B, …) of some or all members."""
        if noise is None:
            return self.head.outputs(self.body(x, members), members)
        if self.joins_noise:
            return self.head.outputs(self.body(x, members, noise), members)
        rows, draws = x.shape[1], noise.shape[2]
        joined = torch.cat(
            [
                x.unsqueeze(2).expand(-1, -1, draws, *x.shape[2:]),
                noise.expand(-1, rows, *noise.shape[2:]),
            ],
            dim=3,
        )
        features = self.body(joined.flatten(1, 2), members)
        return self.head.outputs(features.view(-1, rows, draws, *features.shape[2:]), members)

    def noise(
        self, generators: list[torch.Generator], rows: int, draws: int, device: torch.device
    ) -> Tensor | None:
        """Standard normal noise for a sampler, (M, rows, draws, channels, grid…)."""
        if not self.head.noise_channels:
            return None
        shape = (rows, draws, self.head.noise_channels, *self.x_shape[1:])
        return torch.stack([torch.randn(shape, generator=g, device=device) for g in generators])

    def prediction_noise(self, n_samples: int) -> Tensor | None:
        """Fixed noise, the same for all inputs: a prediction depends on its own input alone."""
        device = next(self.parameters()).device
        cpu = torch.device("cpu")
        generators = member_generators(self.seed, self.n_members, Purpose.PREDICTION, cpu)
        noise = self.noise(generators, 1, n_samples, cpu)
        return None if noise is None else noise.to(device)

    def weight_count(self) -> int:
        """Numbers to learn for each member."""
        return sum(p.numel() for p in self.parameters()) // self.n_members

    def extra_repr(self) -> str:
        return f"n_members={self.n_members}, {self.weight_count()} weights each"

    def output_size(self) -> int:
        """Numbers that leave the head for one input of one member."""
        return math.prod(self.event_shape) * self.head.width
