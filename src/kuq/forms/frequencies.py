"""Very many draws under a bounded kernel, by random frequencies: one pass over the draws for each.

A bounded radial kernel is k(x, y) − k(x, x) = E(1 − cos ω·(x − y)) over frequencies ω = rθ, where θ
is a random direction and r² = 2tχ²_d with t from its mixture of Gaussian kernels exp(−t‖x−y‖²).
With φ_m(ω) = Σ_j v_j exp(iω·x_j) the statistics are means over ω of

    H = ½ (1 − |φ_m|²)  and  dispersion = Σ_m w_m |φ_m − φ̄|².
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple, final

import numpy as np

from kuq.distributions.laws import Stack
from kuq.expectations.scales import grid_step, is_narrow
from kuq.forms.directions import Directions, Piece, over_pieces, unit_vectors
from kuq.forms.form import Form, Measure, Problem, Statistics
from kuq.kernels import log_gamma_law
from kuq.kernels.base import Bounded, ScaleMixture, Score
from kuq.kernels.gaussian import Gaussian

#: Nodes of a distribution function, and how far below its peak a density is nothing.
_NODES, _NOTHING = 4096, 46.0
#: Logarithms between which all laws of scales have their mass.
_WIDEST = 700.0


@final
class Frequencies(Form):
    method = "sliced"
    sampled = True

    def applies(self, problem: Problem) -> bool:
        score = problem.score
        mixed = isinstance(score, Bounded) and isinstance(score, ScaleMixture)
        bounded = mixed or isinstance(score, Gaussian)
        return problem.outnumbers_directions and problem.numpy and bounded

    def scratch(self, problem: Problem) -> int:
        return problem.members

    def any_units(self, problem: Problem) -> bool:
        return True

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        assert measure.directions is not None
        d = stack.groups[0].atoms.dimension
        vectors = unit_vectors(measure.directions, d)
        count = vectors.shape[1]
        radii = _radii(measure.score.bare, measure.directions, d, count)
        width = np.broadcast_to(np.asarray(measure.bandwidth, dtype=float), (stack.batch_count,))
        members = np.asarray(stack.member_weights(), dtype=float)

        def sums(values: np.ndarray, piece: Piece) -> tuple[np.ndarray, np.ndarray]:
            values *= radii[piece.directions, None, None] / width[piece.entries, None]
            cosine, sine = np.cos(values), np.sin(values, out=values)
            phi = np.stack([_means(wave, stack, piece) for wave in (cosine, sine)])
            mean = np.tensordot(members, phi, axes=(0, 1))
            alone = 0.5 * (1 - (phi * phi).sum(axis=0))
            apart = np.tensordot(members, ((phi - mean[:, None]) ** 2).sum(axis=0), axes=(0, 0))
            return alone.sum(axis=1), apart.sum(axis=0)

        totals = over_pieces(stack, vectors, measure.score.weights, measure.memory, sums)
        entropies, dispersion = (values / count for values in totals)
        return Statistics(entropies, dispersion)


def _means(values: np.ndarray, stack: Stack, piece: Piece) -> np.ndarray:
    """Means (M, k, n) over the draws of every member of numbers (k, n, T)."""
    means, start = [], 0
    for law in stack.groups:
        for m in range(int(law.atoms.lead[0])):
            draws = values[..., start : start + law.count]
            start += law.count
            if law.weights is None:
                means.append(draws.mean(axis=-1))
            else:
                weights = np.asarray(law.weights[m, piece.entries], dtype=float)
                means.append(np.einsum("kna,na->kn", draws, weights))
    return np.stack(means)


@functools.lru_cache(maxsize=4)
def _radii(score: Score, directions: Directions, d: int, count: int) -> np.ndarray:
    """Lengths of frequencies at the bandwidth one, (k,).

    r² = 4tG with G of the gamma law of shape d/2. Either has one value in each k-th of its law, so
    that those of a unit vary less together than alone.
    """
    rng = np.random.default_rng([*directions.seed, directions.unit, 1])
    log_square = math.log(4) + _stratified(_quantiles_of_gamma(d / 2), count, rng)
    if isinstance(score, ScaleMixture):
        log_square = log_square + _stratified(_quantiles_of_scales(score), count, rng)
    return np.asarray(np.exp(log_square / 2))


def _stratified(quantiles: Quantiles, count: int, rng: np.random.Generator) -> np.ndarray:
    shares = (rng.permutation(count) + rng.random(count)) / count
    return np.asarray(np.interp(shares, quantiles.below, quantiles.value))


class Quantiles(NamedTuple):
    """Values and how much of a law lies below them."""

    value: np.ndarray
    below: np.ndarray


@functools.lru_cache(maxsize=16)
def _quantiles_of_gamma(shape: float) -> Quantiles:
    return _quantiles(lambda v: log_gamma_law.log_density(shape, v))


@functools.lru_cache(maxsize=64)
def _quantiles_of_scales(kernel: ScaleMixture) -> Quantiles:
    """Those of log t."""
    if not is_narrow(kernel):  # which has looked at the density as well
        grid_step(kernel, 1e-6)
    return _quantiles(kernel.log_density)


def _quantiles(log_density: Callable[[np.ndarray], np.ndarray]) -> Quantiles:
    """Of a density with one peak, which is looked for closer and closer."""
    low, high = -_WIDEST, _WIDEST
    while True:
        v = np.linspace(low, high, _NODES)
        with np.errstate(over="ignore"):
            logs = log_density(v)
        seen = np.flatnonzero(logs > np.max(logs) - _NOTHING)
        first, last = v[max(seen[0] - 1, 0)], v[min(seen[-1] + 1, _NODES - 1)]
        if last - first > (high - low) / 2:
            break
        low, high = first, last
    density = np.exp(logs - np.max(logs))
    below = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return Quantiles(v, below / below[-1])
