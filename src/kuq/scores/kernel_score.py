"""Kernel scores of predictions: tiles, units and unbiasing around the rules."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from kuq._array import (
    Array,
    any_true,
    detach,
    epsilon,
    namespace,
    power_of_two,
    require,
    sum_of_squares,
)
from kuq._compiled import repeated
from kuq._threads import in_threads, workers
from kuq.distributions.atoms import Points, Products
from kuq.distributions.laws import Law, Stack, worst_method
from kuq.distributions.strays import prepared
from kuq.errors import InsufficientDataError
from kuq.expectations import moments, routes, rules, whole_ensembles
from kuq.expectations.measure import Measure
from kuq.expectations.tiles import fitting_elements, pieces, tile_elements
from kuq.kernels.base import Radial, Term
from kuq.kernels.marginal import reduce_event
from kuq.scores.options import Options, budget_of
from kuq.scores.views import View, divided, flat_bandwidth, size_of, stretched

#: Numbers touched from which on threads are worth their start.
SMALLEST_FOR_THREADS = 2**21
#: Powers of two between which squares are far from the ends of float64.
_USUAL = 20


def over_tiles(
    term: Term, options: Options, views: list[View], compute: Callable[..., list[Array]]
) -> list[Array]:
    """Run ``compute(measure, *stacks)`` on pieces of the batch and join the results."""
    first = views[0]
    reference = first.stack.reference
    xp = namespace(reference)
    measure = _measure(term, options, first)
    cost = rules.item_cost(measure, *(v.stack for v in views))

    def tile(part: slice, take: Callable[[Stack], Stack] | None = None) -> list[Array]:
        take = take or (lambda stack: stack.index(part))
        stacks = [stretched(prepared(take(v.stack)), term.kernel.weights) for v in views]
        return _in_own_units(measure.at(part), stacks, compute)

    n = first.stack.batch_count
    if n == 0:  # shapes come from one made-up entry
        return [value[..., :0] for value in tile(slice(0, 0), Stack.blank)]
    parts = list(pieces(n, cost, measure.budget, reference))
    with repeated(len(parts)):
        results = in_threads(tile, parts, threads_for(n * cost, reference))
    joined = [xp.concat(list(column), axis=-1) for column in zip(*results, strict=True)]
    return [term.factor * value for value in joined]


def threads_for(work: int, reference: Array) -> int:
    """How many tiles run side by side."""
    small = work < SMALLEST_FOR_THREADS
    return 1 if small or not isinstance(reference, np.ndarray) else workers()


def without_tiles(term: Term, options: Options, v: View) -> list[Array] | None:
    """Aleatoric part and dispersion by code that needs neither tiles nor units, if there is any."""
    measure = _measure(term, options, v)
    if term.kernel.weights is not None:
        return None
    parts = whole_ensembles.aleatoric_and_dispersion(measure, v.stack)
    return None if parts is None else [term.factor * part for part in parts]


def _measure(term: Term, options: Options, v: View) -> Measure:
    reference = v.stack.reference
    width = flat_bandwidth(term.kernel, v.shape, v.marginal is not None, reference)
    room = tile_elements(options.max_memory, reference)
    most = fitting_elements(options.max_memory, reference)
    return Measure(term.kernel, width, options.rtol, budget_of(options, reference), room, most)


def _in_own_units(
    measure: Measure, stacks: list[Stack], compute: Callable[..., list[Array]]
) -> list[Array]:
    """Bring laws and bandwidth to unit scale, so that no square leaves the range of floats."""
    kernel = measure.kernel
    laws = [group for stack in stacks for group in stack.groups]
    if not isinstance(kernel, Radial) or routes.is_sorted(measure, *laws):  # nothing is squared
        return compute(measure, *stacks)
    unit = _unit(stacks)
    if any_true(unit != 1) is not False:
        stacks = [divided(stack, unit) for stack in stacks]
    degree = kernel.card.homogeneous_degree
    if degree is None:
        width = 1.0 if measure.bandwidth is None else measure.bandwidth
        return compute(dataclasses.replace(measure, bandwidth=in_units(width, unit)), *stacks)
    xp = namespace(unit)
    scale = xp.pow(unit, xp.full_like(unit, degree))
    return [value * scale for value in compute(measure, *stacks)]


@np.errstate(over="ignore", under="ignore")
def in_units(bandwidth: Array | float, unit: Array) -> Array:
    """The bandwidth in units of the data, cut where its square would leave the range of floats.

    Kernels so narrow or so wide are zero or constant to more than a hundred digits.
    """
    xp = namespace(unit)
    far = float(xp.finfo(unit.dtype).max) ** 0.45
    return xp.clip(bandwidth / unit, 1 / far, far)


def _unit(stacks: list[Stack]) -> Array:
    """A power of two of the size of the data, (n,): dividing by it loses nothing."""
    xp = namespace(stacks[0].reference)
    if _are_usual_draws(stacks):
        return xp.ones_like(moments.pivot_of(stacks[0])[..., 0])
    size = size_of(stacks)
    unit = power_of_two(size)
    mixed = any(isinstance(group.atoms, Products) for stack in stacks for group in stack.groups)
    # No need to copy what is of ordinary size; components of mixtures may be wide by any factor.
    if epsilon(size) < 1e-10 and not mixed:
        usual = (unit >= 2.0**-_USUAL) & (unit <= 2.0**_USUAL)
        unit = xp.where(usual, xp.ones_like(unit), unit)
    return unit


@np.errstate(over="ignore")
def _are_usual_draws(stacks: list[Stack]) -> bool:
    """Whether all laws are draws whose squares have an ordinary size, seen in one quick pass."""
    laws = [group for stack in stacks for group in stack.groups]
    if (
        not all(isinstance(law.atoms, Points) for law in laws)
        or epsilon(laws[0].atoms.value) > 1e-10
    ):
        return False
    xp = namespace(laws[0].atoms.value)
    for law in laws:
        value = detach(law.atoms.value)
        rows = xp.reshape(value, (*value.shape[:2], -1))  # long ones: short sums are slow
        # A mean square in the middle: no number is far above it, and those far below do not matter.
        square = xp.sum(sum_of_squares(rows), axis=0) / (rows.shape[0] * rows.shape[2])
        usual = (square > 4.0**-_USUAL) & (square < 4.0**_USUAL)
        if any_true(~usual) is not False:
            return False
    return True


def bias(law: Law, entropies: Array, unbiased_samples: bool) -> Array:
    """H_U − H_V of every member: what its finite number of draws takes away, (m, n)."""
    xp = namespace(entropies)
    if not law.drawn or not (unbiased_samples or law.method == "monte-carlo"):
        return xp.zeros_like(entropies)
    if law.count < 2:
        raise InsufficientDataError(
            "unbiased statistics need at least two draws of each law, got N = 1; "
            'pass unbiased=False, or unbiased="members" to correct for members only'
        )
    share = law.concentration()
    if not isinstance(share, float):
        alone = share > 1 - 1e-9
        share = xp.where(alone, xp.full_like(share, math.nan), share)
        return entropies * (share / (1 - share))
    return entropies * (share / (1 - share))


def member_statistics(
    measure: Measure, stack: Stack, options: Options
) -> tuple[Array, Array, Array]:
    """H_V and its bias for every member, (M, n) each, and the dispersion (n,)."""
    entropies, spread = rules.statistics(measure, stack)
    if stack.member_count > 1:
        spread = _infinite_beyond(spread, lowest_tail(stack), _growth(measure))
    return *_with_bias(measure, stack, entropies, options), spread


def member_entropies(measure: Measure, stack: Stack, options: Options) -> tuple[Array, Array]:
    """The same without the dispersion."""
    xp = namespace(stack.reference)
    entropies = xp.concat([rules.entropy(measure, group) for group in stack.groups], axis=0)
    return _with_bias(measure, stack, entropies, options)


def _with_bias(
    measure: Measure, stack: Stack, entropies: Array, options: Options
) -> tuple[Array, Array]:
    xp = namespace(entropies)
    known, biases = [], []
    for start, group in stack.offsets():
        h = entropies[start : start + group.atoms.lead[0], ...]
        known.append(_infinite_beyond(h, group.tail, _growth(measure)))
        biases.append(bias(group, h, options.unbiased_samples))
    return xp.concat(known, axis=0), xp.concat(biases, axis=0)


def lowest_tail(*stacks: Stack) -> Array | None:
    """The lowest order without moments among the members, (n, d)."""
    tails = [group.tail for stack in stacks for group in stack.groups if group.tail is not None]
    if not tails:
        return None
    xp = namespace(*tails)
    return xp.min(xp.concat(tails, axis=0), axis=0)


def infinite_without_moments(value: Array, measure: Measure, *stacks: Stack) -> Array:
    return _infinite_beyond(value, lowest_tail(*stacks), _growth(measure))


def _growth(measure: Measure) -> float:
    """The order of the moment that the kernel needs; zero for bounded kernels."""
    degree = measure.kernel.card.homogeneous_degree
    return 0.0 if degree is None else degree


def _infinite_beyond(value: Array, tail: Array | None, degree: float) -> Array:
    """inf where a moment of the kernel's degree does not exist; the tail is (…, d)."""
    if tail is None or degree == 0:
        return value
    xp = namespace(value)
    closed = degree == 2 or tail.shape[-1] == 1
    tail = xp.min(tail, axis=-1)
    exists = tail > degree
    if closed:
        return xp.where(exists, value, xp.full_like(value, math.inf))
    # The quadrature over scales ends where squares overflow, too early just above the pole.
    largest = math.log(float(xp.finfo(value.dtype).max))
    margin = (40 if largest > 100 else 24) / (0.85 * largest)
    require(
        ~(exists & (tail < degree + margin)),
        "df of a Student-t law",
        f"at most {degree:g} (infinite value) or at least {degree + margin:.3g} "
        "for vectors under this score",
        tail,
        "closer to the pole its quadrature is not accurate",
    )
    return xp.where(exists, value, xp.full_like(value, math.inf))


def finish(values: Array, v: View) -> Array:
    """Flat results to batch shape, reduced over the event of a marginal kernel."""
    xp = namespace(values)
    lead = tuple(values.shape[:-1])
    shaped = xp.reshape(values, (*lead, *v.shape))
    if v.marginal is None:
        return shaped
    return reduce_event(shaped, v.marginal.reduce, v.marginal.weights, len(v.event_shape))


def term_method(term: Term, *views: View) -> str:
    """How the worst part of a term was computed."""
    return worst_method(*(_stack_method(term, v) for v in views))


def _stack_method(term: Term, v: View) -> str:
    own = v.stack.method
    points = all(isinstance(group.atoms, Points) for group in v.stack.groups)
    if points:
        return own
    probe = Measure(term.kernel, None, 1e-8, 1)
    scalar = v.stack.groups[0].dimension == 1
    closed = scalar and probe.closed_in_one_dimension
    return worst_method(own, "exact" if closed else probe.method)
