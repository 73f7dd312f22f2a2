"""Mixtures of normals cut to an interval: what a tail-focused kernel sees of normal laws."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from kuq._array import Array, namespace
from kuq._special import ndtr
from kuq.distributions.atoms import Atoms, Points, Products, to_products
from kuq.distributions.laws import Law

_ROOT_2PI = math.sqrt(2 * math.pi)


@dataclass(frozen=True, eq=False)
class ClippedMixtures(Atoms):
    """Mixtures of normals along the last axis, cut to [low, high], which have a last axis of one.

    Masses beyond a bound become point masses on it. A zero scale is a point mass.
    """

    loc: Array
    scale: Array
    weights: Array
    low: Array
    high: Array
    extra: ClassVar[dict[str, int]] = {"loc": 1, "scale": 1, "weights": 1, "low": 1, "high": 1}

    def mean(self) -> Array:
        """E X + E(low − X)₊ − E(X − high)₊."""
        under, over = self._beyond()
        moved = self.loc + under.first - over.first
        return namespace(self.loc).sum(self.weights * moved, axis=-1)

    def variance(self) -> Array:
        """With X = loc + e and V = X + U − O: E(V−c)² from E e² and Stein's E eU = −σ² P(U > 0)."""
        under, over = self._beyond()
        shift = self.loc - self.mean()[..., None]
        kept = self.scale * self.scale * (1 - 2 * under.chance - 2 * over.chance)
        square = kept + under.second + over.second
        square = square + shift * (shift + 2 * (under.first - over.first))
        return namespace(self.loc).sum(self.weights * square, axis=-1)

    def _beyond(self) -> tuple[_Excess, _Excess]:
        return (
            _Excess.of(self.low - self.loc, self.scale),
            _Excess.of(self.loc - self.high, self.scale),
        )

    def scaled(self, factor: Callable[[Array, int], Array]) -> ClippedMixtures:
        changed = {n: factor(getattr(self, n), 2) for n in ("loc", "scale", "low", "high")}
        return dataclasses.replace(self, **changed)

    def extent(self, pivot: Array) -> Array:
        return self._whole().extent(pivot)

    def smallest_variance(self) -> Array:
        return self._whole().smallest_variance()

    def _whole(self) -> Products:
        return Products(self.loc, self.scale, self.weights)

    @property
    def size(self) -> int:
        """Every component brings pieces of the line, and is evaluated on those of all."""
        d, k = self.loc.shape[-2:]
        return int(256 * d * k * k)


@dataclass(frozen=True)
class _Excess:
    """P(Y > 0), E Y₊ and E Y₊² for Y = gap + scale·Z."""

    chance: Array
    first: Array
    second: Array

    @staticmethod
    def of(gap: Array, scale: Array) -> _Excess:
        xp = namespace(gap)
        regular = (scale > 0) & (gap > -math.inf)
        zero = xp.zeros_like(gap)
        sigma = xp.where(regular, scale, xp.ones_like(scale))
        z = xp.where(regular, gap, zero) / sigma
        density, chance = xp.exp(-z * z / 2) / _ROOT_2PI, ndtr(z)
        over = xp.maximum(gap, zero)
        return _Excess(
            xp.where(regular, chance, xp.where(gap > 0, zero + 1, zero)),
            xp.where(regular, sigma * (density + z * chance), over),
            xp.where(regular, sigma * sigma * ((1 + z * z) * chance + z * density), over * over),
        )


def to_clipped(atoms: Atoms) -> ClippedMixtures:
    """The same law as a mixture that is cut nowhere."""
    if isinstance(atoms, ClippedMixtures):
        return atoms
    count = atoms.loc.shape[-1] if isinstance(atoms, Products) else 1
    mixture = to_products(atoms, count)
    zero = namespace(mixture.loc).zeros_like(mixture.loc[..., :1])
    return ClippedMixtures(
        mixture.loc, mixture.scale, mixture.weights, zero - math.inf, zero + math.inf
    )


def clipped(law: Law, low: Array, high: Array) -> Law:
    """A law of points, normals or mixtures cut to bounds that broadcast to (lead…, A, d)."""
    xp = namespace(law.atoms.reference)

    def cut(x: Array, trailing: tuple[None, ...]) -> Array:
        return xp.minimum(xp.maximum(x, low[(..., *trailing)]), high[(..., *trailing)])

    if isinstance(law.atoms, Points):
        return dataclasses.replace(law, atoms=Points(cut(law.atoms.value, ())))
    whole = to_clipped(law.atoms)
    bounds = {"low": cut(whole.low, (None,)), "high": cut(whole.high, (None,))}
    return dataclasses.replace(
        law, atoms=dataclasses.replace(whole, **bounds), method="quadrature", tail=None
    )
