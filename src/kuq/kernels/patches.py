"""Kernels on patches of a field: local structure, patch by patch."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

from kuq._array import Array
from kuq._numbers import as_whole_number, shown
from kuq.errors import ParameterError
from kuq.kernels.base import Change, Kernel, Scaled, Stage, Sum, Term, Transformed
from kuq.kernels.card import KernelCard
from kuq.kernels.transforms import Select


def patches(
    kernel: Kernel,
    shape: Sequence[int],
    size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
) -> Patches:
    """The mean of a kernel over patches of a field of a given ``shape``.

    Sees how neighbouring cells depend on each other without mixing far corners of the field.
    ``size`` of a patch and ``stride`` between patches are numbers, or one per axis; by default
    patches lie side by side, and a rest at the far edges forms patches of its own. A patch of a
    normal is a normal, so every law works as it does for the kernel alone.

    >>> import kuq, numpy as np
    >>> local = kuq.patches(kuq.Energy(), shape=(8, 8), size=4)
    >>> p = kuq.Ensemble(kuq.Normal(np.zeros((3, 5, 8, 8)), 1.0, event_ndim=2))
    >>> kuq.decompose(p, local).aleatoric.shape
    (5,)
    """
    if not isinstance(kernel, Kernel):
        raise ParameterError(f"patches needs a kernel such as Energy(), got {kernel!r}")
    axes = _entries(shape)
    if not axes:
        raise ParameterError("shape must have at least one axis")
    field = _per_axis(axes, "shape", len(axes))
    box = _per_axis(size, "size", len(field))
    step = box if stride is None else _per_axis(stride, "stride", len(field))
    if any(b > n for b, n in zip(box, field, strict=True)):
        raise ParameterError(f"patches of size {box} do not fit a field of shape {field}")
    return Patches(kernel, field, box, step)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Patches(Kernel):
    """The mean of a kernel over boxes of the event; made by :func:`patches`."""

    kernel: Kernel
    shape: tuple[int, ...]
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def boxes(self) -> list[Select]:
        """The boxes, in order; those at the far edges may be smaller."""
        axes = [
            [(start, min(start + b, n)) for start in range(0, max(1, n - b + s), s) if start < n]
            for n, b, s in zip(self.shape, self.size, self.stride, strict=True)
        ]
        return [Select(box, self.shape) for box in itertools.product(*axes)]

    def __call__(self, x: Array, y: Array) -> Array:
        flat = [self.kernel(_rows(box(x), self), _rows(box(y), self)) for box in self.boxes()]
        return sum(flat) / len(flat)

    @property
    def card(self) -> KernelCard:
        inner = self.kernel.card
        return dataclasses.replace(
            inner,
            name=f"patches({inner.name})",
            formula=f"mean over patches of {inner.formula}",
            strictly_proper=False,
        )

    @property
    def units(self) -> str:
        return self.kernel.units

    def replace_bases(self, change: Change, stages: tuple[Stage, ...] = ()) -> Kernel:
        boxes = self.boxes()
        changed = [self.kernel.replace_bases(change, (*stages, box)) for box in boxes]
        if all(kernel == self.kernel for kernel in changed):
            return self
        parts = (Transformed(kernel, box) for kernel, box in zip(changed, boxes, strict=True))
        return Scaled(Sum(tuple(parts)), 1 / len(boxes))

    def terms(self) -> Iterator[Term]:
        boxes = self.boxes()
        for box in boxes:
            for term in self.kernel.terms():
                factor, stages = term.factor / len(boxes), (box, *term.stages)
                yield dataclasses.replace(term, factor=factor, stages=stages)


def _rows(x: Array, field: Patches) -> Array:
    """The event axes of a patch as one."""
    lead = x.shape[: x.ndim - len(field.shape)]
    return x.reshape((*lead, math.prod(x.shape[len(lead) :])))


def _per_axis(value: int | Sequence[int], name: str, count: int) -> tuple[int, ...]:
    one = as_whole_number(value)
    listed = [one] * count if one is not None else [as_whole_number(v) for v in _entries(value)]
    whole = tuple(v for v in listed if v is not None and v >= 1)
    if len(whole) != count or len(listed) != count:
        raise ParameterError(
            f"{name} must be an integer ≥ 1, or {count} of them, one per axis; got {shown(value)}"
        )
    return whole


def _entries(value: Any) -> tuple[Any, ...]:
    single = as_whole_number(value) is not None or not isinstance(value, Iterable)
    return (value,) if single else tuple(value)
