"""Sums over the coordinates of low-rank normals, at many scales at once.

For every node x of ``scale`` (T, …): Σ_i x/(1 + x v_i) y_i y_i', a Gram matrix, and Σ_i
log(1 + x v_i), where v is a vector of variances and y_i are the columns of ``rows`` (…, m, d).
Rows, because a weight for every coordinate then multiplies long contiguous vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kuq._array import Array, detach, epsilon, is_traced, moved_axis, namespace
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
        part, back = slice(start, start + step), len(lead) - axis
        pieces = [
            (_cut(a, before, a.ndim - after - back, part), before, after)
            for a, before, after in arrays
        ]
        results.append(in_pieces(function, size, pieces))
    xp = namespace(*whole)
    return tuple(xp.concat(list(parts), axis=axis + 1) for parts in zip(*results, strict=True))


def _room(*arrays: Array) -> int:
    """Numbers of one product. The gradient of a part fills a whole array: fewer, larger parts."""
    recorded = any(getattr(array, "requires_grad", False) for array in arrays)
    return RECORDED_ELEMENTS if recorded else CACHE


def _cut(array: Array, first: int, axis: int, part: slice) -> Array:
    """A part along one axis, unless the array broadcasts along it."""
    if axis < first or array.shape[axis] == 1:
        return array
    return array[(*(slice(None),) * axis, part, ...)]


def _sums(scale: Array, rows: Array, variance: Array) -> tuple[Array, Array]:
    if is_traced(scale) or is_traced(variance) or is_traced(rows):
        return _all_at_once(scale, rows, variance)
    series = _plan(scale, variance)
    if series is None:
        return _node_by_node(scale, rows, variance)
    return _by_series(scale, rows, variance, series)


def _all_at_once(scale: Array, rows: Array, variance: Array) -> tuple[Array, Array]:
    xp = namespace(rows)
    spread = scale[..., None] * variance
    gram = weighted_gram(scale[..., None] / (1 + spread), rows, rows)
    return gram, xp.sum(xp.log1p(spread), axis=-1)


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
    return _unflatten(moved_axis(weight, 0, -2) @ xp.matrix_transpose(products), m, n)


def _unflatten(flat: Array, m: int, n: int) -> Array:
    """(…, T, m·n) to (T, …, m, n)."""
    xp = namespace(flat)
    flat = moved_axis(flat, -2, 0)
    return xp.reshape(flat, (*flat.shape[:-1], m, n))


def by_node(function: Callable[..., Array], weight: Array, *others: Array) -> Array:
    """A function of weights (T, …, d) and others (T, …), for large weights one node at a time."""
    nodes = weight.shape[0]
    # A weighted copy of the rows is an order of magnitude larger than the weights.
    if nodes == 1 or is_traced(weight) or 10 * math.prod(weight.shape) <= _room(weight):
        return function(weight, *others)
    parts = [function(*(x[k : k + 1, ...] for x in (weight, *others))) for k in range(nodes)]
    return namespace(weight).concat(parts, axis=0)


def _node_by_node(scale: Array, rows: Array, variance: Array) -> tuple[Array, Array]:
    xp = namespace(rows)
    spread = scale[..., None] * variance
    # Both sides of the product are one array, which BLAS turns into half the work. The scale
    # stays outside of the root, whose gradient at zero is infinite.
    root, rows = 1 / xp.sqrt(1 + spread), rows[None, ...]
    gram = by_node(lambda root: _square(root[..., None, :] * rows), root)
    return scale[..., None, None] * gram, xp.sum(xp.log1p(spread), axis=-1)


def _square(rows: Array) -> Array:
    return rows @ namespace(rows).matrix_transpose(rows)


# The series. For variances c + h s with |s| <= 1 the Chebyshev series of 1/(1 + x v) and of
# log(1 + x v) in s have coefficients in closed form, all powers of one number q(x) < 1:
#     1/(1 + x v) = (1 + 2 Σ (-q)^k T_k(s)) / root,    root² = (1 + x(c - h))(1 + x(c + h)),
#     log(1 + x v) = log((1 + xc + root)/2) - 2 Σ (-q)^k T_k(s)/k,    q = xh/(1 + xc + root).
# So the coordinates are summed once for each term and not once for each node. In high dimension
# affinities vanish long before xv reaches one; q is small and few terms are needed.


class _Series(NamedTuple):
    terms: int
    centre: Array
    half: Array
    #: root - 1 and q at every node
    excess: Array
    ratio: Array


def _plan(scale: Array, variance: Array) -> _Series | None:
    """The series, where it has fewer terms than there are nodes and loses no digits."""
    nodes = scale.shape[0]
    if nodes < 4:
        return None
    xp = namespace(variance)
    fixed = detach(variance)
    low, high = xp.min(fixed, axis=-1), xp.max(fixed, axis=-1)
    centre = (low + high) / 2
    # Not too narrow: a series in which equal variances had no part would have no gradient.
    half = xp.maximum((high - low) / 2, centre / 8)
    # Where few coordinates have all the variance, the logarithm of the centre is far too large.
    usable = (centre > 0) & xp.isfinite(centre) & (centre < 8 * xp.mean(fixed, axis=-1))
    if not bool(xp.all(usable)):
        return None
    low, high = scale * (centre - half), scale * (centre + half)
    first, last = xp.sqrt(1 + low), xp.sqrt(1 + high)
    ratio = scale * half / (1 + scale * centre + first * last)
    terms = _terms_needed(float(xp.max(detach(ratio))), epsilon(variance), nodes)
    if terms is None:
        return None
    # root - 1 for small x, from sqrt(1 + z) - 1 = z/(1 + sqrt(1 + z))
    excess = low / (1 + first) * last + high / (1 + last)
    return _Series(terms, centre, half, excess, ratio)


def _terms_needed(ratio: float, precision: float, nodes: int) -> int | None:
    """How many terms make the weights right to ``precision``, and their gradients to 1e-11.

    The rest of the series is at most 2 q^n (1 + q)/(1 - q)² of the smallest weight; a derivative
    of T_n is larger by n², and by 1/q against that of the weight.
    """
    if not ratio < 1:  # a variance of zero beside a node that is very far out
        return None
    for terms in range(2, nodes):
        rest = 2 * ratio**terms * (1 + ratio) / (1 - ratio) ** 2
        if rest <= precision and terms**2 * ratio ** (terms - 1) <= 1e-11:
            return terms
    return None


def _by_series(scale: Array, rows: Array, variance: Array, series: _Series) -> tuple[Array, Array]:
    xp = namespace(rows)
    terms, centre, half, excess, ratio = series
    m, d = rows.shape[-2:]
    polynomials = _chebyshev((variance - centre[..., None]) / half[..., None], terms)

    logs = d * xp.log1p((scale * centre + excess) / 2)
    power = -ratio
    for k in range(1, terms + 1):
        logs = logs - 2 / k * power * xp.sum(polynomials[k], axis=-1)
        power = -ratio * power

    coefficients = [scale / (1 + excess)]
    coefficients.append(-2 * ratio * coefficients[0])
    for _ in range(2, terms):
        coefficients.append(-ratio * coefficients[-1])
    grams = _chebyshev_grams(polynomials, rows, terms)
    flat = xp.reshape(grams, (*grams.shape[:-2], m * m))
    flat = moved_axis(xp.stack(coefficients, axis=-1), 0, -2) @ flat
    return _unflatten(flat, m, m), logs


def _chebyshev(s: Array, degree: int) -> list[Array]:
    """T_0 … T_degree."""
    values = [namespace(s).ones_like(s), s]
    for _ in range(1, degree):
        values.append(2 * s * values[-1] - values[-2])
    return values


def _chebyshev_grams(polynomials: list[Array], rows: Array, terms: int) -> Array:
    """rows diag(T_k) rows' for k < terms, (…, terms, m, m).

    With T_(a+b) = 2 T_a T_b - T_(b-a) only every other term needs a weighted copy of the rows.
    """
    xp = namespace(rows)
    lead = np.broadcast_shapes(polynomials[0].shape[:-1], rows.shape[:-2])
    lower, upper = rows, polynomials[1][..., None, :] * rows
    grams = [xp.broadcast_to(_square(rows), (*lead, *rows.shape[-2:-1] * 2))]
    grams.append(lower @ xp.matrix_transpose(upper))
    for k in range(2, terms):
        if k % 2 == 0:
            lower = upper
            grams.append(2 * _square(lower) - grams[0])
        else:
            upper = polynomials[(k + 1) // 2][..., None, :] * rows
            grams.append(2 * (lower @ xp.matrix_transpose(upper)) - grams[1])
    return xp.stack(grams, axis=-3)
