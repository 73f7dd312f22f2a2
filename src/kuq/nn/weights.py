"""The weights of all members in one array, a row for each member."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from kuq.nn.network import Network
from kuq.nn.one_by_one import OneByOneBody

#: Every parameter starts at a multiple of this many numbers: aligned, and an even place for
#: pairs of real and imaginary part.
_ALIGNMENT = 16


@final
class Weights:
    """Rows (M, P) of which the parameters of a network are views, and the same for gradients.

    One optimiser step is then a few operations on one array, and the best weights of a member
    are one row. ``tracked`` (M, Q) holds what modules follow beside parameters, such as the
    statistics of batch normalisation.
    """

    def __init__(self, network: Network) -> None:
        parameters, buffers = _slots(network)
        self._parameters, self._buffers = parameters, buffers
        self.values = _gathered(parameters, network.n_members)
        self.tracked = _gathered(buffers, network.n_members)
        self.gradients = torch.zeros_like(self.values)
        self._learned: list[_Learned] = []
        for slot, start in _places(parameters):
            rows = slot.views(self.gradients, start)
            for member, (tensor, row) in enumerate(slot.views(self.values, start)):
                tensor.data = row
                if tensor.requires_grad:
                    owner = None if slot.stacked else member
                    self._learned.append(_Learned(tensor, rows[member][1], owner))
        for slot, start in _places(buffers):
            for tensor, row in slot.views(self.tracked, start):
                tensor.data = row

    def add_gradients(self, loss: Tensor, member: int | None) -> None:
        """Add the gradient of a loss that depends on one member, or on all if None."""
        learned = [p for p in self._learned if member is None or p.member in (None, member)]
        gradients = torch.autograd.grad(loss, [p.tensor for p in learned], allow_unused=True)
        for parameter, gradient in zip(learned, gradients, strict=True):
            if gradient is not None:
                parameter.gradient.add_(gradient)

    def named_views(self, module: nn.Module, rows: Tensor) -> dict[str, Tensor]:
        """The parameters of a module that holds the network, as views of other rows."""
        places = {id(slot.tensors[0]): (slot, start) for slot, start in _places(self._parameters)}
        views = {}
        for name, parameter in module.named_parameters():
            slot, start = places[id(parameter)]
            views[name] = slot.views(rows, start)[0][1]
        return views

    def joined(self, gradients: dict[str, Tensor]) -> Tensor:
        """Gradients in the order of ``named_views`` as rows (M, P)."""
        parts = []
        for slot, gradient in zip(self._parameters, gradients.values(), strict=True):
            parts.append(functional.pad(gradient.flatten(1), (0, slot.room - slot.size)))
        return torch.cat(parts, dim=1)

    def release(self) -> None:
        """Give every tensor memory of its own again."""
        for slot in self._parameters + self._buffers:
            for tensor in slot.tensors:
                tensor.data = tensor.data.clone(memory_format=torch.contiguous_format)


class _Learned(NamedTuple):
    """A parameter, its part of the gradients, and the member it belongs to; None: all members."""

    tensor: Tensor
    gradient: Tensor
    member: int | None


class Slot(NamedTuple):
    """One parameter of all members: a tensor for each, or a single one with members as axis 0."""

    tensors: list[Tensor]
    stacked: bool

    @property
    def size(self) -> int:
        """Numbers for each member."""
        return self.tensors[0].numel() // (len(self.tensors[0]) if self.stacked else 1)

    @property
    def room(self) -> int:
        return -(-self.size // _ALIGNMENT) * _ALIGNMENT

    def views(self, rows: Tensor, start: int) -> list[tuple[Tensor, Tensor]]:
        """Every tensor beside its part of the rows."""
        columns = rows[:, start : start + self.size]
        if self.stacked:
            return [(self.tensors[0], columns.view(self.tensors[0].shape))]
        return [(tensor, columns[m].view(tensor.shape)) for m, tensor in enumerate(self.tensors)]


def _slots(network: Network) -> tuple[list[Slot], list[Slot]]:
    """Parameters and tracked numbers of all members, in the order of the modules."""
    parameters, buffers = _own_slots(network)
    if network.start is not None:
        more, tracked = _slots(network.start)
        return parameters + more, buffers + tracked
    return parameters, buffers


def _own_slots(network: Network) -> tuple[list[Slot], list[Slot]]:
    body, head_slots = network.body, [Slot([p], True) for p in network.head.parameters()]
    if not isinstance(body, OneByOneBody):
        return [Slot([p], True) for p in body.parameters()] + head_slots, []
    parameters = zip(*(m.parameters() for m in body.members), strict=True)
    buffers = zip(*(m.buffers() for m in body.members), strict=True)
    return (
        [Slot(list(tensors), False) for tensors in parameters] + head_slots,
        [Slot(list(tensors), False) for tensors in buffers if tensors[0].is_floating_point()],
    )


def _places(slots: list[Slot]) -> Iterator[tuple[Slot, int]]:
    start = 0
    for slot in slots:
        yield slot, start
        start += slot.room


@torch.no_grad()
def _gathered(slots: list[Slot], n_members: int) -> Tensor:
    device = slots[0].tensors[0].device if slots else None
    rows = torch.zeros(n_members, sum(slot.room for slot in slots), device=device)
    for slot, start in _places(slots):
        for tensor, row in slot.views(rows, start):
            row.copy_(tensor)
    return rows
