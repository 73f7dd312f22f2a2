"""When a member gets a lower learning rate, when it stops, and where it was best."""

from __future__ import annotations

import math
from typing import final

import numpy as np

_INTEGERS = ("since_best", "since_cut", "best_epoch", "stopped")


@final
class Stopping:
    """Arrays (M,) that one loss for each member and epoch moves on."""

    def __init__(
        self, n_members: int, learning_rate: float, patience: int | None, plateau: int | None
    ) -> None:
        self.patience, self.plateau = patience, plateau
        self.rate = np.full(n_members, learning_rate)
        self.best_loss = np.full(n_members, math.inf)
        self.best_epoch = np.full(n_members, -1)
        self.since_best = np.zeros(n_members, int)
        self.since_cut = np.zeros(n_members, int)
        self.stopped = np.zeros(n_members, int)

    @property
    def active(self) -> list[int]:
        return np.flatnonzero(self.stopped == 0).tolist()

    def update(self, loss: np.ndarray, epoch: int) -> np.ndarray:
        """Take the losses of an epoch; which members are better than ever before, (M,) bool."""
        running = self.stopped == 0
        better: np.ndarray = running & (loss < self.best_loss)
        self.best_loss[better] = loss[better]
        self.best_epoch[better] = epoch
        waiting = running & ~better
        self.since_best[better] = self.since_cut[better] = 0
        self.since_best[waiting] += 1
        self.since_cut[waiting] += 1
        if self.plateau is not None:
            cut = waiting & (self.since_cut > self.plateau)
            self.rate[cut] /= 2
            self.since_cut[cut] = 0
        if self.patience is not None:
            self.stopped[waiting & (self.since_best >= self.patience)] = 1
        self.stopped[running & ~np.isfinite(loss)] = 1  # it would only stay there
        return better

    def rates(self) -> np.ndarray:
        """Learning rates, zero for members that stopped."""
        return np.where(self.stopped == 0, self.rate, 0.0)

    def arrays(self) -> dict[str, np.ndarray]:
        names = ("rate", "best_loss", *_INTEGERS)
        return {name: getattr(self, name) for name in names}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        for name in self.arrays():
            getattr(self, name)[:] = arrays[name]
