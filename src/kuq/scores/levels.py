"""Levels of uncertainty: which pairs of members tell how much each of them adds.

D(P, Q) = ½‖μ_P − μ_Q‖² in the Hilbert space of a kernel, so that the mean divergence of two
independent members is the variance of μ. If they are drawn such that they share some of their
groups, it is what is left of the variance inside of those, and differences of such means are the
parts of a variance: nested, Var(μ | group) − Var(μ | group and subgroup); crossed, the effects of
the analysis of variance by inclusion and exclusion. So every part is a sum over pairs of members,
whose coefficients depend on weights and groups alone.

A level that is a sample of more (all, unless they are fixed) is told by pairs from two *different*
groups: two draws of what the groups stand for. That is unbiased if the groups of every level are
drawn independently, and weights and numbers do not depend on what was drawn.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kuq._array import Array, any_true, epsilon, from_numpy, namespace, safe_ratio
from kuq.errors import InsufficientDataError, ParameterError, ShapeError

#: Names of a result that are no levels.
TAKEN = ("total", "noise", "aleatoric", "epistemic")


@dataclass(frozen=True)
class Design:
    """The levels by name, in blocks of crossed ones, outermost first, each inside the one before.

    ``fixed`` are the positions of levels that are there as a whole.
    """

    levels: tuple[str, ...]
    blocks: tuple[tuple[int, ...], ...]
    fixed: frozenset[int]

    @staticmethod
    def checked(
        levels: str | Sequence[str],
        crossed: bool | Sequence[str] | None,
        fixed: str | Sequence[str],
        depth: int,
    ) -> Design:
        names = (levels,) if isinstance(levels, str) else tuple(levels)
        for name in names:
            if not isinstance(name, str) or not name or ":" in name or name in TAKEN:
                raise ParameterError(
                    f"the name of a level is a text without a colon and none of "
                    f"{', '.join(TAKEN)}; got {name!r}"
                )
        if len(set(names)) < len(names):
            raise ParameterError(f"levels need different names, got {names}")
        if len(names) != depth:
            said = "1 level" if len(names) == 1 else f"{len(names)} levels"
            raise ParameterError(
                f"levels={names} names {said}, and the ensemble has {depth}; an Ensemble of "
                "Ensembles has two, and Ensemble(law, member_ndim=2) takes them from the first "
                "axes of arrays"
            )
        across = _positions(names if crossed is True else crossed or (), names, "crossed")
        if len(across) == 1:
            raise ParameterError(
                f"crossed names at least two levels, got {crossed!r}; levels that are not named "
                "lie inside of those before them"
            )
        if across and across[-1] - across[0] >= len(across):
            raise ParameterError(
                f"crossed levels stand one after the other, got {crossed!r} of {names}; give the "
                "levels in another order"
            )
        blocks: list[tuple[int, ...]] = [(k,) for k in range(depth) if k not in across]
        if across:
            blocks = sorted([*blocks, tuple(across)])
        return Design(names, tuple(blocks), frozenset(_positions(fixed, names, "fixed")))

    def taken_as_it_is(self) -> Design:
        """The same levels, none of which is a sample of more."""
        return replace(self, fixed=frozenset(range(len(self.levels))))

    @property
    def text(self) -> str:
        """Levels after a slash lie inside of those before it; a cross stands between crossed."""
        return " / ".join(" × ".join(self.levels[k] for k in block) for block in self.blocks)

    def effects(self) -> list[tuple[int, ...]]:
        """The levels of every part: one, or several whose interaction it is."""
        return [
            chosen
            for block in self.blocks
            for size in range(1, len(block) + 1)
            for chosen in itertools.combinations(block, size)
        ]

    @property
    def parts(self) -> list[str]:
        return [":".join(self.levels[k] for k in effect) for effect in self.effects()]

    def coefficients(self, paths: np.ndarray, weights: Array) -> Array:
        """What pairs of members count in every part, (parts, M, M), symmetric.

        ``paths`` (M, levels) says in which group of every level a member is.
        """
        xp = namespace(weights)
        count = len(paths)
        below = from_numpy(np.zeros((count, count)), weights)
        found: dict[tuple[int, ...], Array] = {}
        for block in reversed(self.blocks):
            groups = _Block(self, block, paths, weights)
            inside, pairs = below, {}
            for independent in _subsets(block):
                pairs[independent] = groups.pairs(independent, inside)
            below = pairs[block]
            for effect in _subsets(block)[1:]:
                total: Array | float = 0.0
                for left in _subsets(effect):
                    sign = -1.0 if (len(effect) - len(left)) % 2 == 0 else 1.0
                    others = tuple(k for k in block if k not in left)
                    total = total + sign * pairs[others]
                found[effect] = groups.node_weight[:, None] * total
        return xp.stack([found[effect] for effect in self.effects()])


class _Block:
    """Crossed levels inside the nodes of those before them: shares of weight, and who is where."""

    def __init__(
        self, design: Design, block: tuple[int, ...], paths: np.ndarray, weights: Array
    ) -> None:
        self.design, self.block, self.paths = design, block, paths
        start, stop = block[0], block[-1] + 1
        node, cell = _same(paths[:, :start]), _same(paths[:, :stop])
        self._check_cells(start, stop)
        self.like = weights
        xp = namespace(weights)
        self.same_node, self.same_cell = node, cell
        self.node_weight = self._sums(node, weights)
        cell_weight = self._sums(cell, weights)
        self.in_cell = safe_ratio(weights, cell_weight)
        in_node = safe_ratio(weights, self.node_weight)
        self.same = {k: paths[:, None, k] == paths[None, :, k] for k in block}
        self.share = {
            k: safe_ratio(self._sums(node & same, weights), self.node_weight)
            for k, same in self.same.items()
        }
        #: Σ over the groups of a level of the squares of their shares.
        self.squares = {k: self._sums(node, in_node * self.share[k]) for k in block}
        product = math.prod(self.share.values())
        room = 1e-6 if epsilon(weights) < 1e-10 else 1e-3
        if len(block) > 1 and any_true(
            xp.abs(cell_weight - self.node_weight * product) > room * self.node_weight
        ):
            raise ParameterError(
                f"weights of crossed levels {self._named(block)} must be products of a weight for "
                "each of them; others mix their effects"
            )
        self._check_groups()

    def pairs(self, independent: tuple[int, ...], inside: Array) -> Array:
        """The chance of a pair, given its node, that shares its groups of all other levels.

        ``inside`` are the chances of pairs of one cell, given the cell.
        """
        xp = namespace(self.like)
        chance: Array | float = from_numpy(self.same_node * 1.0, self.like)
        for k in self.block:
            share = self.share[k]
            if k not in independent:
                chance = chance * from_numpy(self.same[k] * 1.0, self.like) * share[:, None]
                continue
            chance = chance * share[:, None] * share[None, :]
            if k not in self.design.fixed:
                differs = from_numpy(~self.same[k] * 1.0, self.like)
                chance = chance * differs / (1 - self.squares[k])[:, None]
        alone = from_numpy(self.same_cell * 1.0, self.like) > 0
        return chance * xp.where(alone, inside, self.in_cell[:, None] * self.in_cell[None, :])

    def _sums(self, mask: np.ndarray, values: Array) -> Array:
        """Σ of values over the members that a mask has beside each."""
        return namespace(values).sum(from_numpy(mask * 1.0, values) * values[None, :], axis=1)

    def _check_groups(self) -> None:
        """Refuse levels with one group: two tell how far groups differ."""
        for k in self.block:
            if k in self.design.fixed:
                continue
            name = self.design.levels[k]
            remedy = f'pass fixed="{name}" or unbiased=False to take them as they are'
            for node in _in_order(self.paths[:, : self.block[0]]):
                own = np.all(self.paths[:, : len(node)] == node, axis=1)
                if len(np.unique(self.paths[own, k])) < 2:
                    where = f" in the group {self._place(node)}" if len(node) else ""
                    raise InsufficientDataError(
                        f"an unbiased level {name!r} needs at least two of its kind in every "
                        f"group, got one{where}; {remedy}"
                    )
            if any_true(self.squares[k] > 1 - 1e-9):
                raise InsufficientDataError(
                    f"an unbiased level {name!r} needs at least two of its kind with weight in "
                    f"every group, got all weight on one; {remedy}"
                )

    def _check_cells(self, start: int, stop: int) -> None:
        """Refuse crossed levels of which not all combinations are there."""
        if len(self.block) == 1:
            return
        for node in _in_order(self.paths[:, :start]):
            own = self.paths[np.all(self.paths[:, :start] == node, axis=1)]
            there = {tuple(cell) for cell in own[:, start:stop].tolist()}
            values = [np.unique(own[:, k]).tolist() for k in self.block]
            for cell in itertools.product(*values):
                if cell not in there:
                    raise ShapeError(
                        f"crossed levels {self._named(self.block)} need every combination; "
                        f"{self._place((*node, *cell))} is missing. Leave out what is not there "
                        "everywhere, or take one of the levels as nested"
                    )

    def _named(self, block: Iterable[int]) -> list[str]:
        return [self.design.levels[k] for k in block]

    def _place(self, path: Sequence[Any]) -> str:
        names = zip(self.design.levels, path, strict=False)
        return ", ".join(f"{name} {int(value)}" for name, value in names)


def _positions(asked: str | Iterable[Any], names: tuple[str, ...], option: str) -> list[int]:
    given = [asked] if isinstance(asked, str) else list(asked)
    for name in given:
        if name not in names:
            raise ParameterError(f"{option} names levels of {names}, got {name!r}")
    return sorted({names.index(name) for name in given})


def _subsets(items: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [
        chosen for size in range(len(items) + 1) for chosen in itertools.combinations(items, size)
    ]


def _same(paths: np.ndarray) -> np.ndarray:
    """Which members have the same path, (M, M)."""
    same: np.ndarray = np.all(paths[:, None, :] == paths[None, :, :], axis=-1)
    return same


def _in_order(paths: np.ndarray) -> list[tuple[int, ...]]:
    """The different paths, in the order of members; one of length zero without levels."""
    return list(dict.fromkeys(tuple(path) for path in paths.tolist()))
