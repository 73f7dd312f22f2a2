"""The differential entropy of laws whose atoms are the law."""

from __future__ import annotations

from kuq._array import Array, namespace
from kuq.distributions.atoms import LowRanks, Products, to_normals
from kuq.distributions.laws import Law, to_scalar_atoms
from kuq.distributions.zero_variances import without_zeros
from kuq.expectations import densities, relative_entropy


def tells_entropy(law: Law) -> bool:
    """Whether a law is one atom, or a mixture of atoms on the line."""
    return law.is_itself and (law.count == 1 or law.dimension == 1)


def law_entropy(law: Law) -> Array:
    """−E log p(X), (m, n); −inf for a point mass."""
    law = as_one_atom(law)
    atoms = law.atoms
    if isinstance(atoms, LowRanks):
        atoms = without_zeros(atoms)
        return densities.low_rank_entropy(atoms.factor, atoms.diag)[..., 0]
    if isinstance(atoms, Products):
        values = relative_entropy.mixture_entropy(atoms.weights, atoms.loc, atoms.scale)
    else:
        values = densities.normal_entropy(to_normals(atoms).scale)
    return namespace(values).sum(values, axis=-1)[..., 0]


def as_one_atom(law: Law) -> Law:
    """Weighted atoms on the line as one mixture."""
    if law.count == 1:
        return law
    law = to_scalar_atoms(law)
    normals = to_normals(law.atoms)

    def component(array: Array) -> Array:  # (…, A) -> (…, 1, 1, A)
        return array[..., None, None, :]

    loc, scale, weights = (
        component(a) for a in (normals.loc[..., 0], normals.scale[..., 0], law.full_weights())
    )
    return Law(Products(loc, scale, weights))
