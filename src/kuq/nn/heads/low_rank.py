"""Multivariate normals with a low-rank plus diagonal covariance."""

from __future__ import annotations

import math
from typing import final

from torch import Tensor
from torch.nn import functional

from kuq._array import Array
from kuq.distributions.low_rank import LowRankNormal
from kuq.kernels.bandwidth import median_bandwidth
from kuq.kernels.base import Score
from kuq.kernels.gaussian import Gaussian
from kuq.nn import losses
from kuq.nn.backbones import check_positive
from kuq.nn.heads.base import Head, Parameters

#: Keeps variances positive in float32.
_LEAST = 1e-6
#: Rows that are enough for a median of distances.
_ROWS = 500


@final
class LowRankHead(Head):
    """N(loc, U Uᵀ + D) over the whole outcome, trained by its Gaussian-kernel score.

    The bandwidth is the median distance between training outcomes. Functions and images are
    taken as one vector, since the law has one event axis.

    >>> import kuq, torch
    >>> kuq.nn.LowRankHead(8, event_shape=(4,), rank=2)(torch.zeros(5, 8))
    LowRankNormal(batch=(5,), rank=2, event=(4,))
    """

    def __init__(
        self,
        features: int,
        event_shape: tuple[int, ...] = (),
        n_members: int = 1,
        on_grid: bool = False,
        rank: int = 10,
    ) -> None:
        check_positive(rank=rank)
        self.width = rank + 2
        super().__init__(features, event_shape, n_members, on_grid)
        self.dimension = math.prod(self.event_shape)

    def activated(self, raw: Tensor) -> Parameters:
        raw = raw.reshape(*raw.shape[: raw.ndim - 1 - self.event_ndim], self.dimension, self.width)
        # Without the root the factors would start with `rank` times the variance they should have.
        factor = raw[..., 2:] / math.sqrt(self.width - 2)
        return raw[..., 0], factor, functional.softplus(raw[..., 1]) + _LEAST

    def law(self, parameters: tuple[Array, ...]) -> LowRankNormal:
        loc, factor, diag = parameters
        return LowRankNormal(loc, factor, diag)

    def outcome(self, y: Tensor) -> Tensor:
        return y.reshape(*y.shape[: y.ndim - self.event_ndim], self.dimension)

    def default_score(self, y: Tensor) -> Score:
        step = max(1, len(y) // _ROWS)
        return Gaussian(float(median_bandwidth(self.outcome(y[::step][:_ROWS]).double(), 1)))

    def closed_loss(self, parameters: Parameters, y: Tensor, score: Score | None) -> Tensor | None:
        if not isinstance(score, Gaussian) or score.weights is not None:
            return None
        if not isinstance(score.bandwidth, (int, float)):
            return None
        loc, factor, diag = parameters
        width = float(score.bandwidth)
        return losses.low_rank_gaussian(loc, factor, diag, self.outcome(y), width)

    def mean(self, parameters: tuple[Array, ...]) -> Array:
        loc = parameters[0]
        return loc.reshape(*loc.shape[:-1], *self.event_shape)

    def in_units(
        self, parameters: tuple[Array, ...], shift: Array, scale: Array
    ) -> tuple[Array, ...]:
        loc, factor, diag = parameters
        shift, scale = shift.reshape(-1), scale.reshape(-1)
        return loc * scale + shift, factor * scale[:, None], diag * scale * scale
