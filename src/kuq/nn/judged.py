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

    def of(self, members: list[int], together: bool) -> Judged:
        """The rows of some members, or all of these as those of one."""
        rows = (1, -1) if together else (len(members), -1)
        return Judged(*(values[members].reshape(rows) for values in self))


@final
class Lowest:
    """The losses of every held-out row in the epoch of the lowest mean, by which others are judged.

    The lowest mean of few rows is luck, and mostly comes too early. A later epoch is as good if it
    is not worse by more than ``margin`` standard errors of the difference, row by row, or of the
    lowest mean itself if that is smaller: where a few rows explode, as they do under the log score
    of networks that overfit, the difference has an error that excuses everything.

    Each member is judged by itself, or all ``together`` where everyone has held out other rows:
    when to stop is then a question that many more rows answer.
    """

    def __init__(self, margin: float, together: bool) -> None:
        self.margin, self.together = margin, together
        self.losses: Tensor | None = None

    def as_good(self, judged: Judged, running: list[int]) -> np.ndarray:
        """Which of the running members are as good as ever now, (M,) bool."""
        good = np.zeros(len(judged.losses), bool)
        finite = torch.isfinite(judged.mean()).tolist()
        members = [member for member in running if finite[member]]
        if not members:
            return good
        first = self.losses is None or self.losses.shape != judged.losses.shape
        if first:  # or a source that changes its rows
            self.losses = judged.losses.clone()
        assert self.losses is not None
        lowest = Judged(self.losses, judged.weights).of(members, self.together)
        now = judged.of(members, self.together)
        worse = Judged(now.losses - lowest.losses, now.weights)
        gap = worse.mean()
        error = torch.minimum(worse.error(), lowest.error())
        lower = torch.full_like(gap, first, dtype=torch.bool) | (gap < 0)
        close = lower | ((gap <= self.margin * error) & (self.margin > 0))
        count = len(members)
        chosen = torch.tensor(members)[lower.expand(count).cpu()].to(judged.losses.device)
        self.losses[chosen] = judged.losses[chosen]
        good[members] = close.expand(count).cpu().numpy()
        return good
