"""The log score of normals and point masses, in closed form."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from kuq._array import Array, is_traced, namespace
from kuq.distributions.atoms import LowRanks, Normals, Points, to_low_ranks, to_normals
from kuq.distributions.laws import Law, Stack
from kuq.distributions.zero_variances import without_zeros
from kuq.expectations import densities
from kuq.expectations.law_entropies import law_entropy
from kuq.forms.form import Form, Measure, Problem, Statistics
from kuq.tiles import PairBlock, pieces, sum_over_pairs


class LogForm(Form):
    """Forms of the log score: logarithms of densities have no units in which they overflow."""

    @final
    def any_units(self, problem: Problem) -> bool:
        return True


def compares_two(problem: Problem) -> bool:
    """Whether no mixture of several members is asked for."""
    pair = problem.question.left == 1 and problem.members == 2
    return problem.question.kind == "pairs" or pair or problem.members == 1


def over_coordinates(
    stack: Stack,
    each: int,
    measure: Measure,
    compute: Callable[[Measure, Stack], tuple[Array, Array]],
) -> tuple[Array, Array]:
    """Sums over parts of the event, where a coordinate of a batch entry costs ``each`` numbers."""
    reference, dimension = stack.reference, stack.groups[0].atoms.dimension
    each *= stack.batch_count
    if each * dimension <= measure.budget or is_traced(reference):
        return compute(measure, stack)
    sums = [
        compute(measure, stack.coordinates(chunk))
        for chunk in pieces(dimension, each, measure.budget, reference)
    ]
    entropies, values = (sum(x[1:], start=x[0]) for x in zip(*sums, strict=True))
    return entropies, values


@final
class LogNormals(LogForm):
    """Normals with independent coordinates; of point masses the mixture is known, too."""

    def applies(self, problem: Problem) -> bool:
        kinds = problem.densities and problem.only(Points, Normals)
        single = all(group.atoms == 1 for group in problem.groups)
        points = problem.only(Points) and problem.question.kind == "mixture"
        return kinds and single and (points or compares_two(problem))

    def scratch(self, problem: Problem) -> int:
        return problem.members * problem.dimension

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        entropies, dispersion = over_coordinates(stack, stack.member_count, measure, _coordinates)
        if measure.question.kind == "mixture" and stack.member_count > 1:
            dispersion = 2 * _point_information(stack)
        return Statistics(entropies, dispersion)


def _coordinates(measure: Measure, stack: Stack) -> tuple[Array, Array]:
    """Entropies (M, n) and what is asked of pairs (n,), summed over coordinates."""
    xp = namespace(stack.reference)
    laws = [to_normals(group.atoms) for group in stack.groups]
    loc, scale = laws[0].loc, laws[0].scale
    if len(laws) > 1:
        loc, scale = (xp.concat([getattr(law, x) for law in laws]) for x in ("loc", "scale"))
    loc, scale = loc[:, :, 0, :], scale[:, :, 0, :]
    if measure.question.left:
        values = densities.normal_kl(loc[0, ...], scale[0, ...], loc[1, ...], scale[1, ...])
    else:
        values = densities.normal_dispersion(loc, scale, stack.member_weights())
    return xp.sum(densities.normal_entropy(scale), axis=-1), xp.sum(values, axis=-1)


def _point_information(stack: Stack) -> Array:
    """The mutual information of point masses, −Σ w_i log Σ_j w_j [x_i = x_j], (n,)."""
    xp = namespace(stack.reference)
    values = xp.concat([group.atoms.mean() for group in stack.groups])[:, :, 0, :]
    equal = xp.all(values[:, None, ...] == values[None, ...], axis=-1)
    w = stack.member_weights()[:, None]
    together = xp.sum(xp.astype(equal, values.dtype) * w, axis=1)
    return -xp.sum(w * xp.log(together), axis=0)


@final
class LogLowRanks(LogForm):
    """Normals whose coordinates depend on each other by a factor of low rank."""

    def applies(self, problem: Problem) -> bool:
        kinds = problem.densities and problem.only(Points, Normals, LowRanks)
        single = all(group.atoms == 1 for group in problem.groups)
        return kinds and single and compares_two(problem)

    def scratch(self, problem: Problem) -> int:
        return problem.dimension * (2 + max(group.inner for group in problem.groups))

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        xp = namespace(stack.reference)
        stack = _of_one_rank(stack)
        entropies = xp.concat([law_entropy(group) for group in stack.groups])
        if measure.question.left:
            p, q = stack.members()
            return Statistics(entropies, _divergence(p, q)[0, ...])
        each = max(group.atoms.size for group in stack.groups)

        def mean_of_both(block: PairBlock) -> Array:
            return (_divergence(block.p, block.q) + _divergence(block.q, block.p)) / 2

        total = sum_over_pairs(stack, lambda p, q: each, measure.budget, mean_of_both)
        return Statistics(entropies, total)


def _of_one_rank(stack: Stack) -> Stack:
    atoms = [
        without_zeros(group.atoms) if isinstance(group.atoms, LowRanks) else group.atoms
        for group in stack.groups
    ]
    rank = max(a.inner for a in atoms)
    return Stack(tuple(Law(to_low_ranks(a, rank)) for a in atoms), stack.weights)


def _divergence(p: Law, q: Law) -> Array:
    """KL(Q‖P), (m, n)."""
    a, b = p.atoms, q.atoms
    assert isinstance(a, LowRanks)
    assert isinstance(b, LowRanks)
    return densities.low_rank_kl(a.loc, a.factor, a.diag, b.loc, b.factor, b.diag)[..., 0]
