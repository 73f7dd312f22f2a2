"""The rational quadratic kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from kuq._array import Array, Namespace
from kuq.kernels import log_gamma_law
from kuq.kernels.base import Bounded, ScaleMixture
from kuq.kernels.parameters import check_number


@final
@dataclass(frozen=True, eq=False, repr=False)
class RationalQuadratic(Bounded, ScaleMixture):
    """The kernel k(x, y) = −(1 + ‖x − y‖² / bandwidth²)^(−alpha).

    Strictly proper and bounded, with tails of power 2·alpha: a Gaussian kernel at all scales up
    to the bandwidth. Quadrature for normals in any dimension.
    ``bandwidth`` is a number, an array over the batch, or "median".
    ``alpha`` is half the power of the tails.
    ``weights`` over the event make its norm a weighted one, such as by area.

    >>> import kuq
    >>> float(kuq.divergence(kuq.Point(0.0), kuq.Point(1.0), kuq.RationalQuadratic(1.0, 1.0)))
    0.5
    """

    bandwidth: Any
    alpha: float = 1.0
    weights: Array | None = None

    def __post_init__(self) -> None:
        check_number(self, "alpha", 0.0, math.inf)
        super().__post_init__()

    @property
    def formula(self) -> str:
        return f"-(1+|x-y|^2/g^2)^-{self.alpha:g}"

    def profile(self, s: Array, xp: Namespace) -> Array:
        return -xp.expm1(-self.alpha * xp.log1p(s))

    def log_density(self, v: np.ndarray) -> np.ndarray:
        # t·bandwidth² follows the gamma law of shape alpha.
        return log_gamma_law.log_density(self.alpha, v)


def InverseMultiquadric(bandwidth: Any, weights: Array | None = None) -> RationalQuadratic:  # noqa: N802
    """The kernel −(1 + ‖x − y‖²/bandwidth²)^(−1/2): the rational quadratic of alpha = ½.

    >>> import kuq
    >>> kuq.InverseMultiquadric(2.0)
    RationalQuadratic(bandwidth=2.0, alpha=0.5)
    """
    return RationalQuadratic(bandwidth, alpha=0.5, weights=weights)
