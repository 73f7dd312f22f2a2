"""Adam with a learning rate for each member."""

from __future__ import annotations

import math
from typing import final

import torch
from torch import Tensor

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8


@final
class Adam:
    """Adam (Kingma and Ba 2015) on rows of weights; a rate of zero leaves a row as it is."""

    def __init__(self, values: Tensor) -> None:
        self.values = values
        self.moment = torch.zeros_like(values)
        self.square = torch.zeros_like(values)
        self.steps = 0

    @torch.no_grad()
    def step(self, gradients: Tensor, rates: Tensor, rows: list[int] | None = None) -> None:
        """One step with rates (M,), on some rows or on all."""
        first, root = self.next_corrections()
        rates = rates / first
        for row in [slice(None)] if rows is None else [slice(r, r + 1) for r in rows]:
            state = (self.values[row], self.moment[row], self.square[row])
            update(*state, gradients[row], rates[row], 1 / root)

    def next_corrections(self) -> tuple[float, float]:
        """Count a step; what divides the first moment and the root of the second."""
        self.steps += 1
        return 1 - _BETA1**self.steps, math.sqrt(1 - _BETA2**self.steps)


def update(
    values: Tensor,
    moment: Tensor,
    square: Tensor,
    gradients: Tensor,
    rates: Tensor,
    unbias: Tensor | float,
) -> None:
    """Move moments and weights in place; rates (M,) include the correction of the first moment."""
    moment.lerp_(gradients, 1 - _BETA1)
    square.mul_(_BETA2).addcmul_(gradients, gradients, value=1 - _BETA2)
    size = square.sqrt().mul_(unbias).add_(_EPSILON)
    values.sub_((moment / size).mul_(rates[:, None]))
