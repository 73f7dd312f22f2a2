"""Mixture density networks."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor
from torch.nn import functional

from kuq._array import Array
from kuq.distributions.mixture import NormalMixture
from kuq.kernels.base import Score
from kuq.kernels.marginal import CRPS
from kuq.nn import losses
from kuq.nn.backbones import check_positive
from kuq.nn.heads.base import SHAPE_PENALTY, Head, Parameters

#: Keeps variances positive in float32.
_LEAST = 1e-6


@final
class MixtureHead(Head):
    """A mixture of normals for each coordinate, trained by its CRPS in closed form.

    Weights by softmax, variances by softplus. Components start at the quantiles of a standard
    normal, so that none has to be pushed away from the others first. On tables ``shape_penalty``
    holds back the weights that let the shape, apart from a common shift, follow the inputs.

    >>> import kuq, torch
    >>> kuq.nn.MixtureHead(8, n_components=3)(torch.zeros(5, 8))
    NormalMixture(batch=(5,), K=3, event=())
    """

    one_step = True
    quantiles: Tensor

    def __init__(
        self,
        features: int,
        event_shape: tuple[int, ...] = (),
        n_members: int = 1,
        on_grid: bool = False,
        n_components: int = 10,
        shape_penalty: float = SHAPE_PENALTY,
    ) -> None:
        check_positive(n_components=n_components)
        self.width = 3 * n_components
        super().__init__(features, event_shape, n_members, on_grid)
        shape, places = torch.eye(self.width), slice(n_components, 2 * n_components)
        shape[places, places] -= 1 / n_components
        self.penalise_shape(shape_penalty, shape)
        levels = (torch.arange(n_components, dtype=torch.float64) + 0.5) / n_components
        start = torch.special.ndtri(levels).float()
        self.register_buffer("quantiles", start, persistent=False)

    def extra_repr(self) -> str:
        return f"shape_penalty={self.shape_penalty}"

    def activated(self, raw: Tensor) -> Parameters:
        weights, loc, variance = raw.chunk(3, dim=-1)
        scale = torch.sqrt(functional.softplus(variance) + _LEAST)
        return torch.softmax(weights, -1), loc + self.quantiles, scale

    def law(self, parameters: tuple[Array, ...]) -> NormalMixture:
        weights, loc, scale = parameters
        return NormalMixture(weights, loc, scale, self.event_ndim)

    def default_score(self, y: Tensor) -> Score:
        return CRPS()

    def closed_loss(self, parameters: Parameters, y: Tensor, score: Score | None) -> Tensor | None:
        reduce = losses.crps_reduction(score, self.event_ndim)
        if reduce is None:
            return None
        weights, loc, scale = parameters
        value = losses.mixture_crps(weights, loc, scale, y)
        return losses.over_event(value, self.event_ndim, reduce)

    def mean(self, parameters: tuple[Array, ...]) -> Array:
        weights, loc, _ = parameters
        return (weights * loc).sum(-1)

    def in_units(
        self, parameters: tuple[Array, ...], shift: Array, scale: Array
    ) -> tuple[Array, ...]:
        weights, loc, deviation = parameters
        return weights, loc * scale[..., None] + shift[..., None], deviation * scale[..., None]
