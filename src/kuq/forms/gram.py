"""Draws under a radial kernel: all distances from one Gram matrix of the pooled draws.

‖x−y‖² = ‖x‖² + ‖y‖² − 2x·y of draws centred on their mean is a matrix product, many times faster
than differences. It loses digits for draws that are close against their distance from the centre;
those pairs are computed again by differences, or from the centre of their own member, so that
every distance is right to 1e-13. Values must be readable and have 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias, final

import numpy as np

from kuq._array import Array, any_true, from_numpy, namespace, sum_of_squares
from kuq._threads import free_workers, in_threads
from kuq.distributions.atoms import Points
from kuq.distributions.laws import Law, Stack, draws_of, in_one_row
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


class Draws(NamedTuple):
    """Draws (…, A, d), of which no copy is held: some at a time are taken."""

    shape: tuple[int, ...]
    #: one of the arrays
    like: Array
    #: some draws, and some of their coordinates, from a centre
    centred: Callable[[slice, slice], Array]
    #: some draws as they are
    value: Callable[[slice], Array]
    #: some coordinates of one batch entry from the centre, (A, d)
    entry: Callable[[int, slice], Array] | None = None


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
        if stack.member_count == 1:
            value = _entropies(measure, stack.groups[0])
            return Statistics(value, xp.zeros_like(value[0, ...]))
        within, between, tight = _pooled_sums(measure, stack)

        def around_members(some: Array) -> Array:
            part, own = stack.take(some), measure.at(some)
            return xp.concat([_entropies(own, group) for group in part.groups], axis=0)

        entropies = recomputed(within, tight, around_members)
        w = stack.member_weights()[:, None]
        dispersion = 2 * (between - xp.sum(w * (1 - w) * entropies, axis=0))
        lost = (dispersion <= 2 * _CLOSE_MEMBERS * between) & (between > 0)
        return Statistics(entropies, dispersion, lost)


def _entropies(measure: Measure, law: Law) -> Array:
    """H of every member, (m, n), each centred on its own mean."""
    value, w = draws_of(law), law.atom_weights()
    x = _around(value, namespace(value).mean(value, axis=-2, keepdims=True))
    order = from_numpy(np.arange(law.count), value)

    def block(part: slice, rest: slice) -> tuple[Array, ...]:
        table = Table(measure, x, part, x, rest)
        r2, lost = table.squared_distances(order[part, None] < order[rest])
        k = _excess(measure, table.mended(r2, lost))
        return (_weighted_sum(k, w[..., part], w[..., rest]),)

    return _added(x, x, block, _upper_blocks(measure, x))[0]


def _pooled_sums(measure: Measure, stack: Stack) -> tuple[Array, Array, Array]:
    """Sums over pairs of draws i < j: within members, (M, n), and between them, (n,).

    Also the entries in which draws of one member are too close for the common centre, (n,).
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

    def owned(some: slice) -> Array:
        """One in the column of a draw's member, zero in all others, (rows, M)."""
        return xp.astype(member[some, None] == members, one.dtype)

    def block(part: slice, rest: slice) -> tuple[Array, Array, Array]:
        table = Table(measure, x, part, x, rest)
        r2, lost = table.squared_distances(order[part, None] < order[rest])
        tight = xp.zeros_like(one)
        if any_true(lost):
            inside = lost & (member[part, None] == member[rest])
            tight = xp.where(xp.any(inside, axis=(-2, -1)), one, tight)
            r2 = table.mended(xp.where(inside, xp.zeros_like(r2), r2), lost & ~inside)
        by_member = _excess(measure, r2) @ (weights[:, rest, :] * owned(rest))
        by_member = weights[:, part, :] * by_member  # (n, rows, M)
        own = by_member * owned(part)
        between = xp.sum((owned(part) @ w) * ((by_member - own) @ w), axis=-1)
        return xp.sum(own, axis=1), between, tight

    blocks = _upper_blocks(measure, x, stack.member_count)
    within, between, tight = _added(x, x, block, blocks)
    return xp.matrix_transpose(within), between, tight > 0


def pooled_draws(stack: Stack) -> Draws:
    """The draws of all members along one axis, (n, A, d), from a common centre."""
    xp = namespace(stack.reference)
    values = [draws_of(group) for group in stack.groups]
    count = sum(x.shape[0] * x.shape[2] for x in values)
    some = -(-_CENTRAL_DRAWS // stack.member_count)
    central = [x[:, :, :some, :] for x in values]
    centre = sum(xp.sum(x, axis=(0, 2), keepdims=True) for x in central)
    centre = centre / sum(x.shape[0] * x.shape[2] for x in central)
    return Draws(
        (stack.batch_count, count, stack.groups[0].dimension),
        centre,
        lambda rows, some: (
            in_one_row(_some_draws([x[..., some] for x in values], rows)) - centre[0, ..., some]
        ),
        lambda rows: in_one_row(_some_draws(values, rows)),
        lambda n, some: in_one_row(
            [x[:, n : n + 1, :, some] - centre[:, n : n + 1, :, some] for x in values]
        )[0],
    )


def excess_rows(measure: Measure, x: Draws, rows: slice) -> Array:
    """k − k(x, x) of some draws and all draws, (n, rows, A)."""
    table = Table(measure, x, rows, x, slice(0, x.shape[-2]))
    return _excess(measure, table.mended(*table.squared_distances(None)))


def _some_draws(values: list[Array], rows: slice) -> list[Array]:
    """Parts of arrays (m, n, A, d) that hold some of the draws, counted over all groups."""
    found = []
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
            found.append(x[last : last + 1, :, low % count : high % count, :])
            continue
        if low % count:
            found.append(x[first - 1 : first, :, low % count :, :])
        if first < last:
            found.append(x[first:last, ...])
        if high % count:
            found.append(x[last : last + 1, :, : high % count, :])
    return found


def _around(value: Array, centre: Array) -> Draws:
    shape = tuple(value.shape)
    return Draws(
        shape,
        value,
        lambda rows, some: value[..., rows, some] - centre[..., some],
        lambda rows: value[..., rows, :],
    )


Blocks: TypeAlias = list[tuple[slice, slice]]


def _upper_blocks(measure: Measure, x: Draws, columns: int = 1) -> Blocks:
    """Blocks of the table of all pairs, without those below the diagonal.

    ``columns``: numbers that a block has for each of its rows beside the table.
    """
    return [
        (rows, others)
        for rows, others in _blocks(measure, x, x, columns)
        if others.stop > rows.start
    ]


def _blocks(measure: Measure, x: Draws, y: Draws, columns: int = 1) -> Blocks:
    """The table of x and y in blocks: square ones need the fewest numbers of x and y."""
    lead = math.prod(np.broadcast_shapes(x.shape[:-2], y.shape[:-2]))
    a, b = x.shape[-2], y.shape[-2]
    # A table as large as the draws, or as the coordinates of one product, is no burden.
    room = max(measure.budget, max(a, b) * min(x.shape[-1], COORDINATES))
    room = max(1, min(room, measure.most(x.like)) // max(1, lead))
    threads = _threads(x, y)
    if a * max(b, columns) <= room and threads == 1:
        return [(slice(0, a), slice(0, b))]
    side = max(1, min(math.isqrt(room), room // columns))
    if threads > 1:  # several blocks per thread, as a core may be busy with something else
        side = max(1, min(side, -(-max(a, b) // (2 * threads))))
    return [
        (slice(i, min(i + side, a)), slice(j, min(j + side, b)))
        for i in range(0, a, side)
        for j in range(0, b, side)
    ]


def _added(
    x: Draws, y: Draws, block: Callable[[slice, slice], tuple[Array, ...]], blocks: Blocks
) -> tuple[Array, ...]:
    """What the blocks of the table of x and y give, summed in their order."""
    results = in_threads(lambda place: block(*place), blocks, _threads(x, y))
    return tuple(sum(parts[1:], start=parts[0]) for parts in zip(*results, strict=True))


def _threads(x: Draws, y: Draws) -> int:
    """How many blocks run side by side."""
    work = math.prod(x.shape) * y.shape[-2]
    small = work < _SMALLEST_FOR_THREADS or not isinstance(x.like, np.ndarray)
    return 1 if small else free_workers()


def _weighted_sum(k: Array, w: Array, v: Array) -> Array:
    xp = namespace(k)
    return xp.sum(w * xp.sum(k * v[..., None, :], axis=-1), axis=-1)


def _excess(measure: Measure, r2: Array) -> Array:
    """k − k(x, x)."""
    assert isinstance(measure.kernel, Radial)
    return measure.kernel.excess(r2, measure.width(2))


class Table(NamedTuple):
    """The pairs of some draws x and some draws y."""

    measure: Measure
    x: Draws
    rows: slice
    y: Draws
    columns: slice

    def squared_distances(self, kept: Array | None) -> tuple[Array, Array]:
        """‖x_i − y_j‖², (…, A, B), zero where not kept, and which of them have lost digits."""
        if self.x.shape[-1] <= _FEW_COORDINATES:
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
        """‖x_i‖² + ‖y_j‖² and x_i·y_j, over pieces of the coordinates."""
        if self._is_square():
            alone = self.x.entry is not None and is_large(*self.x.shape[-2:])
            product = self._product_by_entry() if alone else self._sums(with_norms=False)[0]
            row = column = namespace(product).linalg.diagonal(product)
        else:
            product, row, column = self._sums(with_norms=True)
        return row[..., :, None] + column[..., None, :], product

    def _sums(self, with_norms: bool) -> tuple[Array, ...]:
        """Σ x_i·y_j over the coordinates, and Σ x_i² and Σ y_j² if asked for."""
        d = self.x.shape[-1]
        lead = max(1, *(math.prod(z.shape[:-2]) for z in (self.x, self.y)))
        rows = lead * max(len(range(*self.rows.indices(self.x.shape[-2]))), 1)
        columns = lead * max(len(range(*self.columns.indices(self.y.shape[-2]))), 1)
        each = max(rows, columns)
        step = max(
            1,
            min(
                max(COORDINATES, self.measure.budget // each),
                self.measure.most(self.x.like) // each,
            ),
        )
        totals: list[Array | float] = [0.0] * (3 if with_norms else 1)
        for start in range(0, d, step):
            some = slice(start, min(start + step, d))
            a = self.x.centred(self.rows, some)
            # The product of a matrix with its own transpose costs half of another product.
            same = self.y is self.x and self.rows == self.columns
            b = a if same else self.y.centred(self.columns, some)
            found = [a @ namespace(a).matrix_transpose(b)]
            if with_norms:
                found += [sum_of_squares(a), sum_of_squares(b)]
            totals = [total + part for total, part in zip(totals, found, strict=True)]
        return tuple(totals)

    def _is_square(self) -> bool:
        """Whether these are all pairs of some draws."""
        return self.x is self.y and self.rows == self.columns == slice(0, self.x.shape[-2])

    def _product_by_entry(self) -> Array:
        """The same for draws that fill the cache: one batch entry at a time."""
        n, count, d = self.x.shape
        assert self.x.entry is not None
        step = max(1, min(COORDINATES, self.measure.most(self.x.like) // count))
        products = []
        for k in range(n):
            total = 0.0
            for start in range(0, d, step):
                a = self.x.entry(k, slice(start, min(start + step, d)))
                total = total + a @ namespace(a).matrix_transpose(a)
            products.append(total)
        return namespace(products[0]).stack(products)

    def _values(self) -> tuple[Array, Array]:
        return self.x.value(self.rows), self.y.value(self.columns)

    def _by_coordinates(self) -> Array:
        x, y = self._values()
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
        x, y = self._values()
        xp = namespace(x)
        (a, d), b = x.shape[-2:], y.shape[-2]
        lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        x = xp.reshape(xp.broadcast_to(x, (*lead, a, d)), (-1, d))
        y = xp.reshape(xp.broadcast_to(y, (*lead, b, d)), (-1, d))
        row = pairs // b
        column = row // a * b + pairs % b
        found = []
        for part in pieces(pairs.shape[0], d, self.measure.budget, x):
            gap = xp.take(x, row[part], axis=0) - xp.take(y, column[part], axis=0)
            found.append(sum_of_squares(gap))
        return xp.concat(found)
