"""Draws and points under any kernel, pair by pair: what works without further knowledge."""

from __future__ import annotations

from typing import final

from kuq._array import Array, namespace
from kuq.distributions.atoms import Atoms, Points
from kuq.distributions.laws import Law, draws_of
from kuq.forms.atom_pairs import AtomPairs, mean_over_pairs, most_pairs
from kuq.forms.form import Expecting, Measure, Problem
from kuq.kernels.base import Kernel, Radial, squared_distance


@final
class PointPairs(AtomPairs, Expecting):
    close = 1e-6

    def applies(self, problem: Problem) -> bool:
        return isinstance(problem.score, Kernel) and problem.only(Points)

    def scratch(self, problem: Problem) -> int:
        return 2 * most_pairs(problem) * problem.dimension

    def pair_scratch(self, measure: Measure, p: Atoms, q: Atoms) -> int:
        return p.size

    def entropy(self, measure: Measure, atoms: Atoms) -> Array:
        assert isinstance(atoms, Points)
        return namespace(atoms.value).zeros_like(atoms.value[..., 0])

    def divergence(self, measure: Measure, p: Atoms, q: Atoms) -> Array:
        assert isinstance(p, Points)
        assert isinstance(q, Points)
        return between_points(measure, p.value[..., :, None, :], q.value[..., None, :, :])

    def expectation(self, measure: Measure, p: Law, q: Law) -> Array:
        x, y = draws_of(p)[..., :, None, :], draws_of(q)[..., None, :, :]
        kernel = measure.kernel
        if isinstance(kernel, Radial):
            values = kernel.diagonal + between_points(measure, x, y)
        else:
            values = kernel(x, y)
        return mean_over_pairs(values, p, q)


def between_points(measure: Measure, x: Array, y: Array) -> Array:
    """D of point masses that broadcast against each other, with two atom axes."""
    kernel = measure.kernel
    if isinstance(kernel, Radial):
        return kernel.excess(squared_distance(x, y), measure.width(2))
    return kernel(x, y) - (kernel(x, x) + kernel(y, y)) / 2
