"""Rows to train on, and the part of them that is computed next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from kuq.errors import InsufficientDataError, ParameterError, ShapeError
from kuq.nn.layers import Members
from kuq.nn.network import Network


@final
@dataclass(frozen=True)
class Rows:
    """Inputs (n, …) for all members, and outcomes (n, event…) or (M, n, event…)."""

    x: Tensor
    y: Tensor
    #: The outcomes that all members share; y itself, unless members have their own.
    shared_y: Tensor

    @classmethod
    def checked(cls, network: Network, x: Any, y: Any, member_targets: Any = None) -> Rows:
        device = next(network.parameters()).device
        x, y = _tensor(x, "x", device), _tensor(y, "y", device)
        if tuple(x.shape[1:]) != network.x_shape:
            raise ShapeError(
                f"x must have shape (n, *{network.x_shape}) for this network, got {tuple(x.shape)}"
            )
        expected = (len(x), *network.event_shape)
        if tuple(y.shape) != expected:
            raise ShapeError(f"y must have shape {expected}, got {tuple(y.shape)}")
        if len(x) == 0:
            raise InsufficientDataError("there are no rows to train on, got n = 0")
        if member_targets is None:
            return cls(x, y, y)
        own = _tensor(member_targets, "member_targets", device)
        if tuple(own.shape) != (network.n_members, *expected):
            raise ShapeError(
                "member_targets must have shape (members, n, event…) = "
                f"{(network.n_members, *expected)}, got {tuple(own.shape)}"
            )
        return cls(x, own, y)

    def __len__(self) -> int:
        return len(self.x)

    def batch(self, index: Tensor, members: Members) -> tuple[Tensor, Tensor]:
        """Rows (M, B) of every member, whose order differs."""
        if self.y is self.shared_y:
            return self.x[index], self.y[index]
        own = torch.arange(len(self.y), device=index.device) if members is None else members
        return self.x[index], self.y[own[:, None], index]

    def pieces(self, count: int, n_members: int) -> list[tuple[Tensor, Tensor]]:
        """The same rows for all members, in pieces."""
        found = []
        for start in range(0, len(self), count):
            part = slice(start, start + count)
            x, y = self.x[part], self.shared_y[part]
            found.append((x.expand(n_members, *x.shape), y.expand(n_members, *y.shape)))
        return found


def _tensor(values: Any, name: str, device: torch.device) -> Tensor:
    """Finite numbers as float32 on the device."""
    tensor = values if isinstance(values, Tensor) else torch.from_numpy(np.array(values, float))
    tensor = tensor.detach().to(device=device, dtype=torch.float32)
    if not bool(torch.isfinite(tensor).all()):
        raise ParameterError(
            f"{name} must be finite in float32; remove or impute NaN and infinite entries, and "
            "bring very large numbers to unit scale"
        )
    return tensor
