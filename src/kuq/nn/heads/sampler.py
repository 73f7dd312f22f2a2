"""Networks that turn noise into draws."""

from __future__ import annotations

from typing import final

from torch import Tensor

from kuq._array import Array
from kuq.distributions.samples import Samples
from kuq.kernels.base import Score
from kuq.kernels.energy import Energy
from kuq.kernels.marginal import CRPS
from kuq.nn.backbones import check_positive
from kuq.nn.heads.base import Head, Parameters


@final
class SamplerHead(Head):
    """Draws of the outcome: noise is joined on the way, and every noise gives one draw.

    Trained by the fair energy score of the draws, which for scalars is the fair CRPS: right on
    average for any number of draws. Features have the axes (M, B, N, features), or
    (M, B, N, features, grid…).

    >>> import kuq, torch
    >>> kuq.nn.SamplerHead(8)(torch.zeros(1, 5, 20, 8))
    Samples(batch=(1, 5), N=20, event=())
    """

    width = 1
    normalised = True
    one_step = True

    def __init__(
        self,
        features: int,
        event_shape: tuple[int, ...] = (),
        n_members: int = 1,
        on_grid: bool = False,
        noise_channels: int = 16,
    ) -> None:
        super().__init__(features, event_shape, n_members, on_grid)
        check_positive(noise_channels=noise_channels)
        self.noise_channels = noise_channels

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
