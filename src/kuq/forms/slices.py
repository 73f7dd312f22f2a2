"""Very many draws of vectors under ‖x − y‖, on random lines: exact on each of them, by sorting.

‖x‖ = c_d E|θ·x| over directions θ on the sphere, c_d = √π Γ((d+1)/2) / Γ(d/2), and so is every mean
of distances: entropies and divergences are c_d times the mean of those of the projected draws.
"""

from __future__ import annotations

import math
from typing import final

import numpy as np

from kuq.distributions.atoms import Points
from kuq.distributions.laws import Law, Stack
from kuq.forms.directions import Piece, over_pieces, unit_vectors
from kuq.forms.form import Form, Measure, Problem, Statistics
from kuq.forms.sorted_draws import entropies_by_sorting


@final
class Slices(Form):
    method = "sliced"
    sampled = True

    def applies(self, problem: Problem) -> bool:
        return problem.outnumbers_directions and problem.absolute and problem.numpy

    def scratch(self, problem: Problem) -> int:
        return problem.members

    def cancels(self, problem: Problem) -> bool:
        return True

    def any_units(self, problem: Problem) -> bool:
        return True

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        assert measure.directions is not None
        d = stack.groups[0].atoms.dimension
        vectors = unit_vectors(measure.directions, d)
        members = np.asarray(stack.member_weights(), dtype=float)
        members = members / members.sum()

        def sums(values: np.ndarray, piece: Piece) -> list[np.ndarray]:
            weights = None if stack.weights is None else members
            lines = Stack(tuple(_on_lines(stack, values, piece.entries)), weights)
            shape = values.shape[:2]
            entropies = entropies_by_sorting(lines)
            return [a.reshape(*a.shape[:-1], *shape).sum(axis=-2) for a in entropies]

        totals = over_pieces(stack, vectors, measure.score.weights, measure.memory, sums)
        scale = _length(d) / vectors.shape[1]
        entropies, pooled = (scale * values for values in totals)
        return Statistics(entropies, 2 * (pooled - members @ entropies))


def _length(d: int) -> float:
    """‖x‖ / E|θ·x|."""
    return math.exp(0.5 * math.log(math.pi) + math.lgamma((d + 1) / 2) - math.lgamma(d / 2))


def _on_lines(stack: Stack, values: np.ndarray, entries: slice) -> list[Law]:
    """The laws of projections (k, n, T): scalar draws over a batch of k·n."""
    groups, start = [], 0
    lines, n, _ = values.shape
    for law in stack.groups:
        members, stop = int(law.atoms.lead[0]), start + int(law.atoms.lead[0]) * law.count
        draws = values[..., start:stop].reshape(lines * n, members, law.count).transpose(1, 0, 2)
        weights = law.weights
        if weights is not None:
            weights = np.tile(np.asarray(weights[:, entries], dtype=float), (1, lines, 1))
        groups.append(Law(Points(draws[..., None]), weights))
        start = stop
    return groups
