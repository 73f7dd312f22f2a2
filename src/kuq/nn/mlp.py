"""Fully connected networks for tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import final

from torch import Tensor, nn

from kuq._numbers import as_real_number, as_whole_number, whole_number
from kuq.errors import ParameterError
from kuq.nn.backbones import ACTIVATIONS, Backbone, Body, check_activation
from kuq.nn.layers import MemberLayerNorm, MemberLinear, Members

_NORMS = ("auto", "layer", "none")
#: Rows from which on a third layer pays; see "The networks" in the docs.
_MANY_ROWS = 2000


def usual_sizes(rows: int) -> tuple[int, ...]:
    """The layers for so many rows."""
    return (50, 50) if rows < _MANY_ROWS else (50, 50, 50)


@final
@dataclass(frozen=True)
class MLP(Backbone):
    """Fully connected layers; inputs and outcomes of any shape are taken as one vector.

    ``norm="layer"`` normalises every layer before its activation, "none" does not, and "auto" does
    for the velocities of flows alone. The noise of a sampler is joined after ``noise_after`` layers
    (0: to the inputs), and at least one layer comes after it. Weights start as torch does, those
    of a first layer that is not normalised ``input_gain`` times as large: about √3 is where its
    sums of standardised inputs have variance one.

    >>> import kuq
    >>> kuq.nn.MLP(hidden_sizes=(256, 512), activation="relu")
    MLP(hidden_sizes=(256, 512), activation='relu', norm='auto', noise_after=2, input_gain=1.75)
    """

    hidden_sizes: Sequence[int] = (50, 50)
    activation: str = "gelu"
    norm: str = "auto"
    noise_after: int = 2
    input_gain: float = 1.75

    def __post_init__(self) -> None:
        check_activation(self.activation)
        given = self.hidden_sizes
        if not isinstance(given, Iterable):
            raise ParameterError(
                f"hidden_sizes has a number for each layer: ({given},), got {given}"
            )
        sizes = tuple(as_whole_number(size) for size in given)
        if not sizes or not all(size is not None and size > 0 for size in sizes):
            raise ParameterError(
                f"hidden_sizes must be positive integers such as (50, 50), got {self.hidden_sizes}"
            )
        object.__setattr__(self, "hidden_sizes", sizes)
        if self.norm not in _NORMS:
            raise ParameterError(f"norm must be one of {list(_NORMS)}, got {self.norm!r}")
        whole_number(self.noise_after, "noise_after", 0)
        gain = as_real_number(self.input_gain)
        if gain is None or not 0 < gain < math.inf:
            raise ParameterError(f"input_gain must be positive, got {self.input_gain!r}")

    def check(self, x_shape: tuple[int, ...], event_shape: tuple[int, ...]) -> None:
        return None

    def suited(self, normalised: bool) -> MLP:
        if self.norm != "auto":
            return self
        return replace(self, norm="layer" if normalised else "none")

    def build(
        self, n_members: int, x_shape: tuple[int, ...], event_shape: tuple[int, ...], seed: int
    ) -> Body:
        return _MLPBody(self, n_members, math.prod(x_shape), 0)

    def build_sampler(
        self,
        n_members: int,
        x_shape: tuple[int, ...],
        event_shape: tuple[int, ...],
        seed: int,
        noise_channels: int,
    ) -> Body:
        noise = math.prod((noise_channels, *x_shape[1:]))
        return _MLPBody(self, n_members, math.prod(x_shape), noise)


class _MLPBody(Body):
    on_grid = False
    at_once = True

    def __init__(self, mlp: MLP, n_members: int, inputs: int, noise: int) -> None:
        super().__init__()
        sizes = [inputs, *mlp.hidden_sizes]
        # What is normalised at once has no size; larger weights would only learn more slowly.
        first_gain = 1.0 if mlp.norm == "layer" else mlp.input_gain
        # Noise that only the linear layer of the head follows could not change the law's shape.
        self.noisy_layer = min(mlp.noise_after, len(mlp.hidden_sizes) - 1)
        self.layers = nn.ModuleList(
            MemberLinear(
                n_members,
                a + noise * (k == self.noisy_layer),
                b,
                gain=1.0 if k else first_gain,
            )
            for k, (a, b) in enumerate(pairwise(sizes))
        )
        self.norms = nn.ModuleList(
            MemberLayerNorm(n_members, size) for size in sizes[1:] if mlp.norm == "layer"
        )
        self.activation = mlp.activation
        self.features = sizes[-1]

    def forward(self, x: Tensor, members: Members = None) -> Tensor:
        return self._through(x.flatten(2), members, range(len(self.layers)))

    def before_noise(self, x: Tensor, members: Members = None) -> Tensor:
        x = self._through(x.flatten(2), members, range(self.noisy_layer))
        return self._noisy().before_noise(x, members)

    def with_noise(self, before: Tensor, noise: Tensor, members: Members = None) -> Tensor:
        x = self._noisy().with_noise(before, noise.flatten(3), members)
        rows, k = x.shape[1:3], self.noisy_layer
        x = self._activated(x.flatten(1, 2), k, members)
        x = self._through(x, members, range(k + 1, len(self.layers)))
        return x.view(len(x), *rows, self.features)

    def _noisy(self) -> MemberLinear:
        layer = self.layers[self.noisy_layer]
        assert isinstance(layer, MemberLinear)
        return layer

    def _through(self, x: Tensor, members: Members, layers: range) -> Tensor:
        for k in layers:
            x = self._activated(self.layers[k](x, members), k, members)
        return x

    def _activated(self, x: Tensor, k: int, members: Members) -> Tensor:
        return ACTIVATIONS[self.activation](self.norms[k](x, members) if self.norms else x)
