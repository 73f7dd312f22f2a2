"""What heads share whose law is draws."""

from __future__ import annotations

from torch import Tensor

from kuq._array import Array
from kuq.distributions.samples import Samples
from kuq.kernels.base import Score
from kuq.kernels.energy import Energy
from kuq.kernels.marginal import CRPS
from kuq.nn.heads.base import Head, Parameters


class DrawingHead(Head):
    """One number for each coordinate of each draw.

    Features have the axes (M, B, N, features), or (M, B, N, features, grid…).
    """

    width = 1
    one_step = True

    def outputs(self, features: Tensor, members: Tensor | None = None) -> Parameters:
        rows, draws = features.shape[1:3]
        (values,) = super().outputs(features.flatten(1, 2), members)
        return (values.reshape(-1, rows, draws, *self.event_shape),)

    def activated(self, raw: Tensor) -> Parameters:
        return (raw[..., 0],)

    def law(self, parameters: tuple[Array, ...]) -> Samples:
        return Samples(parameters[0], self.event_ndim)

    def default_score(self, y: Tensor) -> Score:
        return Energy() if self.event_ndim else CRPS()

    def mean(self, parameters: tuple[Array, ...]) -> Array:
        return parameters[0].mean(2)

    def in_units(
        self, parameters: tuple[Array, ...], shift: Array, scale: Array
    ) -> tuple[Array, ...]:
        return (parameters[0] * scale + shift,)
