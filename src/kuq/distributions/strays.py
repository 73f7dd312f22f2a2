"""Atoms, components and members of weight zero that would spoil the numbers of the others.

Weight zero times a finite value is zero. What has no weight does harm only where it is so far out
that its value is infinite, or that units and grids that follow all parameters leave the others
without digits. There it takes the place of the one with the largest weight, which changes no sum.
Elsewhere it stays: the derivative by its weight is that of the law that it would bring in.
"""

from __future__ import annotations

import dataclasses
import math

from kuq._array import Array, any_true, detach, moved_axis, namespace, safe_sqrt
from kuq.distributions.atoms import Atoms, Points, Products
from kuq.distributions.laws import Law, Stack

#: How many times as far, wide or narrow as those with weight something may be.
_FAR = 2.0**10


def strays(weights: Array, loc: Array, scale: Array | None) -> Array:
    """Which along the last axis have no weight and are out of proportion to those that have.

    A scale of None is zero: points.
    """
    xp = namespace(weights, loc)
    loc = detach(loc)
    zero = weights == 0
    size = xp.abs(loc - xp.take_along_axis(loc, heaviest(weights, loc), axis=-1))
    if scale is not None:
        size = xp.maximum(size, detach(scale))
    reach = xp.max(xp.where(zero, xp.zeros_like(size), size), axis=-1, keepdims=True)
    away = zero & (size > _FAR * reach)
    if scale is None:
        return away
    least = xp.min(xp.where(zero, xp.full_like(scale, math.inf), scale), axis=-1, keepdims=True)
    return away | (zero & ((scale < least / _FAR) | (size == math.inf)))


def heaviest(weights: Array, like: Array) -> Array:
    """The position of the largest weight along the last axis, with the axes of ``like``."""
    xp = namespace(weights)
    spread = xp.broadcast_to(detach(weights), like.shape)
    return xp.argmax(spread, axis=-1, keepdims=True)


def prepared(tile: Stack) -> Stack:
    """A tile of laws with more digits and without strays, ready for computing."""
    return tile.widened().map(without_strays)


def without_strays(law: Law) -> Law:
    """The same law with no stray among its atoms or their components."""
    if law.tail is not None:  # components of a quadrature are what they have to be
        return law
    atoms = law.atoms
    if isinstance(atoms, Products) and any_true(atoms.weights == 0) is not False:
        away = strays(atoms.weights, atoms.loc, atoms.scale)
        if any_true(away) is not False:
            xp, best = namespace(away), heaviest(atoms.weights, away)
            loc, scale = (
                xp.where(away, xp.take_along_axis(a, best, axis=-1), a)
                for a in (atoms.loc, atoms.scale)
            )
            atoms = dataclasses.replace(atoms, loc=loc, scale=scale)
    if law.weights is not None and any_true(law.weights == 0) is not False:
        atoms = _without_stray_atoms(dataclasses.replace(law, atoms=atoms))
    return law if atoms is law.atoms else dataclasses.replace(law, atoms=atoms)


def _without_stray_atoms(law: Law) -> Atoms:
    """Atoms (lead…, A, d, …), one of which strays if any of its coordinates does."""
    atoms: Atoms = law.atoms
    xp = namespace(atoms.reference)
    weights = law.full_weights()
    mean, deviation = moved_axis(atoms.mean(), -2, -1), None
    if not isinstance(atoms, Points):
        deviation = moved_axis(safe_sqrt(atoms.variance()), -2, -1)
    each = xp.broadcast_to(weights[..., None, :], mean.shape)
    away = xp.any(strays(each, mean, deviation), axis=-2)
    if any_true(away) is False:
        return atoms
    best = heaviest(weights, weights)

    def replaced(array: Array, axes: int) -> Array:
        more = (..., *(None,) * axes)
        index = xp.broadcast_to(best[more], (*best.shape, *array.shape[best.ndim :]))
        chosen = xp.take_along_axis(array, index, axis=best.ndim - 1)
        return xp.where(away[more], chosen, array)

    return atoms.map(replaced)
