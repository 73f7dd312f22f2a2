"""Ensembles of scalar normals as a whole: Σ w H and Σ w_i w_j D_ij by compiled code.

The compiled loops take care of units and of their own memory, so that nothing as large as the
parameters is made beside them.
"""

from __future__ import annotations

import numpy as np

from kuq._array import Array, widen
from kuq._compiled import twin
from kuq.distributions.atoms import Normals
from kuq.distributions.laws import Stack
from kuq.expectations import cdf
from kuq.expectations.atoms import Measure
from kuq.expectations.tiles import pieces
from kuq.kernels.energy import Energy
from kuq.kernels.gaussian import Gaussian

#: Numbers of one parameter that are widened at once.
_WIDENED = 2**20


def aleatoric_and_dispersion(measure: Measure, stack: Stack) -> tuple[Array, Array] | None:
    """Σ w H and Σ w_i w_j D_ij, (n,) each, or None where there is no compiled form."""
    if not _applies(measure, stack) or stack.batch_count == 0:
        return None
    members, columns = stack.member_count, stack.batch_count
    if twin("pairs", columns * members * (members - 1) / 2, widen(stack.reference[:1, :1])) is None:
        return None
    parts = []
    for part in pieces(columns, members, _WIDENED, stack.reference):
        some = stack.index(part).widened()
        law = some.groups[0].atoms
        loc, scale = (a[..., 0, 0] for a in (law.loc, law.scale))
        parts.append(_measured(measure.at(part), loc, scale, some.member_weights()))
    aleatoric, dispersion = (np.concatenate(list(x)) for x in zip(*parts, strict=True))
    return aleatoric, dispersion


def _applies(measure: Measure, stack: Stack) -> bool:
    law = stack.groups[0]
    kernel = measure.kernel
    absolute = isinstance(kernel, Energy) and kernel.beta == 1
    scalar = isinstance(law.atoms, Normals) and law.dimension == law.count == 1
    return scalar and len(stack.groups) == 1 and (absolute or isinstance(kernel, Gaussian))


def _measured(
    measure: Measure, loc: np.ndarray, scale: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    from kuq._numba import pairs

    if isinstance(measure.kernel, Gaussian):
        return pairs.gaussian(loc, scale, weights, measure.bandwidth)
    return pairs.absolute(loc, scale, weights)
