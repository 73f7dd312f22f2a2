"""What the parts of a network below its head have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from kuq._numbers import whole_number
from kuq.errors import ParameterError
from kuq.nn.layers import Members

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "relu": functional.relu,
    "silu": functional.silu,
    "tanh": torch.tanh,
}


class Body(nn.Module, ABC):
    """The trunk of all members: (M, B, inputs…) to features (M, B, features[, grid…])."""

    #: How many features come out.
    features: int
    #: Whether features have axes of a grid, so that a head works at every point.
    on_grid: bool
    #: Whether all members are computed at once; otherwise training takes them in turn.
    at_once: bool

    @abstractmethod
    def forward(self, x: Tensor, members: Members = None) -> Tensor: ...

    def before_noise(self, x: Tensor, members: Members = None) -> Any:
        """What all draws for inputs have in common: computed once, whatever their number."""
        return x

    def with_noise(self, before: Any, noise: Tensor, members: Members = None) -> Tensor:
        """Features (M, B, N, features[, grid…]) of what ``before_noise`` gave and noise.

        Noise has the axes (M, B or 1, N, channels, grid…). A trunk that does not join it by itself
        gets it as channels of the inputs.
        """
        rows, draws = before.shape[1], noise.shape[2]
        joined = torch.cat(
            [
                before.unsqueeze(2).expand(-1, -1, draws, *before.shape[2:]),
                noise.expand(-1, rows, *noise.shape[2:]),
            ],
            dim=3,
        )
        features: Tensor = self(joined.flatten(1, 2), members)
        return features.view(-1, rows, draws, *features.shape[2:])


class Backbone(ABC):
    """A description from which the trunk of a network is built."""

    #: Whether trunks for inputs of any number of channels can be built.
    fits_inputs: ClassVar[bool] = True

    @abstractmethod
    def build(
        self, n_members: int, x_shape: tuple[int, ...], event_shape: tuple[int, ...], seed: int
    ) -> Body:
        """The trunk for inputs and outcomes of these shapes (without rows)."""

    def build_sampler(
        self,
        n_members: int,
        x_shape: tuple[int, ...],
        event_shape: tuple[int, ...],
        seed: int,
        noise_channels: int,
    ) -> Body | None:
        """A trunk that joins noise by itself; None: noise comes as channels of the inputs."""
        return None

    def suited(self, normalised: bool) -> Backbone:
        """The same with what it leaves to the head decided: whether layers are normalised."""
        return self

    @abstractmethod
    def check(self, x_shape: tuple[int, ...], event_shape: tuple[int, ...]) -> None:
        """Raise ShapeError if inputs or outcomes of these shapes cannot be handled."""


def check_activation(name: str) -> None:
    if name not in ACTIVATIONS:
        raise ParameterError(f"activation must be one of {sorted(ACTIVATIONS)}, got {name!r}")


def check_positive(**sizes: int) -> None:
    for name, size in sizes.items():
        whole_number(size, name, 1)
