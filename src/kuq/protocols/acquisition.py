"""Which unlabelled cases to label next, given their uncertainty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from kuq.errors import ParameterError
from kuq.protocols.vectors import Vector

Indices: TypeAlias = NDArray[np.int64]
#: (uncertainties, how many, generator) to the places of those chosen.
Selection: TypeAlias = Callable[[Vector, int, np.random.Generator], Indices]


def largest(uncertainty: Vector, count: int, rng: np.random.Generator) -> Indices:
    """The ``count`` most uncertain cases, equal ones in random order: the paper's rule.

    >>> import numpy as np
    >>> largest(np.asarray([0.2, 0.9, 0.1, 0.5]), 2, np.random.default_rng(0)).tolist()
    [1, 3]
    """
    order = np.lexsort((rng.random(uncertainty.size), -uncertainty))
    return np.asarray(order[:count], dtype=np.int64)


@final
@dataclass(frozen=True)
class PowerSampling:
    """Draws a batch without replacement, with chances proportional to uncertainty^power.

    The most uncertain cases are often alike; drawing spreads a batch over more of them. A large
    ``power`` comes close to ``largest``, a small one to random choice. Uncertainties of zero or
    below (unbiased estimates can be) are chosen last.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> PowerSampling(1.0)(np.asarray([0.0, 1.0, 1.0, 8.0]), 3, rng).tolist()
    [3, 2, 1]
    """

    power: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.power < np.inf:
            raise ParameterError(f"power must be positive and finite, got {self.power!r}")

    def __call__(self, uncertainty: Vector, count: int, rng: np.random.Generator) -> Indices:
        # Gumbel noise on log-weights: the order is that of successive draws without replacement.
        positive = uncertainty > 0
        logarithm = np.log(np.where(positive, uncertainty, 1.0))
        keys = np.where(positive, self.power * logarithm, -np.inf) + rng.gumbel(
            size=uncertainty.size
        )
        order = np.lexsort((rng.random(uncertainty.size), -keys))
        return np.asarray(order[:count], dtype=np.int64)
