"""What all heads share: one linear layer, and the way from its numbers to a law and to a loss."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from kuq._array import Array, checks, is_traced
from kuq._numbers import as_real_number
from kuq.distributions.base import Prediction
from kuq.errors import ParameterError, ShapeError
from kuq.kernels.base import Kernel, Score
from kuq.kernels.log_score import LogScore
from kuq.nn.layers import ChannelLinear, MemberLinear, Members, chosen
from kuq.uncertainty import score as kuq_score

#: The parameters of a law, in the order of its constructor.
Parameters = tuple[Tensor, ...]

#: Rank correlations of aleatoric uncertainty with noise, and test errors of mixtures, are better
#: with it; see "How closely noise is followed" in the docs.
SHAPE_PENALTY = 1.0


class Head(nn.Module, ABC):
    """A linear layer on features and the constraints that make its numbers parameters of a law.

    Features have the axes (M, B, features), or (M, B, features, grid…) where ``on_grid``; without
    the member axis for a single model. The event is a scalar (), a vector, or the grid.
    """

    #: Numbers for each coordinate of the outcome.
    width: int
    #: Whether a normal law, of a trunk of its own, is predicted first and a flow starts from it.
    starts_normal = False
    #: Whether a trunk that leaves the choice to its head has its layers normalised.
    normalised = False
    #: The slopes of the penalty for each weight of a coordinate, (width, width).
    pull: Tensor | None
    #: Whether kernel scores of its law are one step on the CPU, and elsewhere graphs of few steps.
    one_step = False

    def __init__(
        self,
        features: int,
        event_shape: tuple[int, ...] = (),
        n_members: int = 1,
        on_grid: bool = False,
    ) -> None:
        super().__init__()
        self.event_shape = tuple(event_shape)
        self.on_grid = on_grid
        self.layer: ChannelLinear | MemberLinear
        if on_grid:
            self.layer = ChannelLinear(n_members, features, self.width)
        else:
            outputs = math.prod(self.event_shape) * self.width
            self.layer = MemberLinear(n_members, features, outputs)
        self.register_buffer("pull", None, persistent=False)

    @property
    def event_ndim(self) -> int:
        return len(self.event_shape)

    @classmethod
    def joined_channels(
        cls, x_shape: tuple[int, ...], event_shape: tuple[int, ...], **options: Any
    ) -> int:
        """Channels that the trunk has to join to its inputs; none: the law needs no noise."""
        return 0

    def noise(
        self, generator: torch.Generator, rows: int, draws: int, grid: tuple[int, ...]
    ) -> Tensor:
        """Random numbers of one member behind draws for each row, (rows, draws, …)."""
        raise NotImplementedError(f"{type(self).__name__} takes no noise")

    def forward(self, features: Tensor, members: Members = None) -> Prediction:
        """The law of the outcome, in the units in which the network was trained."""
        single = features.ndim == 2 + (self.event_ndim if self.on_grid else 0)
        outputs = self.outputs(features[None] if single else features, members)
        return self.law(tuple(p[0] for p in outputs) if single else outputs)

    def outputs(self, features: Tensor, members: Members = None) -> Parameters:
        """The parameters of the law, each with the axes (M, B, event…, own…)."""
        raw = self.layer(features, members)
        raw = raw.float() if raw.dtype.itemsize < 4 else raw  # densities need more than bfloat16
        if self.on_grid:
            if tuple(raw.shape[3:]) != self.event_shape:
                raise ShapeError(
                    f"features on a grid of shape {tuple(raw.shape[3:])} cannot predict outcomes "
                    f"of shape {self.event_shape}"
                )
            raw = raw.movedim(2, -1)
        else:
            raw = raw.unflatten(-1, (*self.event_shape, self.width))
        return self.activated(raw)

    def loss(self, parameters: Parameters, y: Tensor, score: Score | None) -> Tensor:
        """The score of every prediction, (M, B); None is the loss the head is known for."""
        as_one = self.one_step and isinstance(score, Kernel) and not is_traced(y) and y.is_cpu
        value = None if as_one else self.closed_loss(parameters, y, score)
        if value is None:
            assert score is not None
            # Heads give valid parameters, and NaN of a network that diverges shows in its loss.
            with checks(False), torch.autocast(y.device.type, enabled=False):
                value = kuq_score(self.law(parameters), self.outcome(y), score)
        return value

    def held_back(
        self, losses: Tensor, score: Score | None, members: Members, share: float
    ) -> Tensor:
        """Losses (M, B) as they are, with slopes to which each row adds a share of the penalty.

        Relative to the loss, so that units of outcomes are nothing to it; the log score has none.
        """
        penalty = self.penalty(members) if share else None
        if penalty is None:
            return losses
        penalty = share * penalty.unsqueeze(1)
        return losses + penalty if isinstance(score, LogScore) else losses * (1 + penalty)

    def penalty(self, members: Members = None) -> Tensor | None:
        """Zero for each member, (M,), with the slopes of what weights cost that let the shape of
        the law follow the inputs: the sum of their squares times ``shape_penalty``.

        Noise mostly varies more slowly than means do, and one outcome tells little of it. None on
        grids, where neighbours tell the same.
        """
        if self.pull is None:
            return None
        weights = chosen(self.layer.weight, members)
        with torch.no_grad():
            slopes = (weights.reshape(-1, self.width) @ self.pull).view_as(weights)
        cost = (slopes * weights).sum((1, 2))
        return cost - cost.detach()

    def penalise_shape(self, shape_penalty: float, shape: Tensor) -> None:
        """Penalise that part of weights which ``shape``, a projection of parameters, keeps."""
        number = as_real_number(shape_penalty)
        if number is None or not 0 <= number < math.inf:
            raise ParameterError(
                f"shape_penalty must be finite and not negative, got {shape_penalty!r}"
            )
        self.shape_penalty = number
        if number and not self.on_grid:
            self.pull = 2 * number / math.prod(self.event_shape) * shape

    def compiles(self, parameters: Parameters, y: Tensor, score: Score | None) -> bool:
        """Whether the graph of the loss is short enough to be compiled."""
        kernel = self.one_step and isinstance(score, Kernel)
        return kernel or self.closed_loss(parameters, y, score) is not None

    def outcome(self, y: Tensor) -> Tensor:
        """Outcomes (…, event…) with the axes that the law has."""
        return y

    @abstractmethod
    def activated(self, raw: Tensor) -> Parameters:
        """Parameters from unconstrained numbers (M, B, event…, width)."""

    @abstractmethod
    def law(self, parameters: tuple[Array, ...]) -> Prediction:
        """The kuq distribution with these parameters, in any array library."""

    @abstractmethod
    def default_score(self, y: Tensor) -> Score | None:
        """What this head is trained by, given the outcomes it is to learn."""

    def closed_loss(self, parameters: Parameters, y: Tensor, score: Score | None) -> Tensor | None:
        """The loss in plain torch, or None where ``kuq.score`` does it."""
        return None

    @abstractmethod
    def mean(self, parameters: tuple[Array, ...]) -> Array:
        """The mean outcome, (M, B, event…)."""

    @abstractmethod
    def in_units(
        self, parameters: tuple[Array, ...], shift: Array, scale: Array
    ) -> tuple[Array, ...]:
        """The parameters of shift + scale · Y; both broadcast against the event."""
