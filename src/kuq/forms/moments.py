"""The squared error, which sees no more than means and variances."""

from __future__ import annotations

from typing import final

from kuq._array import namespace
from kuq.distributions.laws import Stack
from kuq.expectations import moments
from kuq.forms.form import Form, Measure, Problem, Statistics
from kuq.kernels.squared_error import SquaredError


@final
class Moments(Form):
    def applies(self, problem: Problem) -> bool:
        return isinstance(problem.score, SquaredError)

    def scratch(self, problem: Problem) -> int:
        numbers = problem.atoms * problem.dimension * max(group.inner for group in problem.groups)
        # Few arrays are alive at once, and short ones take less time than what stands around them.
        return -(-numbers // 2)

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        xp = namespace(stack.reference)
        variances = [moments.total_variance(group) for group in stack.groups]
        entropies = variances[0] if len(variances) == 1 else xp.concat(variances, axis=0)
        return Statistics(entropies, moments.dispersion(stack))
