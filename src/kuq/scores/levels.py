"""Levels of uncertainty: which groups of members tell how much each level adds.

D(P, Q) = ½‖μ_P − μ_Q‖² in the Hilbert space of a kernel, so that the mean divergence of two
independent members is the variance of μ. If they are drawn such that they share some of their
groups, it is what is left of the variance inside of those, and differences of such means are the
parts of a variance: nested, Var(μ | group) − Var(μ | group and subgroup); crossed, the effects of
the analysis of variance by inclusion and exclusion.

A level that is a sample of more (all, unless they are fixed) is told by pairs from two *different*
groups: two draws of what the groups stand for. That is unbiased if the groups of every level are
drawn independently, and weights and numbers do not depend on what was drawn. Pairs from different
groups are all pairs less those inside of a group, so every part is a sum of dispersions
Σ w_i w_j D(P_i, P_j) inside of sets of members, with counts that follow from weights and groups.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kuq._array import (
    Array,
    any_true,
    epsilon,
    from_numpy,
    index_array,
    namespace,
    safe_ratio,
)
from kuq.distributions.nesting import numbered
from kuq.errors import InsufficientDataError, ParameterError, ShapeError

#: Names of a result that are no levels.
TAKEN = ("total", "noise", "aleatoric", "epistemic")


@dataclass(frozen=True)
class Design:
    """The levels by name, in blocks of crossed ones, outermost first, each inside the one before.

    ``fixed`` are the positions of levels that are there as a whole; ``labels`` name the groups of
    each level in errors, where they have names.
    """

    levels: tuple[str, ...]
    blocks: tuple[tuple[int, ...], ...]
    fixed: frozenset[int]
    labels: tuple[tuple[str, ...], ...] = ()

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
        return [chosen for block in self.blocks for chosen in _subsets(block)[1:]]

    @property
    def parts(self) -> list[str]:
        return [":".join(self.levels[k] for k in effect) for effect in self.effects()]

    def groups(self, paths: np.ndarray, weights: Array) -> tuple[list[np.ndarray], Array]:
        """Sets of members, all of them first, and what their dispersions count, (parts, sets).

        ``paths`` (M, levels) says in which group of every level a member is. A dispersion is that
        of weights which sum to one in its set; sets of one member are left out.
        """
        if not isinstance(weights, np.ndarray):
            return self._groups(paths, weights)
        # Blocks of a batch, and call after call, ask for the same.
        key = paths.shape, np.ascontiguousarray(paths, np.int64).tobytes(), weights.tobytes()
        return _remembered(self, *key)

    def _groups(self, paths: np.ndarray, weights: Array) -> tuple[list[np.ndarray], Array]:
        below: _Table = {}
        tables: dict[tuple[int, ...], _Table] = {}
        sets: dict[_Kind, _Sets] = {}
        for block in reversed(self.blocks):
            groups = _Block(self, block, paths, weights, sets)
            pairs = {levels: groups.pairs(levels, below) for levels in _subsets(block)}
            below = pairs[block]
            for effect in _subsets(block)[1:]:
                total: _Table = {}
                for left in _subsets(effect):
                    sign = -1.0 if (len(effect) - len(left)) % 2 == 0 else 1.0
                    others = tuple(k for k in block if k not in left)
                    _add(total, groups.times(pairs[others], sign * groups.node_weight))
                tables[effect] = total
        return _collected([tables[effect] for effect in self.effects()], sets, weights)


@functools.lru_cache(maxsize=32)
def _remembered(
    design: Design, shape: tuple[int, int], paths: bytes, weights: bytes
) -> tuple[list[np.ndarray], np.ndarray]:
    places = np.frombuffer(paths, np.int64).reshape(shape)
    return design._groups(places, np.frombuffer(weights))


#: The levels whose groups a set of members shares.
_Kind = tuple[int, ...]
#: For every kind what the dispersion inside of each of its sets counts.
_Table = dict[_Kind, Array]


class _Sets:
    """All sets of members that share their groups of some levels."""

    def __init__(self, kind: _Kind, paths: np.ndarray, weights: Array) -> None:
        self.of = numbered(paths[:, kind])
        order = np.argsort(self.of, kind="stable")
        self.members = np.split(order, np.flatnonzero(np.diff(self.of[order])) + 1)
        #: One member of each.
        self.first = index_array(np.array([members[0] for members in self.members]), weights)
        self.weight = self.sums(weights)

    def sums(self, values: Array) -> Array:
        """Σ of values (M,) over the members of each."""
        if isinstance(values, np.ndarray):
            return np.bincount(self.of, values, len(self.members))
        mask = (self.of[None, :] == np.arange(len(self.members))[:, None]) * 1.0
        return namespace(values).sum(from_numpy(mask, values) * values[None, :], axis=1)

    def spread(self, values: Array) -> Array:
        """What each has (sets,), for every member."""
        return namespace(values).take(values, index_array(self.of, values), axis=0)

    def pick(self, values: Array) -> Array:
        """The entry of one member of each, of values (M,) that are the same for all of them."""
        return namespace(values).take(values, self.first, axis=0)


class _Block:
    """Crossed levels inside the nodes of those before them: what groups weigh in their node."""

    def __init__(
        self,
        design: Design,
        block: tuple[int, ...],
        paths: np.ndarray,
        weights: Array,
        sets: dict[_Kind, _Sets],
    ) -> None:
        self.design, self.block, self.paths = design, block, paths
        self.weights, self.sets = weights, sets
        self.above = tuple(range(block[0]))
        self._check_cells()
        self.node_weight = self._weight_of(())
        cell_weight = self._weight_of(block)
        self.share = {k: safe_ratio(self._weight_of((k,)), self.node_weight) for k in block}
        in_node = safe_ratio(weights, self.node_weight)
        #: Σ over the groups of a level of the squares of their shares.
        self.squares = {k: self._sums((), in_node * self.share[k]) for k in block}
        product = math.prod(self.share.values())
        room = 1e-6 if epsilon(weights) < 1e-10 else 1e-3
        gap = namespace(weights).abs(cell_weight - self.node_weight * product)
        if len(block) > 1 and any_true(gap > room * self.node_weight):
            raise ParameterError(
                f"weights of crossed levels {self._named(block)} must be products of a weight for "
                "each of them; others mix their effects"
            )
        self._check_groups()

    def pairs(self, independent: tuple[int, ...], inside: _Table) -> _Table:
        """The mean divergence, given the node, of pairs that share their groups at other levels.

        ``inside`` is that of pairs of one cell, given the cell. With w_i = node · Π share · (weight
        in the cell) the chance of a pair of different cells is w_i w_j / (node² Π share) over the
        levels that are shared; pairs of different groups are all less those of one group.
        """
        shared = tuple(k for k in self.block if k not in independent)
        drawn = tuple(k for k in independent if k not in self.design.fixed)
        table: _Table = {}
        one = namespace(self.weights).ones_like(self.weights)
        if independent:
            factor = self.node_weight * self.node_weight
            for k in shared:
                factor = factor * self.share[k]
            for k in drawn:
                factor = factor * (1 - self.squares[k])
            chance = safe_ratio(one, factor)
            for same in _subsets(drawn):
                kind = self._kind((*shared, *same))
                sign = -1.0 if len(same) % 2 else 1.0
                _add(table, {kind: self._counts(kind, sign * chance)})
        if not drawn:  # two members may be of one cell: they are a pair of its own
            in_cell = one
            for k in self.block:
                share = self.share[k]
                in_cell = in_cell * (share * share if k in independent else share)
            if independent:
                kind = self._kind(self.block)
                _add(table, {kind: self._counts(kind, -chance)})
            _add(table, self.times(inside, in_cell))
        return table

    def times(self, table: _Table, values: Array) -> _Table:
        """A table times values (M,) that are the same inside of every set."""
        return {kind: counts * self.sets[kind].pick(values) for kind, counts in table.items()}

    def _counts(self, kind: _Kind, chance: Array) -> Array:
        """Σ w_i w_j times a chance over the pairs of each set."""
        sets = self.sets[kind]
        return sets.weight * sets.weight * sets.pick(chance)

    def _kind(self, levels: Iterable[int]) -> _Kind:
        kind = (*self.above, *sorted(levels))
        if kind not in self.sets:
            self.sets[kind] = _Sets(kind, self.paths, self.weights)
        return kind

    def _weight_of(self, levels: tuple[int, ...]) -> Array:
        return self._sums(levels, self.weights)

    def _sums(self, levels: tuple[int, ...], values: Array) -> Array:
        """Σ of values (M,) over all that share these levels and those above, for every member."""
        sets = self.sets[self._kind(levels)]
        return sets.spread(sets.sums(values))

    def _check_groups(self) -> None:
        """Refuse levels with one group: two tell how far groups differ."""
        for k in self.block:
            if k in self.design.fixed:
                continue
            name = self.design.levels[k]
            remedy = f'pass fixed="{name}" or unbiased=False to take them as they are'
            nodes, groups = (self.sets[self._kind(levels)] for levels in ((), (k,)))
            of_node = [nodes.of[members[0]] for members in groups.members]
            alone = np.flatnonzero(np.bincount(of_node) < 2)
            if alone.size:
                node = self.paths[nodes.members[alone[0]][0], : len(self.above)].tolist()
                where = f" in the group {self._place(node)}" if len(node) else ""
                raise InsufficientDataError(
                    f"an unbiased level {name!r} needs at least two of its kind in every "
                    f"group, got one{where}; {remedy}"
                )
            if any_true(self.squares[k] >= 1 - 1e-9):
                raise InsufficientDataError(
                    f"an unbiased level {name!r} needs at least two of its kind with weight in "
                    f"every group, got all weight on one; {remedy}"
                )

    def _check_cells(self) -> None:
        """Refuse crossed levels of which not all combinations are there."""
        if len(self.block) == 1:
            return
        for node in _in_order(self.paths[:, self.above]):
            in_node = self.paths[np.all(self.paths[:, : len(node)] == node, axis=1)]
            there = {tuple(cell) for cell in in_node[:, self.block].tolist()}
            values = [np.unique(in_node[:, k]).tolist() for k in self.block]
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
        said = []
        for k, value in enumerate(map(int, path)):
            label = self.design.labels[k][value] if self.design.labels else value
            said.append(f"{self.design.levels[k]} {label}")
        return ", ".join(said)


def _add(table: _Table, other: _Table) -> None:
    for kind, counts in other.items():
        table[kind] = table[kind] + counts if kind in table else counts


def _collected(
    parts: list[_Table], sets: dict[_Kind, _Sets], weights: Array
) -> tuple[list[np.ndarray], Array]:
    """The sets that any part needs, that of all members first, and their counts."""
    xp = namespace(weights)
    groups = [np.arange(weights.shape[0])]
    columns = [[table.get((), xp.zeros_like(weights[:1])) for table in parts]]
    for kind, of_kind in sets.items():
        several = [k for k, members in enumerate(of_kind.members) if len(members) > 1]
        if not several or kind == () or not any(kind in table for table in parts):
            continue
        groups += [of_kind.members[k] for k in several]
        index = index_array(np.asarray(several), weights)
        zero = xp.zeros_like(of_kind.weight)
        columns.append([xp.take(table.get(kind, zero), index, axis=0) for table in parts])
    rows = zip(*columns, strict=True)
    return groups, xp.stack([xp.concat(list(row)) for row in rows])


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


def _in_order(paths: np.ndarray) -> list[tuple[int, ...]]:
    """The different paths, in the order of members; one of length zero without levels."""
    return list(dict.fromkeys(tuple(path) for path in paths.tolist()))
