"""Student-t laws in closed form: variances, and entropies under |x − y|^β in one dimension.

Inside they are mixtures of finitely many normals, which cannot hold moments close to their pole:
what lies beyond the range of floats is missing. Divergences do not see it, since it cancels.
"""

from __future__ import annotations

import math

from kuq._array import Array, namespace
from kuq.distributions.atoms import Products
from kuq.distributions.gamma_grid import base_scale
from kuq.distributions.laws import Law
from kuq.distributions.student_t import student_variance
from kuq.expectations.gamma import log_duplication_ratio, log_gamma_ratio
from kuq.kernels.base import Score
from kuq.kernels.energy import Energy


def entropy(score: Score, law: Law) -> Array | None:
    """H of laws (lead…), or None where there is no closed form."""
    if law.tail is None:
        return None
    if isinstance(score, Energy) and law.dimension == 1:
        return coordinate_entropies(law, score.beta)[..., 0]
    return None


def coordinate_entropies(law: Law, beta: float) -> Array:
    """½E|X_j − X_j'|^β of every coordinate, (lead…, d)."""
    return absolute_entropy(*_parameters(law), beta)


def variance(law: Law) -> Array:
    """The trace of the covariance, (lead…); infinite where df ≤ 2."""
    each = student_variance(*_parameters(law))
    return namespace(each).sum(each, axis=-1)


def absolute_entropy(df: Array, scale: Array, beta: float) -> Array:
    """½E|X − X'|^β of scalar Student-t laws; infinite where df ≤ β.

    With a = df/2, b = β/2 and z = a − b it is scale^β times
    2^b Γ(b+½)/√π · a^b Γ(z)/Γ(a) · [2^b ½ · 2^(−b) Γ(2z+b) Γ(z) / (Γ(2z) Γ(a))].
    """
    xp = namespace(df)
    a, b = df / 2, beta / 2
    exists = a > b
    a = xp.where(exists, a, xp.full_like(a, b + 1))
    z = xp.where(exists, df - beta, xp.full_like(df, 2.0)) / 2  # exact close to the pole
    front = 4**b * math.gamma(b + 0.5) / math.sqrt(math.pi) / 2
    logarithm = b * xp.log(a) - log_gamma_ratio(z, b) + log_duplication_ratio(z, b)
    zero = scale <= 0
    power = xp.pow(xp.where(zero, xp.ones_like(scale), scale), beta)
    value = front * xp.where(zero, xp.zeros_like(power), power) * xp.exp(logarithm)
    return xp.where(exists, value, xp.full_like(value, math.inf))


def _parameters(law: Law) -> tuple[Array, Array]:
    """df and scale of every coordinate, (lead…, d)."""
    assert law.tail is not None
    assert isinstance(law.atoms, Products)
    return law.tail, base_scale(law.tail, law.atoms.scale[..., 0, :, :])
