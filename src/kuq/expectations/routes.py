"""Which form an ensemble takes as a whole, by kernel, shape and cost: the one place.

What has no form here goes by sums over pairs of atoms and of members, see rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kuq._array import Array, epsilon, is_traced, namespace, widen
from kuq.distributions.atoms import Normals, Points
from kuq.distributions.laws import Law, Stack
from kuq.expectations import cdf, fourier, gram, moments, one_scale, scalar
from kuq.expectations import sorted as by_sorting
from kuq.expectations.gram import Statistics
from kuq.expectations.measure import Measure
from kuq.kernels.base import Radial
from kuq.kernels.gaussian import Gaussian

#: Draws of all members from which on a Fourier series can be shorter than sums over pairs.
_FOURIER_DRAWS = 64
#: Partners of a draw from which on a matrix product beats differences.
_GRAM_PARTNERS = 3


class Route(NamedTuple):
    """H of a law; H and dispersion of a stack; numbers that one batch entry touches at once.

    The last argument of ``statistics`` does what a route leaves to sums over pairs of members.
    """

    entropy: Callable[[Measure, Law], Array]
    statistics: Callable[[Measure, Stack, Statistics], tuple[Array, Array]]
    cost: Callable[[Stack], int]


def chosen(measure: Measure, stack: Stack) -> Route | None:
    """The fast form for a stack, or None for plain sums over pairs."""
    kernel = measure.kernel
    if measure.is_quadratic:
        return MOMENTS
    if not all(isinstance(group.atoms, Points) for group in stack.groups):
        if _are_normal_fields(measure, stack):
            return ONE_SCALE
        return MANY_NORMALS if _are_many_scalar_normals(measure, stack) else None
    if is_sorted(measure, *stack.groups):
        return SORTED
    if not isinstance(kernel, Radial) or not _is_readable_double(stack.reference):
        return None
    on_the_line = stack.groups[0].dimension == 1
    if on_the_line and isinstance(kernel, Gaussian) and _draws(stack) >= _FOURIER_DRAWS:
        return FOURIER
    return GRAM if _draws(stack) > _GRAM_PARTNERS else None


def _are_normal_fields(measure: Measure, stack: Stack) -> bool:
    """Whether the members are single normals of several coordinates, under the Gaussian kernel."""
    law = stack.groups[0]
    single = isinstance(law.atoms, Normals) and law.count == 1 < law.dimension
    return single and len(stack.groups) == 1 and isinstance(measure.kernel, Gaussian)


def _are_many_scalar_normals(measure: Measure, stack: Stack) -> bool:
    law = stack.groups[0]
    single = isinstance(law.atoms, Normals) and law.dimension == law.count == 1
    many = len(stack.groups) == 1 and stack.member_count >= cdf.FEWEST_MEMBERS
    return many and single and measure.is_absolute and _is_readable_double(law.atoms.reference)


def is_sorted(measure: Measure, *laws: Law) -> bool:
    """Whether the kernel is |x − y| and the laws are scalar draws."""
    draws = all(isinstance(p.atoms, Points) and p.dimension == 1 for p in laws)
    return draws and measure.is_absolute


def has_gram_cross(measure: Measure, p: Law, q: Law) -> bool:
    """Whether two sets of draws are compared by a matrix product."""
    points = isinstance(p.atoms, Points) and isinstance(q.atoms, Points)
    many = min(p.count, q.count) > _GRAM_PARTNERS
    return (
        points
        and many
        and isinstance(measure.kernel, Radial)
        and _is_readable_double(p.atoms.reference)
    )


def _is_readable_double(array: Array) -> bool:
    """Pairs that lose digits are found by their values, and float32 has none to lose."""
    return not is_traced(array) and epsilon(widen(array[:1, :1, ...])) < 1e-15


def _draws(stack: Stack) -> int:
    return sum(int(group.atoms.lead[0]) * group.count for group in stack.groups)


def _fourier(measure: Measure, stack: Stack, by_pairs: Statistics) -> tuple[Array, Array]:
    return fourier.statistics(
        measure, stack, lambda some, members: gram.statistics(some, members, by_pairs)
    )


def _fourier_entropy(measure: Measure, law: Law) -> Array:
    def otherwise(some: Measure, stack: Stack) -> tuple[Array, Array]:
        value = gram.entropy(some, stack.groups[0])
        return value, value[0, ...]  # a dispersion that nobody reads

    return fourier.statistics(measure, Stack((law,)), otherwise)[0]


def _by_moments(measure: Measure, stack: Stack, by_pairs: Statistics) -> tuple[Array, Array]:
    xp = namespace(stack.reference)
    entropies = [moments.total_variance(group) for group in stack.groups]
    return xp.concat(entropies, axis=0), moments.dispersion(stack)


def _by_distribution_functions(
    measure: Measure, stack: Stack, by_pairs: Statistics
) -> tuple[Array, Array]:
    loc, scale = (a[..., 0, 0] for a in (stack.groups[0].atoms.loc, stack.groups[0].atoms.scale))

    def in_columns(some: Array | None) -> Array:
        return by_pairs(measure, stack if some is None else stack.take(some))[1]

    weights = stack.member_weights()
    dispersion = cdf.dispersion_or_pairs(loc, scale, weights, in_columns, measure.budget)
    return scalar.absolute_entropy(scale), dispersion


def _gram_cost(stack: Stack) -> int:
    count, dimension = _draws(stack), stack.groups[0].dimension
    if gram.is_large(count, dimension):
        return count * count  # of the draws one batch entry is copied at a time
    return count * max(count, dimension)


MOMENTS = Route(
    entropy=lambda measure, law: moments.total_variance(law),
    statistics=_by_moments,
    cost=lambda stack: _draws(stack) * max(int(group.atoms.size) for group in stack.groups),
)
MANY_NORMALS = Route(
    entropy=lambda measure, law: scalar.absolute_entropy(law.atoms.scale[..., 0, 0]),
    statistics=_by_distribution_functions,
    cost=lambda stack: stack.member_count // 4,
)
ONE_SCALE = Route(
    entropy=one_scale.entropy,
    statistics=one_scale.statistics,
    # Two pairs at a time fill a piece; all members together are touched by few operations.
    cost=lambda stack: max(2, -(-stack.member_count // 8)) * stack.groups[0].dimension,
)
SORTED = Route(
    entropy=lambda measure, law: by_sorting.entropy(law),
    statistics=lambda measure, stack, by_pairs: by_sorting.statistics(stack, measure.budget),
    cost=lambda stack: -(-_draws(stack) // 8),  # sorted in pieces
)
GRAM = Route(
    entropy=gram.entropy,
    statistics=gram.statistics,
    cost=_gram_cost,
)
FOURIER = Route(
    entropy=_fourier_entropy,
    statistics=_fourier,
    cost=lambda stack: -(-_draws(stack) // 8),
)
