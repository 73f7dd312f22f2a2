"""Which fast form an ensemble of samples takes, by kernel, shape and cost: the one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kuq._array import Array, epsilon, is_traced, widen
from kuq.distributions.atoms import Points
from kuq.distributions.laws import Law, Stack
from kuq.expectations import fourier, gram
from kuq.expectations import sorted as by_sorting
from kuq.expectations.atoms import Measure
from kuq.expectations.gram import Statistics
from kuq.kernels.base import Radial
from kuq.kernels.energy import Energy
from kuq.kernels.gaussian import Gaussian
from kuq.kernels.squared_error import SquaredError

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
    """The fast form for a stack, or None for plain sums over pairs of atoms."""
    kernel = measure.kernel
    if not all(isinstance(group.atoms, Points) for group in stack.groups):
        return None
    if is_sorted(measure, *stack.groups):
        return SORTED
    if not isinstance(kernel, Radial) or isinstance(kernel, SquaredError):
        return None
    if not _is_readable_double(stack.reference):
        return None
    scalar = stack.groups[0].dimension == 1
    if scalar and isinstance(kernel, Gaussian) and _draws(stack) >= _FOURIER_DRAWS:
        return FOURIER
    return GRAM if _draws(stack) > _GRAM_PARTNERS else None


def is_sorted(measure: Measure, *laws: Law) -> bool:
    """Whether the kernel is |x − y| and the laws are scalar draws."""
    kernel = measure.kernel
    absolute = isinstance(kernel, Energy) and kernel.beta == 1
    return absolute and all(isinstance(p.atoms, Points) and p.dimension == 1 for p in laws)


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


SORTED = Route(
    entropy=lambda measure, law: by_sorting.entropy(law),
    statistics=lambda measure, stack, by_pairs: by_sorting.statistics(stack, measure.budget),
    cost=_draws,
)
GRAM = Route(
    entropy=gram.entropy,
    statistics=gram.statistics,
    cost=lambda stack: (
        _draws(stack) * max(_draws(stack), min(stack.groups[0].dimension, gram.COORDINATES))
    ),
)
FOURIER = Route(
    entropy=_fourier_entropy,
    statistics=_fourier,
    cost=lambda stack: 8 * _draws(stack),  # powers of exp(iωx) that are alive together
)
