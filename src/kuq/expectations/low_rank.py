"""Gaussian-kernel expectations between normal laws whose covariance is diag + factor factor'.

Notation: S = D + U U', A = I + 4t S1, B = I + 4t S2, C = (A + B)/2. The nodes t have shape
(T, ...), one axis before the lead shape of the laws; diag is (..., d), factor (..., d, r) with
r >= 1. Cost O(T d r^2) for each pair. No d x d matrix is formed unless d <= r.

Limits: the logarithms of determinants have an absolute error of eps * 4t|U|^2/(1 + 4tD) where
the columns of the factors are linearly dependent (zero columns are harmless). Factors that
agree only up to a rotation, and variances that differ only within the span of the factors
(d > r), give the gap to eps absolutely instead of relatively.
"""

from __future__ import annotations

import numpy as np

from kuq._array import Array, epsilon, from_numpy, namespace


def log_self_affinity(t: Array, factor: Array, diag: Array) -> Array:
    """log E exp(-t|X-X'|^2) = -1/2 logdet(I + 4t S), relatively accurate for small t."""
    return -_log_det(4 * t, factor, diag) / 2


def overlap(
    t: Array, loc1: Array, factor1: Array, diag1: Array, loc2: Array, factor2: Array, diag2: Array
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """(log_p, log_q, log_c, shift, gap, tilt), each (T, ...), of two normal laws.

    -1/2 logdet of A, B and C; shift = t delta' C^-1 delta; gap = log_p/2 + log_q/2 - log_c;
    tilt = (log_q - log_p)/2. Gap and tilt keep their digits for laws that nearly agree.
    The shift saturates at 1e4, where exp(-shift) is zero.
    """
    xp = namespace(t, loc1)
    d, r = factor1.shape[-2:]
    vectors = (x.shape[:-1] for x in (loc1, diag1, loc2, diag2))
    lead = np.broadcast_shapes(t.shape[1:], *vectors, factor1.shape[:-2], factor2.shape[:-2])
    node = t[..., None]
    width = 1 + 2 * node * (diag1 + diag2)
    weight = 4 * node / width
    skew = 2 * node * (diag1 - diag2) / width
    # Everything small is built from `half` and `skew`. A column may change its sign freely;
    # choose the sign that makes `half` small.
    opposed = xp.sum(factor1 * factor2, axis=-2, keepdims=True) < 0
    factor2 = xp.where(opposed, -factor2, factor2)
    mean = xp.broadcast_to((factor1 + factor2) / 2, (*lead, d, r))
    half = xp.broadcast_to((factor1 - factor2) / 2, (*lead, d, r))
    delta = xp.broadcast_to(loc1 - loc2, (*lead, d))

    # With d <= r the diagonal parts hide inside the span of the factors, where the low-rank
    # form of the gap cancels; there the d x d form is both exact and cheaper.
    compare = _compare_dense if d <= r else _compare_low_rank
    log_det, shift, near, gap, tilt = compare(weight, skew, mean, half, delta)

    log_p = log_self_affinity(t, factor1, diag1)
    log_q = log_self_affinity(t, factor2, diag2)
    log_c = -(xp.sum(xp.log1p(2 * node * (diag1 + diag2)), axis=-1) + log_det) / 2
    # Laws that differ visibly lose nothing in the plain differences.
    plain = (log_p + log_q) / 2 - log_c
    plain = xp.where(plain > 0, plain, xp.zeros_like(plain))
    gap = xp.where(near, gap, plain)
    tilt = xp.where(near, tilt, (log_q - log_p) / 2)
    shift = _saturate(shift)
    shape = (t.shape[0], *lead)
    log_p, log_q, log_c = (xp.broadcast_to(x, shape) for x in (log_p, log_q, log_c))
    return log_p, log_q, log_c, shift, gap, tilt


def point_overlap(
    t: Array, loc: Array, factor: Array, diag: Array, value: Array
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """The same where the second law is a point mass, with lead axes that broadcast.

    The r x r work has the lead shape of the law: give loc (..., 1, d), factor (..., 1, d, r),
    t (T, ..., 1) for values (..., N, d).
    """
    xp = namespace(t, loc)
    node = t[..., None]
    weight = 2 * node / (1 + 2 * node * diag)
    offset = value - loc
    if factor.shape[-2] < factor.shape[-1]:
        root = xp.sqrt(weight)
        log_det, _, inverse = _factorise(_outer(root, factor, factor))
        distance = xp.sum(_apply(inverse, root * offset) ** 2, axis=-1)
    else:
        log_det, _, inverse = _factorise(_gram(weight, factor, factor))
        image = _apply(xp.matrix_transpose(factor), weight * offset)
        part = _apply(xp.matrix_transpose(inverse), _apply(inverse, image))
        rest = offset - _apply(factor, part)
        distance = xp.sum(weight * rest**2, axis=-1) + xp.sum(part**2, axis=-1)
    log_p = log_self_affinity(t, factor, diag)
    log_c = -(log_det + xp.sum(xp.log1p(2 * node * diag), axis=-1)) / 2
    gap = _gap_to_point(t, factor, diag, log_p / 2 - log_c)
    return log_p, xp.zeros_like(log_p), log_c, _saturate(distance / 2), gap, -log_p / 2


def _gap_to_point(t: Array, factor: Array, diag: Array, plain: Array) -> Array:
    """log_p/2 - log_c for a point mass: the sum of log1p(4t^2 l^2/(1 + 4tl))/4 over eigenvalues l.

    The plain difference keeps eps/(tl) of its digits and the first two terms of the series in
    tl are wrong by 14(tl)^2; the two meet where both are below 2e-10.
    """
    xp = namespace(t, factor)
    gram = xp.matrix_transpose(factor) @ factor
    lengths = xp.sum(factor * factor, axis=-1)
    trace = xp.sum(diag + lengths, axis=-1)
    squared = xp.sum(diag * (diag + 2 * lengths), axis=-1) + xp.sum(gram * gram, axis=(-2, -1))
    cubed = xp.sum(diag * diag * (diag + 3 * lengths), axis=-1)
    mixed = xp.matrix_transpose(factor) @ (diag[..., None] * factor)
    cubed = cubed + xp.sum((3 * mixed + gram @ gram) * gram, axis=(-2, -1))
    tiny = t * trace < 3e-6
    small = xp.where(tiny, t, xp.zeros_like(t))
    series = small * small * (squared - 4 * small * cubed)
    return xp.where(tiny, series, xp.where(plain > 0, plain, xp.zeros_like(plain)))


def _log_det(scale: Array, factor: Array, diag: Array) -> Array:
    """logdet(I + scale S)."""
    xp = namespace(scale, factor)
    spread = scale[..., None] * diag
    weight = scale[..., None] / (1 + spread)
    if factor.shape[-2] < factor.shape[-1]:
        gram = _outer(xp.sqrt(weight), factor, factor)
    else:
        gram = _gram(weight, factor, factor)
    return xp.sum(xp.log1p(spread), axis=-1) + _unit_diagonal(gram)[0]


# Comparison of two laws. In units of the diagonal W of C (weight = 4t/W) the matrices A, B are
# (1 +- skew) + (mean +- half)(mean +- half)', and C is 1 + mean mean' + half half'. Returned:
# logdet(C/W), the shift, whether the laws are near enough for gap and tilt, gap and tilt.

_Comparison = tuple[Array, Array, Array, Array, Array]
_Factor = tuple[Array, Array, Array]  # logdet(I + gram), L - I, L^-1


def _compare_dense(
    weight: Array, skew: Array, mean: Array, half: Array, delta: Array
) -> _Comparison:
    """All from N = C^-1/2 (A - B) C^-1/2 / 2: gap = -logdet(I - N^2)/4, tilt = tr atanh(N)/2."""
    xp = namespace(weight)
    root = xp.sqrt(weight)
    log_det, _, inverse = _factorise(_outer(root, mean, mean) + _outer(root, half, half))
    shift = xp.sum(_apply(inverse, root * delta) ** 2, axis=-1) / 4
    change = _twice_symmetric(_outer(root, mean, half))
    change = change + skew[..., None] * _eye(change)
    near, values = _small_eigenvalues(_congruence(inverse, change))
    gap = -xp.sum(xp.log1p(-(values**2)), axis=-1) / 4
    return log_det, shift, near, gap, xp.sum(xp.atanh(values), axis=-1) / 2


def _compare_low_rank(
    weight: Array, skew: Array, mean: Array, half: Array, delta: Array
) -> _Comparison:
    """r x r matrices only: `mean` is eliminated first, then what is left of `half`."""
    xp = namespace(weight)
    r = mean.shape[-1]
    other = xp.concat([half, delta[..., None]], axis=-1)
    gram = _gram(weight, mean, xp.concat([mean, other], axis=-1))
    gram, links = gram[..., :r], gram[..., r:]
    first = _factorise(gram)
    inverse = first[2]
    part = xp.matrix_transpose(inverse) @ (inverse @ links)
    # Least-squares residuals instead of Schur complements: errors enter squared, so that nothing
    # is lost where `half` or `delta` lie in the span of `mean` and t is large.
    rest = other - mean @ part
    schur = xp.matrix_transpose(rest) @ (weight[..., None] * rest)
    schur = schur + xp.matrix_transpose(part) @ part
    second = _factorise(schur[..., :r, :r])

    along = xp.matrix_transpose(second[2]) @ (second[2] @ schur[..., :r, r:])
    remote = rest[..., r:] - rest[..., :r] @ along
    around = part[..., r:] - part[..., :r] @ along
    shift = xp.sum(weight * remote[..., 0] ** 2, axis=-1)
    shift = (shift + xp.sum(along**2 + around**2, axis=(-2, -1))) / 4

    near = xp.max(xp.abs(skew), axis=-1) < 0.5
    skew = xp.where(near[..., None], skew, xp.zeros_like(skew))
    link = links[..., :r]
    change, bend = _differences(weight, skew, mean, half)
    change = change + _twice_symmetric(link)
    bend = bend + xp.matrix_transpose(part[..., :r]) @ link
    near_too, gap, tilt = _gap_and_tilt(change, bend, gram, schur[..., :r, :r], first, second)
    gap = gap - xp.sum(xp.log1p(-(skew**2)), axis=-1) / 4
    tilt = tilt + xp.sum(xp.atanh(skew), axis=-1) / 2
    return first[0] + second[0], shift, near & near_too, gap, tilt


def _differences(weight: Array, skew: Array, mean: Array, half: Array) -> tuple[Array, Array]:
    """What skew adds to (G1 - G2)/2 and to M = (G1 + G2)/2, the Grams of the laws as below."""
    xp = namespace(weight)
    r, nodes = mean.shape[-1], weight.shape[0]
    odd_weight = weight * skew / (1 - skew**2)
    both = xp.concat([mean, half], axis=-1)
    grams = _gram(xp.concat([odd_weight, odd_weight * skew], axis=0), both, both)
    odd, even = grams[:nodes], grams[nodes:]
    change = _twice_symmetric(even[..., :r, r:]) - odd[..., :r, :r] - odd[..., r:, r:]
    bend = even[..., :r, :r] + even[..., r:, r:] - _twice_symmetric(odd[..., :r, r:])
    return change, bend


def _gap_and_tilt(
    change: Array, bend: Array, gram: Array, schur: Array, first: _Factor, second: _Factor
) -> tuple[Array, Array, Array]:
    """The r x r part of gap and tilt, from terms of second and of first order only.

    With G1, G2 the Grams of the laws (det A = det W_A det(I + G1)) and M = (G1 + G2)/2, the
    ratio det A det B / det C^2 has three factors: det(1 - skew^2); det(I - P^2), where P is
    change = (G1 - G2)/2 in units of I + M; and the square of det(I + M) / det(I + gram)
    det(I + schur) = det(I + E), where bend = M - gram - schur and E is of second order in t.
    """
    xp = namespace(gram)
    middle = _factorise(gram + schur + bend)[2]
    near, odd = _small_eigenvalues(_congruence(middle, change))
    # L^-1 (I + M) L^-T - (I + schur), without forming the difference.
    inverse = first[2]
    lowered = inverse @ first[1]
    excess = _congruence(inverse, bend) - _congruence(lowered, schur)
    excess = excess - _twice_symmetric(lowered @ schur @ xp.matrix_transpose(inverse))
    near_too, even = _small_eigenvalues(_congruence(second[2], excess))
    gap = -xp.sum(xp.log1p(-(odd**2)), axis=-1) / 4 - xp.sum(xp.log1p(even), axis=-1) / 2
    return near & near_too, gap, xp.sum(xp.atanh(odd), axis=-1) / 2


# Small matrices.


def _unit_diagonal(gram: Array) -> tuple[Array, Array, Array, Array]:
    """I + gram = (I + hollow) / (scale scale'), with logdet(I + gram) and the least eigenvalue.

    A diagonal of ones makes columns of very different size harmless, and the logarithm of the
    removed diagonal carries the digits of a small Gram matrix.
    """
    xp = namespace(gram)
    diagonal = xp.linalg.diagonal(gram)
    scale = 1 / xp.sqrt(1 + diagonal)
    hollow = scale[..., :, None] * gram * scale[..., None, :] * (1 - _eye(gram))
    values = xp.linalg.eigvalsh(hollow)
    lowest = xp.min(values, axis=-1)
    # Dependent columns and large t: an eigenvalue of I + hollow below its rounding error.
    least = epsilon(gram) - 1
    values = xp.where(values < least, xp.full_like(values, least), values)
    log_det = xp.sum(xp.log1p(diagonal), axis=-1) + xp.sum(xp.log1p(values), axis=-1)
    return log_det, scale, hollow, lowest


def _factorise(gram: Array) -> _Factor:
    """logdet(I + gram), L - I and L^-1 for the Cholesky factor L of I + gram.

    The library's Cholesky gets a ridge with which it cannot fail; one Newton step removes the
    ridge again, and gives L - I the digits that a subtraction would lose.
    """
    xp = namespace(gram)
    log_det, scale, hollow, lowest = _unit_diagonal(gram)
    ridge = 16 * gram.shape[-1] * epsilon(gram)
    ridge = xp.where(lowest < -1, ridge - 1 - lowest, xp.full_like(lowest, ridge))
    lower = xp.linalg.cholesky(hollow + (1 + ridge[..., None, None]) * _eye(gram))
    inverse = xp.linalg.inv(lower) * scale[..., None, :]
    lower = lower / scale[..., :, None] - _eye(gram)
    error = gram - _twice_symmetric(lower) - lower @ xp.matrix_transpose(lower)
    error = _congruence(inverse, error)
    near = xp.max(xp.abs(error), axis=(-2, -1), keepdims=True) < 0.5
    error = xp.where(near, error, xp.zeros_like(error))
    step = xp.tril(error) - error * _eye(gram) / 2
    return log_det, lower + step + lower @ step, inverse - step @ inverse


def _eye(matrix: Array) -> Array:
    return from_numpy(np.eye(matrix.shape[-1]), matrix)


def _gram(weight: Array, left: Array, right: Array) -> Array:
    """left' diag(weight) right: (T, ..., d) with (..., d, m) and (..., d, n) to (T, ..., m, n)."""
    xp = namespace(weight)
    m, n = left.shape[-1], right.shape[-1]
    if weight.shape[0] < m:
        return xp.matrix_transpose(left) @ (weight[..., None] * right)
    # Many nodes: the products of the columns are smaller than a weighted copy for each node.
    products = left[..., :, None] * right[..., None, :]
    products = xp.reshape(products, (*products.shape[:-2], m * n))
    flat = xp.moveaxis(xp.moveaxis(weight, 0, -2) @ products, -2, 0)
    return xp.reshape(flat, (*flat.shape[:-1], m, n))


def _outer(root: Array, left: Array, right: Array) -> Array:
    """diag(root) left right' diag(root), d x d."""
    product = left @ namespace(left).matrix_transpose(right)
    return root[..., :, None] * product * root[..., None, :]


def _apply(matrix: Array, vector: Array) -> Array:
    """matrix @ vector; a lead axis of size one becomes a single product for all its vectors."""
    xp = namespace(matrix)
    if matrix.ndim > 2 and matrix.shape[-3] == 1:
        return vector @ xp.matrix_transpose(matrix[..., 0, :, :])
    return (matrix @ vector[..., None])[..., 0]


def _congruence(matrix: Array, middle: Array) -> Array:
    return matrix @ middle @ namespace(matrix).matrix_transpose(matrix)


def _twice_symmetric(matrix: Array) -> Array:
    return matrix + namespace(matrix).matrix_transpose(matrix)


def _small_eigenvalues(matrix: Array) -> tuple[Array, Array]:
    """Whether all eigenvalues are below one half in size, and then these (zeros otherwise)."""
    xp = namespace(matrix)
    values = xp.linalg.eigvalsh(matrix)
    small = xp.max(xp.abs(values), axis=-1) < 0.5
    return small, xp.where(small[..., None], values, xp.zeros_like(values))


def _saturate(exponent: Array) -> Array:
    """Cut an exponent whose exp(-x) is zero: its gradient, of order t^2, overflows in float32."""
    xp = namespace(exponent)
    return xp.where(exponent < 1e4, exponent, xp.full_like(exponent, 1e4))
