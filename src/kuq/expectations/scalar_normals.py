"""Ensembles of scalar normals as a whole: Σ w H and Σ w_i w_j D_ij by compiled code.

The compiled loops take care of units and of their own memory, so that nothing as large as the
parameters is made beside them.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from kuq._array import Array, widen
from kuq._compiled import twin
from kuq.distributions.atoms import Normals
from kuq.distributions.laws import Stack
from kuq.expectations import cdf
from kuq.expectations.measure import Measure
from kuq.expectations.scalar import absolute_entropy
from kuq.expectations.tiles import pieces
from kuq.kernels.gaussian import Gaussian

#: Numbers of one parameter that are widened at once.
_WIDENED = 2**20


def aleatoric_and_dispersion(measure: Measure, stack: Stack) -> tuple[Array, Array] | None:
    """Σ w H and Σ w_i w_j D_ij, (n,) each, or None where there is no compiled form."""
    if not _applies(measure, stack) or stack.batch_count == 0:
        return None
    members, columns = stack.member_count, stack.batch_count
    pairs = twin("pairs", columns * members * (members - 1) / 2, widen(stack.reference[:1, :1]))
    if pairs is None:
        return None
    parts = []
    for part in pieces(columns, members, _WIDENED, stack.reference):
        some = stack.index(part).widened()
        law = some.groups[0].atoms
        loc, scale = (a[..., 0, 0] for a in (law.loc, law.scale))
        parts.append(_measured(pairs, measure.at(part), loc, scale, some.member_weights()))
    aleatoric, dispersion = (np.concatenate(list(x)) for x in zip(*parts, strict=True))
    return aleatoric, dispersion


def _applies(measure: Measure, stack: Stack) -> bool:
    law = stack.groups[0]
    known = measure.is_absolute or isinstance(measure.kernel, Gaussian)
    scalar = isinstance(law.atoms, Normals) and law.dimension == law.count == 1
    return scalar and len(stack.groups) == 1 and known


def _measured(
    pairs: ModuleType, measure: Measure, loc: np.ndarray, scale: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(measure.kernel, Gaussian):
        return pairs.gaussian(loc, scale, weights, measure.bandwidth)  # type: ignore[no-any-return]
    if len(weights) < cdf.FEWEST_MEMBERS:
        return pairs.absolute(loc, scale, weights)  # type: ignore[no-any-return]

    def by_pairs(some: np.ndarray | None) -> np.ndarray:
        chosen = (loc, scale) if some is None else (loc[:, some], scale[:, some])
        return pairs.absolute(*chosen, weights)[1]  # type: ignore[no-any-return]

    dispersion = cdf.dispersion_or_pairs(loc, scale, weights, by_pairs, measure.budget)
    return absolute_entropy(weights @ scale), dispersion
