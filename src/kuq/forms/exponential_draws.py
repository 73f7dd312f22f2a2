"""Scalar draws under the Laplace kernel and Matérn kernels of ½, 3/2 and 5/2, by sorting.

Compiled code sums over all pairs of sorted draws in one pass, see its twin.
"""

from __future__ import annotations

import functools
import math
from typing import final

import numpy as np

from kuq._compiled import twin
from kuq.distributions.laws import Stack
from kuq.forms.form import Form, Measure, Problem, Statistics
from kuq.forms.sorted_draws import difference, entropies_by_sorting
from kuq.kernels.base import Score
from kuq.kernels.laplace import Laplace
from kuq.kernels.matern import Matern

#: The shares of P_1, P_2 and P_3 in the profiles of Matérn kernels.
_SHARES = {0.5: (1.0, 0.0, 0.0), 1.5: (0.0, 1.0, 0.0), 2.5: (0.0, 1 / 3, 2 / 3)}

#: Dispersions below this fraction of all pairs have lost their digits.
_CLOSE = 1e-6


@final
class ExponentialDraws(Form):
    def applies(self, problem: Problem) -> bool:
        return problem.compiled and problem.scalar_draws and _order(problem.score) in _SHARES

    def scratch(self, problem: Problem) -> int:
        return 5 * problem.atoms

    def cancels(self, problem: Problem) -> bool:
        return True

    def any_units(self, problem: Problem) -> bool:
        return True

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        sums = functools.partial(_sums, measure)
        return difference(stack, *entropies_by_sorting(stack, sums), _CLOSE)


def _order(score: Score) -> float | None:
    if isinstance(score, Laplace):
        return 0.5
    return score.nu if isinstance(score, Matern) else None


def _sums(measure: Measure, values: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Σ_{a<b} w_a w_b (1 − k) of draws (…, n, N) in any order, (…, n)."""
    order = _order(measure.score) or 0.5
    rate = math.sqrt(2 * order) if isinstance(measure.score, Matern) else 1.0
    rates = np.broadcast_to(rate / np.asarray(measure.bandwidth), values.shape[:-1])
    if weights is None:
        values = np.sort(values, axis=-1)
        weights = np.broadcast_to(1.0 / values.shape[-1], values.shape)
    else:
        sorting = np.argsort(values, axis=-1)
        values, weights = (np.take_along_axis(a, sorting, axis=-1) for a in (values, weights))
    rows = (np.reshape(a, (-1, a.shape[-1])) for a in (values, weights))
    sums = twin("forms.exponential_draws").sums(*rows, rates.ravel(), _SHARES[order])
    return np.reshape(sums, rates.shape)
