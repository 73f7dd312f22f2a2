"""The canonical form of distributions inside the core: weighted atoms, and stacks of members."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kuq._array import (
    Array,
    as_numpy,
    constants,
    epsilon,
    from_numpy,
    index_array,
    is_traced,
    namespace,
    safe_ratio,
    safe_sqrt,
    widen,
)
from kuq.distributions.atoms import Atoms, LowRanks, Normals, Points, Products

if TYPE_CHECKING:
    from kuq.distributions.base import Distribution


@dataclass(frozen=True, eq=False)
class Source:
    """The distribution of a law, which is asked for its density, and draws of it.

    It has the batch (m, n), and the draws have the axes (m, n, N, event…).
    """

    distribution: Distribution
    draws: Array

    @property
    def count(self) -> int:
        return int(self.draws.shape[2])

    def index(self, key: Callable[[Array], Array]) -> Source:
        return Source(self.distribution.mapped(key), key(self.draws))


@dataclass(frozen=True, eq=False)
class Law:
    """Weighted atoms: weights (lead…, A), or None for a single atom or equal weights.

    ``drawn`` marks a law that stands for the distribution its atoms were drawn from, so that
    unbiased statistics correct for their number. ``tail`` (lead…, d) is for every coordinate the
    order from which on moments do not exist, the df of a Student-t law; None if all do. A
    ``source`` is there where the log score needs more than atoms tell.
    """

    atoms: Atoms
    weights: Array | None = None
    drawn: bool = False
    method: str = "exact"
    tail: Array | None = None
    source: Source | None = None
    #: The number of atoms.
    count: int = field(init=False, repr=False)
    #: Whether the atoms are the law, and no draws or quadrature of it.
    is_itself: bool = field(init=False, repr=False)
    #: Whether nothing has to be done before computing: NumPy's doubles, no weights.
    is_plain: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        atoms = self.atoms
        reference = atoms.reference
        plain = type(reference) is np.ndarray and reference.dtype == np.float64
        plain = plain and self.weights is None and isinstance(atoms, (Points, Normals))
        itself = self.method == "exact" and self.tail is None and not self.drawn
        vars(self).update(count=atoms.lead[-1], is_itself=itself, is_plain=plain)

    @property
    def dimension(self) -> int:
        return self.atoms.dimension

    def atom_weights(self) -> Array:
        """Weights that broadcast against (lead…, A) and sum to one."""
        if self.weights is not None:
            return self.weights
        return constants([1.0 / self.count] * self.count, self.atoms.reference)

    def concentration(self) -> Array | float:
        """Σw², the inverse of the effective number of atoms."""
        if self.weights is None:
            return 1.0 / self.count
        return namespace(self.weights).sum(self.weights * self.weights, axis=-1)

    def arrays(self) -> list[Array]:
        """All arrays."""
        arrays = [getattr(self.atoms, name) for name in self.atoms.extra]
        return arrays + [a for a in (self.weights, self.tail) if a is not None]

    def index(self, key: Callable[[Array], Array]) -> Law:
        """Change every array, such as taking a part along its leading axes."""
        weights = None if self.weights is None else key(self.weights)
        tail = None if self.tail is None else key(self.tail)
        atoms = self.atoms.map(lambda a, _: key(a))
        source = None if self.source is None else self.source.index(key)
        return Law(atoms, weights, self.drawn, self.method, tail, source)

    def widened(self) -> Law:
        """The same with more digits, see :func:`kuq._array.widen`."""
        if all(isinstance(a, np.ndarray) and a.dtype == np.float64 for a in self.arrays()):
            return self
        return self.index(widen)

    def coordinates(self, index: slice) -> Law:
        """The law of some coordinates."""
        atoms = self.atoms.map(lambda a, k: a[(..., index, *(slice(None),) * (k - 1))])
        return dataclasses.replace(self, atoms=atoms)

    def flatten_batch(self, members: bool) -> Law:
        """Lead axes (m, n): the member axis, or one of size one, and one batch axis."""
        batch = self.atoms.lead[:-1] if members else (1, *self.atoms.lead[:-1])
        shape = (batch[0], math.prod(batch[1:]))
        atoms = self.atoms.map(lambda a, k: a.reshape((*shape, *a.shape[a.ndim - k - 1 :])))
        weights, tail = self.weights, self.tail
        if weights is not None:
            weights = weights.reshape((*shape, weights.shape[-1]))
        if tail is not None:
            tail = tail.reshape((*shape, tail.shape[-1]))
        return Law(atoms, weights, self.drawn, self.method, tail)

    @staticmethod
    def joined(laws: list[Law]) -> Law:
        """Laws of one kind and shape as one law along the member axis."""
        if len(laws) == 1:
            return laws[0]
        xp = namespace(*(law.atoms.reference for law in laws))

        def join(arrays: list[Array]) -> Array:
            return xp.concat(arrays, axis=0)

        weighted = any(law.weights is not None for law in laws)
        heavy = any(law.tail is not None for law in laws)
        return dataclasses.replace(
            laws[0],
            atoms=laws[0].atoms.joined([law.atoms for law in laws], join),
            weights=join([law.full_weights() for law in laws]) if weighted else None,
            method=worst_method(*(law.method for law in laws)),
            tail=join([law.full_tail() for law in laws]) if heavy else None,
        )

    def kind(self) -> tuple[object, ...]:
        """What has to agree for laws to become one."""
        shapes = tuple(getattr(self.atoms, name).shape[1:] for name in self.atoms.extra)
        return type(self.atoms), shapes, self.drawn, self.method, self.tail is None

    def full_weights(self) -> Array:
        """Weights of the full shape (lead…, A)."""
        xp = namespace(self.atoms.reference)
        return xp.broadcast_to(self.atom_weights(), self.atoms.lead)

    def full_tail(self) -> Array:
        """The tail (lead…, d), infinite where all moments exist."""
        if self.tail is not None:
            return self.tail
        reference = self.atoms.reference
        return from_numpy(np.full((*self.atoms.lead[:-1], self.dimension), math.inf), reference)


@dataclass(frozen=True, eq=False)
class Stack:
    """Members of a second-order law in groups of one kind, each with lead axes (m, n).

    ``weights`` (M,) are normalised member weights, or None for equal ones.
    """

    groups: tuple[Law, ...]
    weights: Array | None = None
    #: The first array, which tells library and dtype.
    reference: Array = field(init=False, repr=False)
    member_count: int = field(init=False, repr=False)
    batch_count: int = field(init=False, repr=False)
    #: Whether some member has moments up to an order only.
    has_tails: bool = field(init=False, repr=False)
    #: Whether nothing has to be done before computing.
    is_plain: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        count, tails, plain = 0, False, True
        for group in self.groups:
            count += int(group.atoms.lead[0])
            tails = tails or group.tail is not None
            plain = plain and group.is_plain
        attributes = {"member_count": count, "has_tails": tails, "is_plain": plain}
        if self.groups:
            first = self.groups[0].atoms
            attributes |= {"reference": first.reference, "batch_count": int(first.lead[1])}
        vars(self).update(attributes)

    @staticmethod
    def joined(laws: list[Law], weights: Array | None = None) -> Stack:
        """Laws over one batch as members; neighbours of one kind and shape become one group."""
        if any(isinstance(law.atoms, Points) or law.source is not None for law in laws):
            return Stack(tuple(laws), weights)  # many numbers, and nothing gained
        groups = [Law.joined(list(run)) for _, run in itertools.groupby(laws, key=Law.kind)]
        return Stack(tuple(groups), weights)

    def member_weights(self) -> Array:
        if self.weights is not None:
            return self.weights
        return constants([1.0 / self.member_count] * self.member_count, self.reference)

    def pivot(self) -> Array:
        """The mean of the first atom of the first member, (n, d)."""
        return self.groups[0].atoms.mean()[0, :, 0, :]

    def concentration(self) -> Array | float:
        """Σw², zero for a population."""
        if self.groups[0].atoms.population:
            return 0.0
        if self.weights is None:
            return 1.0 / self.member_count
        return namespace(self.weights).sum(self.weights * self.weights)

    def index(self, rows: slice) -> Stack:
        """A part of the batch."""
        if rows == slice(0, self.batch_count):  # recorded operations are not free
            return self
        return self.map(lambda law: law.index(lambda a: a[:, rows]))

    def take(self, index: Array) -> Stack:
        """Some batch entries, by position."""
        xp = namespace(self.reference)
        return self.map(lambda law: law.index(lambda a: xp.take(a, index, axis=1)))

    def widened(self) -> Stack:
        weights = None if self.weights is None else widen(self.weights)
        return Stack(tuple(group.widened() for group in self.groups), weights)

    def blank(self) -> Stack:
        """One made-up batch entry in place of an empty batch."""

        def one(array: Array) -> Array:
            return from_numpy(np.ones((array.shape[0], 1, *array.shape[2:])), array)

        return self.map(lambda law: law.index(one))

    def map(self, change: Callable[[Law], Law]) -> Stack:
        return Stack(tuple(change(group) for group in self.groups), self.weights)

    def arrays(self) -> Iterator[Array]:
        """All arrays of all groups."""
        for group in self.groups:
            yield from group.arrays()
        if self.weights is not None:
            yield self.weights

    def mapped(self, change: Callable[[Array], Array]) -> Stack:
        """The same with every array changed."""
        weights = None if self.weights is None else change(self.weights)
        return Stack(tuple(group.index(change) for group in self.groups), weights)

    def members(self) -> Iterator[Law]:
        """Every member as a law of its own with lead axes (1, n)."""
        for group in self.groups:
            if group.atoms.lead[0] == 1:
                yield group
                continue
            for m in range(group.atoms.lead[0]):
                yield group.index(lambda a, m=m: a[m : m + 1])  # type: ignore[misc]

    def subset(self, kind: type[Atoms], wanted: bool) -> tuple[Stack, Array, list[int]]:
        """Members of a kind, or those not of it: their stack, their weight, and their places."""
        chosen = [item for item in self.offsets() if isinstance(item[1].atoms, kind) == wanted]
        groups = tuple(group for _, group in chosen)
        places = [start + i for start, group in chosen for i in range(int(group.atoms.lead[0]))]
        w = self.member_weights()
        xp = namespace(w)
        weights = xp.take(w, index_array(np.asarray(places), w), axis=0)
        share = xp.sum(weights)
        return Stack(groups, weights / share), share, places

    def at(self, places: np.ndarray) -> Stack:
        """Some members, by increasing positions, with their share of the weight."""
        return self.side_by_side(places[None, :])

    def alike(self, sets: Sequence[np.ndarray]) -> list[list[int]]:
        """Which sets of members differ in no more than the numbers of their laws.

        Weights agree if they do but for rounding. Those that cannot be read or for whose derivative
        one may ask agree with none.
        """
        ends = np.cumsum([group.atoms.lead[0] for group in self.groups])
        weights, numbers = self.weights, None
        asked = is_traced(weights) or getattr(weights, "requires_grad", False)
        if weights is not None and not asked:
            numbers = as_numpy(weights, "levels")
        classes: dict[object, list[int]] = {}
        for position, places in enumerate(sets):
            key: object = tuple(np.searchsorted(places, ends).tolist())
            if numbers is not None:
                key = key, _without_rounding(numbers[places], epsilon(weights))
            elif weights is not None:
                key = position
            classes.setdefault(key, []).append(position)
        return list(classes.values())

    def side_by_side(self, sets: np.ndarray) -> Stack:
        """Sets of members (sets, M) over one batch after the other, with the share of the first.

        They have as many members in each group as one another, by increasing positions.
        """
        groups = []
        for start, group in self.offsets():
            inside = (sets >= start) & (sets < start + group.atoms.lead[0])
            positions = np.reshape(sets[inside] - start, (len(sets), -1))
            if positions.size:
                groups.append(group.index(_taken(positions)))
        if self.weights is None:
            return Stack(tuple(groups))
        xp = namespace(self.weights)
        weights = xp.take(self.weights, index_array(sets[0], self.weights), axis=0)
        return Stack(tuple(groups), safe_ratio(weights, xp.sum(weights)))

    def coordinates(self, index: slice) -> Stack:
        """A part of the coordinates of every member."""
        return self.map(lambda law: law.coordinates(index))

    def offsets(self) -> Iterator[tuple[int, Law]]:
        """Every group with the position of its first member."""
        start = 0
        for group in self.groups:
            yield start, group
            start += int(group.atoms.lead[0])

    @property
    def method(self) -> str:
        by_atoms = [group.method for group in self.groups if group.source is None]
        return worst_method("exact", *by_atoms)


def is_regular(places: np.ndarray) -> bool:
    """Whether increasing positions are equally spaced: then a part of an array is a view."""
    if len(places) < 3 or places[-1] - places[0] == len(places) - 1:
        return True
    return bool(np.all(np.diff(places, 2) == 0))


def _without_rounding(weights: np.ndarray, eps: float) -> bytes:
    """The shares of weights to all but their last digits."""
    mantissa, exponent = np.frexp(weights / max(weights.sum(), np.finfo(float).tiny))
    rounded: np.ndarray = np.ldexp(np.round(mantissa / (16 * eps)), exponent)
    return rounded.tobytes()


def _taken(places: np.ndarray) -> Callable[[Array], Array]:
    """Takes positions (sets, m) along the first axis, (m, sets·n, …)."""
    count, size = places.shape
    if count == 1 and is_regular(places[0]):
        step = int(places[0, 1] - places[0, 0]) if size > 1 else 1
        index = slice(int(places[0, 0]), int(places[0, -1]) + 1, step)
        return lambda array: array[index]
    in_order = np.reshape(places.T, (-1,))

    def taken(array: Array) -> Array:
        xp = namespace(array)
        members = xp.take(array, index_array(in_order, array), axis=0)
        return xp.reshape(members, (size, count * array.shape[1], *array.shape[2:]))

    return taken


def event_to_atom(x: Array, event_ndim: int, marginal: bool, trailing: int = 0) -> Array:
    """(batch…, event…, …) to (batch…, 1, d, …), or to (batch…, event…, 1, 1, …) if marginal."""
    shape = tuple(x.shape)
    stop = len(shape) - trailing
    if marginal:
        return x.reshape((*shape[:stop], 1, 1, *shape[stop:]))
    start = stop - event_ndim
    return x.reshape((*shape[:start], 1, math.prod(shape[start:stop]), *shape[stop:]))


def draws_of(law: Law) -> Array:
    """The values of a law of points, (m, n, A, d)."""
    assert isinstance(law.atoms, Points)
    return law.atoms.value


def in_one_row(arrays: Sequence[Array]) -> Array:
    """Arrays (m, n, A, …) of groups as one, (n, Σ m·A, …): members one behind the other."""
    xp = namespace(*arrays)
    rows = []
    for array in arrays:
        m, n, count, *rest = array.shape
        turned = xp.permute_dims(array, (1, 0, *range(2, array.ndim)))
        rows.append(xp.reshape(turned, (n, m * count, *rest)))
    return rows[0] if len(rows) == 1 else xp.concat(rows, axis=1)


METHODS = ("exact", "quadrature", "samples", "sliced", "monte-carlo")


def worst_method(*methods: str) -> str:
    return max(methods, key=METHODS.index)


def to_scalar_atoms(law: Law) -> Law:
    """Scalar mixtures as weighted normal atoms, the form in which closed forms are known."""
    atoms = law.atoms
    if isinstance(atoms, LowRanks):
        return dataclasses.replace(law, atoms=Normals(atoms.loc, safe_sqrt(atoms.variance())))
    if not isinstance(atoms, Products):
        return law
    xp = namespace(atoms.loc)

    def spread(a: Array) -> Array:  # (…, A, 1, K) -> (…, A·K, 1)
        return xp.reshape(a, (*a.shape[:-3], a.shape[-3] * a.shape[-1], 1))

    weights = spread(atoms.weights)[..., 0]
    if law.weights is not None:
        k = atoms.loc.shape[-1]
        outer = xp.broadcast_to(law.weights[..., None], (*law.weights.shape, k))
        weights = weights * xp.reshape(outer, weights.shape)
    return dataclasses.replace(
        law, atoms=Normals(spread(atoms.loc), spread(atoms.scale)), weights=weights
    )
