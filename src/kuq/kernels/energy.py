"""The energy kernel ‖x−y‖^β; β = 1 in one dimension is the CRPS."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import final

import numpy as np

from kuq._array import Array, Namespace, safe_sqrt
from kuq.kernels.base import ScaleMixture
from kuq.kernels.card import KernelCard, all_positive
from kuq.kernels.parameters import check_number, check_weights


@final
@dataclass(frozen=True, eq=False, repr=False)
class Energy(ScaleMixture):
    """The energy kernel k(x, y) = ‖x − y‖^beta with beta in (0, 2).

    Strictly proper, translation invariant, homogeneous of degree beta, unbounded, convex for
    beta ≥ 1: an all-round measure in the target's own unit. Closed form for scalar normals at
    beta = 1, quadrature for normals in any dimension. ``beta`` is the power of the distance.
    ``weights`` over the event make its norm a weighted one, such as by area.

    >>> import kuq
    >>> float(kuq.entropy(kuq.Normal(0.0, 1.0), kuq.Energy()))  # 1/√π
    0.5641895835477563
    """

    beta: float = 1.0
    weights: Array | None = None

    def __post_init__(self) -> None:
        check_number(self, "beta", 0.0, 2.0)
        check_weights(self)

    @functools.cached_property
    def degree(self) -> float:
        return self.beta

    def profile(self, s: Array, xp: Namespace) -> Array:
        root = safe_sqrt(s)
        if self.beta == 1.0:
            return root
        zero = s <= 0
        power = xp.pow(xp.where(zero, xp.ones_like(s), s), self.beta / 2)
        return xp.where(zero, xp.zeros_like(s), power)

    @property
    def density_power(self) -> float:
        return -self.beta / 2

    def log_density(self, v: np.ndarray) -> np.ndarray:
        b = self.beta / 2
        return math.log(b) - math.lgamma(1 - b) - b * v

    @property
    def card(self) -> KernelCard:
        return KernelCard(
            name=f"Energy({self.beta:g})",
            formula=f"|x-y|^{self.beta:g}" if self.beta != 1 else "|x-y|",
            strictly_proper=all_positive(self.weights),
            translation_invariant=True,
            homogeneous_degree=self.beta,
            convex=self.beta >= 1,
        )

    @functools.cached_property
    def units(self) -> str:
        return "target units" if self.beta == 1 else f"target units^{self.beta:g}"
