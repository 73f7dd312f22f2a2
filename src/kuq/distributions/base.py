"""What every predictive distribution offers, and the shape rules they share."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from kuq._array import Array, follows, from_numpy, namespace, to_jax
from kuq._numbers import shown, whole_number
from kuq.distributions.laws import Law
from kuq.errors import ParameterError, ShapeError


class Prediction(ABC):
    """A first- or second-order law over a batch of outcomes.

    Arrays have the axes (batch…, event…); the last ``event_ndim`` axes form one outcome.
    """

    #: The dtype of results: that of the arrays as given.
    dtype: Any
    #: Numbers that the canonical form has at most for each one of the first array.
    expansion: int = 1

    @property
    @abstractmethod
    def batch_shape(self) -> tuple[int, ...]: ...

    @property
    @abstractmethod
    def event_shape(self) -> tuple[int, ...]: ...

    @property
    @abstractmethod
    def reference(self) -> Array:
        """One of the arrays: it tells library, computing dtype and device."""

    @abstractmethod
    def mean(self) -> Array:
        """The mean outcome, of shape batch + event."""

    @abstractmethod
    def variance(self) -> Array:
        """The variance of every coordinate, of shape batch + event; inf where there is none."""

    @abstractmethod
    def mapped(self, change: Callable[[Array], Array]) -> Self:
        """The same kind of prediction with changed arrays; the dtype of results stays."""

    @abstractmethod
    def rows(self, part: slice) -> Self:
        """A part of the first batch axis."""

    @abstractmethod
    def in_jax(self) -> Self:
        """The same prediction, made of NumPy arrays, in arrays of JAX."""

    def beside(self, arrays: Sequence[Any]) -> Self:
        """The same prediction in the library that arrays of NumPy take beside these."""
        return self.in_jax() if arrays and follows(self.reference, arrays) else self

    @abstractmethod
    def _describe(self) -> str:
        """The name and the sizes that the summary shows."""

    def __repr__(self) -> str:
        return self._describe()


class Parametric(Prediction):
    """A prediction given by arrays of one shape (batch…, event…), up to axes of their own."""

    event_ndim: int
    #: The names of the arrays, all with the batch axes first; the first one tells the shapes.
    parameters: ClassVar[tuple[str, ...]]
    #: Axes of the first array between batch and event (draws), and after the event (components).
    axes_before_event: ClassVar[int] = 0
    axes_after_event: ClassVar[int] = 0

    @property
    def reference(self) -> Array:
        return getattr(self, self.parameters[0])

    @property
    def batch_shape(self) -> tuple[int, ...]:
        shape = self.reference.shape
        own = self.axes_before_event + self.event_ndim + self.axes_after_event
        return tuple(shape[: len(shape) - own])

    @property
    def event_shape(self) -> tuple[int, ...]:
        shape = self.reference.shape
        stop = len(shape) - self.axes_after_event
        return tuple(shape[stop - self.event_ndim : stop])

    def arrays(self) -> list[Array]:
        found = [getattr(self, name) for name in self.parameters]
        return [array for array in found if array is not None]

    def mapped(self, change: Callable[[Array], Array]) -> Self:
        part = object.__new__(type(self))
        vars(part).update(vars(self))
        for name in self.parameters:
            array = getattr(self, name)
            setattr(part, name, None if array is None else change(array))
        return part

    def rows(self, part: slice) -> Self:
        return self.mapped(lambda array: array[part, ...])

    def in_jax(self) -> Self:
        moved = self.mapped(to_jax)
        moved.dtype = to_jax(np.zeros((), self.dtype)).dtype
        return moved

    def _describe(self) -> str:
        sizes = f"batch={self.batch_shape}{self._sizes()}, event={self.event_shape}"
        return f"{type(self).__name__}({sizes})"

    def _sizes(self) -> str:
        return ""


class Distribution(Parametric):
    """A first-order law: what one model predicts."""

    @abstractmethod
    def law(self, marginal: bool, rtol: float) -> Law:
        """The canonical form with lead axes batch, or batch + event where ``marginal``."""

    @abstractmethod
    def sample(self, draws: int, rng: np.random.Generator) -> Array:
        """Independent draws of shape (batch…, draws, event…)."""

    #: What to do where the log score meets a law of this class without a density.
    without_density: ClassVar[str] = (
        "give the class a method log_density(self, x) that returns log p(x) of shape (…, batch…) "
        "for outcomes x of shape (…, batch…, event…), or use a kernel score such as CRPS()"
    )

    def log_density(self, x: Array) -> Array:
        """log p(x), (…, batch…), at outcomes x of shape (…, batch…, event…) with any axes before.

        The log score needs it. It is +inf where a point mass is hit, −inf where p(x) is zero.
        """
        raise self._density_error()

    def require_density(self) -> None:
        if type(self).log_density is Distribution.log_density:
            raise self._density_error()

    def _density_error(self) -> ParameterError:
        name = type(self).__name__
        return ParameterError(
            f"LogScore needs a density, and {name} has none; {self.without_density}"
        )

    def differential_entropy(self) -> Array | None:
        """−E log p(X) in closed form, (batch…), for laws whose canonical form does not tell it."""
        return None

    def member(self, index: int) -> Self:
        """The law at one place of the first batch axis."""
        return self.mapped(lambda array: array[index, ...])

    def taken(self, index: Array) -> Self:
        """The laws at some places of the first batch axis."""
        return self.mapped(lambda array: namespace(array).take(array, index, axis=0))

    @classmethod
    def stacked(cls, laws: Sequence[Self]) -> Self:
        """Laws of one kind and shape along a new first batch axis."""
        whole = copy.copy(laws[0])
        for name in whole.parameters:
            arrays = [getattr(law, name) for law in laws]
            setattr(whole, name, None if arrays[0] is None else namespace(*arrays).stack(arrays))
        return whole

    @property
    def parameter_shapes(self) -> tuple[tuple[int, ...] | None, ...]:
        """The shapes that have to agree for laws to be stacked into one array."""
        arrays = (getattr(self, name) for name in self.parameters)
        return tuple(None if a is None else tuple(a.shape) for a in arrays)

    def _variates(self, draws: int, rng: np.random.Generator) -> Array:
        """Standard normal variates of shape (batch…, draws, event…), the same in every library."""
        shape = (*self.batch_shape, draws, *self.event_shape)
        return from_numpy(rng.standard_normal(shape), self.reference)

    def _before_event(self, x: Array) -> Array:
        """Insert a draw axis before the event axes."""
        return namespace(x).expand_dims(x, axis=x.ndim - self.event_ndim)


def checked_event_ndim(shape: tuple[int, ...], event_ndim: int, name: str) -> int:
    """``event_ndim`` as an int, if it fits a shape (batch…, event…)."""
    event_ndim = whole_number(event_ndim, "event_ndim", 0)
    if event_ndim > len(shape):
        raise ShapeError(
            f"{name} has event_ndim={shown(event_ndim)}, but its parameters have shape {shape}; "
            "lower event_ndim or add axes"
        )
    event = shape[len(shape) - event_ndim :]
    if math.prod(event) == 0:
        raise ShapeError(f"the event of {name} must not be empty, got event shape {event}")
    return event_ndim
