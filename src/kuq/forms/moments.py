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
        return problem.atoms * problem.dimension * max(group.inner for group in problem.groups)

    def cancels(self, problem: Problem) -> bool:
        return False

    def any_units(self, problem: Problem) -> bool:
        return False

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        xp = namespace(stack.reference)
        variances = [moments.total_variance(group) for group in stack.groups]
        return Statistics(xp.concat(variances, axis=0), moments.dispersion(stack))
