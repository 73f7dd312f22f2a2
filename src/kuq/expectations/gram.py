"""Draws under a radial kernel: all distances from one Gram matrix of the pooled draws.

‖x−y‖² = ‖x‖² + ‖y‖² − 2x·y of draws centred on their mean is a matrix product, many times faster
than differences. It loses digits for draws that are close against their distance from the centre;
those pairs are computed again by differences, so that every distance is right to 1e-13. Values
must be readable and have 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from kuq._array import Array, from_numpy, namespace
from kuq.distributions.laws import Law, Stack
from kuq.expectations.atoms import Measure
from kuq.expectations.tiles import pieces, recomputed
from kuq.kernels.base import Radial

Statistics = Callable[[Measure, Stack], tuple[Array, Array]]

#: Squared distances below this fraction of the squared norms are computed by differences.
_CLOSE_DRAWS = 4e-3
#: Dispersions below this fraction of the distances between members have lost their digits.
_CLOSE_MEMBERS = 1e-6
#: Up to here differences of single coordinates are as cheap as a matrix product, and exact.
_FEW_COORDINATES = 3


class Draws(NamedTuple):
    """Draws (…, A, d) as they are, for differences, and from a centre, for products."""

    value: Array
    centred: Array

    @staticmethod
    def around(value: Array, centre: Array) -> Draws:
        few = value.shape[-1] <= _FEW_COORDINATES
        return Draws(value, value if few else value - centre)

    def rows(self, part: slice) -> Draws:
        return Draws(self.value[..., part, :], self.centred[..., part, :])


def entropy(measure: Measure, law: Law) -> Array:
    """H of every member, (lead…), each centred on its own mean."""
    return _over_pairs(measure, law.atoms.value, law.atom_weights(), np.arange(law.count))


def cross(measure: Measure, p: Law, q: Law) -> Array:
    """Σ w_i v_j (k(x_i, y_j) − k(x, x)) of two sets of draws, (lead…)."""
    centre = _centre(p.atoms.value)
    x, y = (Draws.around(law.atoms.value, centre) for law in (p, q))
    w, v = p.atom_weights(), q.atom_weights()
    total = None
    for part in _row_blocks(measure, x, y):
        k = _excess(measure, x.rows(part), y, None)
        piece = _weighted_sum(k, w[..., part], v)
        total = piece if total is None else total + piece
    assert total is not None
    return total


def statistics(measure: Measure, stack: Stack, by_pairs: Statistics) -> tuple[Array, Array]:
    """H of every member, (M, n), and the dispersion of the members, (n,).

    ``by_pairs`` does the batch entries whose members are so close that the sums cancel.
    """
    xp = namespace(stack.reference)
    entropies = xp.concat([entropy(measure, group) for group in stack.groups], axis=0)
    if stack.member_count == 1:
        return entropies, xp.zeros_like(entropies[0, ...])
    w = stack.member_weights()[:, None]
    values, weights, owners = pooled(stack)
    between = 2 * _over_pairs(measure, values, weights, owners)
    dispersion = between - 2 * xp.sum(w * (1 - w) * entropies, axis=0)
    lost = (dispersion <= _CLOSE_MEMBERS * between) & (between > 0)
    return entropies, recomputed(
        dispersion, lost, lambda some: by_pairs(measure.at(some), stack.take(some))[1]
    )


def pooled(stack: Stack) -> tuple[Array, Array, np.ndarray]:
    """All draws (n, A, d), their weights in the mixture (n or 1, A), and their members (A,)."""
    xp = namespace(stack.reference)
    w = stack.member_weights()[:, None, None]
    values, weights, owners = [], [], []
    for start, group in stack.offsets():
        m, n, count, d = group.atoms.value.shape
        values.append(xp.reshape(xp.permute_dims(group.atoms.value, (1, 0, 2, 3)), (n, m * count, d)))
        own = w[start : start + m] * group.atom_weights()
        own = xp.broadcast_to(own, (m, own.shape[1], count))
        weights.append(xp.reshape(xp.permute_dims(own, (1, 0, 2)), (own.shape[1], m * count)))
        owners.append(start + np.repeat(np.arange(m), count))
    if len(values) == 1:
        return values[0], weights[0], owners[0]
    rows = max(part.shape[0] for part in weights)
    full = [xp.broadcast_to(part, (rows, part.shape[1])) for part in weights]
    return xp.concat(values, axis=1), xp.concat(full, axis=1), np.concatenate(owners)


def _centre(value: Array) -> Array:
    return namespace(value).mean(value, axis=-2, keepdims=True)


def _over_pairs(measure: Measure, value: Array, weights: Array, owners: np.ndarray) -> Array:
    """Σ w_i w_j (k(x_i, x_j) − k(x, x)) over draws of ascending owners o_i < o_j, (lead…)."""
    xp = namespace(value)
    x = Draws.around(value, _centre(value))
    order = from_numpy(owners, value)
    total = xp.zeros_like(value[..., 0, 0])
    for part in _row_blocks(measure, x, x):
        rest = slice(part.start, None)  # owners ascend: nothing to do before the diagonal
        kept = order[part, None] < order[rest]
        k = _excess(measure, x.rows(part), x.rows(rest), kept)
        total = total + _weighted_sum(k, weights[..., part], weights[..., rest])
    return total


def _row_blocks(measure: Measure, x: Draws, y: Draws) -> Iterator[slice]:
    """Rows whose distances to all columns take no more than the budget, or than the draws."""
    shapes = x.value.shape, y.value.shape
    room = max(measure.budget, *map(math.prod, shapes))
    lead = math.prod(np.broadcast_shapes(*(shape[:-2] for shape in shapes)))
    return pieces(shapes[0][-2], lead * shapes[1][-2], room, x.value)


def _weighted_sum(k: Array, w: Array, v: Array) -> Array:
    xp = namespace(k)
    return xp.sum(w * (k @ v[..., None])[..., 0], axis=-1)


def _excess(measure: Measure, x: Draws, y: Draws, kept: Array | None) -> Array:
    """k − k(x, x) between draws, (…, A, B), and zero for pairs that are not kept."""
    assert isinstance(measure.kernel, Radial)
    return measure.kernel.excess(_squared_distances(measure, x, y, kept), measure.width(2))


def _squared_distances(measure: Measure, x: Draws, y: Draws, kept: Array | None) -> Array:
    xp = namespace(x.value)
    if x.value.shape[-1] <= _FEW_COORDINATES:
        r2 = _by_coordinates(x.value, y.value)
        return r2 if kept is None else xp.where(kept, r2, xp.zeros_like(r2))
    a, b = x.centred, y.centred
    norms = xp.vecdot(a, a)[..., :, None] + xp.vecdot(b, b)[..., None, :]
    r2 = norms - 2 * (a @ xp.matrix_transpose(b))
    lost = r2 < _CLOSE_DRAWS * norms
    if kept is not None:
        r2 = xp.where(kept, r2, xp.zeros_like(r2))
        lost = lost & kept
    flat = recomputed(
        xp.reshape(r2, (-1,)),
        xp.reshape(lost, (-1,)),
        lambda pairs: _by_differences(measure, x.value, y.value, pairs),
    )
    return xp.reshape(flat, r2.shape)


def _by_coordinates(x: Array, y: Array) -> Array:
    gap = x[..., :, None, 0] - y[..., None, :, 0]
    r2 = gap * gap
    for c in range(1, x.shape[-1]):
        gap = x[..., :, None, c] - y[..., None, :, c]
        r2 = r2 + gap * gap
    return r2


def _by_differences(measure: Measure, x: Array, y: Array, pairs: Array) -> Array:
    """Squared distances of pairs given by their positions in the flattened table."""
    xp = namespace(x)
    (a, d), b = x.shape[-2:], y.shape[-2]
    lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x = xp.reshape(xp.broadcast_to(x, (*lead, a, d)), (-1, d))
    y = xp.reshape(xp.broadcast_to(y, (*lead, b, d)), (-1, d))
    row = pairs // b
    column = row // a * b + pairs % b
    found = []
    for part in pieces(pairs.shape[0], d, measure.budget, x):
        gap = xp.take(x, row[part], axis=0) - xp.take(y, column[part], axis=0)
        found.append(xp.vecdot(gap, gap))
    return xp.concat(found)
