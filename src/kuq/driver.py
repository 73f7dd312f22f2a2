"""The driver around forms: precision, units, tiles, threads, and the way back for lost digits."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from kuq import _compiled, door
from kuq._array import (
    Array,
    adopted,
    any_true,
    detach,
    epsilon,
    index_array,
    is_array,
    is_traced,
    may_hold,
    namespace,
    power_of_two,
    safe_sqrt,
    sum_of_squares,
    widen,
)
from kuq._threads import in_threads, workers
from kuq.distributions.atoms import NormalInverseGammas, Points, Products
from kuq.distributions.laws import Law, Stack, draws_of, worst_method
from kuq.distributions.strays import prepared, without_strays
from kuq.expectations import heavy_tails
from kuq.forms.form import (
    PAIRS,
    Crossing,
    Differentiated,
    Expecting,
    Form,
    Measure,
    Problem,
    Question,
    Statistics,
    in_units,
)
from kuq.forms.scale_quadrature import heavy_entropy
from kuq.forms.table import FORMS, no_form, plan
from kuq.kernels.base import Kernel, Radial, Score
from kuq.kernels.energy import Energy
from kuq.scores.options import Options
from kuq.tiles import TILE_ELEMENTS as _ROOM
from kuq.tiles import budget_elements, pieces, with_entries

#: Numbers touched from which on threads are worth their start.
SMALLEST_FOR_THREADS = 2**21
#: Nodes of a quadrature of densities, and pairs of nodes for the precision of evidential laws.
_NODES = 1000
#: Orders above that of the kernel up to which moments of heavy tails converge slowly.
_NEAR_POLE = 1.0
#: Numbers of a sum that takes less time than its start.
_SHORT = 8
#: Powers of two between which squares are far from the ends of float64.
_USUAL = 20


def over_tiles(
    score: Score,
    bandwidth: Array | float | None,
    stack: Stack,
    options: Options,
    compute: Callable[[Statistics, Stack], list[Array]],
    question: Question = PAIRS,
) -> tuple[list[Array], str]:
    """Arrays (…, n) made from the statistics of every tile, and the method of the form.

    What is as large as the members, such as their entropies, is never there for the whole batch.
    """
    if options.listener is not None:
        return compute(options.listener(score, bandwidth, stack, question), stack), "exact"
    n = stack.batch_count
    if n == 0:  # shapes come from one made-up entry
        width = 1.0 if bandwidth is not None else None
        values, method = over_tiles(score, width, stack.blank(), options, compute, question)
        return [array[..., :0] for array in values], method
    tensors = type(stack.reference) is not np.ndarray and _compiled.serves_losses()
    if tensors and isinstance(score, Kernel) and door.opens_for_losses(list(stack.arrays())):
        recorded = _as_one_step(score, bandwidth, stack, options)
        if recorded is not None:
            return compute(*recorded), "exact"
    return _step_by_step(score, bandwidth, stack, options, compute, question)


def _as_one_step(
    kernel: Kernel, bandwidth: Array | float | None, stack: Stack, options: Options
) -> tuple[Statistics, Stack] | None:
    """Statistics of tensors as one step that torch records; None if no form knows its derivative.

    The stack that comes with them has weights of their precision.
    """
    weights = [stack.weights, *(law.weights for law in stack.groups)]
    if any(map(door.is_recorded, (*weights, bandwidth))):
        return None
    if kernel.weights is not None:
        stack = stretched(stack.widened(), kernel.weights)
        kernel = dataclasses.replace(kernel, weights=None)  # type: ignore[type-var]
    wide = stack.mapped(lambda array: widen(door.entered(array)))
    problem = Problem.of(kernel, wide, compiled=True, directions=options.directions)
    chosen = plan(problem)
    form = chosen.forms[0]
    if chosen.apart is not None or not isinstance(form, Differentiated):
        return None
    if not form.differentiates(problem):
        return None
    if any(law.tail is not None or without_strays(law) is not law for law in wide.groups):
        return None
    width = door.entered(bandwidth) if is_array(bandwidth) else bandwidth
    budget = budget_elements(options.max_memory, wide.reference)
    measure = Measure(kernel, width, options.rtol, budget, compiled=True).at(slice(None))
    if not form.any_units(problem):
        measure, (same,), _ = to_units(measure, [wide])
        if same is not wide:
            return None
    arrays = [
        np.ascontiguousarray(getattr(law.atoms, name))
        for law in wide.groups
        for name in law.atoms.extra
    ]
    asked = np.eye(stack.member_count + 1)  # entropies and the dispersion, one after the other
    values_and_slopes = form.differential(wide, [True] * len(arrays), asked)(measure, arrays)
    if values_and_slopes is None:
        return None
    values, by_atoms = values_and_slopes

    def slopes(by_values: Sequence[np.ndarray | None]) -> list[np.ndarray | None]:
        (by,) = by_values
        assert by is not None
        return by_atoms(list(by.reshape(values.shape)))

    def again(tensors: Sequence[Array]) -> list[Array]:
        arrays = iter(tensors)
        inside = stack.map(
            lambda law: dataclasses.replace(law, atoms=law.atoms.map(lambda *_: next(arrays)))
        )

        def joined(statistics: Statistics, _: Stack) -> list[Array]:
            xp = namespace(statistics.dispersion)
            return [xp.concat([statistics.entropies, statistics.dispersion[None, :]], axis=0)]

        return _step_by_step(kernel, bandwidth, inside, options, joined)[0]

    tensors = [getattr(law.atoms, name) for law in stack.groups for name in law.atoms.extra]
    (recorded,) = door.recorded([values], tensors, slopes, again)
    shares = door.left(wide.member_weights(), stack.reference)
    groups = (
        law if law.weights is None else dataclasses.replace(law, weights=widen(law.weights))
        for law in stack.groups
    )
    return Statistics(recorded[:-1], recorded[-1]), Stack(tuple(groups), shares)


def _step_by_step(
    score: Score,
    bandwidth: Array | float | None,
    stack: Stack,
    options: Options,
    compute: Callable[[Statistics, Stack], list[Array]],
    question: Question = PAIRS,
) -> tuple[list[Array], str]:
    n = stack.batch_count
    reference = stack.reference
    problem, compiled = _problem(score, stack, options, question)
    chosen = plan(problem)
    budget, memory = options.budget(reference), options.max_memory
    measure = Measure(
        score, bandwidth, options.rtol, budget, compiled, memory, question, options.directions
    )
    sampled = chosen.forms[0].sampled
    cost = max(chosen.scratch, _copied(problem, stack) * budget // max(budget, _ROOM))

    def tile(entries: slice) -> list[Array]:
        tile_stack = stack.index(entries) if entries.stop - entries.start < n else stack
        tile_measure = measure.at(entries)
        if not (tile_stack.is_plain or sampled):
            tile_stack = prepared(tile_stack)
        if score.weights is not None and not sampled:
            tile_stack = stretched(tile_stack, score.weights)
            tile_measure = dataclasses.replace(tile_measure, score=score.changed(weights=None))
        statistics = _statistics(problem, tile_measure, tile_stack)
        return compute(_with_heavy_tails(statistics, tile_measure, tile_stack), tile_stack)

    if n * cost <= budget:
        return tile(slice(0, n)), chosen.method
    parts = list(pieces(n, cost, budget, reference))
    # Compiled code has threads of its own, and so have projections.
    threads = 1 if compiled or sampled else threads_for(n * cost, reference)
    results = in_threads(tile, parts, threads)
    return [concatenated(tiles) for tiles in zip(*results, strict=True)], chosen.method


def _problem(
    score: Score, stack: Stack, options: Options, question: Question
) -> tuple[Problem, bool]:
    """What is to be solved, and whether compiled code is to do it."""
    work = _work(score, stack, question)
    compiled = work > 0 and _compiled.wanted(work, stack.reference)
    return Problem.of(score, stack, compiled, question, options.directions), compiled


def planned(score: Score, stack: Stack, options: Options) -> tuple[bool, str]:
    """Whether the statistics are those of one unit of random directions, and the method."""
    chosen = plan(_problem(score, stack, options, PAIRS)[0])
    plans = [chosen] if chosen.apart is None else [plan(problem) for problem in chosen.apart]
    sampled = any(each.forms[0].sampled for each in plans)
    return sampled, worst_method(stack.method, chosen.method)


def _with_heavy_tails(statistics: Statistics, measure: Measure, stack: Stack) -> Statistics:
    """Entropies in closed form of laws whose own form is a quadrature of their tails."""
    if not stack.has_tails:
        return statistics
    xp = namespace(statistics.dispersion)
    parts = []
    for start, law in stack.offsets():
        if _is_near_its_pole(measure, law):
            unit_measure, (alone,), factor = to_units(measure, [Stack((law,))])
            entropy = heavy_entropy(unit_measure, alone.groups[0])
            entropy = entropy if factor is None else entropy * factor
        else:
            entropy = heavy_tails.entropy(measure.score, law)
        h = statistics.entropies[start : start + law.atoms.lead[0], ...]
        parts.append(h if entropy is None else entropy)
    return statistics._replace(entropies=xp.concat(parts, axis=0))


def _is_near_its_pole(measure: Measure, law: Law) -> bool:
    """Whether these are vectors whose moment of the kernel's degree only just exists."""
    vectors = law.tail is not None and law.dimension > 1 and not is_traced(law.tail)
    if not vectors or not isinstance(measure.score, Energy):
        return False
    assert isinstance(law.atoms, Products)
    return law.atoms.heaviest < measure.score.beta + _NEAR_POLE


def _copied(problem: Problem, stack: Stack) -> int:
    """Numbers of one batch entry that a tile copies: those of float32, and entropies."""
    if stack.reference.dtype == np.float64:
        return stack.member_count
    return problem.atoms * problem.dimension


def concatenated(parts: Sequence[Array]) -> Array:
    """Arrays (…, n) of one tile after the other."""
    return parts[0] if len(parts) == 1 else namespace(parts[0]).concat(parts, axis=-1)


def expectation(
    kernel: Kernel, bandwidth: Array | float | None, left: Stack, right: Stack, options: Options
) -> Array:
    """Σ w_i v_j E k(X_i, Y_j) over the members of two stacks, (n,)."""
    if left.batch_count == 0:
        width = 1.0 if bandwidth is not None else None
        return expectation(kernel, width, left.blank(), right.blank(), options)[:0]
    problem = Problem.of(kernel, Stack((*left.groups, *right.groups)), compiled=False)
    form = next((f for f in FORMS if isinstance(f, Expecting) and f.applies(problem)), None)
    if form is None:
        raise no_form(problem)
    budget = options.budget(left.reference)
    measure = Measure(kernel, bandwidth, options.rtol, budget)
    xp = namespace(left.reference)
    w, v = left.member_weights(), right.member_weights()
    parts = []
    for entries in pieces(left.batch_count, form.scratch(problem), budget, left.reference):
        stacks = [
            stretched(prepared(stack.index(entries)), kernel.weights) for stack in (left, right)
        ]
        tile_measure, stacks = to_units(measure.at(entries), stacks)[:2]
        total: Array | float = 0.0
        for i, p in enumerate(stacks[0].members()):
            for j, q in enumerate(stacks[1].members()):
                total = total + w[i] * v[j] * form.expectation(tile_measure, p, q)[0]
        parts.append(total)
    return xp.concat(parts)


def _work(score: Score, stack: Stack, question: Question) -> int:
    """Evaluations of the kernel that plain sums over pairs would need."""
    atoms = members = 0
    for law in stack.groups:
        members += law.atoms.lead[0]
        atoms += law.atoms.lead[0] * law.count * law.atoms.inner
    pairs = stack.batch_count * atoms * (atoms + 1) // 2
    if score.local:  # closed forms of normals have no compiled twin
        pairs *= _NODES if atoms > members or question.kind == "mixture" else 0
    elif isinstance(stack.groups[0].atoms, NormalInverseGammas):
        pairs *= _NODES
    return int(pairs * max(1, stack.groups[0].atoms.dimension / 3))


def threads_for(work: int, reference: Array) -> int:
    """How many tiles run side by side."""
    small = work < SMALLEST_FOR_THREADS
    return 1 if small or not isinstance(reference, np.ndarray) else workers()


def _statistics(problem: Problem, measure: Measure, stack: Stack) -> Statistics:
    chosen = plan(problem)
    if chosen.apart is None:
        return _solved(chosen.forms, problem, measure, stack)
    return _beside_draws(chosen.apart, measure, stack)


def _beside_draws(apart: tuple[Problem, Problem], measure: Measure, stack: Stack) -> Statistics:
    """Many draws and other members: each by forms of their own, and pairs between them."""
    xp = namespace(stack.reference)
    drawn, share, places = stack.subset(Points, True)
    others, rest, other_places = stack.subset(Points, False)
    of_draws = _statistics(apart[0], measure, drawn)
    of_others = _statistics(apart[1], measure, others)
    inside = share * share * of_draws.dispersion + rest * rest * of_others.dispersion
    between = _between(measure, drawn, others, of_draws.entropies)
    # What was computed apart goes back to the places of the members.
    entropies = xp.concat([of_draws.entropies, of_others.entropies], axis=0)
    order = np.argsort(places + other_places)
    entropies = xp.take(entropies, index_array(order, entropies), axis=0)
    return Statistics(entropies, inside + 2 * share * rest * between)


def _between(measure: Measure, drawn: Stack, others: Stack, entropies: Array) -> Array:
    """Σ w_i v_j D(P_i, Q_j), P_i draws with these entropies, which are ½ Σ D inside of them."""
    problem = Problem.of(measure.kernel, Stack((*drawn.groups, *others.groups)), compiled=False)
    form = next(f for f in FORMS if isinstance(f, Crossing) and f.applies(problem))
    unit_measure, (drawn, others), factor = to_units(measure, [drawn, others])
    w, v = drawn.member_weights(), others.member_weights()
    total: Array | float = 0.0
    for j, q in enumerate(others.members()):
        inside = form.inside(unit_measure, q)[0] / 2
        for i, p in enumerate(drawn.members()):
            pairs = form.cross(unit_measure, p, q)[0] - inside
            value = (pairs if factor is None else pairs * factor) - entropies[i, :]
            total = total + w[i] * v[j] * value
    return total


def _solved(
    forms: tuple[Form, ...], problem: Problem, measure: Measure, stack: Stack
) -> Statistics:
    """The first form, and for entries in which it lost its digits the ones after it."""
    form, others = forms[0], forms[1:]
    statistics = _in_own_units(form, problem, measure, stack)
    lost = statistics.lost
    if lost is None or not others:
        return statistics
    xp = namespace(lost)
    if is_traced(lost):
        again = _solved(others, problem, measure, stack)
        entropies = xp.where(lost, again.entropies, statistics.entropies)
        return Statistics(entropies, xp.where(lost, again.dispersion, statistics.dispersion))
    if not any_true(lost):
        return statistics
    index = xp.nonzero(lost)[0]
    cost = others[0].scratch(problem)
    tiles = [
        _solved(others, problem, measure.at(index[entries]), stack.take(index[entries]))
        for entries in pieces(index.shape[0], cost, measure.budget, stack.reference)
    ]
    entropies = concatenated([tile.entropies for tile in tiles])
    dispersion = concatenated([tile.dispersion for tile in tiles])
    return Statistics(
        with_entries(statistics.entropies, lost, entropies),
        with_entries(statistics.dispersion, lost, dispersion),
    )


# Units.


def _in_own_units(form: Form, problem: Problem, measure: Measure, stack: Stack) -> Statistics:
    if form.any_units(problem) or not isinstance(measure.score, Radial):
        return form.statistics(measure, stack)
    measure, (stack,), factor = to_units(measure, [stack])
    statistics = form.statistics(measure, stack)
    if factor is None:
        return statistics
    return statistics._replace(
        entropies=statistics.entropies * factor, dispersion=statistics.dispersion * factor
    )


def to_units(measure: Measure, stacks: list[Stack]) -> tuple[Measure, list[Stack], Array | None]:
    """Bring laws and bandwidth to unit scale, so that no square leaves the range of floats.

    The last item is what results of a homogeneous kernel have to be multiplied by.
    """
    kernel = measure.score
    if not isinstance(kernel, Radial):
        return measure, stacks, None
    unit = _unit(stacks)
    usual = not may_hold(unit != 1)
    if not usual:
        stacks = [divided(stack, unit) for stack in stacks]
    if kernel.degree is None:
        width = 1.0 if measure.bandwidth is None else measure.bandwidth
        return dataclasses.replace(measure, bandwidth=in_units(width, unit)), stacks, None
    if usual:
        return measure, stacks, None
    xp = namespace(unit)
    return measure, stacks, xp.pow(unit, xp.full_like(unit, kernel.degree))


def _unit(stacks: list[Stack]) -> Array:
    """A power of two of the size of the data, (n,): dividing by it loses nothing."""
    laws = [law for stack in stacks for law in stack.groups]
    xp = namespace(stacks[0].reference)
    if _are_usual_draws(laws):
        return xp.ones_like(stacks[0].pivot()[..., 0])
    size = size_of(stacks)
    unit = power_of_two(size)
    mixed = any(isinstance(law.atoms, Products) for law in laws)
    # No need to copy what is of ordinary size; components of mixtures may be wide by any factor.
    if epsilon(size) < 1e-10 and not mixed:
        usual = (unit >= 2.0**-_USUAL) & (unit <= 2.0**_USUAL)
        unit = xp.where(usual, xp.ones_like(unit), unit)
    return unit


@np.errstate(over="ignore")
def _are_usual_draws(laws: list[Law]) -> bool:
    """Whether all laws are draws whose squares have an ordinary size, seen in one quick pass."""
    reference = laws[0].atoms.reference
    draws = all(isinstance(law.atoms, Points) for law in laws)
    if not draws or epsilon(reference) > 1e-10:
        return False
    xp = namespace(reference)
    for law in laws:
        value = detach(draws_of(law))
        rows = xp.reshape(value, (*value.shape[:2], -1))  # long ones: short sums are slow
        if rows.shape[2] < _SHORT:
            square = xp.sum(xp.sum(rows * rows, axis=0), axis=-1)
        else:
            square = xp.sum(sum_of_squares(rows), axis=0)
        # A mean square in the middle: no number is far above it, and those far below do not matter.
        square = square / (rows.shape[0] * rows.shape[2])
        usual = (square > 4.0**-_USUAL) & (square < 4.0**_USUAL)
        if may_hold(~usual):
            return False
    return True


def size_of(stacks: list[Stack]) -> Array:
    """The largest size of anything in units of the outcome, (n,)."""
    xp = namespace(stacks[0].reference)
    pivot = stacks[0].pivot()
    size = xp.zeros_like(pivot[..., 0])
    for stack in stacks:
        for group in stack.groups:
            size = xp.maximum(size, group.atoms.extent(pivot))
    return size


def divided(stack: Stack, unit: Array) -> Stack:
    """The stack in units (n,)."""

    def scaled(array: Array, axes: int) -> Array:
        return array / unit[(..., *(None,) * (axes + 1))]

    return stack.map(lambda law: dataclasses.replace(law, atoms=law.atoms.scaled(scaled)))


def stretched(stack: Stack, weights: Array | None) -> Stack:
    """Σ w_j (x_j − y_j)² is the plain distance of coordinates that are stretched by √w."""
    if weights is None:
        return stack
    xp = namespace(stack.reference)
    stretch = safe_sqrt(xp.reshape(adopted(weights, stack.reference), (-1,)))

    def scaled(array: Array, axes: int) -> Array:
        return array * stretch[(..., *(None,) * (axes - 1))]

    return stack.map(lambda law: dataclasses.replace(law, atoms=law.atoms.scaled(scaled)))
