"""Atoms: the elementary laws of which every distribution is made inside the core.

Arrays have the axes (lead…, A, d, …): any leading axes, A atoms, one event axis of size d, and
for some kinds one more axis. Atoms know nothing of kernels.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from kuq._array import Array, any_true, detach, namespace


@dataclass(frozen=True, eq=False)
class Atoms(ABC):
    """A stack of elementary laws; every array has ``extra[name]`` axes after the event axis."""

    extra: ClassVar[dict[str, int]]
    #: Whether an atom stands for a whole population of members.
    population: ClassVar[bool] = False
    #: The first array, which tells library and dtype.
    reference: Array = field(init=False, repr=False)
    #: The axes before the event axis: (…, A).
    lead: tuple[int, ...] = field(init=False, repr=False)
    #: The size of the event axis.
    dimension: int = field(init=False, repr=False)
    #: Numbers of an atom for each coordinate: components of a mixture, columns of a factor.
    inner: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        name, more = next(iter(self.extra.items()))
        reference = getattr(self, name)
        event = reference.ndim - 1 - more
        object.__setattr__(self, "reference", reference)
        object.__setattr__(self, "lead", tuple(reference.shape[:event]))
        object.__setattr__(self, "dimension", int(reference.shape[event]))
        inner = 1
        for name, more in self.extra.items():
            if more:
                inner = int(getattr(self, name).shape[-1])
                break
        object.__setattr__(self, "inner", inner)

    def map(self, change: Callable[[Array, int], Array]) -> Self:
        """Change every array; the second argument counts its axes from the event axis on."""
        new = object.__new__(type(self))
        vars(new).update(vars(self))
        for name, more in self.extra.items():
            object.__setattr__(new, name, change(getattr(self, name), 1 + more))
        new.__post_init__()
        return new

    @classmethod
    def joined(cls, stacks: Sequence[Self], join: Callable[[list[Array]], Array]) -> Self:
        """Several stacks as one; ``join`` puts arrays behind each other."""
        arrays = {name: join([getattr(stack, name) for stack in stacks]) for name in cls.extra}
        return dataclasses.replace(stacks[0], **arrays)

    @property
    def size(self) -> int:
        """Numbers per atom: what one evaluation touches."""
        first = next(iter(self.extra))
        return math.prod(self.reference.shape[self.reference.ndim - 1 - self.extra[first] :])

    @abstractmethod
    def mean(self) -> Array:
        """(lead…, A, d)."""

    @abstractmethod
    def variance(self) -> Array:
        """The variance of every coordinate, (lead…, A, d)."""

    @abstractmethod
    def scaled(self, factor: Callable[[Array, int], Array]) -> Atoms:
        """The law of outcomes multiplied by a factor per batch entry or coordinate."""

    @abstractmethod
    def extent(self, pivot: Array) -> Array:
        """The largest size of anything in units of the outcome, (n,) for lead axes (m, n)."""

    @abstractmethod
    def smallest_variance(self) -> Array:
        """The smallest variance that is not zero, or less, (lead…, A); inf for point masses."""

    def expand(self, axis_after_lead: int) -> Self:
        """Insert an axis of size one before or after the atom axis, to pair atoms."""
        return self.map(lambda a, k: a[(..., None, *(slice(None),) * (k + axis_after_lead))])


@dataclass(frozen=True, eq=False)
class Points(Atoms):
    """Point masses."""

    value: Array
    extra: ClassVar[dict[str, int]] = {"value": 0}

    def mean(self) -> Array:
        return self.value

    def variance(self) -> Array:
        return namespace(self.value).zeros_like(self.value)

    def scaled(self, factor: Callable[[Array, int], Array]) -> Points:
        return Points(factor(self.value, 1))

    def extent(self, pivot: Array) -> Array:
        return _farthest(self.value, pivot)

    def smallest_variance(self) -> Array:
        return namespace(self.value).full_like(self.value[..., 0], math.inf)


@dataclass(frozen=True, eq=False)
class Normals(Atoms):
    """Normals with independent coordinates; a zero scale is a point mass."""

    loc: Array
    scale: Array
    extra: ClassVar[dict[str, int]] = {"loc": 0, "scale": 0}

    def mean(self) -> Array:
        return self.loc

    def variance(self) -> Array:
        return self.scale * self.scale

    def scaled(self, factor: Callable[[Array, int], Array]) -> Normals:
        return Normals(factor(self.loc, 1), factor(self.scale, 1))

    def extent(self, pivot: Array) -> Array:
        far = _farthest(self.loc, pivot)
        return namespace(far).maximum(far, _largest(self.scale))

    def smallest_variance(self) -> Array:
        return _smallest_positive(self.variance())


@dataclass(frozen=True, eq=False)
class LowRanks(Atoms):
    """Normals with covariance factor·factorᵀ + diag."""

    loc: Array
    factor: Array
    diag: Array
    extra: ClassVar[dict[str, int]] = {"loc": 0, "factor": 1, "diag": 0}

    def mean(self) -> Array:
        return self.loc

    def variance(self) -> Array:
        return self.diag + namespace(self.factor).sum(self.factor * self.factor, axis=-1)

    def scaled(self, factor: Callable[[Array, int], Array]) -> LowRanks:
        return LowRanks(
            factor(self.loc, 1), factor(self.factor, 2), factor(factor(self.diag, 1), 1)
        )

    def extent(self, pivot: Array) -> Array:
        xp = namespace(self.loc)
        far = xp.maximum(_farthest(self.loc, pivot), xp.sqrt(_largest(self.diag)))
        if self.factor.shape[-1] == 0:
            return far
        return xp.maximum(far, xp.maximum(_largest(self.factor), -_smallest(self.factor)))

    def smallest_variance(self) -> Array:
        xp = namespace(self.diag)
        # Without a diagonal the factor alone gives widths, and some directions may have none.
        unknown = xp.any(self.diag == 0, axis=-1)
        tiny = xp.full_like(self.diag[..., 0], float(xp.finfo(self.diag.dtype).smallest_normal))
        return xp.where(unknown, tiny, xp.min(self.diag, axis=-1))

    @property
    def size(self) -> int:
        return int(math.prod(self.factor.shape[-2:])) + 2 * int(self.diag.shape[-1])


@dataclass(frozen=True, eq=False)
class Products(Atoms):
    """Independent coordinates, each a mixture of normals along the last axis.

    ``heaviest`` is the order from which on moments do not exist: finite where the components
    are a quadrature of a law with heavy tails.
    """

    loc: Array
    scale: Array
    weights: Array
    heaviest: float = math.inf
    extra: ClassVar[dict[str, int]] = {"loc": 1, "scale": 1, "weights": 1}

    @classmethod
    def joined(cls, stacks: Sequence[Self], join: Callable[[list[Array]], Array]) -> Self:
        whole = super().joined(stacks, join)
        return dataclasses.replace(whole, heaviest=min(stack.heaviest for stack in stacks))

    def mean(self) -> Array:
        offset = self._offset()
        return self.loc[..., 0] + namespace(offset).sum(self.weights * offset, axis=-1)

    def variance(self) -> Array:
        xp = namespace(self.loc)
        offset = self._offset()
        gap = offset - xp.sum(self.weights * offset, axis=-1, keepdims=True)
        return xp.sum(self.weights * (self.scale * self.scale + gap * gap), axis=-1)

    def _offset(self) -> Array:
        """From the first component: an offset of all costs no digits."""
        return self.loc - self.loc[..., :1]

    def scaled(self, factor: Callable[[Array, int], Array]) -> Products:
        return dataclasses.replace(self, loc=factor(self.loc, 2), scale=factor(self.scale, 2))

    def extent(self, pivot: Array) -> Array:
        far = _farthest(self.loc, pivot)
        xp = namespace(far)
        # Rare components may be wider by any factor; they do not set the unit.
        seen = xp.where(self.weights > 1e-3, self.scale, xp.zeros_like(self.scale))
        return xp.maximum(far, _largest(seen))

    def smallest_variance(self) -> Array:
        xp = namespace(self.scale)
        flat = xp.reshape(self.scale, (*self.lead, -1))
        return _smallest_positive(flat * flat)

    @property
    def size(self) -> int:
        d, k = self.loc.shape[-2:]
        return int(d * k * k)


@dataclass(frozen=True, eq=False)
class NormalInverseGammas(Atoms):
    """Laws over normals: σ² ~ InverseGamma(alpha, beta) and μ | σ² ~ N(loc, σ²/nu)."""

    loc: Array
    nu: Array
    alpha: Array
    beta: Array
    extra: ClassVar[dict[str, int]] = {"loc": 0, "nu": 0, "alpha": 0, "beta": 0}
    population = True

    def mean(self) -> Array:
        return self.loc

    def variance(self) -> Array:
        xp = namespace(self.alpha)
        exists = self.alpha > 1
        excess = xp.where(exists, self.alpha - 1, xp.ones_like(self.alpha))
        return xp.where(exists, self.beta * (1 + 1 / self.nu) / excess, math.inf)

    def scaled(self, factor: Callable[[Array, int], Array]) -> NormalInverseGammas:
        beta = factor(factor(self.beta, 1), 1)
        return NormalInverseGammas(factor(self.loc, 1), self.nu, self.alpha, beta)

    def extent(self, pivot: Array) -> Array:
        far = _farthest(self.loc, pivot)
        xp = namespace(far)
        return xp.maximum(far, xp.sqrt(_largest(self.beta / self.alpha)))

    def smallest_variance(self) -> Array:
        return _smallest_positive(self.beta / self.alpha)


def tail_order(atoms: Atoms) -> float:
    """The order from which on moments do not exist."""
    return atoms.heaviest if isinstance(atoms, Products) else math.inf


def spread(atoms: Atoms) -> Array:
    """E‖X − mean‖², or for heavy tails a square of the size of the bulk, which exists."""
    xp = namespace(atoms.reference)
    if not isinstance(atoms, Products) or atoms.heaviest > 5:
        return xp.sum(atoms.variance(), axis=-1)
    spread_out = atoms.scale > 0
    logarithms = xp.log(xp.where(spread_out, atoms.scale, xp.ones_like(atoms.scale)))
    bulk = xp.exp(2 * xp.sum(atoms.weights * logarithms, axis=-1))
    return xp.sum(xp.where(xp.any(spread_out, axis=-1), bulk, xp.zeros_like(bulk)), axis=-1)


def mean_difference(p: Atoms, q: Atoms) -> Array:
    """The difference of the means; for mixtures from matched components, which may be close."""
    if not (isinstance(p, Products) and isinstance(q, Products)):
        return p.mean() - q.mean()
    xp = namespace(p.loc)
    if p.loc.shape[-1] != q.loc.shape[-1]:
        return p.mean() - q.mean()
    pivot = q.mean()[..., None]
    moved = q.weights * (p.loc - q.loc)
    return xp.sum((p.weights - q.weights) * (p.loc - pivot) + moved, axis=-1)


def smallest_gap(*laws: Normals | Products) -> Array | None:
    """The smallest square of a distance between point components along a coordinate, (lead…).

    inf for laws without such a pair, and None where no law can have one.
    """
    if sum(law.inner for law in laws) < 2:
        return None
    if all(any_true(law.scale == 0) is False for law in laws):
        return None
    xp = namespace(laws[0].loc)
    lead = np.broadcast_shapes(*(law.lead for law in laws))
    points = []
    for law in laws:
        place = detach(xp.where(law.scale == 0, law.loc, math.inf))
        place = place if isinstance(law, Products) else place[..., None]
        points.append(xp.broadcast_to(place, (*lead, *place.shape[-2:])))
    ordered = xp.sort(xp.concat(points, axis=-1), axis=-1)
    both = xp.isfinite(ordered[..., 1:])
    gap = xp.where(both, ordered[..., 1:], 0.0) - xp.where(both, ordered[..., :-1], 0.0)
    return _smallest_positive(xp.reshape(gap * gap, (*lead, -1)))


def _farthest(x: Array, pivot: Array) -> Array:
    """max |x − pivot| over members, atoms and coordinates: (m, n, A, d, …) to (n,)."""
    xp = namespace(x)
    others = (0, 2, *range(4, x.ndim))
    # Bounds first: no temporary is as large as the array.
    high, low = (bound(detach(x), axis=others) for bound in (xp.max, xp.min))
    pivot = detach(pivot)
    return xp.max(xp.maximum(high - pivot, pivot - low), axis=-1)


def _largest(x: Array) -> Array:
    """The same for numbers ≥ 0, without a pivot."""
    return namespace(x).max(detach(x), axis=(0, *range(2, x.ndim)))


def _smallest(x: Array) -> Array:
    return namespace(x).min(detach(x), axis=(0, *range(2, x.ndim)))


def _smallest_positive(variance: Array) -> Array:
    xp = namespace(variance)
    return xp.min(xp.where(variance > 0, variance, xp.full_like(variance, math.inf)), axis=-1)


def to_normals(atoms: Atoms) -> Normals:
    """Points as normals of scale zero."""
    if isinstance(atoms, Normals):
        return atoms
    assert isinstance(atoms, Points)
    return Normals(atoms.value, namespace(atoms.value).zeros_like(atoms.value))


def to_low_ranks(atoms: Atoms, rank: int) -> LowRanks:
    """The same law with a factor of ``rank`` columns, padded with zeros."""
    if not isinstance(atoms, LowRanks):
        normals = to_normals(atoms)
        empty = namespace(normals.loc).zeros_like(normals.loc)[..., None][..., :0]
        atoms = LowRanks(normals.loc, empty, normals.variance())
    missing = rank - atoms.factor.shape[-1]
    if missing == 0:
        return atoms
    xp = namespace(atoms.factor)
    pad = xp.zeros_like(atoms.loc)[..., None] * xp.ones_like(atoms.loc[..., :1, None])
    pad = xp.broadcast_to(pad, (*atoms.loc.shape, missing))
    return LowRanks(atoms.loc, xp.concat([atoms.factor, pad], axis=-1), atoms.diag)


def to_products(atoms: Atoms, components: int) -> Products:
    """The same law with ``components`` components, padded with copies of weight zero."""
    if not isinstance(atoms, Products):
        normals = to_normals(atoms)
        one = namespace(normals.loc).ones_like(normals.loc)
        atoms = Products(normals.loc[..., None], normals.scale[..., None], one[..., None])
    missing = components - atoms.loc.shape[-1]
    if missing == 0:
        return atoms
    xp = namespace(atoms.loc)

    def padded(a: Array, factor: float) -> Array:
        last = xp.broadcast_to(a[..., -1:] * factor, (*a.shape[:-1], missing))
        return xp.concat([a, last], axis=-1)

    return dataclasses.replace(
        atoms,
        loc=padded(atoms.loc, 1.0),
        scale=padded(atoms.scale, 1.0),
        weights=padded(atoms.weights, 0.0),
    )
