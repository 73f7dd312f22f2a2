"""Normals for each coordinate."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor
from torch.nn import functional

from kuq._array import Array
from kuq.distributions.normal import Normal
from kuq.kernels.base import Score
from kuq.kernels.log_score import LogScore
from kuq.kernels.marginal import CRPS
from kuq.nn import losses
from kuq.nn.heads.base import SHAPE_PENALTY, Head, Parameters

#: softplus of this is one half: a head that outputs zeros predicts N(0, 1).
_HALF = -0.43275212956
#: Keeps variances positive in float32.
_LEAST = 1e-6


@final
class NormalHead(Head):
    """A normal law for each coordinate, trained by its CRPS.

    On tables deviations learn from squares clipped at two deviations (``clipped_squares``), which
    tell more of normal noise than the CRPS does, and ``shape_penalty`` holds back the weights that
    let the deviation follow the inputs.

    The numbers are μ and log σ²; with ``natural=True`` they are η₁ = μ/σ² and, by softplus,
    −η₂ = 1/(2σ²), in which the log-likelihood is concave (Immer et al. 2023). That likelihood
    (``kuq.LogScore``) gives up the mean where noise is large; see "Which model" in the docs.

    >>> import kuq, torch
    >>> kuq.nn.NormalHead(8)(torch.zeros(5, 8))
    Normal(batch=(5,), event=())
    """

    width = 2
    one_step = True

    def __init__(
        self,
        features: int,
        event_shape: tuple[int, ...] = (),
        n_members: int = 1,
        on_grid: bool = False,
        natural: bool = False,
        clipped_squares: bool = True,
        shape_penalty: float = SHAPE_PENALTY,
    ) -> None:
        super().__init__(features, event_shape, n_members, on_grid)
        self.natural = natural
        self.clipped_squares = clipped_squares
        self.penalise_shape(shape_penalty, torch.diag(torch.tensor([0.0, 1.0])))

    def extra_repr(self) -> str:
        return (
            f"natural={self.natural}, clipped_squares={self.clipped_squares}, "
            f"shape_penalty={self.shape_penalty}"
        )

    def activated(self, raw: Tensor) -> Parameters:
        first, second = raw.unbind(-1)
        if self.natural:
            variance = 0.5 / (functional.softplus(second + _HALF) + _LEAST)
            return first * variance, torch.sqrt(variance)
        return first, torch.sqrt(torch.exp(second.clamp(max=30.0)) + _LEAST)

    def law(self, parameters: tuple[Array, ...]) -> Normal:
        loc, scale = parameters
        return Normal(loc, scale, self.event_ndim)

    def loss(self, parameters: Parameters, y: Tensor, score: Score | None) -> Tensor:
        reduce = losses.crps_reduction(score, self.event_ndim)
        clipped = self.clipped_squares and not self.on_grid and torch.is_grad_enabled()
        if reduce is None or not clipped:
            return super().loss(parameters, y, score)
        loc, scale = parameters
        values = losses.normal_crps_clipped(loc, scale, y)
        return losses.over_event(values, self.event_ndim, reduce)

    def default_score(self, y: Tensor) -> Score:
        return CRPS()

    def closed_loss(self, parameters: Parameters, y: Tensor, score: Score | None) -> Tensor | None:
        if not isinstance(score, LogScore):
            return None
        loc, scale = parameters
        return losses.over_event(losses.normal_log(loc, scale, y), self.event_ndim, "sum")

    def mean(self, parameters: tuple[Array, ...]) -> Array:
        return parameters[0]

    def in_units(
        self, parameters: tuple[Array, ...], shift: Array, scale: Array
    ) -> tuple[Array, ...]:
        loc, deviation = parameters
        return loc * scale + shift, deviation * scale
