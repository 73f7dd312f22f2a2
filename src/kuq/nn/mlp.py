"""Fully connected networks for tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

from torch import Tensor, nn

from kuq._numbers import as_whole_number
from kuq.errors import ParameterError
from kuq.nn.backbones import ACTIVATIONS, Backbone, Body, check_activation
from kuq.nn.layers import MemberLinear, Members


@final
@dataclass(frozen=True)
class MLP(Backbone):
    """Fully connected layers; inputs and outcomes of any shape are taken as one vector.

    >>> import kuq
    >>> kuq.nn.MLP(hidden_sizes=(256, 512, 1024), activation="relu")
    MLP(hidden_sizes=(256, 512, 1024), activation='relu')
    """

    hidden_sizes: Sequence[int] = (50, 50)
    activation: str = "gelu"

    def __post_init__(self) -> None:
        check_activation(self.activation)
        sizes = tuple(as_whole_number(size) for size in self.hidden_sizes)
        if not sizes or not all(size is not None and size > 0 for size in sizes):
            raise ParameterError(
                f"hidden_sizes must be positive integers such as (50, 50), got {self.hidden_sizes}"
            )
        object.__setattr__(self, "hidden_sizes", sizes)

    def check(self, x_shape: tuple[int, ...], event_shape: tuple[int, ...]) -> None:
        return None

    def build(
        self, n_members: int, x_shape: tuple[int, ...], event_shape: tuple[int, ...], seed: int
    ) -> Body:
        return _MLPBody(self, n_members, math.prod(x_shape))


class _MLPBody(Body):
    on_grid = False
    at_once = True

    def __init__(self, backbone: MLP, n_members: int, inputs: int) -> None:
        super().__init__()
        sizes = (inputs, *backbone.hidden_sizes)
        self.layers = nn.ModuleList(MemberLinear(n_members, a, b) for a, b in pairwise(sizes))
        self.activation = backbone.activation
        self.features = sizes[-1]

    def forward(self, x: Tensor, members: Members = None) -> Tensor:
        x = x.flatten(2) if x.ndim > 3 else x
        activation = ACTIVATIONS[self.activation]
        for layer in self.layers:
            x = activation(layer(x, members))
        return x
