"""Stacks of small matrices I + gram, where gram is positive semidefinite and may be tiny."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from kuq import _linalg as linalg
from kuq._array import Array, epsilon, identity, namespace

#: logdet(I + gram), L - I and L^-1 of the Cholesky factor L.
Factor: TypeAlias = tuple[Array, Array, Array]


class Pivots(NamedTuple):
    """What is left of I + gram when its columns are eliminated one after the other.

    ``logs`` are the logarithms of the pivots, (…, m), relatively accurate for a tiny gram;
    ``explained`` is the part of a column's 1 + gram that those before it took, so that a pivot
    has lost the digits of 1/(1 - explained). Not ``regular``, (…), are matrices that may not be
    definite in this precision; their pivots mean nothing.
    """

    logs: Array
    explained: Array
    regular: Array


def pivots(gram: Array) -> Pivots:
    xp = namespace(gram)
    diagonal = xp.linalg.diagonal(gram)
    # With ones on the diagonal the least eigenvalue is above 1/(1 + largest diagonal).
    regular = xp.max(diagonal, axis=-1) < 0.1 * epsilon(gram) ** -0.5
    hollow = _hollow(gram, diagonal)
    hollow = xp.where(regular[..., None, None], hollow, xp.zeros_like(hollow))
    lower = linalg.cholesky(hollow + eye(gram))
    # The rows of the factor have length one: 1 - pivot without a subtraction.
    explained = xp.sum((lower * (1 - eye(gram))) ** 2, axis=-1)
    return Pivots(xp.log1p(diagonal) + xp.log1p(-explained), explained, regular)


def _hollow(gram: Array, diagonal: Array) -> Array:
    """I + gram, scaled to ones on the diagonal, less those ones."""
    scale = 1 / namespace(gram).sqrt(1 + diagonal)
    return scale[..., :, None] * gram * scale[..., None, :] * (1 - eye(gram))


def unit_diagonal(gram: Array) -> tuple[Array, Array, Array, Array]:
    """I + gram = (I + hollow) / (scale scale'), with logdet(I + gram) and the least eigenvalue.

    A diagonal of ones makes columns of very different size harmless, and the logarithm of the
    removed diagonal carries the digits of a small Gram matrix.
    """
    xp = namespace(gram)
    diagonal = xp.linalg.diagonal(gram)
    scale = 1 / xp.sqrt(1 + diagonal)
    hollow = _hollow(gram, diagonal)
    values = linalg.eigvalsh(hollow)
    lowest = xp.min(values, axis=-1)
    # Dependent columns and large t: an eigenvalue of I + hollow below its rounding error.
    least = epsilon(gram) - 1
    values = xp.where(values < least, xp.full_like(values, least), values)
    log_det = xp.sum(xp.log1p(diagonal), axis=-1) + xp.sum(xp.log1p(values), axis=-1)
    return log_det, scale, hollow, lowest


def factorise(gram: Array) -> Factor:
    """logdet(I + gram), L - I and L^-1 for the Cholesky factor L of I + gram.

    The library's Cholesky gets a ridge with which it cannot fail; one Newton step removes the
    ridge again, and gives L - I the digits that a subtraction would lose.
    """
    xp = namespace(gram)
    log_det, scale, hollow, lowest = unit_diagonal(gram)
    ridge = 16 * gram.shape[-1] * epsilon(gram)
    ridge = xp.where(lowest < -1, ridge - 1 - lowest, xp.full_like(lowest, ridge))
    lower = linalg.cholesky(hollow + (1 + ridge[..., None, None]) * eye(gram))
    inverse = linalg.inv(lower) * scale[..., None, :]
    lower = lower / scale[..., :, None] - eye(gram)
    error = gram - twice_symmetric(lower) - lower @ xp.matrix_transpose(lower)
    error = congruence(inverse, error)
    near = xp.max(xp.abs(error), axis=(-2, -1), keepdims=True) < 0.5
    error = xp.where(near, error, xp.zeros_like(error))
    step = xp.tril(error) - error * eye(gram) / 2
    return log_det, lower + step + lower @ step, inverse - step @ inverse


def eye(matrix: Array) -> Array:
    return identity(matrix.shape[-1], matrix)


def outer(root: Array, left: Array, right: Array) -> Array:
    """diag(root) left' right diag(root), d x d."""
    product = namespace(left).matrix_transpose(left) @ right
    return root[..., :, None] * product * root[..., None, :]


def apply(matrix: Array, vector: Array) -> Array:
    """matrix @ vector; a lead axis of size one becomes a single product for all its vectors."""
    xp = namespace(matrix)
    if matrix.ndim > 2 and matrix.shape[-3] == 1:
        return vector @ xp.matrix_transpose(xp.squeeze(matrix, axis=matrix.ndim - 3))
    return (matrix @ vector[..., None])[..., 0]


def solve(gram: Array, vector: Array) -> Array:
    """(I + gram)^-1 vector, with the same meaning of a lead axis of size one."""
    xp = namespace(gram)
    if gram.ndim > 2 and gram.shape[-3] == 1:
        system = xp.squeeze(gram, axis=gram.ndim - 3) + eye(gram)
        return xp.matrix_transpose(linalg.solve(system, xp.matrix_transpose(vector)))
    return linalg.solve(gram + eye(gram), vector[..., None])[..., 0]


def congruence(matrix: Array, middle: Array) -> Array:
    return matrix @ middle @ namespace(matrix).matrix_transpose(matrix)


def twice_symmetric(matrix: Array) -> Array:
    return matrix + namespace(matrix).matrix_transpose(matrix)


def small_eigenvalues(matrix: Array) -> tuple[Array, Array]:
    """Whether all eigenvalues are below one half in size, and then these (zeros otherwise)."""
    xp = namespace(matrix)
    values = linalg.eigvalsh(matrix)
    small = xp.max(xp.abs(values), axis=-1) < 0.5
    return small, xp.where(small[..., None], values, xp.zeros_like(values))
