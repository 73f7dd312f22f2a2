"""The Gaussian kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from kuq._array import Array, Namespace
from kuq.kernels.base import Radial, check_bandwidth, check_weights
from kuq.kernels.card import KernelCard, bounded_card


@final
@dataclass(frozen=True, eq=False, repr=False)
class Gaussian(Radial):
    """The kernel k(x, y) = −exp(−‖x − y‖² / bandwidth²).

    Strictly proper and bounded, hence robust: no member can move a measure by more than a
    constant. Closed form for normals, mixtures and low-rank normals in any dimension. In high
    dimension the bandwidth has to grow like √d, or everything saturates.

    >>> import kuq
    >>> float(kuq.divergence(kuq.Point(0.0), kuq.Point(1.0), kuq.Gaussian(1.0)))  # 1 − 1/e
    0.6321205588285577
    """

    bandwidth: Any
    weights: Array | None = None
    diagonal = -1.0

    def __post_init__(self) -> None:
        check_bandwidth(self)
        check_weights(self)

    def profile(self, s: Array, xp: Namespace) -> Array:
        return -xp.expm1(-s)

    @property
    def card(self) -> KernelCard:
        return bounded_card(self, "-exp(-|x-y|^2/g^2)")

    @property
    def units(self) -> str:
        return "dimensionless"
