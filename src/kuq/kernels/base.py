"""What a score and a kernel are, and the algebra of kernels."""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias, cast, final

import numpy as np

from kuq._array import Array, Namespace, adopted, is_array, namespace, same_value
from kuq._numbers import as_real_number, shown
from kuq.errors import ParameterError
from kuq.kernels.card import KernelCard, all_positive
from kuq.kernels.parameters import check_bandwidth, check_weights

Transform: TypeAlias = Callable[[Array], Array]


class Score(ABC):
    """A proper scoring rule: a kernel, or the log score."""

    # Keeps array * kernel from becoming an array of kernels.
    __array_ufunc__ = None
    #: Weights of the coordinates of an event.
    weights: Array | None = None
    #: Whether S(P, y) sees P at y only, by its density: the log score does.
    local: ClassVar[bool] = False

    @property
    @abstractmethod
    def card(self) -> KernelCard:
        """The facts that decide how the measure behaves."""

    @property
    @abstractmethod
    def units(self) -> str:
        """The unit of entropy, divergence and score in terms of the target's unit."""

    def terms(self) -> Iterator[Term]:
        """The elementary scores of which this one is a positive combination."""
        yield Term(1.0, (), self)

    @functools.cached_property
    def parts(self) -> tuple[Term, ...]:
        """All terms, remembered."""
        return tuple(self.terms())

    @functools.cached_property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays that the score brings along."""
        owners = [owner for term in self.parts for owner in (term.score, *term.stages)]
        names = ("bandwidth", "weights", "low", "high")
        values = [getattr(owner, name, None) for owner in owners for name in names]
        return tuple(value for value in values if is_array(value))

    @functools.cached_property
    def is_open(self) -> bool:
        """Whether a bandwidth waits for a prediction that tells it."""
        return any(isinstance(getattr(t.score, "bandwidth", None), str) for t in self.parts)

    @functools.cached_property
    def bare(self) -> Self:
        """The score without bandwidth and weights: what tables and plans may be kept for.

        Equal ones are the same object, so that looking a plan up compares nothing.
        """
        left_out = ("bandwidth", "weights", *_REMEMBERED)
        settings = tuple([item for item in vars(self).items() if item[0] not in left_out])
        try:
            bare = _BARE.get((type(self), settings))
        except TypeError:  # arrays among the settings of somebody's kernel
            return self._with_settings(settings)
        if bare is None:
            bare = self._with_settings(settings)
            if len(_BARE) > _MOST_BARE:
                _BARE.clear()
            _BARE[type(self), settings] = bare
        return cast(Self, bare)

    def _with_settings(self, settings: tuple[tuple[str, Any], ...]) -> Self:
        new = object.__new__(type(self))
        vars(new).update(settings)
        return new

    @final
    def changed(self, **values: Any) -> Self:
        """The same score with other values, which are not checked."""
        new = copy.copy(self)
        vars(new).update(values)
        return new

    def __getstate__(self) -> dict[str, Any]:
        """The settings; what is remembered beside them is not copied."""
        return {name: value for name, value in vars(self).items() if name not in _REMEMBERED}

    def __repr__(self) -> str:
        settings = self.__getstate__().items()
        shown = [f"{n}={show(v)}" for n, v in settings if v is not None or n != "weights"]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        mine, theirs = self.__getstate__(), other.__getstate__()
        return mine.keys() == theirs.keys() and all(same_value(mine[k], theirs[k]) for k in mine)

    def __hash__(self) -> int:
        code = vars(self).get("_hash")
        if code is None:
            code = vars(self)["_hash"] = hash(repr(self))
        return code


#: What a score remembers of itself, beside its settings.
_REMEMBERED = ("_hash", "arrays", "bare", "degree", "is_open", "parts", "units")
_BARE: dict[tuple[type, Any], Score] = {}
_MOST_BARE = 1024


def show(value: Any) -> str:
    """A parameter for a repr; arrays and long lists by their sizes."""
    if is_array(value):
        return f"<array {tuple(value.shape)}>"
    text = repr(value)
    long = isinstance(value, (list, tuple)) and len(text) > 40
    return f"<list of {len(value)}>" if long else text


class Kernel(Score):
    """A conditionally negative definite kernel k(x, y).

    Subclass it and write ``__call__`` to use a kernel of your own with ``Samples`` and ``Point``;
    subclass :class:`Radial` or :class:`ScaleMixture` to have it for every other law.
    """

    @abstractmethod
    def __call__(self, x: Array, y: Array) -> Array:
        """k(x, y) for outcomes along the last axis; the leading axes broadcast."""

    @property
    def card(self) -> KernelCard:
        return KernelCard(name=type(self).__name__, formula="k(x, y)")

    @property
    def units(self) -> str:
        return "kernel units"

    def replace_bases(self, change: Change, stages: tuple[Stage, ...] = ()) -> Kernel:
        """The same composition with every elementary kernel changed; stages are what wraps it."""
        return change(self, stages)

    def on(self, transform: Transform) -> Transformed:
        """The kernel k(v(x), v(y)): v focuses on tails or maps an outcome to features.

        ``transform`` gets arrays whose last axes are the event and must keep the axes before.
        """
        return Transformed(self, transform)

    def __add__(self, other: object) -> Sum:
        if not isinstance(other, Kernel):
            raise ParameterError(f"only kernels can be added to a kernel, got {_describe(other)}")
        return Sum((*_summands(self), *_summands(other)))

    def __radd__(self, other: object) -> Kernel:
        if isinstance(other, (int, float)) and other == 0:  # the start value of sum([...])
            return self
        raise ParameterError(f"only kernels can be added to a kernel, got {_describe(other)}")

    def __mul__(self, factor: float) -> Scaled:
        return Scaled(self, factor)

    def __rmul__(self, factor: float) -> Scaled:
        return Scaled(self, factor)


class Radial(Kernel):
    """A kernel that depends on ‖x − y‖ only, in units of its bandwidth."""

    #: A number, an array that broadcasts against the batch, "median", or None (scale free).
    bandwidth: Any = None
    #: k(x, x)
    diagonal: float = 0.0

    @functools.cached_property
    def degree(self) -> float | None:
        """k(ax, ay) = a^degree k(x, y), None if the kernel is not homogeneous."""
        return None

    @abstractmethod
    def profile(self, s: Array, xp: Namespace) -> Array:
        """k(x, y) − k(x, x) ≥ 0 at s = ‖x − y‖² / bandwidth²."""

    @final
    def __call__(self, x: Array, y: Array) -> Array:
        require_outcomes(x, y)
        return self.diagonal + self.excess(squared_distance(x, y, self.weights), self.bandwidth)

    @final
    def excess(self, r2: Array, bandwidth: Array | float | None) -> Array:
        """k − k(x, x) at a squared distance and a bandwidth that broadcasts against it."""
        if isinstance(bandwidth, str):
            raise ParameterError('bandwidth="median" needs a prediction; give a number here')
        s = r2 if bandwidth is None else r2 / bandwidth / bandwidth
        return self.profile(s, namespace(s))


class ScaleMixture(Radial):
    """A radial kernel that is a mixture of Gaussian kernels over scales.

    k(x, y) − k(x, x) = ∫ (1 − exp(−t‖x−y‖²)) exp(log_density(v)) dv with v = log(t·bandwidth²).
    With its density a kernel works exactly (by quadrature) for normals, mixtures, low-rank
    normals and evidential laws. The density is checked against the profile when it is first used.
    """

    @property
    def density_power(self) -> float | None:
        """The power of t that the density is everywhere; None if it is not one."""
        return None

    @abstractmethod
    def log_density(self, v: np.ndarray) -> np.ndarray:
        """Log of the density over v = log(t·bandwidth²), in NumPy float64."""


class Bounded(Radial):
    """A bounded, strictly proper radial kernel with a bandwidth: what such kernels share."""

    diagonal = -1.0

    @property
    @abstractmethod
    def formula(self) -> str:
        """k(x, y), for the card."""

    def __post_init__(self) -> None:
        check_bandwidth(self)
        check_weights(self)

    @property
    def card(self) -> KernelCard:
        return KernelCard(
            name=repr(self),
            formula=self.formula,
            strictly_proper=all_positive(self.weights),
            bounded=True,
            translation_invariant=True,
        )

    units = "dimensionless"


@dataclass(frozen=True, eq=False, repr=False)
class MarginalStage:
    """The event axes become batch axes; results are reduced over them afterwards."""

    reduce: str | None
    weights: Array | None


Stage: TypeAlias = MarginalStage | Transform
#: Another elementary kernel in the place of one, and of the stages that wrap it.
Change: TypeAlias = Callable[[Kernel, tuple[Stage, ...]], Kernel]


@dataclass(frozen=True, eq=False, repr=False)
class Term:
    """A positive factor, what to do with a law first, and an elementary score."""

    factor: float
    stages: tuple[Stage, ...]
    score: Score

    @property
    def kernel(self) -> Kernel:
        assert isinstance(self.score, Kernel)
        return self.score


@final
@dataclass(frozen=True, eq=False, repr=False)
class Sum(Kernel):
    """The sum of kernels, e.g. of one family at several bandwidths."""

    kernels: tuple[Kernel, ...]

    def __call__(self, x: Array, y: Array) -> Array:
        return sum(kernel(x, y) for kernel in self.kernels)

    @property
    def card(self) -> KernelCard:
        return KernelCard.of_sum([kernel.card for kernel in self.kernels])

    @property
    def units(self) -> str:
        units = {kernel.units for kernel in self.kernels}
        return units.pop() if len(units) == 1 else "mixed units"

    def replace_bases(self, change: Change, stages: tuple[Stage, ...] = ()) -> Kernel:
        return Sum(tuple(kernel.replace_bases(change, stages) for kernel in self.kernels))

    def terms(self) -> Iterator[Term]:
        for kernel in self.kernels:
            yield from kernel.terms()

    def __repr__(self) -> str:
        return " + ".join(repr(kernel) for kernel in self.kernels)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Scaled(Kernel):
    """A positive multiple of a kernel."""

    kernel: Kernel
    factor: float

    def __post_init__(self) -> None:
        factor = as_real_number(self.factor)
        if factor is None:
            raise ParameterError(
                f"a kernel can be multiplied by a positive number, got {self.factor!r} of type "
                f"{type(self.factor).__name__}"
            )
        if not 0 < factor < math.inf:
            raise ParameterError(
                f"the factor of a kernel must be positive and finite, got {shown(self.factor)}"
            )
        object.__setattr__(self, "factor", factor)

    def __call__(self, x: Array, y: Array) -> Array:
        return self.factor * self.kernel(x, y)

    @property
    def card(self) -> KernelCard:
        return dataclasses.replace(
            self.kernel.card,
            name=repr(self),
            formula=f"{self.factor:g}·({self.kernel.card.formula})",
        )

    @property
    def units(self) -> str:
        return self.kernel.units

    def replace_bases(self, change: Change, stages: tuple[Stage, ...] = ()) -> Kernel:
        return Scaled(self.kernel.replace_bases(change, stages), self.factor)

    def terms(self) -> Iterator[Term]:
        for term in self.kernel.terms():
            yield dataclasses.replace(term, factor=self.factor * term.factor)

    def __repr__(self) -> str:
        inner = f"({self.kernel!r})" if isinstance(self.kernel, Sum) else repr(self.kernel)
        return f"{self.factor:g} * {inner}"


@final
@dataclass(frozen=True, eq=False, repr=False)
class Transformed(Kernel):
    """The kernel k(v(x), v(y)); exact for Samples and Point, Monte Carlo elsewhere."""

    kernel: Kernel
    transform: Transform

    def __post_init__(self) -> None:
        if not callable(self.transform):
            raise ParameterError(f"on() needs a function, got {_describe(self.transform)}")

    def __call__(self, x: Array, y: Array) -> Array:
        return self.kernel(self.transform(x), self.transform(y))

    @property
    def card(self) -> KernelCard:
        inner = self.kernel.card
        # Nothing is known of v: it may be constant, and it moves with no translation.
        return KernelCard(
            name=repr(self), formula=f"{inner.formula} on v(x), v(y)", bounded=inner.bounded
        )

    @property
    def units(self) -> str:
        return f"{self.kernel.units} (of the transformed outcome)"

    def replace_bases(self, change: Change, stages: tuple[Stage, ...] = ()) -> Kernel:
        inner = self.kernel.replace_bases(change, (*stages, self.transform))
        return Transformed(inner, self.transform)

    def terms(self) -> Iterator[Term]:
        for term in self.kernel.terms():
            yield dataclasses.replace(term, stages=(self.transform, *term.stages))

    def __repr__(self) -> str:
        name = getattr(self.transform, "__name__", repr(self.transform))
        return f"{self.kernel!r}.on({name})"


def _summands(kernel: Kernel) -> tuple[Kernel, ...]:
    return kernel.kernels if isinstance(kernel, Sum) else (kernel,)


def _describe(value: object) -> str:
    if isinstance(value, Score):
        return f"{value!r}, which is not a kernel"
    return f"{value!r} of type {type(value).__name__}"


def squared_distance(x: Array, y: Array, weights: Array | None = None) -> Array:
    xp = namespace(x, y)
    gap = x - y
    square = gap * gap
    if weights is not None:
        square = square * xp.reshape(adopted(weights, square), (-1,))
    return xp.sum(square, axis=-1)


def require_outcomes(*outcomes: Array) -> None:
    """A kernel compares outcomes; who calls it with a law wants its score."""
    for one in outcomes:
        if hasattr(one, "batch_shape"):
            raise ParameterError(
                f"a kernel compares two outcomes, got a {type(one).__name__}; the score of a "
                "prediction is kuq.score(prediction, y, kernel)"
            )
