"""Scalar mixtures under |x − y| that nearly agree, from differences of distribution functions."""

from __future__ import annotations

from typing import final

from kuq._array import Array, namespace
from kuq.distributions.atoms import Normals, Points, Products
from kuq.distributions.laws import Law, Stack, to_scalar_atoms
from kuq.expectations import mixture_cdf, scalar
from kuq.forms.form import Form, Measure, Problem, Statistics
from kuq.forms.log_mixtures import mixtures


@final
class MixtureFunctions(Form):
    """Lost are entries whose scales are too far apart for a grid."""

    def applies(self, problem: Problem) -> bool:
        kinds = problem.only(Points, Normals, Products)
        mixtures = any(group.kind is Products for group in problem.groups)
        single = all(group.atoms == 1 for group in problem.groups)
        scalar_kernel = problem.absolute and problem.dimension == 1
        return mixtures and kinds and single and scalar_kernel and problem.readable

    def scratch(self, problem: Problem) -> int:
        return problem.members * max(group.inner for group in problem.groups) ** 2

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        entropies = [_entropies(law) for law in stack.groups]
        shares, laws = stack.member_weights(), mixtures(stack)
        weights, loc, scale = (a[:, :, 0, :] for a in laws)
        value, usable = mixture_cdf.dispersion(shares, weights, loc, scale, measure.budget)
        return Statistics(namespace(value).concat(entropies, axis=0), value, ~usable)


def _entropies(law: Law) -> Array:
    """H of scalar mixtures: Σ w H_i + ½ Σ w_i w_j D_ij over components, (m, n)."""
    flat = to_scalar_atoms(law)
    xp = namespace(flat.atoms.reference)
    if isinstance(flat.atoms, Points):
        return xp.zeros_like(flat.atoms.value[..., 0, 0])
    assert isinstance(flat.atoms, Normals)
    loc, scale, w = flat.atoms.loc[..., 0], flat.atoms.scale[..., 0], flat.atom_weights()
    pairs = scalar.absolute_divergence(
        loc[..., :, None], scale[..., :, None], loc[..., None, :], scale[..., None, :]
    )
    inside = xp.sum(w * xp.sum(pairs * w[..., None, :], axis=-1), axis=-1)
    return xp.sum(w * scalar.absolute_entropy(scale), axis=-1) + inside / 2
