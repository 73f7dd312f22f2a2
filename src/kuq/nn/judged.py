"""Which epochs are as good as the best, as far as a few held-out rows can tell."""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
import torch
from torch import Tensor


class Judged(NamedTuple):
    """Losses of held-out rows and how much these count, (M, R)."""

    losses: Tensor
    weights: Tensor

    def mean(self) -> Tensor:
        return (self.losses * self.weights).sum(1) / self.weights.sum(1)

    def error(self) -> Tensor:
        """The standard error of the mean."""
        gap = self.weights * (self.losses - self.mean()[:, None])
        return gap.square().sum(1).sqrt() / self.weights.sum(1)


@final
class Lowest:
    """The losses of every held-out row in each member's epoch of the lowest mean.

    The lowest mean of few rows is luck, and mostly comes too early. A later epoch is as good if it
    is not worse by more than ``margin`` standard errors of the difference, row by row, or of the
    lowest mean itself if that is smaller: where a few rows explode, as they do under the log score
    of networks that overfit, the difference has an error that excuses everything.
    """

    def __init__(self, margin: float) -> None:
        self.margin = margin
        self.losses: Tensor | None = None

    def as_good(self, judged: Judged, better: np.ndarray, running: list[int]) -> np.ndarray:
        """Which members are as good as ever now, (M,) bool; those that are ``better`` surely."""
        now = judged.losses
        if self.losses is None or self.losses.shape != now.shape:  # a source that changes its rows
            self.losses = now.clone()
        lower = torch.from_numpy(better).to(now.device)
        self.losses[lower] = now[lower]
        worse = Judged(now - self.losses, judged.weights)
        lowest = Judged(self.losses, judged.weights)
        error = torch.minimum(worse.error(), lowest.error())
        close = (worse.mean() <= self.margin * error).cpu().numpy()
        active = np.isin(np.arange(len(better)), running)
        good: np.ndarray = better | (active & close & (self.margin > 0))
        return good
