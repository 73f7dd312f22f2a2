"""The log score, which is a score but not a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from kuq.errors import ParameterError
from kuq.kernels.base import Score
from kuq.kernels.card import KernelCard


@final
@dataclass(frozen=True, eq=False, repr=False)
class LogScore(Score):
    """The log score −log p(y): entropies and Kullback-Leibler divergences, in nats.

    Strictly proper, neither bounded nor translation dependent: AU shifts with the unit of the
    target. Not a kernel: it cannot be added to one. It needs a density, so Samples have none.

    >>> import kuq
    >>> float(kuq.divergence(kuq.Normal(0.0, 1.0), kuq.Normal(2.0, 1.0), kuq.LogScore()))
    2.0
    """

    local = True
    units = "nats"

    @property
    def card(self) -> KernelCard:
        return KernelCard(
            name="LogScore",
            formula="-log p(y), not a kernel",
            strictly_proper=True,
            translation_invariant=True,
        )

    def _refuse(self, other: object) -> ParameterError:
        return ParameterError(
            f"LogScore is not a kernel, so it cannot be combined with {other!r}; "
            "decompose under each score and combine the results"
        )

    def __add__(self, other: object) -> Score:
        raise self._refuse(other)

    __radd__ = __mul__ = __rmul__ = __add__
