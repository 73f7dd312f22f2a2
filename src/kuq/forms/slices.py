"""Very many draws of vectors under ‖x − y‖, on random lines: exact on each of them, by sorting.

‖x‖ = c_d E|θ·x| over directions θ on the sphere, c_d = √π Γ((d+1)/2) / Γ(d/2), and so is every mean
of distances: entropies and divergences are c_d times the mean of those of the projected draws.
"""

from __future__ import annotations

import math
from typing import NamedTuple, final

import numpy as np

from kuq.distributions.laws import Stack
from kuq.forms.directions import Piece, over_pieces, unit_vectors
from kuq.forms.form import Form, Measure, Problem, Reading, Statistics


@final
class Slices(Form):
    method = "sliced"
    sampled = True

    def applies(self, problem: Problem) -> bool:
        numpy = problem.reading in (Reading.COMPILED, Reading.NUMPY)
        return problem.outnumbers_directions and problem.absolute and numpy

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
        draws = _Draws.of(stack)

        def sums(values: np.ndarray, piece: Piece) -> tuple[np.ndarray, np.ndarray]:
            own = draws.at(piece.entries)
            alone, together = _sorted(values, own)
            return alone.sum(axis=1), together.sum(axis=0)

        found = over_pieces(stack, vectors, measure.score.weights, measure.memory, sums)
        scale = _length(d) / vectors.shape[1]
        entropies, pooled = (scale * values for values in found)
        dispersion = 2 * (pooled - draws.members @ entropies)
        return Statistics(entropies, dispersion)


def _length(d: int) -> float:
    """‖x‖ / E|θ·x|."""
    return math.exp(0.5 * math.log(math.pi) + math.lgamma((d + 1) / 2) - math.lgamma(d / 2))


class _Draws(NamedTuple):
    """What is known of the draws of all members, which stand one after the other."""

    #: how many each member has
    counts: list[int]
    #: their weights inside of a member, (n, T); None if equal
    weights: np.ndarray | None
    #: weights of the members
    members: np.ndarray

    @staticmethod
    def of(stack: Stack) -> _Draws:
        counts = [law.count for law in stack.groups for _ in range(int(law.atoms.lead[0]))]
        members = np.asarray(stack.member_weights(), dtype=float)
        weights = None
        if any(law.weights is not None for law in stack.groups):
            n = stack.batch_count
            parts = [law.full_weights().transpose(1, 0, 2) for law in stack.groups]
            weights = np.concatenate([part.reshape(n, -1) for part in parts], axis=1, dtype=float)
        return _Draws(counts, weights, members / members.sum())

    def at(self, entries: slice) -> _Draws:
        return self if self.weights is None else self._replace(weights=self.weights[entries])

    def slices(self) -> list[slice]:
        """Where the draws of every member stand."""
        ends = np.cumsum(self.counts).tolist()
        return [slice(end - count, end) for end, count in zip(ends, self.counts, strict=True)]

    def full_weights(self) -> np.ndarray:
        """Weights inside of members, (n, T) or (1, T)."""
        if self.weights is not None:
            return self.weights
        return np.repeat(1 / np.asarray(self.counts), self.counts)[None, :]


def _sorted(values: np.ndarray, draws: _Draws) -> tuple[np.ndarray, np.ndarray]:
    """H of every member, (M, k, n), and of their mixture, (k, n), from projections (k, n, T)."""
    weights = draws.weights
    alone = []
    for place in draws.slices():
        own = values[..., place]
        if weights is None:
            own.sort(axis=-1)
            alone.append(_by_ranks(own))
        else:
            alone.append(_by_weights(own, weights[:, place]))
    if len(alone) == 1:
        return np.stack(alone), alone[0]
    if weights is None and len(set(draws.counts)) == 1 and np.ptp(draws.members) == 0:
        values.sort(axis=-1)
        return np.stack(alone), _by_ranks(values)
    shares = np.repeat(draws.members, draws.counts) * draws.full_weights()
    return np.stack(alone), _by_weights(values, shares)


def _by_ranks(values: np.ndarray) -> np.ndarray:
    """½ E|X − X'| of equally likely sorted numbers along the last axis."""
    count, middle = values.shape[-1], values.shape[-1] // 2
    away = values - values[..., middle, None]  # a member far from the others keeps its digits
    return np.asarray(away @ np.arange(1.0 - count, count, 2.0) / count / count)


def _by_weights(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The same of numbers in any order with weights (n, T)."""
    order = np.argsort(values, axis=-1)
    own = np.take_along_axis(np.broadcast_to(weights, values.shape), order, axis=-1)
    rank = 2 * np.cumsum(own, axis=-1) - own - 1
    middle = values.shape[-1] // 2
    ordered = np.take_along_axis(values, order, axis=-1)
    return np.asarray(np.sum((ordered - ordered[..., middle, None]) * own * rank, axis=-1))
