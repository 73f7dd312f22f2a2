"""What all heads share: one linear layer, and the way from its numbers to a law and to a loss."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from torch import Tensor, nn

from kuq._array import Array
from kuq.distributions.base import Prediction
from kuq.errors import ShapeError
from kuq.kernels.base import Score
from kuq.kernels.energy import Energy
from kuq.kernels.log_score import LogScore
from kuq.kernels.marginal import Marginal
from kuq.nn.layers import ChannelLinear, MemberLinear, Members
from kuq.uncertainty import score as kuq_score

#: The parameters of a law, in the order of its constructor.
Parameters = tuple[Tensor, ...]


class Head(nn.Module, ABC):
    """A linear layer on features and the constraints that make its numbers parameters of a law.

    Features have the axes (M, B, features), or (M, B, features, grid…) where ``on_grid``; without
    the member axis for a single model. The event is a scalar (), a vector, or the grid.
    """

    #: Numbers for each coordinate of the outcome.
    width: int
    #: Channels of noise that have to be joined to the inputs.
    noise_channels = 0

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
        if on_grid:
            self.layer: nn.Module = ChannelLinear(n_members, features, self.width)
        else:
            outputs = math.prod(self.event_shape) * self.width
            self.layer = MemberLinear(n_members, features, outputs)

    @property
    def event_ndim(self) -> int:
        return len(self.event_shape)

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
        value = self.closed_loss(parameters, y, score)
        if value is None:
            assert score is not None
            value = kuq_score(self.law(parameters), self.outcome(y), score)
        return value

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

    @abstractmethod
    def closed_loss(self, parameters: Parameters, y: Tensor, score: Score | None) -> Tensor | None:
        """The loss in plain torch, or None where ``kuq.score`` has to do it."""

    @abstractmethod
    def mean(self, parameters: tuple[Array, ...]) -> Array:
        """The mean outcome, (M, B, event…)."""

    @abstractmethod
    def in_units(
        self, parameters: tuple[Array, ...], shift: Array, scale: Array
    ) -> tuple[Array, ...]:
        """The parameters of shift + scale · Y; both broadcast against the event."""


def is_log(score: Score | None) -> bool:
    return isinstance(score, LogScore)


def is_absolute(score: Score | None) -> bool:
    """Whether this is the energy kernel of exponent one, without weights."""
    return isinstance(score, Energy) and score.beta == 1.0 and score.weights is None


def crps_reduction(score: Score | None, event_ndim: int) -> str | None:
    """How a CRPS is reduced over the event, None if the score is not one."""
    if event_ndim == 0 and is_absolute(score):
        return "mean"
    if not isinstance(score, Marginal) or score.weights is not None:
        return None
    return score.reduce if is_absolute(score.kernel) else None
