"""Rows to train on, and the part of them that is computed next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from kuq.errors import InsufficientDataError, ParameterError, ShapeError
from kuq.nn.generators import Purpose, member_seed
from kuq.nn.layers import Members
from kuq.nn.network import Network
from kuq.nn.row_weights import checked_weights, require_some


class Batch(NamedTuple):
    """What some members are to learn from: (M, B, …), and weights (M, B) if rows have any."""

    x: Tensor
    y: Tensor
    weight: Tensor | None


@final
@dataclass(frozen=True)
class SharedRows:
    """The same rows for all members: (B, …), and weights (B,)."""

    x: Tensor
    y: Tensor
    weight: Tensor | None

    def __len__(self) -> int:
        return len(self.x)

    def total_weight(self) -> float:
        return float(len(self) if self.weight is None else self.weight.sum(dtype=torch.float64))

    def weights(self, count: int) -> Tensor:
        """How much each row counts for so many members, (M, B)."""
        weight = self.x.new_ones(len(self)) if self.weight is None else self.weight
        return weight.expand(count, -1)

    def of(self, count: int) -> Batch:
        """For so many members."""
        x, y, weight = (
            None if t is None else t.expand(count, *t.shape) for t in (self.x, self.y, self.weight)
        )
        assert x is not None
        assert y is not None
        return Batch(x, y, weight)

    def pieces(self, count: int) -> Iterator[SharedRows]:
        """At most so many rows at a time."""
        for start in range(0, len(self), count):
            chunk = slice(start, start + count)
            weight = None if self.weight is None else self.weight[chunk]
            yield SharedRows(self.x[chunk], self.y[chunk], weight)


@final
@dataclass(frozen=True)
class Rows:
    """Inputs (n, …) for all members, and outcomes (n, event…) or (M, n, event…)."""

    x: Tensor
    y: Tensor
    #: The outcomes that all members share; y itself, unless members have their own.
    shared_y: Tensor
    #: How much each row counts, (n,), one on average; None: all alike.
    weight: Tensor | None = None

    @classmethod
    def checked(
        cls,
        network: Network,
        x: Any,
        y: Any,
        member_targets: Any = None,
        sample_weight: Any = None,
    ) -> Rows:
        """Rows that fit the network; those of weight zero are left out."""
        rows = cls._fitting(network, x, y, member_targets)
        if sample_weight is None:
            return rows
        weight = checked_weights(sample_weight, len(rows))
        require_some(weight)
        return rows._weighted(weight)

    @classmethod
    def _fitting(cls, network: Network, x: Any, y: Any, member_targets: Any) -> Rows:
        device = next(network.parameters()).device
        x, y = finite_tensor(x, "x", device), finite_tensor(y, "y", device)
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
        by_member = finite_tensor(member_targets, "member_targets", device)
        if tuple(by_member.shape) != (network.n_members, *expected):
            raise ShapeError(
                "member_targets must have shape (members, n, event…) = "
                f"{(network.n_members, *expected)}, got {tuple(by_member.shape)}"
            )
        return cls(x, by_member, y)

    def __len__(self) -> int:
        return len(self.x)

    def _weighted(self, weight: np.ndarray) -> Rows:
        counting = np.flatnonzero(weight)
        index = torch.from_numpy(counting).to(self.x.device)
        share = weight[counting] / weight.max()
        share = torch.from_numpy(share / share.mean()).to(self.x)
        differ = self.y is not self.shared_y
        shared_y = self.shared_y[index]
        return Rows(self.x[index], self.y[:, index] if differ else shared_y, shared_y, share)

    def batch(self, index: Tensor, members: Members) -> Batch:
        """Rows (M, B) of every member, whose order differs."""
        weight = None if self.weight is None else self.weight[index]
        if self.y is self.shared_y:
            return Batch(self.x[index], self.y[index], weight)
        which = torch.arange(len(self.y), device=index.device) if members is None else members
        return Batch(self.x[index], self.y[which[:, None], index], weight)

    def judging(self) -> Rows:
        """The same rows with the outcomes that all members share."""
        return Rows(self.x, self.shared_y, self.shared_y, self.weight)

    def pieces(self, count: int) -> Iterator[SharedRows]:
        """The rows with the outcomes that members share, so many at a time."""
        return SharedRows(self.x, self.shared_y, self.weight).pieces(count)


@final
@dataclass(frozen=True)
class OwnRows:
    """Other rows for every member: their positions (M, B)."""

    rows: Rows
    index: Tensor

    def __len__(self) -> int:
        return int(self.index.shape[1])

    def total_weight(self) -> Tensor | float:
        weight = self.rows.weight
        return float(len(self)) if weight is None else weight[self.index].sum(1)

    def weights(self, count: int) -> Tensor:
        """How much each row counts for each of the members, (M, B)."""
        weight = self.rows.weight
        return self.rows.x.new_ones(count, len(self)) if weight is None else weight[self.index]

    def of(self, members: Members) -> Batch:
        index = self.index if members is None else self.index[members]
        return self.rows.batch(index, members)

    def pieces(self, count: int) -> Iterator[OwnRows]:
        """At most so many rows of each member at a time."""
        for start in range(0, len(self), count):
            yield OwnRows(self.rows, self.index[:, start : start + count])


@final
@dataclass(frozen=True)
class Folds:
    """Positions of the rows that each member learns from, (M, n − h), and is judged by, (M, h).

    Members set aside other rows, as far as there are enough, so that together they learn from all,
    and the luck of a few held-out rows is not that of the whole ensemble.
    """

    learned: Tensor
    held_out: Tensor

    @classmethod
    def of(cls, rows: int, share: float, n_members: int, seed: int) -> Folds | None:
        """A share of so many rows for each member, at least one; None for a share of zero."""
        if share == 0:
            return None
        size = min(max(1, round(share * rows)), rows - 1)
        drawn = np.random.default_rng(member_seed(seed, 0, Purpose.SPLIT)).permutation(rows)
        turned = [np.roll(drawn, -size * member) for member in range(n_members)]
        learned, held_out = (
            torch.from_numpy(np.stack([np.sort(order[places]) for order in turned]))
            for places in (slice(size, None), slice(size))
        )
        return cls(learned, held_out)

    def to(self, device: torch.device) -> Folds:
        return Folds(self.learned.to(device), self.held_out.to(device))


def finite_tensor(values: Any, name: str, device: torch.device | None) -> Tensor:
    """Finite numbers as float32 on the device."""
    tensor = values if isinstance(values, Tensor) else torch.from_numpy(np.array(values, float))
    tensor = tensor.detach().to(device=device, dtype=torch.float32)
    if not bool(torch.isfinite(tensor).all()):
        raise ParameterError(
            f"{name} must be finite in float32; remove or impute NaN and infinite entries, and "
            "bring very large numbers to unit scale"
        )
    return tensor
