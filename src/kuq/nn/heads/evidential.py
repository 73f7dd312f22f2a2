"""Deep evidential regression."""

from __future__ import annotations

from typing import final

from torch import Tensor
from torch.nn import functional

from kuq._array import Array
from kuq.distributions.evidential import NormalInverseGamma
from kuq.kernels.base import Score
from kuq.nn import losses
from kuq.nn.heads.base import Head, Parameters

#: Keeps nu and beta positive and alpha above one in float32.
_LEAST = 1e-5


@final
class EvidentialHead(Head):
    """A normal-inverse-gamma law over the parameters of a normal (Amini et al. 2020).

    Trained by the likelihood of its Student-t predictive plus ``regulariser`` times
    |y − loc| (2 nu + alpha), which takes evidence away where the model errs; other scores
    replace both and see the predictive alone.

    The likelihood does not tell how the predictive variance is shared: the regulariser decides
    the aleatoric level (with noise of deviation 0.071, √AU came out as 0.067, 0.049, 0.030 for
    ``regulariser`` 0, 0.01, 0.1), and AU : EU is nu by construction. Trust the order of inputs
    that either part gives, not its level.

    >>> import kuq, torch
    >>> kuq.nn.EvidentialHead(8)(torch.zeros(5, 8))
    NormalInverseGamma(batch=(5,), event=())
    """

    width = 4

    def __init__(
        self,
        features: int,
        event_shape: tuple[int, ...] = (),
        n_members: int = 1,
        on_grid: bool = False,
        regulariser: float = 0.01,
    ) -> None:
        super().__init__(features, event_shape, n_members, on_grid)
        self.regulariser = regulariser

    def activated(self, raw: Tensor) -> Parameters:
        nu, alpha, beta = functional.softplus(raw[..., 1:]).add(_LEAST).unbind(-1)
        return raw[..., 0], nu, alpha + 1, beta

    def law(self, parameters: tuple[Array, ...]) -> NormalInverseGamma:
        loc, nu, alpha, beta = parameters
        return NormalInverseGamma(loc, nu, alpha, beta, self.event_ndim)

    def default_score(self, y: Tensor) -> None:
        return None

    def closed_loss(self, parameters: Parameters, y: Tensor, score: Score | None) -> Tensor | None:
        if score is not None:
            return None
        loc, nu, alpha, beta = parameters
        value = losses.evidential_loss(loc, nu, alpha, beta, y, self.regulariser)
        return losses.over_event(value, self.event_ndim, "sum")

    def mean(self, parameters: tuple[Array, ...]) -> Array:
        return parameters[0]

    def in_units(
        self, parameters: tuple[Array, ...], shift: Array, scale: Array
    ) -> tuple[Array, ...]:
        loc, nu, alpha, beta = parameters
        return loc * scale + shift, nu, alpha, beta * scale * scale
