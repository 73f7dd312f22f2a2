"""Maps of outcomes for ``kernel.on(map)`` of which more is known than that they can be called.

A plain function works with draws and points. Of the maps here the core knows the law of the mapped
outcome for some distributions, see ``views.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

from kuq._array import Array, adopted, is_array, namespace
from kuq.errors import ShapeError


@final
@dataclass(frozen=True, eq=False, repr=False)
class Clip:
    """Outcomes cut to [low, high], each a number or an array that broadcasts against them."""

    low: Any = -math.inf
    high: Any = math.inf

    def __call__(self, x: Array) -> Array:
        xp = namespace(x)
        return xp.minimum(xp.maximum(x, adopted(self.low, x)), adopted(self.high, x))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Clip):
            return NotImplemented
        pairs = ((self.low, other.low), (self.high, other.high))
        return all(a is b or (not is_array(a) and not is_array(b) and a == b) for a, b in pairs)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"clip to [{_bound(self.low)}, {_bound(self.high)}]"


def _bound(value: Any) -> str:
    return f"<array {tuple(value.shape)}>" if is_array(value) else f"{value:g}"


@final
@dataclass(frozen=True)
class Select:
    """A box of a field of a given shape: one (start, stop) per event axis."""

    box: tuple[tuple[int, int], ...]
    shape: tuple[int, ...]

    @property
    def index(self) -> tuple[slice, ...]:
        """The slices along the event axes."""
        return tuple(slice(start, stop) for start, stop in self.box)

    @property
    def event_ndim(self) -> int:
        return len(self.shape)

    def check(self, event: tuple[int, ...]) -> None:
        """Refuse fields of another shape."""
        if event != self.shape:
            raise ShapeError(f"patches are of fields of shape {self.shape}, got {event}")

    def __call__(self, x: Array) -> Array:
        self.check(tuple(x.shape[x.ndim - len(self.shape) :]))
        return x[(..., *self.index)]
