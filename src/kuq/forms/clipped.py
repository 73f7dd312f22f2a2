"""Clipped mixtures under |x − y|: the threshold-weighted CRPS, by distribution functions."""

from __future__ import annotations

from typing import final

from kuq._array import Array
from kuq.distributions.atoms import Atoms, Normals, Points, Products
from kuq.distributions.clipped import ClippedMixtures, to_clipped
from kuq.expectations import clipped
from kuq.forms.atom_pairs import AtomPairs, most_pairs
from kuq.forms.form import Measure, Problem


@final
class Clipped(AtomPairs):
    method = "quadrature"

    def applies(self, problem: Problem) -> bool:
        kinds = {group.kind for group in problem.groups}
        usable = kinds <= {ClippedMixtures, Points, Normals, Products}
        return ClippedMixtures in kinds and usable and problem.absolute and problem.dimension == 1

    def scratch(self, problem: Problem) -> int:
        inner = max(group.inner for group in problem.groups)
        return 2 * most_pairs(problem) * 256 * inner * inner

    def pair_scratch(self, measure: Measure, p: Atoms, q: Atoms) -> int:
        return max(p.size, q.size)

    def entropy(self, measure: Measure, atoms: Atoms) -> Array:
        return clipped.entropy(to_clipped(atoms))

    def divergence(self, measure: Measure, p: Atoms, q: Atoms) -> Array:
        return clipped.divergence(to_clipped(p.expand(0)), to_clipped(q.expand(1)))
