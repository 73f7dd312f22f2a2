"""What every predictive distribution offers, and the shape rules they share."""

from __future__ import annotations

import copy
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from kuq._array import (
    Array,
    adopt,
    adopted,
    as_index,
    as_numpy,
    between_graphs,
    follows,
    from_numpy,
    namespace,
    require,
    require_finite,
    require_not_negative,
    safe_sqrt,
    shape_of,
    summable,
    to_jax,
)
from kuq._numbers import as_real_number, shown, whole_number
from kuq.distributions.laws import Law
from kuq.distributions.marginals import Components, chance, quantiles
from kuq.errors import ParameterError, ShapeError

#: What people call of a prediction.
_CALLED = (
    *("__init__", "mean", "variance", "std", "sample", "log_density", "rescaled"),
    *("cdf", "quantile", "interval"),
)


class Prediction(ABC):
    """A first- or second-order law over a batch of outcomes.

    Arrays have the axes (batch…, event…); the last ``event_ndim`` axes form one outcome.
    """

    #: The dtype of results: that of the arrays as given.
    dtype: Any
    #: Numbers that the canonical form has at most for each one of the first array.
    expansion: int = 1
    #: The factors (aleatoric, epistemic) of a recalibration that the prediction comes from.
    factors: tuple[float, float] | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in _CALLED:
            method = vars(cls).get(name)
            if method is not None:
                setattr(cls, name, between_graphs(method))

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
    def rows(self, index: slice) -> Self:
        """A part of the first batch axis."""

    @abstractmethod
    def sample(self, draws: int, seed: Any = None) -> Array:
        """Independent draws of whole outcomes, of shape (batch…, draws, event…).

        ``seed`` is anything that ``numpy.random.default_rng`` takes, a generator too; the same
        seed gives the same numbers in every array library.
        """

    @abstractmethod
    def log_density(self, x: Array) -> Array:
        """log p(x), (…, batch…), of whole outcomes x (…, batch…, event…) with any axes before."""

    @abstractmethod
    def components(self) -> tuple[Components, ...]:
        """The scalar laws that make up the law of every coordinate, with NumPy's numbers."""

    @between_graphs
    def std(self) -> Array:
        """The standard deviation of every coordinate, of shape batch + event; inf if none."""
        return self._result(safe_sqrt(self.variance()))

    @abstractmethod
    def rescaled(self, aleatoric: float, epistemic: float = 1.0) -> Self:
        """The same prediction with its noise and its disagreement multiplied by factors > 0.

        Outcomes of a member are stretched about its mean by ``aleatoric``, means of members about
        their common mean by ``epistemic``, which changes nothing for a single law.
        """

    @between_graphs
    def cdf(self, y: Any, strict: bool = False) -> Array:
        """P(X ≤ y) for every coordinate, at outcomes y (…, batch…, event…) with any axes before.

        ``strict`` gives P(X < y), which differs at points and draws. As ``quantile``, it is
        computed in 64 bits by NumPy, to rounding; the result has the library, dtype and device of
        the prediction, and no gradient.

        >>> import kuq
        >>> kuq.Samples([[1.0, 2.0, 3.0, 4.0]]).cdf([2.0])
        array([0.5])
        """
        y = self._outcomes(y)
        shape = np.broadcast_shapes(y.shape, self._shape)
        rows = np.broadcast_to(as_numpy(y, "a distribution function"), shape)
        rows = rows.reshape(math.prod(shape[: len(shape) - len(self._shape)]), -1)
        return self._result(from_numpy(chance(self.components(), rows, strict), y), shape)

    @between_graphs
    def quantile(self, q: Any) -> Array:
        """The smallest x with P(X ≤ x) ≥ q for every coordinate, for levels q in [0, 1].

        Levels of shape s give s + batch + event, as in ``numpy.quantile``. Draws are taken as they
        are: their quantile is one of them (NumPy's ``method="inverted_cdf"``). The error is below
        1e-10 standard deviations, far out in the tails and between far components too.

        >>> import kuq
        >>> kuq.Ensemble(kuq.Normal([[-1.0], [1.0]], 1.0)).quantile([0.05, 0.5]).round(3)
        array([[-2.284],
               [ 0.   ]])
        """
        below = self._levels(q, "q")
        return self._quantiles(below, 1 - below)

    @between_graphs
    def interval(self, coverage: Any = 0.9) -> tuple[Array, Array]:
        """Lower and upper bounds that leave (1 − coverage)/2 on each side of every coordinate.

        They are quantiles; between those of draws lies at least the share ``coverage`` of them.

        >>> import kuq
        >>> low, high = kuq.Normal([0.0, 5.0], [1.0, 2.0]).interval(0.95)
        >>> low.round(2), high.round(2)
        (array([-1.96,  1.08]), array([1.96, 8.92]))
        """
        outside = (1 - self._levels(coverage, "coverage")) / 2
        return self._quantiles(outside, 1 - outside), self._quantiles(1 - outside, outside)

    def _quantiles(self, below: np.ndarray, above: np.ndarray) -> Array:
        values = quantiles(self.components(), below.ravel(), above.ravel())
        return self._result(from_numpy(values, self.reference), (*below.shape, *self._shape))

    @property
    def _shape(self) -> tuple[int, ...]:
        return (*self.batch_shape, *self.event_shape)

    def _outcomes(self, y: Any) -> Array:
        """Outcomes (…, batch…, event…), or only the last of these axes, in the law's library."""
        given, shape = shape_of(y), self._shape
        common = min(len(given), len(shape))
        if given[len(given) - common :] != shape[len(shape) - common :]:
            raise ShapeError(
                f"outcomes must have shape batch + event = {shape}, with any axes before, "
                f"got {given}"
            )
        return adopted(y, self.reference, "y")

    @staticmethod
    def _levels(value: Any, name: str) -> np.ndarray:
        levels = as_numpy(adopt(**{name: value})[0][name], name)
        inside = (levels >= 0) & (levels <= 1)
        require(inside, name, "between 0 and 1", levels, "percentages have to be divided by 100")
        return levels

    def _result(self, values: Array, shape: tuple[int, ...] | None = None) -> Array:
        xp = namespace(values)
        values = values if shape is None else xp.reshape(values, shape)
        return values if values.dtype == self.dtype else xp.astype(values, self.dtype)

    @abstractmethod
    def in_jax(self) -> Self:
        """The same prediction, made of NumPy arrays, in arrays of JAX."""

    def beside(self, arrays: Sequence[Any]) -> Self:
        """The same prediction in the library that arrays of NumPy take beside these."""
        return self.in_jax() if arrays and follows(self.reference, arrays) else self

    @abstractmethod
    def __repr__(self) -> str:
        """The name and the sizes."""


@functools.cache
def is_prediction(kind: Any) -> bool:
    """Whether a class is one of predictions; of an object an abstract class asks in Python."""
    return issubclass(kind, Prediction)


class Parametric(Prediction):
    """A prediction given by arrays of one shape (batch…, event…), up to axes of their own."""

    event_ndim: int
    #: The names of the arrays, all with the batch axes first; the first one tells the shapes.
    parameters: ClassVar[tuple[str, ...]]
    #: Axes of the first array between batch and event (draws), and after the event (components).
    axes_before_event: ClassVar[int] = 0
    axes_after_event: ClassVar[int] = 0
    #: The names of attributes that are no arrays and change what the arrays mean, if true.
    settings: ClassVar[tuple[str, ...]] = ()

    @property
    def reference(self) -> Array:
        return getattr(self, self.parameters[0])

    @property
    def batch_shape(self) -> tuple[int, ...]:
        shape = self.reference.shape
        trailing = self.axes_before_event + self.event_ndim + self.axes_after_event
        return tuple(shape[: len(shape) - trailing])

    @property
    def event_shape(self) -> tuple[int, ...]:
        shape = self.reference.shape
        stop = len(shape) - self.axes_after_event
        return tuple(shape[stop - self.event_ndim : stop])

    def arrays(self) -> list[Array]:
        arrays = [getattr(self, name) for name in self.parameters]
        return [array for array in arrays if array is not None]

    def mapped(self, change: Callable[[Array], Array]) -> Self:
        changed = object.__new__(type(self))
        vars(changed).update(vars(self))
        for name in self.parameters:
            array = getattr(self, name)
            setattr(changed, name, None if array is None else change(array))
        return changed

    def rows(self, index: slice) -> Self:
        return self.mapped(lambda array: array[index, ...])

    def coordinates(self, index: tuple[slice, ...]) -> Self:
        """The law of some coordinates, one slice per event axis: it is of the same kind."""
        lead = len(self.batch_shape) + len(self.event_shape)

        def cut(array: Array) -> Array:
            after = (slice(None),) * (array.ndim - lead)  # components, or columns of a factor
            return array[(..., *index, *after)]

        return self.mapped(cut)

    def in_jax(self) -> Self:
        moved = self.mapped(to_jax)
        moved.dtype = to_jax(np.zeros((), self.dtype)).dtype
        return moved

    def __repr__(self) -> str:
        sizes = f"batch={self.batch_shape}{self._sizes()}, event={self.event_shape}"
        return f"{type(self).__name__}({sizes})"

    def _sizes(self) -> str:
        return ""


class Distribution(Parametric):
    """A first-order law: what one model predicts."""

    #: The arrays that hold widths, with the power of the target's unit in which they stand; the
    #: first parameter is then the location. None for laws that cannot be stretched.
    widths: ClassVar[dict[str, int] | None] = None

    def rescaled(self, aleatoric: float, epistemic: float = 1.0) -> Self:
        check_factors(aleatoric, epistemic)
        mean = self.mean()
        return self.stretched(mean, mean, aleatoric)

    def stretched(self, before: Array, after: Array, factor: float) -> Self:
        """The law of after + factor·(X − before); ``before`` and ``after`` are batch + event."""
        if self.widths is None:
            name = type(self).__name__
            raise ParameterError(
                f"{name} cannot be stretched: it does not say which of its parameters are widths; "
                f'give the class widths = {{"scale": 1}} (with its location first in parameters), '
                "or pass another law, such as Samples of its draws"
            )
        stretched = copy.copy(self)
        location = self.parameters[0]
        moved = self._beside(after) + factor * (getattr(self, location) - self._beside(before))
        setattr(stretched, location, moved)
        for name, power in self.widths.items():
            setattr(stretched, name, getattr(self, name) * factor**power)
        return stretched

    def _beside(self, x: Array) -> Array:
        """(batch…, event…) with axes of size one where the first parameter has axes of its own."""
        xp = namespace(x)
        lead, before_event = len(self.batch_shape), (1,) * self.axes_before_event
        shape = (*x.shape[:lead], *before_event, *x.shape[lead:], *(1,) * self.axes_after_event)
        return xp.reshape(x, shape)

    @abstractmethod
    def law(self, marginal: bool, rtol: float) -> Law:
        """The canonical form with lead axes batch, or batch + event where ``marginal``."""

    #: What to do where the log score meets a law of this class without a density.
    without_density: ClassVar[str] = (
        "give the class a method log_density(self, x) that returns log p(x) of shape (…, batch…) "
        "for outcomes x of shape (…, batch…, event…), or use a kernel score such as CRPS()"
    )

    def log_density(self, x: Array) -> Array:
        """log p(x), (…, batch…), of whole outcomes x (…, batch…, event…) with any axes before.

        The log score needs it. It is +inf where a point mass is hit, −inf where p(x) is zero.
        """
        raise self._density_error()

    @property
    def has_density(self) -> bool:
        """Whether the class says what its density is."""
        return type(self).log_density is not Distribution.log_density

    def require_density(self) -> None:
        if not self.has_density:
            raise self._density_error()

    def _density_error(self) -> ParameterError:
        name = type(self).__name__
        return ParameterError(
            f"log_density and LogScore need a density, and {name} has none; {self.without_density}"
        )

    def components(self) -> tuple[Components, ...]:
        return self._own_components() or (Components.of_law(self.law(marginal=True, rtol=1e-13)),)

    def _own_components(self) -> tuple[Components, ...]:
        """Those of laws whose canonical form is a quadrature."""
        return ()

    def differential_entropy(self) -> Array | None:
        """−E log p(X) in closed form, (batch…), for laws whose canonical form does not tell it."""
        return None

    def member(self, index: int) -> Self:
        """The law at one place of the first batch axis."""
        return self.mapped(lambda array: array[index, ...])

    def taken(self, index: Array) -> Self:
        """The laws at some places of the first batch axis."""
        return self.mapped(lambda array: namespace(array).take(array, index, axis=0))

    @property
    def parameter_shapes(self) -> tuple[tuple[int, ...] | None, ...]:
        """The shapes that have to agree for the arrays of laws to be stacked."""
        arrays = (getattr(self, name) for name in self.parameters)
        return tuple(None if a is None else tuple(a.shape) for a in arrays)

    def _variates(self, draws: int, rng: np.random.Generator) -> Array:
        """Standard normal variates of shape (batch…, draws, event…), the same in every library."""
        shape = (*self.batch_shape, draws, *self.event_shape)
        return from_numpy(rng.standard_normal(shape), self.reference)

    def _before_event(self, x: Array) -> Array:
        """Insert a draw axis before the event axes."""
        return namespace(x).expand_dims(x, axis=x.ndim - self.event_ndim)


def check_factors(aleatoric: float, epistemic: float) -> None:
    for name, factor in (("aleatoric", aleatoric), ("epistemic", epistemic)):
        number = as_real_number(factor)
        if number is None or not 0 < number < math.inf:
            raise ParameterError(f"the {name} factor must be a number > 0, got {factor!r}")


def normalised(weights: Array, name: str) -> Array:
    """Weights ≥ 0 that sum to one along the last axis."""
    require_finite(**{name: weights})
    require_not_negative(weights, name)
    weights = summable(weights, axis=-1)
    total = namespace(weights).sum(weights, axis=-1)
    require(total > 0, f"the sum of the {name}", "positive", total)
    return weights / total[..., None]


def chosen(weights: Array, uniform: Array) -> Array:
    """A position along the last axis of weights for every uniform number, by their chances."""
    xp = namespace(weights)
    passed = uniform[..., None] >= xp.cumulative_sum(weights, axis=-1)[..., :-1]
    return as_index(xp.sum(xp.astype(passed, weights.dtype), axis=-1))


def checked_event_ndim(shape: tuple[int, ...], event_ndim: int, name: str) -> int:
    """``event_ndim`` as an int, if it fits a shape (batch…, event…)."""
    if type(event_ndim) is int and event_ndim == 0:  # as usual
        return event_ndim
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
