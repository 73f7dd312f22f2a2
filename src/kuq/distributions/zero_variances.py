"""Covariances diag + factor factorᵀ whose diagonal has zeros, but which are not singular for that.

The formulas of the log score divide by the diagonal. Where the factor makes up for its zeros, the
same covariance is written with a positive diagonal and a factor of full rank.
"""

from __future__ import annotations

from kuq import _linalg as linalg
from kuq._array import any_true, detach, epsilon, identity, namespace
from kuq.distributions.atoms import LowRanks, to_low_ranks
from kuq.errors import NoClosedFormError

#: Beyond this a full covariance takes too long, and too much memory.
_LARGEST = 512


def without_zeros(law: LowRanks) -> LowRanks:
    """The same laws; zeros remain where the covariance is singular, or values cannot be read."""
    xp = namespace(law.factor)
    d, rank = law.factor.shape[-2:]
    zeros = xp.sum(xp.astype(law.diag == 0, law.diag.dtype), axis=-1)
    doubtful = (zeros > 0) & (zeros <= rank)
    if not any_true(doubtful):
        return law
    if d > _LARGEST:
        raise NoClosedFormError(
            f"the log score of a LowRankNormal with zeros in diag needs at most {_LARGEST} "
            f"dimensions, got d = {d}; give diag a small positive value"
        )
    one = identity(d, law.diag)
    covariance = law.factor @ xp.matrix_transpose(law.factor) + law.diag[..., None, :] * one
    spectrum = linalg.eigvalsh(detach(covariance))
    lowest, highest = spectrum[..., 0], spectrum[..., -1]
    regular = doubtful & (lowest > 4 * d * epsilon(lowest) * highest)
    diagonal = xp.where(regular, lowest / 2, xp.ones_like(lowest))[..., None]
    safe = xp.where(regular[..., None, None], covariance, (1 + diagonal[..., None]) * one)
    full = linalg.cholesky(safe - diagonal[..., None] * one)
    columns = max(d, rank)
    old = to_low_ranks(law, columns)
    new = to_low_ranks(LowRanks(law.loc, full, diagonal + xp.zeros_like(law.diag)), columns)
    return LowRanks(
        law.loc,
        xp.where(regular[..., None, None], new.factor, old.factor),
        xp.where(regular[..., None], new.diag, old.diag),
    )
