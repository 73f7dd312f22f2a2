"""Draws under a radial kernel: all distances from one Gram matrix of the pooled draws.

‖x−y‖² = ‖x‖² + ‖y‖² − 2x·y of draws centred on their mean is a matrix product, many times faster
than differences. It loses digits for draws that are close against their distance from the centre;
those pairs are computed again by differences, or from the centre of their own member, so that
every distance is right to 1e-13. Values must be readable and have 64 bits.
"""

from __future__ import annotations

import math
from typing import NamedTuple, final

import numpy as np

from kuq._array import Array, any_true, from_numpy, namespace, sum_of_squares
from kuq._threads import free_workers, in_threads
from kuq.distributions.atoms import Points
from kuq.distributions.laws import Stack, draws_of, in_one_row
from kuq.forms.form import Form, Measure, Problem, Statistics
from kuq.kernels.base import Radial
from kuq.tiles import pieces, recomputed

#: Up to so many draws of all members differences are as quick as a matrix product.
_FEWEST_DRAWS = 3
#: Squared distances below this fraction of the squared norms are computed again.
_CLOSE_DRAWS = 4e-3
#: Dispersions below this fraction of the distances between members have lost their digits.
_CLOSE_MEMBERS = 1e-6
#: Coordinates of one matrix product: enough for its speed, few enough for the cache.
COORDINATES = 4096
#: Multiplications of one table from which on threads are worth their start.
_SMALLEST_FOR_THREADS = 2**26
#: Numbers of one batch entry from which on it is treated alone.
_LARGE = 2**16
#: The mean of so many draws is as good a centre as that of all, and cheaper.
_CENTRAL_DRAWS = 8
#: Up to here differences of single coordinates are as cheap as a matrix product, and exact.
_FEW_COORDINATES = 3


def is_large(count: int, dimension: int) -> bool:
    """Whether the draws of one batch entry are worth a product of their own."""
    return count * dimension >= _LARGE


@final
class Gram(Form):
    def applies(self, problem: Problem) -> bool:
        readable = problem.readable and problem.double
        draws = problem.only(Points) and problem.atoms > _FEWEST_DRAWS
        return draws and readable and isinstance(problem.score, Radial)

    def scratch(self, problem: Problem) -> int:
        count, dimension = problem.atoms, problem.dimension
        if is_large(count, dimension):
            return count * count  # of the draws one batch entry is copied at a time
        return count * max(count, dimension)

    def cancels(self, problem: Problem) -> bool:
        return True

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        xp = namespace(stack.reference)
        within, between, tight = _pooled_sums(measure, stack)
        if stack.member_count == 1:
            return Statistics(within, xp.zeros_like(between))

        def around_members(entries: Array) -> Array:
            alone = []
            for law in stack.take(entries).groups:  # members become entries of one batch
                count = law.atoms.lead[0]
                one = Stack((law.flatten_batch(members=False),))
                sums, _, _ = _pooled_sums(measure.at(xp.concat([entries] * count)), one)
                alone.append(xp.reshape(sums, (count, -1)))
            return xp.concat(alone, axis=0)

        entropies = recomputed(within, tight, around_members)
        w = stack.member_weights()[:, None]
        dispersion = 2 * (between - xp.sum(w * (1 - w) * entropies, axis=0))
        lost = (dispersion <= 2 * _CLOSE_MEMBERS * between) & (between > 0)
        return Statistics(entropies, dispersion, lost)


def _pooled_sums(measure: Measure, stack: Stack) -> tuple[Array, Array, Array]:
    """Sums over pairs of draws i < j: within members, (M, n), and between them, (n,).

    Also the entries in which draws of one of several members are too close for the common centre,
    (n,).
    """
    xp = namespace(stack.reference)
    owners = np.concatenate(
        [start + np.repeat(np.arange(g.atoms.lead[0]), g.count) for start, g in stack.offsets()]
    )
    weights = in_one_row([g.full_weights()[..., None] for g in stack.groups])  # (n, A, 1)
    order, member = (from_numpy(x, stack.reference) for x in (np.arange(len(owners)), owners))
    x = pooled_draws(stack)
    w = stack.member_weights()
    members = from_numpy(np.arange(stack.member_count), stack.reference)
    one = xp.ones_like(stack.reference[0, :, 0, 0])

    def owned(rows: slice) -> Array:
        """One in the column of a draw's member, zero in all others, (rows, M)."""
        return xp.astype(member[rows, None] == members, one.dtype)

    def block(rows: slice, columns: slice) -> tuple[Array, Array, Array]:
        table = Table(measure, x, rows, columns)
        r2, lost = table.squared_distances(order[rows, None] < order[columns])
        tight = xp.zeros_like(one)
        if stack.member_count > 1 and any_true(lost):
            inside = lost & (member[rows, None] == member[columns])
            tight = xp.where(xp.any(inside, axis=(-2, -1)), one, tight)
            r2, lost = xp.where(inside, xp.zeros_like(r2), r2), lost & ~inside
        r2 = table.mended(r2, lost)
        by_member = _excess(measure, r2) @ (weights[:, columns, :] * owned(columns))
        by_member = weights[:, rows, :] * by_member  # (n, rows, M)
        within = by_member * owned(rows)
        between = xp.sum((owned(rows) @ w) * ((by_member - within) @ w), axis=-1)
        return xp.sum(within, axis=1), between, tight

    threads = _threads(x)
    blocks = _upper_blocks(measure, x, stack.member_count, threads)
    results = in_threads(lambda place: block(*place), blocks, threads)
    within, between, tight = (
        sum(parts[1:], start=parts[0]) for parts in zip(*results, strict=True)
    )
    return xp.matrix_transpose(within), between, tight > 0


class Draws(NamedTuple):
    """The draws of all members along one axis, (n, A, d): no copy, some at a time are taken."""

    #: those of every group, (m, n, N, d)
    values: list[Array]
    #: (1, n, 1, d)
    centre: Array
    shape: tuple[int, int, int]

    def uncentred(self, rows: slice) -> Array:
        """Some draws as they are."""
        return in_one_row(_some_draws(self.values, rows))

    def centred(self, entries: slice, rows: slice, coordinates: slice) -> Array:
        """Some draws of some batch entries, and some of their coordinates, from the centre."""
        centre = self.centre[:, entries, :, coordinates]
        values = [x[:, entries, :, coordinates] for x in self.values]
        return in_one_row([x - centre for x in _some_draws(values, rows)])


def pooled_draws(stack: Stack) -> Draws:
    """Those of a stack; their centre is the mean of some."""
    xp = namespace(stack.reference)
    values = [draws_of(group) for group in stack.groups]
    count = sum(x.shape[0] * x.shape[2] for x in values)
    of_each = -(-_CENTRAL_DRAWS // stack.member_count)
    central = [x[:, :, :of_each, :] for x in values]
    centre = sum(xp.sum(x, axis=(0, 2), keepdims=True) for x in central)
    centre = centre / sum(x.shape[0] * x.shape[2] for x in central)
    return Draws(values, centre, (stack.batch_count, count, stack.groups[0].dimension))


def excess_rows(measure: Measure, x: Draws, rows: slice) -> Array:
    """k − k(x, x) of some draws and all draws, (n, rows, A)."""
    table = Table(measure, x, rows, slice(0, x.shape[1]))
    return _excess(measure, table.mended(*table.squared_distances(None)))


def _some_draws(values: list[Array], rows: slice) -> list[Array]:
    """Parts of arrays (m, n, A, d) that hold some of the draws, counted over all groups."""
    runs = []
    start, stop, _ = rows.indices(sum(x.shape[0] * x.shape[2] for x in values))
    for x in values:
        members, count = x.shape[0], x.shape[2]
        low, high = max(start, 0), min(stop, members * count)
        start, stop = start - members * count, stop - members * count
        if low >= high:
            continue
        # A rest of one member, whole members, a rest of one more.
        first, last = -(-low // count), high // count
        if first > last:
            runs.append(x[last : last + 1, :, low % count : high % count, :])
            continue
        if low % count:
            runs.append(x[first - 1 : first, :, low % count :, :])
        if first < last:
            runs.append(x[first:last, ...])
        if high % count:
            runs.append(x[last : last + 1, :, : high % count, :])
    return runs


def _upper_blocks(
    measure: Measure, x: Draws, columns: int, threads: int
) -> list[tuple[slice, slice]]:
    """The table of all pairs in blocks, without those below the diagonal.

    Square ones need the fewest draws. ``columns``: numbers that a block has for each of its rows
    beside the table.
    """
    n, count, d = x.shape
    # A table as large as the draws, or as the coordinates of one product, is no burden.
    room = max(measure.budget, count * min(d, COORDINATES))
    room = max(1, min(room, measure.most(x.centre)) // max(1, n))
    side = count
    if count * max(count, columns) > room:
        side = max(1, min(math.isqrt(room), room // columns))
    if threads > 1:  # several blocks per thread, as a core may be busy with something else
        side = max(1, min(side, -(-count // (2 * threads))))
    parts = [slice(i, min(i + side, count)) for i in range(0, count, side)]
    return [(rows, others) for rows in parts for others in parts if others.start >= rows.start]


def _threads(x: Draws) -> int:
    """How many blocks run side by side."""
    n, count, d = x.shape
    small = n * count * count * d < _SMALLEST_FOR_THREADS
    return 1 if small or not isinstance(x.centre, np.ndarray) else free_workers()


def _excess(measure: Measure, r2: Array) -> Array:
    """k − k(x, x)."""
    assert isinstance(measure.kernel, Radial)
    return measure.kernel.excess(r2, measure.width(2))


class Table(NamedTuple):
    """The pairs of some draws with others."""

    measure: Measure
    draws: Draws
    rows: slice
    columns: slice

    def squared_distances(self, kept: Array | None) -> tuple[Array, Array]:
        """‖x_i − x_j‖², (n, A, B), zero where not kept, and which of them have lost digits."""
        if self.draws.shape[-1] <= _FEW_COORDINATES:
            r2 = self._by_coordinates()
            lost = namespace(r2).zeros_like(r2[..., :1, :1]) > 0
        else:
            norms, product = self._products()
            r2 = norms - 2 * product
            lost = r2 < _CLOSE_DRAWS * norms
        if kept is None:
            return r2, lost
        return namespace(r2).where(kept, r2, namespace(r2).zeros_like(r2)), lost & kept

    def _products(self) -> tuple[Array, Array]:
        """‖x_i‖² + ‖x_j‖² and x_i·x_j; draws that fill the cache one batch entry at a time."""
        n, count, d = self.draws.shape
        each = 1 if is_large(count, d) else n
        parts = [self._sums(slice(k, k + each)) for k in range(0, n, each)]
        if len(parts) == 1:
            return parts[0]
        norms, product = (namespace(x[0]).concat(list(x), axis=0) for x in zip(*parts, strict=True))
        return norms, product

    def _sums(self, entries: slice) -> tuple[Array, Array]:
        """The same of some batch entries, over pieces of the coordinates."""
        d = self.draws.shape[-1]
        # The product of a matrix with its own transpose costs half of another product.
        same = self.rows == self.columns
        longest = max(index.stop - index.start for index in (self.rows, self.columns))
        each = max(1, longest * (entries.stop - entries.start))
        step = max(COORDINATES, self.measure.budget // each)
        step = max(1, min(step, self.measure.most(self.draws.centre) // each))
        product: Array = 0.0
        row, column = product, product
        for start in range(0, d, step):
            coordinates = slice(start, min(start + step, d))
            a = self.draws.centred(entries, self.rows, coordinates)
            b = a if same else self.draws.centred(entries, self.columns, coordinates)
            product = product + a @ namespace(a).matrix_transpose(b)
            if not same:
                row, column = row + sum_of_squares(a), column + sum_of_squares(b)
        if same:
            row = column = namespace(product).linalg.diagonal(product)
        return row[..., :, None] + column[..., None, :], product

    def _by_coordinates(self) -> Array:
        x, y = self.draws.uncentred(self.rows), self.draws.uncentred(self.columns)
        gap = x[..., :, None, 0] - y[..., None, :, 0]
        r2 = gap * gap
        for c in range(1, x.shape[-1]):
            gap = x[..., :, None, c] - y[..., None, :, c]
            r2 = r2 + gap * gap
        return r2

    def mended(self, r2: Array, lost: Array) -> Array:
        """Distances that have lost digits, from differences."""
        if not any_true(lost):
            return r2
        xp = namespace(r2)
        flat = xp.reshape(r2, (-1,))
        return xp.reshape(recomputed(flat, xp.reshape(lost, (-1,)), self._by_differences), r2.shape)

    def _by_differences(self, pairs: Array) -> Array:
        """Squared distances of pairs given by their positions in the flattened table."""
        x, y = self.draws.uncentred(self.rows), self.draws.uncentred(self.columns)
        xp = namespace(x)
        (a, d), b = x.shape[-2:], y.shape[-2]
        x, y = (xp.reshape(z, (-1, d)) for z in (x, y))
        row = pairs // b
        column = row // a * b + pairs % b
        squares = []
        for chunk in pieces(pairs.shape[0], d, self.measure.budget, x):
            gap = xp.take(x, row[chunk], axis=0) - xp.take(y, column[chunk], axis=0)
            squares.append(sum_of_squares(gap))
        return xp.concat(squares)
