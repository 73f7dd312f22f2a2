"""The algebra of mixtures: from pairs of atoms to laws, and from laws to ensembles.

For P = Σ w_i P_i: H(P) = Σ w_i H_i + ½ Σ w_i w_j D_ij, and
D(Σ wP, Σ vQ) = Σ w_i v_j D(P_i, Q_j) − ½ Σ wwD − ½ Σ vvD. The last line cancels for laws that are
close, unless both are single atoms; such entries are marked as lost.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import ClassVar

from kuq._array import Array, namespace
from kuq.distributions.atoms import Atoms
from kuq.distributions.laws import Law, Stack
from kuq.forms.form import BETWEEN, Crossing, Form, Measure, Problem, Statistics
from kuq.tiles import PairBlock, pieces, sum_over_pairs


class AtomPairs(Form, Crossing):
    """A form that knows H of an atom and D of two atoms, and leaves the rest to the algebra."""

    #: Below this share of what is subtracted a difference has lost its digits.
    close: ClassVar[float] = 1e-3

    @abstractmethod
    def entropy(self, measure: Measure, atoms: Atoms) -> Array:
        """H of every atom, (lead…, A)."""

    @abstractmethod
    def divergence(self, measure: Measure, p: Atoms, q: Atoms) -> Array:
        """D of all pairs of atoms, (lead…, A, B)."""

    @abstractmethod
    def pair_scratch(self, measure: Measure, p: Atoms, q: Atoms) -> int:
        """Numbers that the comparison of two atoms touches at once."""

    def cancels(self, problem: Problem) -> bool:
        return any(group.atoms > 1 for group in problem.groups)

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        xp = namespace(stack.reference)
        inner = xp.concat([self.inside(measure, group) for group in stack.groups], axis=0)
        alone = [self._alone(measure, group) for group in stack.groups]
        entropies = xp.concat(alone, axis=0) + inner / 2

        def cost(p: Law, q: Law) -> int:
            return p.count * q.count * self.pair_scratch(measure, p.atoms, q.atoms)

        def between(block: PairBlock) -> Array:
            return self.cross(measure, block.p, block.q)

        total = sum_over_pairs(stack, cost, measure.budget, between)
        if all(group.count == 1 for group in stack.groups):
            return Statistics(entropies, total)
        w = stack.member_weights()[:, None]
        subtracted = xp.sum(w * (1 - w) * inner, axis=0)
        total = total - subtracted
        return Statistics(entropies, total, (total <= self.close * subtracted) & (subtracted > 0))

    def _alone(self, measure: Measure, law: Law) -> Array:
        """Σ w_i H_i of the atoms of every member, (m, n); zero if nobody asks for it."""
        xp = namespace(law.atoms.reference)
        if measure.question == BETWEEN and not law.drawn:
            return xp.zeros_like(law.atoms.mean()[..., 0, 0])
        return xp.sum(law.atom_weights() * self.entropy(measure, law.atoms), axis=-1)

    def inside(self, measure: Measure, law: Law) -> Array:
        """Σ w_i w_j D_ij inside every member, (m, n)."""
        if law.count == 1:
            return namespace(law.atoms.reference).zeros_like(law.atoms.mean()[..., 0, 0])
        return self.cross(measure, law, law)

    def cross(self, measure: Measure, p: Law, q: Law) -> Array:
        """Σ w_i v_j D(P_i, Q_j), (pairs, n)."""
        each = self.pair_scratch(measure, p.atoms, q.atoms)
        return cross_sum(p, q, each, measure.budget, partial(self.divergence, measure))


def cross_sum(
    p: Law, q: Law, each: int, budget: int, divergence: Callable[[Atoms, Atoms], Array]
) -> Array:
    """Σ w_i v_j D(P_i, Q_j), (pairs, n), in pieces of P's atoms that fit the budget.

    A pair of atoms costs ``each`` numbers.
    """
    xp = namespace(p.atoms.reference)
    if p.count == q.count == 1:
        return divergence(p.atoms, q.atoms)[..., 0, 0]
    w, v = p.atom_weights(), q.atom_weights()
    lead = max(math.prod(law.atoms.lead[:-1]) for law in (p, q))
    total: Array | float = 0.0
    for chunk in pieces(p.count, lead * q.count * each, budget, p.atoms.reference):
        values = divergence(_taken(p.atoms, chunk), q.atoms)
        inner = xp.sum(values * v[..., None, :], axis=-1)
        total = total + xp.sum(inner * w[..., chunk], axis=-1)
    return total


def _taken(atoms: Atoms, chunk: slice) -> Atoms:
    return atoms.map(lambda a, axes: a[(..., chunk, *(slice(None),) * axes)])


def mean_over_pairs(values: Array, p: Law, q: Law) -> Array:
    """Σ w_i v_j values_ij, (lead…)."""
    xp = namespace(values)
    inner = xp.sum(values * q.atom_weights()[..., None, :], axis=-1)
    return xp.sum(inner * p.atom_weights(), axis=-1)


def most_pairs(problem: Problem) -> int:
    """Pairs of atoms that two members have at most."""
    counts = sorted((group.atoms for group in problem.groups), reverse=True)
    return counts[0] * counts[min(1, len(counts) - 1)]
