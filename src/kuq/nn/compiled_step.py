"""One optimiser step of all members as one compiled graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value
from torch.fx.experimental.proxy_tensor import make_fx

from kuq.nn.adam import Adam, update
from kuq.nn.rows import Batch, Rows
from kuq.nn.weights import Weights

#: The mean loss of every member over a batch: (rows, noise, burning) to (M,).
Losses = Callable[[Batch, Tensor | None, bool], Tensor]


@final
class CompiledStep:
    """Batch, loss, gradient and Adam in one graph, compiled for full batches.

    The step is traced to plain tensor operations first: what is compiled then has no modules to
    look after, which at this size would cost as much as the arithmetic.
    """

    def __init__(
        self,
        network: nn.Module,
        losses: Losses,
        rows: Rows,
        weights: Weights,
        adam: Adam,
        backend: str,
    ) -> None:
        self.network = _WithLosses(network, losses)
        self.rows, self.weights, self.adam = rows, weights, adam
        self.backend = backend
        self._compiled: dict[bool, Any] = {}

    @torch.no_grad()
    def __call__(self, index: Tensor, noise: Tensor | None, rates: Tensor, burning: bool) -> Tensor:
        """Move all weights by one step; the mean loss of every member."""
        first, root = self.adam.next_corrections()
        arguments = [index, rates / first, torch.tensor(1 / root, device=rates.device)]
        arguments.append(torch.zeros(0, device=rates.device) if noise is None else noise)
        if burning not in self._compiled:
            self._compiled[burning] = self._compile(arguments, burning)
        state = (self.weights.values, self.adam.moment, self.adam.square)
        losses: Tensor = self._compiled[burning](*state, *arguments)
        return losses

    def _compile(self, arguments: list[Tensor], burning: bool) -> Any:
        state = [t.clone() for t in (self.weights.values, self.adam.moment, self.adam.square)]

        def step(
            values: Tensor,
            moment: Tensor,
            square: Tensor,
            index: Tensor,
            rates: Tensor,
            unbias: Tensor,
            noise: Tensor,
        ) -> Tensor:
            rows = self.rows.batch(index, None)
            joined = noise if noise.numel() else None

            def total(parameters: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
                losses: Tensor = functional_call(self.network, parameters, (rows, joined, burning))
                return losses.sum(), losses

            parameters = self.weights.named_views(self.network, values)
            gradients, (_, aux) = grad_and_value(total, has_aux=True)(parameters)
            update(values, moment, square, self.weights.joined(gradients), rates, unbias)
            losses: Tensor = aux
            return losses

        graph = make_fx(step, tracing_mode="fake", _allow_non_fake_inputs=True)(*state, *arguments)
        return torch.compile(graph, dynamic=False, backend=self.backend)


class _WithLosses(nn.Module):
    """A network whose forward pass gives losses, for ``functional_call``."""

    def __init__(self, network: nn.Module, losses: Losses) -> None:
        super().__init__()
        self.network = network
        self.losses = losses

    def forward(self, rows: Batch, noise: Tensor | None, burning: bool) -> Tensor:
        return self.losses(rows, noise, burning)
