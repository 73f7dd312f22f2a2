"""The draws of all members in one table of kernel values, seen some rows of it at a time.

Sums over the terms of a kernel and over the coordinates of a marginal one are taken first: what a
draw does, it does to all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kuq._array import Array, as_numpy
from kuq.answers import from_points
from kuq.distributions.atoms import Points
from kuq.distributions.base import Prediction
from kuq.distributions.laws import Law, Stack, draws_of, in_one_row
from kuq.distributions.strays import prepared
from kuq.driver import stretched, to_units
from kuq.errors import NoClosedFormError, ParameterError
from kuq.forms.form import Measure
from kuq.forms.gram import excess_rows, pooled_draws
from kuq.forms.point_pairs import between_points
from kuq.kernels.base import Kernel, Radial, Term
from kuq.kernels.energy import Energy
from kuq.scores.options import Options
from kuq.tiles import pieces
from kuq.views import View, flat_bandwidth, views

#: Kernel values (n, rows, A) of some draws with all draws.
Rows = Callable[[slice], np.ndarray]


class Sums(NamedTuple):
    """What the spread over draws needs of the table of some entries."""

    #: Σ v_b k(x_a, x_b) over the draws of every member, (n, A, M); zero on the diagonal
    rows: np.ndarray
    #: Σ v_a v_b k², (n, M, M)
    squares: np.ndarray


@dataclass(frozen=True)
class Pool:
    """Draws (A) of some of M members over the entries of a result."""

    shape: tuple[int, ...]
    #: the member of every draw, (A,)
    owners: np.ndarray
    #: weights of the draws, which sum to one for every member, (n, A) or (1, A)
    weights: np.ndarray
    #: whether a member stands for the law its draws come from, and whether it is unbiased, (M,)
    drawn: np.ndarray
    corrected: np.ndarray
    tables: tuple[_Table, ...]
    #: sums over members that are no draws: their place, and E k(x_a, Y) but for a constant, (n, A)
    closed: tuple[tuple[int, np.ndarray], ...]
    budget: int

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """Numbers of one entry that are touched at once."""
        members = 4 * len(self.drawn)
        return len(self.owners) * (members if self._is_sorted() else max(self.row, members))

    @property
    def row(self) -> int:
        """Numbers that one row of the table of an entry touches."""
        return len(self.owners) * max(table.each for table in self.tables)

    def tiles(self) -> Iterator[slice]:
        """Entries whose tables fit the budget."""
        at_most = 1 if any(table.inner > 1 for table in self.tables) else self.count
        for tile in pieces(self.count, self.size, self.budget, self.weights):
            for start in range(tile.start, tile.stop, at_most):
                yield slice(start, min(start + at_most, tile.stop))

    def rows_of(self, entries: slice) -> Rows:
        """The table of some entries."""
        readers = [table.reader(entries, self.budget) for table in self.tables]

        def rows(block: slice) -> np.ndarray:
            return np.asarray(sum(reader(block) for reader in readers[1:]) + readers[0](block))

        return rows

    def sums(self, entries: slice) -> Sums:
        weights = self.weights if len(self.weights) == 1 else self.weights[entries]
        members = len(self.drawn)
        shares = weights[..., None] * (self.owners[:, None] == np.arange(members))
        sums = self._sorted(entries, shares) if self._is_sorted() else None
        if sums is None:
            sums = self._by_rows(entries, shares)
        for place, column in self.closed:
            sums.rows[..., place] = column[entries]
        return sums

    def _by_rows(self, entries: slice, shares: np.ndarray) -> Sums:
        draws, members = shares.shape[1:]
        count = entries.stop - entries.start
        rows = np.empty((count, draws, members))
        squares = np.zeros((count, members, members))
        read = self.rows_of(entries)
        whole = [slice(0, draws)]
        for block in pieces(draws, self.row, self.budget, shares) if count == 1 else whole:
            k = read(block)
            rows[:, block] = k @ shares
            squares += np.matrix_transpose(shares[:, block]) @ ((k * k) @ shares)
        return Sums(rows, squares)

    def _is_sorted(self) -> bool:
        """Whether the kernel is |x − y| of numbers, whose sums follow from one sort."""
        if len(self.tables) > 1:
            return False
        table = self.tables[0]
        kernel = table.measure.score
        scalar = table.stack.groups[0].dimension == 1 and table.inner == 1
        return scalar and isinstance(kernel, Energy) and kernel.beta == 1

    def _sorted(self, entries: slice, shares: np.ndarray) -> Sums:
        stack, _, factor = self.tables[0].prepared(entries)
        x = _pooled_values(stack)[..., 0]
        x = x - x.mean(axis=1, keepdims=True)
        order = np.argsort(x, axis=1)
        ascending = np.take_along_axis(x, order, axis=1)
        members = shares.shape[-1]
        rows = np.empty((*x.shape, members))
        shares = np.broadcast_to(shares, rows.shape)
        for m in range(members):
            share = np.take_along_axis(shares[..., m], order, axis=1)
            below, first = np.cumsum(share, axis=1), np.cumsum(share * ascending, axis=1)
            value = ascending * (2 * below - below[:, -1:]) - (2 * first - first[:, -1:])
            np.put_along_axis(rows[..., m], order, value, axis=1)
        first = (x[:, None, :] @ shares)[:, 0, :]
        second = ((x * x)[:, None, :] @ shares)[:, 0, :]
        squares = second[:, :, None] + second[:, None, :] - 2 * first[:, :, None] * first[:, None]
        return Sums(rows * factor[:, None, None], squares * (factor * factor)[:, None, None])


@dataclass(frozen=True)
class _Table:
    """One term of the kernel: its draws over a flat batch of which ``inner`` make one entry."""

    measure: Measure
    stack: Stack
    factor: float
    inner: int
    #: what each of them counts, (inner,)
    shares: np.ndarray

    @property
    def each(self) -> int:
        """Numbers that the kernel of two draws touches."""
        radial = isinstance(self.measure.score, Radial)
        return 1 if radial else self.stack.groups[0].dimension

    def prepared(self, entries: slice) -> tuple[Stack, Measure, np.ndarray]:
        """Draws of some entries in units of their own, and the factor (n·inner,) of the results."""
        flat = slice(entries.start * self.inner, entries.stop * self.inner)
        stack = stretched(prepared(self.stack.index(flat)), self.measure.score.weights)
        measure, (stack,), unit = to_units(self.measure.at(flat), [stack])
        count = flat.stop - flat.start
        scale = np.ones(count) if unit is None else np.broadcast_to(unit, (count,))
        return stack, measure, self.factor * scale

    def reader(self, entries: slice, budget: int) -> Rows:
        stack, measure, factor = self.prepared(entries)
        draws = sum(g.atoms.lead[0] * g.count for g in stack.groups)

        def values(block: slice, chunk: slice) -> np.ndarray:
            chunk_stack = stack.index(chunk)
            if isinstance(measure.score, Radial):
                return np.asarray(excess_rows(measure.at(chunk), pooled_draws(chunk_stack), block))
            x = _pooled_values(chunk_stack)
            table = between_points(measure, x[:, block, None, :], x[:, None, :, :])
            return as_numpy(table, "a table of draws")

        def rows(block: slice) -> np.ndarray:
            if self.inner == 1:
                every = values(block, slice(0, stack.batch_count))
                return np.asarray(every * factor[:, None, None])
            total = np.zeros(())
            height = len(range(*block.indices(draws)))
            for chunk in pieces(self.inner, height * draws * self.each, budget, factor):
                count = factor[chunk] * self.shares[chunk]
                total = total + np.tensordot(count, values(block, chunk), axes=1)[None]
            return total

        return rows


def _pooled_values(stack: Stack) -> Array:
    """The draws of all members along one axis, (n, A, d)."""
    return in_one_row([draws_of(law) for law in stack.groups])


def pool_of(prediction: Prediction, score: Kernel, options: Options) -> Pool:
    """The draws of a prediction as a score without open bandwidths sees them."""
    tables: list[_Table] = []
    seen: list[tuple[View, list[int]]] = []
    closed: list[dict[int, np.ndarray]] = []
    shape: tuple[int, ...] = ()
    for term in score.parts:
        (view,) = views(term, options, prediction)
        if not any(law.drawn for law in view.stack.groups):
            continue  # closed in this term
        table, shape, places = _table(term, view, options)
        tables.append(table)
        seen.append((view, places))
        closed.append(_beside(term, view, table, options))
    if not tables:
        raise ParameterError(no_draws(score))
    places = seen[0][1]
    if any(other != places for _, other in seen):
        raise NoClosedFormError(
            "some members are draws under one part of the score and closed under another; "
            'ask for over="both", or for each part of the score by itself'
        )
    view, table = seen[0][0], tables[0]
    members = view.stack.member_count
    drawn, corrected = np.zeros(members, dtype=bool), np.zeros(members, dtype=bool)
    for start, law in view.stack.offsets():
        of_law = slice(start, start + law.atoms.lead[0])
        drawn[of_law] = law.drawn
        corrected[of_law] = law.drawn and (options.unbiased_samples or law.method == "monte-carlo")
    groups = [law for law in view.stack.groups if isinstance(law.atoms, Points)]
    counts = [law.count for law in groups for _ in range(law.atoms.lead[0])]
    return Pool(
        shape=shape,
        owners=np.repeat(places, counts),
        weights=_weights(groups, table, math.prod(shape)),
        drawn=drawn,
        corrected=corrected,
        tables=tuple(tables),
        closed=tuple(
            (place, np.sum([of_term[place] for of_term in closed], axis=0)) for place in closed[0]
        ),
        budget=options.budget(table.shares),
    )


def no_draws(score: Kernel) -> str:
    return (
        f"the members are no draws under {score!r}: their laws are known, and nothing about them "
        "is left to chance"
    )


def _table(term: Term, view: View, options: Options) -> tuple[_Table, tuple[int, ...], list[int]]:
    """The draws among the members, the shape of the result, and their places."""
    shape, inner, shares = view.shape, 1, np.ones(1)
    marginal = view.marginal
    if marginal is not None and marginal.reduce is not None and view.event_shape:
        shape, inner = view.batch_shape, math.prod(view.event_shape)
        shares = np.ones(inner)
        if marginal.weights is not None:
            shares = as_numpy(marginal.weights, "weights").ravel()
        if marginal.reduce == "mean":
            shares = shares / shares.sum()
    places: list[int] = []
    for start, law in view.stack.offsets():
        if isinstance(law.atoms, Points):
            places += range(start, start + int(law.atoms.lead[0]))
    stack = Stack(tuple(law for law in view.stack.groups if isinstance(law.atoms, Points)))
    width = flat_bandwidth(view.score, view.shape, marginal is not None, stack.reference)
    kernel = view.score
    if isinstance(kernel, Radial):  # any other one may be written for one library
        stack = stack.mapped(lambda array: as_numpy(array, "a table of draws"))
        if width is not None and not isinstance(width, float):
            width = as_numpy(width, "a table of draws")
    budget = options.budget(shares)
    measure = Measure(kernel, width, options.rtol, budget, memory=options.max_memory)
    return _Table(measure, stack, term.factor, inner, shares), shape, places


def _weights(groups: list[Law], table: _Table, count: int) -> np.ndarray:
    """Weights of the draws over entries, (n, A), or (1, A) where all are alike."""
    if all(law.weights is None for law in groups):
        each = [np.full(law.atoms.lead[0] * law.count, 1 / law.count) for law in groups]
        return np.concatenate(each)[None, :]
    parts = []
    for law in groups:
        weights = as_numpy(law.full_weights(), "weights of draws")  # (m, n·inner, N)
        weights = weights.reshape(weights.shape[0], count, table.inner, weights.shape[-1])
        if np.any((weights != weights[:, :, :1]) & ~np.isnan(weights)):
            raise ParameterError(
                "draws were left out for some coordinates and not for others, so that they have "
                'no weights of their own; ask for over="both", or score with reduce=None'
            )
        parts.append(np.moveaxis(weights[:, :, 0], 0, 1).reshape(count, -1))
    return np.concatenate(parts, axis=1)


def _beside(term: Term, view: View, table: _Table, options: Options) -> dict[int, np.ndarray]:
    """E k(x_a, Y_j) but for a constant, (n, A), of every draw and every member j that is closed."""
    expectations: dict[int, np.ndarray] = {}
    closed = [m for m, law in enumerate(view.stack.members()) if not isinstance(law.atoms, Points)]
    if not closed:
        return expectations
    draws = [draws_of(law)[0] for law in table.stack.members()]  # (n·inner, N, d)
    laws = list(view.stack.members())
    count = view.stack.batch_count // table.inner
    for place in closed:
        columns = []
        for x in draws:
            values = as_numpy(from_points(term, view, laws[place], x, options), "scores of draws")
            each = values.reshape(count, table.inner, -1)
            columns.append(np.tensordot(table.shares, each, axes=(0, 1)))
        expectations[place] = np.concatenate(columns, axis=1)
    return expectations
