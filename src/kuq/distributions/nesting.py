"""Ensembles of ensembles as their leaves, and where in the tree each of them stands."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kuq._array import Array, namespace, same_value, shape_of
from kuq.distributions.base import Distribution
from kuq.errors import ShapeError

if TYPE_CHECKING:
    from kuq.distributions.ensemble import Ensemble


def paths_of_axes(shape: tuple[int, ...]) -> np.ndarray:
    """The place of every member along the axes of an array, (members, axes)."""
    return np.indices(shape).reshape(len(shape), -1).T


def numbered(paths: np.ndarray) -> np.ndarray:
    """A number for every path, from zero on in the order in which they come, (members,)."""
    numbers: dict[tuple[int, ...], int] = {}
    return np.array([numbers.setdefault(tuple(path), len(numbers)) for path in paths.tolist()])


def even_weights(paths: np.ndarray) -> np.ndarray:
    """Weights (members,) by which groups of a node count the same, and members of a group."""
    weights = np.ones(len(paths))
    for level in range(paths.shape[1]):
        child, node = numbered(paths[:, : level + 1]), numbered(paths[:, :level])
        parent = np.zeros(child.max() + 1, dtype=int)
        parent[child] = node
        weights /= np.bincount(parent)[node]
    return weights


def axes_joined(law: Distribution, count: int) -> Distribution:
    """The first axes of a law's batch as one."""
    if len(law.batch_shape) < count:
        raise ShapeError(
            f"member_ndim={count} needs as many batch axes, got {law!r}; pass arrays of shape "
            "(groups, members, batch…, event…)"
        )

    def joined(array: Array) -> Array:
        shape = tuple(array.shape)
        return namespace(array).reshape(array, (math.prod(shape[:count]), *shape[count:]))

    return law.mapped(joined)


def weights_joined(weights: Any, shape: tuple[int, ...]) -> Any:
    """Weights over several member axes as one list."""
    given = shape_of(weights)
    if given != shape:
        raise ShapeError(f"weights of Ensemble must have the shape {shape} of members, got {given}")
    return weights.reshape(-1) if hasattr(weights, "reshape") else np.asarray(weights).reshape(-1)


def leaves_of(groups: Sequence[Ensemble]) -> tuple[Distribution | list[Distribution], np.ndarray]:
    """The members of all groups, as one law where they are of one kind, and their paths."""
    depths = {group.depth for group in groups}
    if len(depths) > 1:
        raise ShapeError(
            f"groups of an Ensemble need as many levels each, got {sorted(depths)}; wrap a group "
            "of one as Ensemble([member])"
        )
    paths = [
        np.concatenate([np.full((len(group.paths), 1), position), group.paths], axis=1)
        for position, group in enumerate(groups)
    ]
    whole = as_one([law for group in groups for law in group.groups])
    leaves = whole or [leaf for group in groups for leaf in group.member_list()]
    return leaves, np.concatenate(paths)


def as_one(laws: Sequence[Distribution]) -> Distribution | None:
    """Laws end to end along their first axis, if they differ in its length and in numbers alone."""
    whole = copy.copy(laws[0])
    if not all(_alike(law, whole) for law in laws):
        return None
    for name in whole.parameters:
        arrays = [getattr(law, name) for law in laws]
        joined = None if arrays[0] is None else namespace(*arrays).concat(arrays, axis=0)
        setattr(whole, name, joined)
    return whole


def _alike(law: Distribution, first: Distribution) -> bool:
    """Whether two laws differ in the numbers of their arrays and in how many members they have."""
    if type(law) is not type(first):
        return False
    mine, theirs = (
        {name: value for name, value in vars(one).items() if name not in one.parameters}
        for one in (law, first)
    )
    shapes = zip(law.parameter_shapes, first.parameter_shapes, strict=True)
    fits = all((a and a[1:]) == (b and b[1:]) for a, b in shapes)
    return (
        fits and mine.keys() == theirs.keys() and all(same_value(mine[n], theirs[n]) for n in mine)
    )
