"""The comparison of two low-rank normals that may nearly agree, or whose factors are dependent.

In units of the diagonal W of C (weight = 4t/W, notation of ``low_rank``) the matrices A, B are
(1 +- skew) + (mean +- half)'(mean +- half), and C is 1 + mean'mean + half'half. Everything small
is built from ``half`` and ``skew``, so nothing cancels. Factors are rows (…, r, d).

Limits: the logarithms of determinants have an absolute error of eps * 4t|U|^2/(1 + 4tD) where
the columns of the factors are linearly dependent (zero columns are harmless). Factors that
agree only up to a rotation, and variances that differ only within the span of the factors
(d > r), give the gap to eps absolutely instead of relatively.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kuq._array import Array, namespace
from kuq.expectations.low_rank_sums import by_node, in_pieces, weighted_gram
from kuq.expectations.small_matrices import (
    Factor,
    apply,
    congruence,
    eye,
    factorise,
    outer,
    small_eigenvalues,
    twice_symmetric,
)


class Comparison(NamedTuple):
    """logdet(C/W), the shift, and gap and tilt where the laws are ``near`` enough for them."""

    log_det: Array
    shift: Array
    near: Array
    gap: Array
    tilt: Array


def compare(
    t: Array, rows1: Array, diag1: Array, rows2: Array, diag2: Array, delta: Array
) -> Comparison:
    """All of ``Comparison`` for the nodes t, in pieces that fit the cache."""
    arrays = [(t, 1, 0), (rows1, 0, 2), (diag1, 0, 1), (rows2, 0, 2), (diag2, 0, 1), (delta, 0, 1)]
    return Comparison(*in_pieces(_compare, 2 * math.prod(rows1.shape[-2:]), arrays))


def _compare(
    t: Array, rows1: Array, diag1: Array, rows2: Array, diag2: Array, delta: Array
) -> Comparison:
    xp = namespace(t, delta)
    r, d = rows1.shape[-2:]
    # A column may change its sign freely; choose the sign that makes `half` small.
    opposed = xp.sum(rows1 * rows2, axis=-1, keepdims=True) < 0
    rows2 = xp.where(opposed, -rows2, rows2)
    lead = np.broadcast_shapes(t.shape[1:], delta.shape[:-1])
    mean = xp.broadcast_to((rows1 + rows2) / 2, (*lead, r, d))
    half = xp.broadcast_to((rows1 - rows2) / 2, (*lead, r, d))
    delta = xp.broadcast_to(delta, (*lead, d))
    node = t[..., None]
    width = 1 + 2 * node * (diag1 + diag2)
    # With d <= r the diagonal parts hide inside the span of the factors, where the low-rank
    # form of the gap cancels; there the d x d form is both exact and cheaper.
    compare = _compare_dense if d <= r else _compare_low_rank
    return compare(4 * node / width, 2 * node * (diag1 - diag2) / width, mean, half, delta)


def _compare_dense(
    weight: Array, skew: Array, mean: Array, half: Array, delta: Array
) -> Comparison:
    """All from N = C^-1/2 (A - B) C^-1/2 / 2: gap = -logdet(I - N^2)/4, tilt = tr atanh(N)/2."""
    xp = namespace(weight)
    root = xp.sqrt(weight)
    log_det, _, inverse = factorise(outer(root, mean, mean) + outer(root, half, half))
    shift = xp.sum(apply(inverse, root * delta) ** 2, axis=-1) / 4
    change = twice_symmetric(outer(root, mean, half))
    change = change + skew[..., None] * eye(change)
    near, values = small_eigenvalues(congruence(inverse, change))
    gap = -xp.sum(xp.log1p(-(values**2)), axis=-1) / 4
    return Comparison(log_det, shift, near, gap, xp.sum(xp.atanh(values), axis=-1) / 2)


def _compare_low_rank(
    weight: Array, skew: Array, mean: Array, half: Array, delta: Array
) -> Comparison:
    """r x r matrices only: `mean` is eliminated first, then what is left of `half`."""
    xp = namespace(weight)
    r = mean.shape[-2]
    other = xp.concat([half, delta[..., None, :]], axis=-2)
    gram = weighted_gram(weight, mean, xp.concat([mean, other], axis=-2))
    gram, links = gram[..., :r], gram[..., r:]
    first = factorise(gram)
    inverse = first[2]
    fit = xp.matrix_transpose(inverse) @ (inverse @ links)
    schur = by_node(lambda weight, fit: _residual_gram(weight, fit, mean, other), weight, fit)
    schur = schur + xp.matrix_transpose(fit) @ fit
    second = factorise(schur[..., :r, :r])

    along = xp.matrix_transpose(second[2]) @ (second[2] @ schur[..., :r, r:])
    around = fit[..., r:] - fit[..., :r] @ along
    remote = delta - _combine(along, half) - _combine(around, mean)
    shift = xp.sum(weight * remote**2, axis=-1)
    shift = (shift + xp.sum(along**2 + around**2, axis=(-2, -1))) / 4

    near = xp.max(xp.abs(skew), axis=-1) < 0.5
    skew = xp.where(near[..., None], skew, xp.zeros_like(skew))
    link = links[..., :r]
    change, bend = _differences(weight, skew, mean, half)
    change = change + twice_symmetric(link)
    bend = bend + xp.matrix_transpose(fit[..., :r]) @ link
    near_too, gap, tilt = _gap_and_tilt(change, bend, gram, schur[..., :r, :r], first, second)
    gap = gap - xp.sum(xp.log1p(-(skew**2)), axis=-1) / 4
    tilt = tilt + xp.sum(xp.atanh(skew), axis=-1) / 2
    return Comparison(first[0] + second[0], shift, near & near_too, gap, tilt)


def _residual_gram(weight: Array, fit: Array, mean: Array, other: Array) -> Array:
    """The Gram matrix of what the least-squares `fit` by `mean` leaves of `other`.

    Residuals instead of Schur complements: errors enter squared, so that nothing
    is lost where `half` or `delta` lie in the span of `mean` and t is large.
    """
    xp = namespace(weight)
    rest = other - xp.matrix_transpose(fit) @ mean
    return (weight[..., None, :] * rest) @ xp.matrix_transpose(rest)


def _combine(column: Array, rows: Array) -> Array:
    """The sum of rows with the coefficients of a column (…, r, 1)."""
    return (namespace(rows).matrix_transpose(column) @ rows)[..., 0, :]


def _differences(weight: Array, skew: Array, mean: Array, half: Array) -> tuple[Array, Array]:
    """What skew adds to (G1 - G2)/2 and to M = (G1 + G2)/2, the Grams of the laws as below."""
    xp = namespace(weight)
    r, nodes = mean.shape[-2], weight.shape[0]
    odd_weight = weight * skew / (1 - skew**2)
    both = xp.concat([mean, half], axis=-2)
    grams = weighted_gram(xp.concat([odd_weight, odd_weight * skew], axis=0), both, both)
    odd, even = grams[:nodes], grams[nodes:]
    change = twice_symmetric(even[..., :r, r:]) - odd[..., :r, :r] - odd[..., r:, r:]
    bend = even[..., :r, :r] + even[..., r:, r:] - twice_symmetric(odd[..., :r, r:])
    return change, bend


def _gap_and_tilt(
    change: Array, bend: Array, gram: Array, schur: Array, first: Factor, second: Factor
) -> tuple[Array, Array, Array]:
    """The r x r part of gap and tilt, from terms of second and of first order only.

    With G1, G2 the Grams of the laws (det A = det W_A det(I + G1)) and M = (G1 + G2)/2, the
    ratio det A det B / det C^2 has three factors: det(1 - skew^2); det(I - P^2), where P is
    change = (G1 - G2)/2 in units of I + M; and the square of det(I + M) / det(I + gram)
    det(I + schur) = det(I + E), where bend = M - gram - schur and E is of second order in t.
    """
    xp = namespace(gram)
    middle = factorise(gram + schur + bend)[2]
    near, odd = small_eigenvalues(congruence(middle, change))
    # L^-1 (I + M) L^-T - (I + schur), without forming the difference.
    inverse = first[2]
    lowered = inverse @ first[1]
    excess = congruence(inverse, bend) - congruence(lowered, schur)
    excess = excess - twice_symmetric(lowered @ schur @ xp.matrix_transpose(inverse))
    near_too, even = small_eigenvalues(congruence(second[2], excess))
    gap = -xp.sum(xp.log1p(-(odd**2)), axis=-1) / 4 - xp.sum(xp.log1p(even), axis=-1) / 2
    return near & near_too, gap, xp.sum(xp.atanh(odd), axis=-1) / 2
