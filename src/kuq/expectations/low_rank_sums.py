"""Sums over the coordinates of low-rank normals, at many scales at once.

For every node x of ``scale`` (T, …): Σ_i x/(1 + x v_i) y_i y_i', a Gram matrix, and Σ_i
log(1 + x v_i), where v is a vector of variances and y_i are the columns of ``rows`` (…, m, d).
Rows, because a weight for every coordinate then multiplies long contiguous vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from kuq._array import Array, is_traced, moved_axis, namespace
from kuq.tiles import RECORDED_ELEMENTS

#: Numbers in the weighted copies of one product: more would leave the cache.
CACHE = 2**17


def as_rows(factor: Array) -> Array:
    """A contiguous copy of the transpose (a view would keep the short axis innermost)."""
    xp = namespace(factor)
    rows = xp.matrix_transpose(factor)
    return xp.reshape(xp.reshape(rows, (-1,)), rows.shape)


def self_sums(scale: Array, rows: Array, variance: Array) -> tuple[Array, Array]:
    """The sums of one law: Gram matrices (T, …, m, m) and logarithms (T, …)."""
    size = rows.shape[-2] * rows.shape[-1]
    return in_pieces(_sums, size, [(scale, 1, 0), (rows, 0, 2), (variance, 0, 1)])


def pair_sums(
    scale: Array, rows1: Array, rows2: Array, delta: Array, diag1: Array, diag2: Array
) -> tuple[Array, Array]:
    """The sums of pairs of laws, with the rows of both and their difference of means.

    Only the pairs of one piece have these rows side by side; for all they would fill the memory.
    """
    r, d = rows1.shape[-2:]

    def sums(*parts: Array) -> tuple[Array, Array]:
        scale, rows1, rows2, delta, diag1, diag2 = parts
        xp = namespace(delta)
        rows = [rows1, rows2, delta[..., None, :]]
        lead = np.broadcast_shapes(*(x.shape[:-2] for x in rows))
        rows = [xp.broadcast_to(x, (*lead, *x.shape[-2:])) for x in rows]
        return _sums(scale, xp.concat(rows, axis=-2), diag1 + diag2)

    arrays = [(scale, 1, 0), (rows1, 0, 2), (rows2, 0, 2), (delta, 0, 1), (diag1, 0, 1)]
    return in_pieces(sums, (2 * r + 1) * d, [*arrays, (diag2, 0, 1)])


def in_pieces(
    function: Callable[..., tuple[Array, ...]], size: int, arrays: Sequence[tuple[Array, int, int]]
) -> tuple[Array, ...]:
    """A function of arrays with common lead axes, in pieces whose temporaries fit the cache.

    Every array comes with the number of its axes before and after the lead axes, which
    broadcast; ``size`` numbers belong to one entry of the lead. Results are (T, lead…, …).
    """
    whole = [a for a, _, _ in arrays]
    lead = np.broadcast_shapes(*(a.shape[before : a.ndim - after] for a, before, after in arrays))
    count = math.prod(lead)
    room = _room(*whole)
    if count * size <= room or count == 1 or any(is_traced(a) for a in whole):
        return function(*whole)
    axis = next(k for k, length in enumerate(lead) if length > 1)
    step = max(1, room * lead[axis] // (count * size))
    results = []
    for start in range(0, lead[axis], step):
        chunk, back = slice(start, start + step), len(lead) - axis
        pieces = [
            (_cut(a, before, a.ndim - after - back, chunk), before, after)
            for a, before, after in arrays
        ]
        results.append(in_pieces(function, size, pieces))
    xp = namespace(*whole)
    return tuple(xp.concat(list(parts), axis=axis + 1) for parts in zip(*results, strict=True))


def _room(*arrays: Array) -> int:
    """Numbers of one product. The gradient of a part fills a whole array: fewer, larger parts."""
    recorded = any(getattr(array, "requires_grad", False) for array in arrays)
    return RECORDED_ELEMENTS if recorded else CACHE


def _cut(array: Array, first: int, axis: int, chunk: slice) -> Array:
    """A part along one axis, unless the array broadcasts along it."""
    if axis < first or array.shape[axis] == 1:
        return array
    return array[(*(slice(None),) * axis, chunk, ...)]


def _sums(scale: Array, rows: Array, variance: Array) -> tuple[Array, Array]:
    xp = namespace(rows)
    spread = scale[..., None] * variance
    logs = xp.sum(xp.log1p(spread), axis=-1)
    if is_traced(scale) or is_traced(variance) or is_traced(rows):
        return weighted_gram(scale[..., None] / (1 + spread), rows, rows), logs
    # Both sides of the product are one array, which BLAS turns into half the work. The scale
    # stays outside of the root, whose gradient at zero is infinite.
    root, rows = 1 / xp.sqrt(1 + spread), rows[None, ...]
    gram = by_node(lambda root: _square(root[..., None, :] * rows), root)
    return scale[..., None, None] * gram, logs


def weighted_gram(weight: Array, left: Array, right: Array) -> Array:
    """left diag(weight) right': (T, …, d) with (…, m, d) and (…, n, d) to (T, …, m, n)."""
    xp = namespace(weight)
    m, n = left.shape[-2], right.shape[-2]
    if weight.shape[0] < m or not is_traced(weight):
        left, right = left[None, ...], right[None, ...]  # as many axes: no sum in the gradient
        return by_node(lambda w: left @ xp.matrix_transpose(w[..., None, :] * right), weight)
    # Many nodes: the products of the rows are smaller than a weighted copy for each node.
    products = left[..., :, None, :] * right[..., None, :, :]
    products = xp.reshape(products, (*products.shape[:-3], m * n, products.shape[-1]))
    flat = moved_axis(moved_axis(weight, 0, -2) @ xp.matrix_transpose(products), -2, 0)
    return xp.reshape(flat, (*flat.shape[:-1], m, n))


def by_node(function: Callable[..., Array], weight: Array, *others: Array) -> Array:
    """A function of weights (T, …, d) and others (T, …), for large weights one node at a time."""
    nodes = weight.shape[0]
    # A weighted copy of the rows is an order of magnitude larger than the weights.
    if nodes == 1 or is_traced(weight) or 10 * math.prod(weight.shape) <= _room(weight):
        return function(weight, *others)
    parts = [function(*(x[k : k + 1, ...] for x in (weight, *others))) for k in range(nodes)]
    return namespace(weight).concat(parts, axis=0)


def _square(rows: Array) -> Array:
    return rows @ namespace(rows).matrix_transpose(rows)
