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
        self.steps += 1
        first = 1 - _BETA1**self.steps
        root = math.sqrt(1 - _BETA2**self.steps)
        for row in [slice(None)] if rows is None else [slice(r, r + 1) for r in rows]:
            g, moment, square = gradients[row], self.moment[row], self.square[row]
            moment.lerp_(g, 1 - _BETA1)
            square.mul_(_BETA2).addcmul_(g, g, value=1 - _BETA2)
            size = square.sqrt().mul_(1 / root).add_(_EPSILON)
            change = (moment / size).mul_((rates[row] * (-1 / first))[:, None])
            self.values[row].add_(change)
