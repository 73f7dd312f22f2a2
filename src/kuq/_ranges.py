"""What a number may be, declared with its type: ``Annotated[int, Within(least=1)]``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, TypeAlias, final


@final
@dataclass(frozen=True)
class Within:
    """Limits of a number, or of the length of a list; ``above`` and ``below`` exclude the limit."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def __contains__(self, value: float) -> bool:
        return (
            math.isfinite(value)
            and (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        parts = (("≥", self.least), ("≤", self.most), (">", self.above), ("<", self.below))
        return " and ".join(f"{sign} {limit}" for sign, limit in parts if limit is not None)


Natural: TypeAlias = Annotated[int, Within(least=0)]
Count: TypeAlias = Annotated[int, Within(least=1)]
#: Two or more: a mean over pairs exists.
Several: TypeAlias = Annotated[int, Within(least=2)]
#: What NumPy's generators and a column of SQLite take.
Seed: TypeAlias = Annotated[int, Within(least=0, most=2**63 - 1)]
Positive: TypeAlias = Annotated[float, Within(above=0)]
NotNegative: TypeAlias = Annotated[float, Within(least=0)]
Share: TypeAlias = Annotated[float, Within(least=0, most=1)]
InnerShare: TypeAlias = Annotated[float, Within(above=0, below=1)]
