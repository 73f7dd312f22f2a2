"""The Gaussian kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from kuq._array import Array, Namespace
from kuq.kernels.base import Bounded


@final
@dataclass(frozen=True, eq=False, repr=False)
class Gaussian(Bounded):
    """The kernel k(x, y) = −exp(−‖x − y‖² / bandwidth²).

    Strictly proper and bounded, hence robust: no member can move a measure by more than a
    constant. Closed form for normals, mixtures and low-rank normals in any dimension. In high
    dimension the bandwidth has to grow like √d, or everything saturates.
    ``bandwidth`` is a number, an array over the batch, or "median".
    ``weights`` over the event make its norm a weighted one, such as by area.

    >>> import kuq
    >>> float(kuq.divergence(kuq.Point(0.0), kuq.Point(1.0), kuq.Gaussian(1.0)))  # 1 − 1/e
    0.6321205588285577
    """

    bandwidth: Any
    weights: Array | None = None

    @property
    def formula(self) -> str:
        return "-exp(-|x-y|^2/g^2)"

    def profile(self, s: Array, xp: Namespace) -> Array:
        return -xp.expm1(-s)
