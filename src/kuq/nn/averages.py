"""Weights averaged over the last epochs, which vary less than those of any step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

import torch
from torch import Tensor

from kuq.nn.weights import Weights


@final
class Averages:
    """Rows (M, P) that follow the weights of a network, and what its modules track.

    The share of older steps falls exponentially, over ``horizon`` steps; before that many, all
    steps count alike. Without a horizon they are the weights themselves.
    """

    def __init__(self, weights: Weights, horizon: int | None) -> None:
        self.weights, self.horizon = weights, horizon
        self.values, self.tracked = weights.values, weights.tracked
        if horizon is not None:
            self.values, self.tracked = self.values.clone(), self.tracked.clone()

    @torch.no_grad()
    def follow(self, steps: int) -> None:
        """Take in the weights after so many steps."""
        if self.horizon is None:
            return
        share = 1 / min(steps, self.horizon)
        self.values.lerp_(self.weights.values, share)
        self.tracked.lerp_(self.weights.tracked, share)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the network has the averages as its weights."""
        if self.horizon is None:
            yield
            return
        pairs = [(self.weights.values, self.values), (self.weights.tracked, self.tracked)]
        kept = [now.clone() for now, _ in pairs]
        _fill(pairs)
        try:
            yield
        finally:
            _fill([(now, before) for (now, _), before in zip(pairs, kept, strict=True)])


@torch.no_grad()
def _fill(pairs: list[tuple[Tensor, Tensor]]) -> None:
    for target, source in pairs:
        target.copy_(source)
