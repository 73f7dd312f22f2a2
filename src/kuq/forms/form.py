"""What a form is: one way to the statistics of an ensemble, and the problem that it may answer."""

from __future__ import annotations

import dataclasses
import enum
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from kuq._array import Array, is_traced, namespace, widen
from kuq.distributions.atoms import Atoms, Points
from kuq.distributions.laws import Law, Stack
from kuq.forms.directions import Directions
from kuq.kernels.base import Kernel, ScaleMixture, Score
from kuq.kernels.energy import Energy
from kuq.tiles import fitting_elements

#: Draws of a member whose pairs cost more than a form of their own.
_MANY_DRAWS = 16


class Reading(enum.Enum):
    """What can be done with the arrays of a problem."""

    COMPILED = "NumPy arrays that compiled code may take"
    NUMPY = "NumPy arrays"
    EAGER = "arrays of another library, whose values can be read"
    TRACED = "arrays whose values cannot be read now"


class Question(NamedTuple):
    """What is asked of the members of a stack beside their entropies."""

    kind: str
    #: members of the first of two sides
    left: int = 0


#: Σ w_i w_j D(P_i, P_j)
PAIRS = Question("pairs")
#: the same under a kernel, where the answer has no use for entropies but those of draws
BETWEEN = Question("between")
#: 2 Σ w_i D(P̄, P_i), which is the same for kernels
MIXTURE = Question("mixture")


def sides(left: int) -> Question:
    """D(P̄, Q̄), where the first ``left`` members are those of P̄ and the others those of Q̄."""
    return Question("sides", left)


class Group(NamedTuple):
    """What a plan knows of the members of one kind."""

    kind: type[Atoms]
    members: int
    atoms: int
    #: components of a mixture, or the rank of a factor
    inner: int
    weighted: bool
    #: whether the atoms are the law, and no draws or quadrature of it
    itself: bool = True
    #: draws of a law that is asked for its density; None if its atoms tell all
    draws: int | None = None


@dataclass(frozen=True)
class Problem:
    """An elementary score and the shape of the members: what decides on the form."""

    score: Score = field(hash=False)  # equal ones are the same object
    groups: tuple[Group, ...]
    dimension: int
    reading: Reading
    double: bool
    #: whether the score asks for densities
    local: bool = False
    question: Question = PAIRS
    #: random directions that may take the place of pairs of very many draws; none if zero
    directions: int = 0

    def __eq__(self, other: object) -> bool:
        # As tuples, whose entries may just be the same: data classes have asked the score anew
        # since Python 3.13.
        return isinstance(other, Problem) and _entries(self) == _entries(other)

    @staticmethod
    def of(
        score: Score,
        stack: Stack,
        compiled: bool,
        question: Question = PAIRS,
        directions: Directions | None = None,
    ) -> Problem:
        reference = stack.reference
        if isinstance(reference, np.ndarray):
            reading = Reading.COMPILED if compiled else Reading.NUMPY
        else:
            reading = Reading.TRACED if is_traced(reference) else Reading.EAGER
        groups = []
        for law in stack.groups:
            atoms, weighted, source = law.atoms, law.weights is not None, law.source
            draws = None if source is None else source.count
            sizes = atoms.lead[0], law.count, atoms.inner
            groups.append(Group(type(atoms), *sizes, weighted, law.is_itself, draws))
        double = isinstance(reference, np.ndarray) or widen(reference[:0]).dtype.itemsize == 8
        dimension = stack.groups[0].atoms.dimension
        local = score.local
        question = question if local else PAIRS
        wanted = 0 if directions is None else directions.wanted
        return Problem(
            score.bare, tuple(groups), dimension, reading, double, local, question, wanted
        )

    @property
    def members(self) -> int:
        return sum(group.members for group in self.groups)

    @property
    def atoms(self) -> int:
        """Atoms of all members."""
        return sum(group.members * group.atoms for group in self.groups)

    @property
    def compiled(self) -> bool:
        return self.reading is Reading.COMPILED

    @property
    def numpy(self) -> bool:
        """Whether the arrays are NumPy's, for compiled code or not."""
        return self.compiled or self.reading is Reading.NUMPY

    @property
    def readable(self) -> bool:
        return self.reading is not Reading.TRACED

    def only(self, *kinds: type[Atoms]) -> bool:
        return all(group.kind in kinds for group in self.groups)

    @property
    def outnumbers_directions(self) -> bool:
        """Whether these are so many draws that random directions cost less than all pairs."""
        return self.only(Points) and self.atoms > 2 * self.directions > 0

    @property
    def scalar_draws(self) -> bool:
        return self.dimension == 1 and self.only(Points)

    @property
    def draws_beside_others(self) -> bool:
        """Whether some members are many draws and others are not draws."""
        many = any(g.kind is Points and g.atoms > _MANY_DRAWS for g in self.groups)
        return many and self.readable and not self.only(Points)

    def of_groups(self, draws: bool) -> Problem:
        """The same for the members that are draws, or for the others."""
        groups = tuple(g for g in self.groups if (g.kind is Points) == draws)
        return dataclasses.replace(self, groups=groups)

    @property
    def densities(self) -> bool:
        """Whether densities are asked for which the atoms of all members tell."""
        itself = all(group.itself and group.draws is None for group in self.groups)
        return self.local and itself

    @property
    def absolute(self) -> bool:
        """Whether the kernel is ‖x − y‖, on the line |x − y|."""
        return isinstance(self.score, Energy) and self.score.beta == 1


_entries = operator.attrgetter(*(entry.name for entry in dataclasses.fields(Problem)))


class Statistics(NamedTuple):
    """H of every member, (M, n), and Σ w_i w_j D(P_i, P_j) or what else is asked, (n,).

    ``lost`` (n,) marks entries whose digits may be lost, where that can happen.
    """

    entropies: Array
    dispersion: Array
    lost: Array | None = None


@dataclass(frozen=True)
class Measure:
    """An elementary score with its bandwidth over the batch, (n,), and the accuracy asked for."""

    score: Score
    bandwidth: Array | float | None
    rtol: float
    #: numbers that a temporary may have
    budget: int
    compiled: bool = False
    #: bytes that all of it may take
    memory: float = math.inf
    question: Question = PAIRS
    directions: Directions | None = None

    @property
    def kernel(self) -> Kernel:
        assert isinstance(self.score, Kernel)
        return self.score

    def most(self, like: Array) -> int:
        """Numbers that any temporary may have, if memory alone sets a limit."""
        return fitting_elements(self.memory, like)

    def at(self, rows: slice | Array) -> Measure:
        """The same for a part of the batch."""
        if self.bandwidth is None or isinstance(self.bandwidth, float):
            return self
        return dataclasses.replace(self, bandwidth=widen(self.bandwidth[rows]))

    def width(self, atom_axes: int) -> Any:
        """The bandwidth, aligned with lead axes (…, n) plus ``atom_axes`` more."""
        if self.bandwidth is None or isinstance(self.bandwidth, float):
            return self.bandwidth
        return self.bandwidth[(..., *(None,) * atom_axes)]

    @property
    def many_scales(self) -> bool:
        """Whether atoms that are not points are integrated over scales."""
        return isinstance(self.score, ScaleMixture)


@np.errstate(over="ignore", under="ignore")
def in_units(bandwidth: Array | float, unit: Array) -> Array:
    """The bandwidth in units of the data, cut where its square would leave the range of floats.

    Kernels so narrow or so wide are zero or constant to more than a hundred digits.
    """
    xp = namespace(unit)
    far = float(xp.finfo(unit.dtype).max) ** 0.45
    return xp.clip(bandwidth / unit, 1 / far, far)


class Form(ABC):
    """One way to the statistics of the members of a stack; no form knows another one."""

    #: "exact" or "quadrature": how the form integrates what is not a point; "sliced"
    method: ClassVar[str] = "exact"
    #: Whether it takes one unit of the directions of its measure in place of all of them. Then it
    #: gets laws as they are, float32 as well, and the weights of coordinates with the score:
    #: copies of very many draws would take more time and memory than its sums.
    sampled: ClassVar[bool] = False

    @abstractmethod
    def applies(self, problem: Problem) -> bool:
        """Whether the form can answer, and is worth it."""

    @abstractmethod
    def scratch(self, problem: Problem) -> int:
        """How many numbers one batch entry touches at once."""

    def any_units(self, problem: Problem) -> bool:
        """Whether no square can leave the range of floats, so that laws may come as they are."""
        return False

    def cancels(self, problem: Problem) -> bool:
        """Whether the dispersion is a difference, which loses the digits of members that agree."""
        return False

    @abstractmethod
    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        """The statistics as the laws are (V-statistics); unbiasing comes after."""


class Expecting(ABC):
    """A form that also knows E k(X, Y) itself, without the difference that D is."""

    @abstractmethod
    def expectation(self, measure: Measure, p: Law, q: Law) -> Array:
        """E k(X, Y), (m, n)."""


class Crossing(ABC):
    """A form that knows the sums over pairs of atoms of which D of two laws consists.

    D(P, Q) = cross(P, Q) − ½ inside(P) − ½ inside(Q).
    """

    @abstractmethod
    def cross(self, measure: Measure, p: Law, q: Law) -> Array:
        """Σ w_i v_j D(P_i, Q_j), (m, n)."""

    @abstractmethod
    def inside(self, measure: Measure, law: Law) -> Array:
        """Σ w_i w_j D_ij inside every member, (m, n)."""


#: Derivatives by every array of atoms in the order of its numbers, None for those that nobody
#: wants; from derivatives by every value: n numbers, one for all of them, or None for zero.
Slopes: TypeAlias = Callable[[Sequence[np.ndarray | None]], list[np.ndarray | None]]
#: Values (K, n) and their derivative from the arrays of atoms; None where digits would be lost.
Differential: TypeAlias = Callable[[Measure, Sequence[Array]], tuple[np.ndarray, Slopes] | None]


class Differentiated(ABC):
    """A form that knows the derivative of its statistics by the atoms, for arrays on the CPU."""

    @abstractmethod
    def differentiates(self, problem: Problem) -> bool:
        """Whether it does so for a problem to which it applies."""

    @abstractmethod
    def differential(self, stack: Stack, wanted: Sequence[bool], asked: np.ndarray) -> Differential:
        """What gives both for all stacks that have the kinds, shapes and weights of this one.

        ``asked`` (K, M + 1) is what the entropies and the dispersion count in each value. It takes
        the arrays of the groups' atoms, of NumPy or torch, contiguous and all of them float32 or
        float64; ``wanted`` says for each whether its derivative is.
        """


def by_statistics(asked: np.ndarray, by_values: Sequence[np.ndarray | None], n: int) -> np.ndarray:
    """Derivatives by entropies and dispersion (M + 1, n), from those by values."""
    rows = [np.broadcast_to(0.0 if by is None else by, (n,)) for by in by_values]
    slopes: np.ndarray = asked.T @ np.stack(rows)
    return slopes
