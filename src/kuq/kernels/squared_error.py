"""The squared error: the variance-based measures of uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from kuq._array import Array, Namespace
from kuq.kernels.base import Radial
from kuq.kernels.card import KernelCard
from kuq.kernels.parameters import check_weights


@final
@dataclass(frozen=True, eq=False, repr=False)
class SquaredError(Radial):
    """The kernel k(x, y) = ‖x − y‖²: AU is the mean variance, EU the spread of the means.

    By default EU compares members in pairs and is *twice* the variance of their means; with
    ``estimator="bma"`` it is that variance, and total the variance of the mixture. Proper but not
    strictly: it sees means only, so EU is zero for members that differ in shape but not in mean.
    Exact for every law, by moments.

    >>> import kuq
    >>> float(kuq.entropy(kuq.Normal(0.0, 3.0), kuq.SquaredError()))
    9.0
    """

    weights: Array | None = None

    def __post_init__(self) -> None:
        check_weights(self)

    degree = 2.0

    def profile(self, s: Array, xp: Namespace) -> Array:
        return s

    @property
    def card(self) -> KernelCard:
        return KernelCard(
            name="SquaredError",
            formula="|x-y|^2",
            translation_invariant=True,
            homogeneous_degree=2.0,
            convex=True,
        )

    @property
    def units(self) -> str:
        return "target units^2"
