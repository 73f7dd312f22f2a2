"""One measured number of an experiment, and what it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Record:
    """One number of one grid cell: what the store keeps, and all that tables and figures read.

    ``quantity`` says what was measured (``"prr"``, ``"auroc"``, ``"mse"``, …) and ``x`` where along
    a curve (the retention, the size of a corruption, the number of labels, members or draws; None
    for a single number). ``score`` and ``component`` are empty where they do not apply.
    """

    experiment: str
    dataset: str
    representation: str
    seed: int
    quantity: str
    value: float
    score: str = ""
    component: str = ""
    x: float | None = None
