"""The Laplace kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from kuq._array import Array, Namespace, safe_sqrt
from kuq.kernels.base import Bounded, ScaleMixture


@final
@dataclass(frozen=True, eq=False, repr=False)
class Laplace(Bounded, ScaleMixture):
    """The kernel k(x, y) = −exp(−‖x − y‖ / bandwidth).

    Strictly proper and bounded; sharper at small distances and heavier in the tails than the
    Gaussian kernel. Closed form for scalar normals, quadrature for normals in any dimension.
    ``bandwidth`` is a number, an array over the batch, or "median".
    ``weights`` over the event make its norm a weighted one, such as by area.

    >>> import kuq
    >>> float(kuq.divergence(kuq.Point(0.0), kuq.Point(1.0), kuq.Laplace(1.0)))  # 1 − 1/e
    0.6321205588285577
    """

    bandwidth: Any
    weights: Array | None = None

    @property
    def formula(self) -> str:
        return "-exp(-|x-y|/g)"

    def profile(self, s: Array, xp: Namespace) -> Array:
        return -xp.expm1(-safe_sqrt(s))

    def log_density(self, v: np.ndarray) -> np.ndarray:
        # t·bandwidth² follows the Lévy law.
        return np.asarray(-math.log(2 * math.sqrt(math.pi)) - v / 2 - np.exp(-v) / 4)
