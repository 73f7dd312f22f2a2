"""Ensembles of normals as a whole: Σ w H and Σ w_i w_j D_ij by compiled code.

The compiled loops take care of units and of their own memory, so that nothing as large as the
parameters is made beside them.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from kuq._array import Array, all_finite, widen
from kuq._compiled import twin
from kuq.distributions.atoms import Normals
from kuq.distributions.laws import Stack
from kuq.expectations import cdf
from kuq.expectations.measure import Measure
from kuq.expectations.scalar import absolute_entropy
from kuq.expectations.tiles import pieces
from kuq.kernels.gaussian import Gaussian


def aleatoric_and_dispersion(measure: Measure, stack: Stack) -> tuple[Array, Array] | None:
    """Σ w H and Σ w_i w_j D_ij, (n,) each, or None where there is no compiled form."""
    if not _applies(measure, stack) or stack.batch_count == 0:
        return None
    members, columns, d = stack.member_count, stack.batch_count, stack.groups[0].dimension
    name = "pairs" if d == 1 else "ensembles"
    work = columns * members * (members - 1) / 2 * (1 if d == 1 else d / 3)
    module = twin(name, work, widen(stack.reference[:1, :1]))
    if module is None:
        return None
    parts = []
    tiles = [slice(0, columns)]  # nothing has to be copied
    if stack.reference.dtype != np.float64:
        room = max(measure.budget, measure.room)
        tiles = list(pieces(columns, members * d, room, stack.reference))
    for part in tiles:
        some = stack.index(part).widened()
        law = some.groups[0].atoms
        loc, scale = (a[..., 0, 0] if d == 1 else a[..., 0, :] for a in (law.loc, law.scale))
        parts.append(_measured(module, measure.at(part), loc, scale, some.member_weights()))
    aleatoric, dispersion = (np.concatenate(list(x)) for x in zip(*parts, strict=True))
    if not all_finite(dispersion):  # squares left the range of floats, which units prevent
        return None
    return aleatoric, dispersion


def _applies(measure: Measure, stack: Stack) -> bool:
    law = stack.groups[0]
    closed = isinstance(measure.kernel, Gaussian) or (measure.is_absolute and law.dimension == 1)
    single = len(stack.groups) == 1 and isinstance(law.atoms, Normals) and law.count == 1
    return closed and single


def _measured(
    module: ModuleType, measure: Measure, loc: np.ndarray, scale: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    found: tuple[np.ndarray, np.ndarray]
    if isinstance(measure.kernel, Gaussian):
        found = module.gaussian(loc, scale, weights, measure.bandwidth)
        return found
    if len(weights) < cdf.FEWEST_MEMBERS:
        found = module.absolute(loc, scale, weights)
        return found

    def by_pairs(some: Array | None) -> Array:
        chosen = (loc, scale) if some is None else (loc[:, some], scale[:, some])
        return module.absolute(*chosen, weights)[1]

    dispersion = cdf.dispersion_or_pairs(loc, scale, weights, by_pairs, measure.budget)
    return absolute_entropy(weights @ scale), dispersion
