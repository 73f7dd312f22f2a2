"""Means and variances of laws: all that the squared error sees."""

from __future__ import annotations

import math

import numpy as np

from kuq._array import Array, is_traced, namespace, weighted_sum
from kuq.distributions.atoms import Points, Products, mean_difference
from kuq.distributions.laws import Law, Stack
from kuq.expectations import heavy_tails

#: Numbers of all atoms that are touched at once: coordinates go in pieces.
_AT_ONCE = 2**18


def _pieces(law: Law, *lead: int) -> list[slice]:
    """Coordinates that are treated together: all, if values cannot be read or are recorded."""
    like = law.atoms.reference
    whole = is_traced(like) or getattr(like, "requires_grad", False)
    atoms = math.prod(np.broadcast_shapes(law.atoms.lead, (*lead, 1)))
    numbers = atoms * max(1, law.atoms.size // law.dimension)
    step = law.dimension if whole else max(1, _AT_ONCE // max(1, numbers))
    return [slice(start, start + step) for start in range(0, law.dimension, step)]


def centred_mean(law: Law, pivot: Array) -> Array:
    """mean − pivot, (lead…, d); the pivot goes first, so that an offset costs no digits."""
    pieces = _pieces(law, *pivot.shape[:-1])
    means = [_centred_mean(law.coordinates(columns), pivot[..., columns]) for columns in pieces]
    return means[0] if len(means) == 1 else namespace(means[0]).concat(means, axis=-1)


def _centred_mean(law: Law, pivot: Array) -> Array:
    shifted = _shift(law, pivot)
    return namespace(shifted).sum(law.atom_weights()[..., None] * shifted, axis=-2)


def mean_gap(p: Law, q: Law) -> Array:
    """mean(P) − mean(Q), (lead…, d), with one pivot for both."""
    if p.count == q.count == 1:
        return mean_difference(p.atoms, q.atoms)[..., 0, :]
    pivot = p.atoms.mean()[..., 0, :]
    return centred_mean(p, pivot) - centred_mean(q, pivot)


def total_variance(law: Law) -> Array:
    """The trace of the covariance, (lead…)."""
    if law.tail is not None:
        return heavy_tails.variance(law)
    variances = [_total_variance(law.coordinates(columns)) for columns in _pieces(law)]
    return sum(variances[1:], start=variances[0])


def _total_variance(law: Law) -> Array:
    xp = namespace(law.atoms.reference)
    if law.count == 1:
        mean = law.atoms.mean()[..., 0, :]
        within = mean - mean  # zero, but for what is no number
        if not isinstance(law.atoms, Points):
            within = within + law.atoms.variance()[..., 0, :]
        return within[..., 0] if law.dimension == 1 else xp.sum(within, axis=-1)
    pivot = law.atoms.mean()[..., 0, :]
    gap = _shift(law, pivot) - centred_mean(law, pivot)[..., None, :]
    within = law.atoms.variance() + gap * gap
    return xp.sum(law.atom_weights() * xp.sum(within, axis=-1), axis=-1)


def _shift(law: Law, pivot: Array) -> Array:
    atoms = law.atoms
    if isinstance(atoms, Products):
        xp = namespace(atoms.loc)
        return xp.sum(atoms.weights * (atoms.loc - pivot[..., None, :, None]), axis=-1)
    return atoms.mean() - pivot[..., None, :]


def dispersion(stack: Stack) -> Array:
    """Σ w_i w_j ‖mean_i − mean_j‖² = 2 Σ w ‖mean − mean̄‖², in two passes."""
    xp = namespace(stack.reference)
    first = stack.groups[0].index(lambda a: a[:1, ...])
    gaps = [mean_gap(group, first) for group in stack.groups]
    means = gaps[0] if len(gaps) == 1 else xp.concat(gaps, axis=0)
    w = stack.member_weights()
    gap = means - weighted_sum(w, means)
    left = weighted_sum(w, gap)  # what the first pass rounded off
    return 2 * xp.sum(weighted_sum(w, gap * gap) - left * left, axis=-1)
