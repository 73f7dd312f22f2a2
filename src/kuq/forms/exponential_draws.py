"""Scalar draws under the Laplace kernel and Matérn kernels of ½, 3/2 and 5/2, by sorting.

Compiled code sums over all pairs of sorted draws in one pass, see its twin.
"""

from __future__ import annotations

import math
from typing import final

import numpy as np

from kuq._compiled import twin
from kuq.distributions.laws import Stack, draws_of
from kuq.forms.form import Form, Measure, Problem, Reading, Statistics
from kuq.kernels.base import Score
from kuq.kernels.laplace import Laplace
from kuq.kernels.matern import Matern

#: The shares of P_2 and P_3 in the profiles of Matérn kernels.
_SHARES = {0.5: (0.0, 0.0), 1.5: (1.0, 0.0), 2.5: (1 / 3, 2 / 3)}
#: Dispersions below this fraction of all pairs have lost their digits.
_CLOSE = 1e-6


@final
class ExponentialDraws(Form):
    def applies(self, problem: Problem) -> bool:
        compiled = problem.reading is Reading.COMPILED
        return compiled and problem.scalar_draws and _order(problem.score) in _SHARES

    def scratch(self, problem: Problem) -> int:
        return 3 * problem.atoms

    def cancels(self, problem: Problem) -> bool:
        return True

    def any_units(self, problem: Problem) -> bool:
        return True

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        n = stack.batch_count
        order = _order(measure.score) or 0.5
        rate = math.sqrt(2 * order) if isinstance(measure.score, Matern) else 1.0
        rates = np.broadcast_to(rate / np.asarray(measure.bandwidth), (n,))
        member_weights = stack.member_weights()
        entropies = np.empty((stack.member_count, n))
        pooled_values, pooled_weights = [], []
        for start, law in stack.offsets():
            values, weights = draws_of(law)[..., 0], law.full_weights()
            for m in range(values.shape[0]):
                entropies[start + m] = _sums(values[m], weights[m], rates, order)
                pooled_values.append(values[m])
                pooled_weights.append(member_weights[start + m] * weights[m])
        if stack.member_count == 1:
            return Statistics(entropies, np.zeros(n))
        values, weights = (np.concatenate(x, axis=-1) for x in (pooled_values, pooled_weights))
        pooled = _sums(values, weights, rates, order)
        dispersion = 2 * (pooled - member_weights @ entropies)
        return Statistics(entropies, dispersion, (dispersion <= 2 * _CLOSE * pooled) & (pooled > 0))


def _order(score: Score) -> float | None:
    if isinstance(score, Laplace):
        return 0.5
    return score.nu if isinstance(score, Matern) else None


def _sums(values: np.ndarray, weights: np.ndarray, rates: np.ndarray, order: float) -> np.ndarray:
    """Σ_{a<b} w_a w_b (1 − k) of draws (n, N) in any order, (n,)."""
    if np.all(weights == weights[:, :1]):
        values = np.sort(values, axis=-1)
    else:
        sorting = np.argsort(values, axis=-1)
        values = np.take_along_axis(values, sorting, axis=-1)
        weights = np.take_along_axis(weights, sorting, axis=-1)
    found: np.ndarray = twin("forms.exponential_draws").sums(values, weights, rates, _SHARES[order])
    return found
