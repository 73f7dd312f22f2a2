"""Normals with independent coordinates under the Gaussian kernel, all pairs in compiled code."""

from __future__ import annotations

from typing import final

from kuq._compiled import twin
from kuq.distributions.atoms import Normals
from kuq.distributions.laws import Stack
from kuq.forms.form import Form, Measure, Problem, Statistics
from kuq.kernels.gaussian import Gaussian


@final
class NormalFields(Form):
    def applies(self, problem: Problem) -> bool:
        (group, *others) = problem.groups
        single = not others and group.kind is Normals and group.atoms == 1 < problem.dimension
        return single and problem.compiled and isinstance(problem.score, Gaussian)

    def scratch(self, problem: Problem) -> int:
        return problem.members * problem.dimension // 8

    def any_units(self, problem: Problem) -> bool:
        return True

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        atoms = stack.groups[0].atoms
        assert isinstance(atoms, Normals)
        laws = atoms.loc[..., 0, :], atoms.scale[..., 0, :], stack.member_weights()
        return Statistics(*twin("forms.normal_fields").gaussian(*laws, measure.bandwidth))
