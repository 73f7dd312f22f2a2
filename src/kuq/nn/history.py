"""What happened during training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np


@final
@dataclass(frozen=True)
class History:
    """Losses of every epoch and member, (epochs, M), and where each member was best.

    ``validation_loss`` is None where there were no rows to validate on; ``best_epoch`` counts
    from 0 and is −1 for a member without a finite loss; ``kept_epoch`` is the one whose weights it
    has now; ``learning_rate`` is that at the end.
    """

    train_loss: np.ndarray
    validation_loss: np.ndarray | None
    best_loss: np.ndarray
    best_epoch: np.ndarray
    kept_epoch: np.ndarray
    learning_rate: np.ndarray
    interrupted: bool

    @property
    def epochs(self) -> int:
        return len(self.train_loss)

    def __repr__(self) -> str:
        last = self.train_loss[-1] if self.epochs else np.array([])
        losses = ", ".join(f"{loss:.4g}" for loss in last)
        return f"History({self.epochs} epochs, train loss [{losses}])"
