"""The log score of mixtures of normals, on the line or coordinate by coordinate."""

from __future__ import annotations

from typing import final

import numpy as np

from kuq._array import Array, namespace
from kuq._compiled import twin
from kuq.distributions.atoms import Normals, Points, Products, to_products
from kuq.distributions.laws import Stack
from kuq.expectations import relative_entropy
from kuq.expectations.law_entropies import as_one_atom
from kuq.expectations.relative_entropy import Mixture
from kuq.forms.form import Measure, Problem, Statistics
from kuq.forms.log_normals import LogForm, compares_two, over_coordinates


class OnTheLine(LogForm):
    """What forms of mixtures share."""

    method = "quadrature"

    def applies(self, problem: Problem) -> bool:
        kinds = problem.densities and problem.only(Points, Normals, Products)
        line = problem.dimension == 1
        single = all(group.atoms == 1 for group in problem.groups)
        return kinds and (line or (single and compares_two(problem)))


@final
class LogPanels(OnTheLine):
    """Panels are halved where the error asks for it; point masses and close members are lost."""

    def applies(self, problem: Problem) -> bool:
        return problem.compiled and super().applies(problem)

    def scratch(self, problem: Problem) -> int:
        return problem.dimension * sum(g.members * g.atoms * g.inner for g in problem.groups)

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        module = twin("forms.log_mixtures")
        laws = mixtures(stack.map(as_one_atom))
        members, n, d, _ = laws.loc.shape
        flat = (np.reshape(a, (members, n * d, -1)) for a in laws)
        kind, left = measure.question
        statistics = module.statistics(*flat, stack.member_weights(), kind, left, measure.rtol)
        shaped = (np.reshape(a, (*a.shape[:-1], n, d)) for a in statistics)
        entropies, values, lost = shaped
        return Statistics(entropies.sum(axis=-1), values.sum(axis=-1), lost.any(axis=-1))


@final
class LogMixtures(OnTheLine):
    """By a rule on panels of all components, whose nodes all members share."""

    def scratch(self, problem: Problem) -> int:
        components = max(group.atoms * group.inner for group in problem.groups)
        return problem.dimension * _scratch(problem.members, components)

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        stack = stack.map(as_one_atom)
        count = max(group.atoms.inner for group in stack.groups)
        each = _scratch(stack.member_count, count)
        return Statistics(*over_coordinates(stack, each, measure, _coordinates))


def _scratch(members: int, components: int) -> int:
    """Numbers that one coordinate touches: components times nodes."""
    return members * components * relative_entropy.node_count(members, components)


def mixtures(stack: Stack) -> Mixture:
    """Weights, locations and scales of all members, (M, n, d, K)."""
    xp = namespace(stack.reference)
    count = max(group.atoms.inner for group in stack.groups)
    groups = [to_products(group.atoms, count) for group in stack.groups]
    columns = zip(*((a.weights, a.loc, a.scale) for a in groups), strict=True)
    return Mixture(*(xp.concat(list(c), axis=0)[:, :, 0, ...] for c in columns))


def _coordinates(measure: Measure, stack: Stack) -> tuple[Array, Array]:
    """Entropies (M, n) and what is asked (n,), summed over coordinates."""
    laws = mixtures(stack)
    points = relative_entropy.points_for(measure.rtol)
    w = stack.member_weights()
    left = measure.question.left
    xp = namespace(w)
    if measure.question.kind == "pairs":
        entropies, values = relative_entropy.entropies_and_dispersion(w, *laws, points)
        return xp.sum(entropies, axis=-1), xp.sum(values, axis=-1)
    if left:  # each side has half of the weights
        shares = 2 * w[:, None, None, None]
        sides = [
            relative_entropy.pooled(shares[side, ...], Mixture(*(a[side, ...] for a in laws)))
            for side in (slice(0, left), slice(left, None))
        ]
        values = relative_entropy.mixture_kl(*sides[0], *sides[1], points)
    else:
        values = 2 * relative_entropy.mutual_information(w, *laws, points)
    entropies = relative_entropy.mixture_entropy(*laws, points)
    return xp.sum(entropies, axis=-1), xp.sum(values, axis=-1)
