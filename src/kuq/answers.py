"""What the public functions ask of a score, made of the statistics of stacks of laws.

With the dispersion Σ w_i w_j D(P_i, P_j) of any set of laws a kernel has nothing else to compute:

    D(P, Q) = 2 · dispersion of {P, Q} with equal weights,
    D(P̄, Q̄) = 2 · dispersion of all members, weights halved − that of P's − that of Q's,

and the matrix of all D(P_i, P_j) is the same for a batch of pairs. Unbiasing is one correction
after these V-statistics: with 1/n = Σ v² over a member's draws, b = H/(n − 1) is what their number
takes from its entropy, and D loses the b of either side. The log score asks for the mixture and for
D(P̄, Q̄) themselves (``Question``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kuq._array import Array, adopted, index_array, namespace, weighted_sum, widen
from kuq.distributions.atoms import Points
from kuq.distributions.base import Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.laws import Law, Stack, is_regular, worst_method
from kuq.distributions.normal import Point
from kuq.driver import concatenated, expectation, over_tiles
from kuq.errors import InsufficientDataError, ShapeError
from kuq.forms.form import BETWEEN, MIXTURE, PAIRS, Question, Statistics, sides
from kuq.kernels.base import Kernel, Radial, Score, Term
from kuq.scores.levels import Design
from kuq.scores.options import Options
from kuq.tiles import member_pairs, pieces, tile_elements
from kuq.views import AnyScore, View, finished, flat_bandwidth, in_parts, resolve_bandwidths, views


@in_parts(0, 0)
def decompose(
    prediction: Prediction, score: AnyScore, options: Options, estimator: str = "pairwise"
) -> tuple[AnyScore, Array, Array, str]:
    """The score with numbers as bandwidths, AU, EU, and the method."""
    score = resolve_bandwidths(score, [prediction], options)
    mixed = estimator == "bma"
    question = MIXTURE if mixed else PAIRS

    def both(parts: Parts, w: Array) -> list[Array]:
        aleatoric = weighted_sum(w[:, 0], parts.of_laws())
        return [aleatoric, parts.less_bias(parts.dispersion, 2 * w * (1 - w))]

    def of_term(term: Term) -> tuple[Array, Array, str]:
        (view,) = views(term, options, prediction, question=question)
        (aleatoric, epistemic), method = _over_members(
            term, view, view.stack, options, both, question
        )
        if options.unbiased_members and not (mixed and term.score.local):
            epistemic = epistemic / (1 - view.stack.concentration())
        if mixed:
            epistemic = epistemic / 2
        return finished(aleatoric, view), finished(epistemic, view), method

    aleatoric, epistemic, methods = _over_terms(score, of_term)
    return score, aleatoric, epistemic, worst_method(*methods)


@in_parts(0)
def entropy(p: Prediction, score: Score, options: Options) -> Array:
    """H(P̄) = Σ w H_m + ½ dispersion, with Σ w² b for draws."""
    score = resolve_bandwidths(score, [p], options)

    def value(parts: Parts, w: Array) -> list[Array]:
        inside = namespace(w).sum(w * parts.entropies, axis=0)
        return [parts.less_bias(inside + parts.dispersion / 2, -w * w)]

    def of_term(term: Term) -> tuple[Array]:
        (view,) = views(term, options, p, question=MIXTURE)
        (entropies,), _ = _over_members(term, view, view.stack, options, value, MIXTURE)
        return (finished(entropies, view),)

    return _over_terms(score, of_term)[0]


def score(p: Prediction, outcome: Array, score: Score, options: Options) -> Array:
    """S(P, y): the divergence from the point mass at y, which has no density for the log score."""
    if score.local:
        return -p.log_density(outcome)
    return divergence(p, Point.at(outcome, len(p.event_shape)), score, options)


@in_parts(0)
def divergence(p: Prediction, q: Prediction, score: Score, options: Options) -> Array:
    """D(P̄, Q̄)."""
    score = resolve_bandwidths(score, [p, q], options)

    def of_term(term: Term) -> tuple[Array]:
        left = p.member_count if isinstance(p, Ensemble) else 1
        both = views(term, options, p, q, question=sides(left))
        if term.score.local:
            (divergences,), _ = _over_members(
                term, both[0], _pool(both), options, _directed, sides(left)
            )
            return (finished(divergences, both[0]),)
        if all(view.stack.member_count == 1 for view in both):
            pair = Stack.joined([view.stack.groups[0] for view in both])
            (divergences,), _ = _over_members(term, both[0], pair, options, _between_two, BETWEEN)
            return (finished(divergences, both[0]),)
        cross, bias, _ = _pooled(term, both, options)
        return (finished(_less(cross, _inside(term, both, options)) - bias, both[0]),)

    return _over_terms(score, of_term)[0]


def _directed(parts: Parts, w: Array) -> list[Array]:
    return [parts.dispersion]


def _between_two(parts: Parts, w: Array) -> list[Array]:
    return [parts.less_bias(2 * parts.dispersion, 1)]


def _inside(term: Term, both: list[View], options: Options) -> Array | float:
    """½ Σ ww D + ½ Σ vv D of the members of either side."""
    total: Array | float = 0.0
    for view in both:
        if view.stack.member_count > 1:
            (half,), _ = _over_members(
                term, view, view.stack, options, lambda parts, w: [parts.dispersion / 2]
            )
            total = total + half
    return total


def _pooled(term: Term, both: list[View], options: Options) -> list[Array]:
    """Σ w_i v_j D(P_i, Q_j), the bias of D(P̄, Q̄), and Σ w H(P_i) + Σ v H(Q_j)."""
    xp = namespace(both[0].stack.reference)

    def sums(parts: Parts, w: Array) -> list[Array]:
        bias = parts.less_bias(xp.zeros_like(parts.dispersion), -4 * w * w)
        return [2 * parts.dispersion, bias, xp.sum(2 * w * parts.entropies, axis=0)]

    (twice, bias, alone), _ = _over_members(term, both[0], _pool(both), options, sums)
    return [_less(twice, _inside(term, both, options)), bias, alone]


def _less(value: Array, other: Array | float) -> Array:
    """A difference that stays infinite where a moment does not exist."""
    if isinstance(other, float):
        return value - other
    xp = namespace(value)
    infinite = xp.isinf(value)
    return xp.where(infinite, value, value - xp.where(infinite, xp.zeros_like(value), other))


def _pool(both: list[View]) -> Stack:
    """The members of two sides, each with half of the weights."""
    left, right = (view.stack for view in both)
    weights = [stack.member_weights() for stack in (left, right)]
    return Stack((*left.groups, *right.groups), namespace(*weights).concat(weights) / 2)


def from_points(term: Term, view: View, law: Law, points: Array, options: Options) -> Array:
    """D of a law (1, n) from the point masses at ``points`` (n, A, d) under one term, (n, A)."""
    xp = namespace(law.atoms.reference)
    n, width = view.stack.batch_count, _width(view)
    columns = []
    cost = n * law.count * law.atoms.size
    budget = tile_elements(options.max_memory, view.stack.reference)
    for chunk in pieces(points.shape[1], cost, budget, view.stack.reference):
        masses = adopted(points[:, chunk], view.stack.reference)
        count = masses.shape[1]

        def each(array: Array, count: int = count) -> Array:
            trailing = tuple(array.shape[2:])
            spread = xp.broadcast_to(array[:, :, None], (1, n, count, *trailing))
            return xp.reshape(spread, (1, n * count, *trailing))

        widths = width
        if width is not None and not isinstance(width, float):
            widths = xp.reshape(xp.broadcast_to(width[:, None], (n, count)), (-1,))
        here = Law(Points(xp.reshape(masses, (1, n * count, 1, masses.shape[-1]))))
        pair = Stack.joined([here, law.index(each)])
        (values,), _ = _over_laws(term, view.score, widths, pair, options, _between_two, BETWEEN)
        columns.append(xp.reshape(values, (n, count)))
    return xp.concat(columns, axis=1)


@in_parts(0)
def expected_kernel(p: Prediction, q: Prediction, kernel: Kernel, options: Options) -> Array:
    """E k(X, Y): from affinities for bounded kernels, else H(P̄) + H(Q̄) + D(P̄, Q̄)."""
    kernel = resolve_bandwidths(kernel, [p, q], options)

    def of_term(term: Term) -> tuple[Array]:
        both = views(term, options, p, q)
        if isinstance(term.kernel, Radial) and term.kernel.diagonal == 0:
            cross, _, alone = _pooled(term, both, options)
            return (finished(cross + alone, both[0]),)
        left, right = (view.stack for view in both)
        value = term.factor * expectation(term.kernel, _width(both[0]), left, right, options)
        return (finished(value, both[0]),)

    return _over_terms(kernel, of_term)[0]


@in_parts(1, 2)
def member_parts(
    prediction: Ensemble, score: AnyScore, options: Options
) -> tuple[AnyScore, Array, Array, str]:
    """The score, entropies (M, batch…) and divergences (M, M, batch…), and the method."""
    score = resolve_bandwidths(score, [prediction], options)

    def of_term(term: Term) -> tuple[Array, Array, str]:
        (view,) = views(term, options, prediction)
        (entropies,), method = _over_members(
            term, view, view.stack, options, lambda parts, w: [parts.of_laws()]
        )
        return finished(entropies, view), finished(_matrix(term, view, options), view), method

    entropies, matrix, methods = _over_terms(score, of_term)
    return score, entropies, matrix, worst_method(*methods)


def _matrix(term: Term, view: View, options: Options) -> Array:
    """D(P_i, P_j), (M, M, n), pairs of members as batch entries."""
    stack = view.stack
    xp = namespace(stack.reference)
    width = _width(view)
    m, n = stack.member_count, stack.batch_count
    rows: dict[tuple[int, int], Array] = {}
    whole = np.zeros((m, m, n)) if isinstance(stack.reference, np.ndarray) else None

    def cost(p: Law, q: Law) -> int:
        return 2 * p.count * p.atoms.size + 4

    at_once = tile_elements(options.max_memory, stack.reference)
    for block in member_pairs(stack, cost, at_once):
        count = len(block.columns)
        pair = [_of_pairs(law, count) for law in (block.p, block.q)]
        widths = _repeated(width, count)

        def between(p: Law, q: Law, widths: Any = widths, count: int = count) -> Array:
            stack = Stack.joined([p, q])
            local = view.score.local
            compute, question = (_directed, sides(1)) if local else (_between_two, BETWEEN)
            (values,), _ = _over_laws(term, view.score, widths, stack, options, compute, question)
            return xp.reshape(values, (count, n))

        p, q = pair
        there = between(p, q)
        back = between(q, p) if view.score.local else there
        for k, (i, j) in enumerate(np.broadcast(block.rows, block.columns)):
            if whole is None:
                rows[int(i), int(j)], rows[int(j), int(i)] = there[k, ...], back[k, ...]
            else:
                whole[i, j], whole[j, i] = there[k], back[k]
    if whole is not None:
        return whole
    zero = xp.zeros_like(stack.groups[0].atoms.mean()[0, :, 0, 0])
    cells = [rows[i, j] if i != j else zero for i in range(m) for j in range(m)]
    return xp.reshape(xp.stack(cells), (m, m, n))


@in_parts(0, 1)
def level_parts(
    prediction: Ensemble, score: AnyScore, options: Options, design: Design
) -> tuple[AnyScore, Array, Array, str]:
    """The score, the noise (batch…), what each part of a design adds (parts, batch…), the method.

    They are sums of dispersions inside of groups, so that no divergence of a pair is needed. Groups
    that are alike are entries of one batch.
    """
    score = resolve_bandwidths(score, [prediction], options)

    def noise(parts: Parts, w: Array) -> list[Array]:
        return [weighted_sum(w[:, 0], parts.of_laws()), *spread(parts, w)]

    def spread(parts: Parts, w: Array) -> list[Array]:
        return [parts.less_bias(parts.dispersion, 2 * w * (1 - w))]

    def of_term(term: Term) -> tuple[Array, Array, str]:
        (view,) = views(term, options, prediction)
        groups, counts = design.groups(prediction.paths, widen(view.stack.member_weights()))
        width = _width(view)

        def of_rows(rows: slice) -> tuple[list[Array], str]:
            stack = view.stack.index(rows)
            widths = width if width is None or isinstance(width, float) else width[rows]
            (aleatoric, whole), method = _over_laws(term, view.score, widths, stack, options, noise)
            order, levels = [0], [whole[None, :]]
            for places, alike in _side_by_side(stack, groups[1:], options):
                repeated = _repeated(widths, len(places))
                (inside,) = _over_laws(term, view.score, repeated, alike, options, spread)[0]
                levels.append(inside.reshape((len(places), -1)))
                order += [1 + place for place in places]
            return [aleatoric, _counted(counts, order, levels, stack.has_tails)], method

        results = [of_rows(rows) for rows in _rows_of(view.stack, groups, options)]
        arrays = zip(*(result for result, _ in results), strict=True)
        aleatoric, levels = map(concatenated, arrays)
        return finished(aleatoric, view), finished(levels, view), results[0][1]

    aleatoric, levels, methods = _over_terms(score, of_term)
    return score, aleatoric, levels, worst_method(*methods)


def _rows_of(stack: Stack, groups: list[np.ndarray], options: Options) -> Iterable[slice]:
    """Parts of the batch: as a whole where groups are views, else as much as may be copied."""
    count = stack.batch_count
    if all(is_regular(group) for group in groups) or count == 0:
        return [slice(0, count)]
    each = sum(law.atoms.lead[0] * law.count * law.atoms.size for law in stack.groups)
    budget = tile_elements(options.max_memory, stack.reference)
    return pieces(count, each, budget, stack.reference)


def _side_by_side(
    stack: Stack, groups: list[np.ndarray], options: Options
) -> Iterator[tuple[list[int], Stack]]:
    """Positions of groups that are alike, and their members over one batch after the other.

    They are copied, as many at once as memory allows; one alone is as it would be by itself.
    """
    budget = tile_elements(options.max_memory, stack.reference)
    each = stack.batch_count * max(law.count * law.atoms.size for law in stack.groups)
    for places in stack.alike(groups):
        cost = len(groups[places[0]]) * each
        for chunk in pieces(len(places), cost, budget, stack.reference):
            yield places[chunk], stack.side_by_side(np.stack([groups[k] for k in places[chunk]]))


def _repeated(width: Array | float | None, count: int) -> Array | float | None:
    """A bandwidth over a batch that comes so many times."""
    if width is None or isinstance(width, float) or count == 1:
        return width
    xp = namespace(width)
    return xp.reshape(xp.broadcast_to(width, (count, *width.shape)), (-1,))


def _counted(counts: Array, order: list[int], values: list[Array], tails: bool) -> Array:
    """Sums over groups of counts (parts, groups) and values (…, n) of groups in some order.

    Every part has a share in every member: a moment that does not exist makes all parts infinite.
    """
    xp = namespace(values[0])
    stacked = xp.concat(values, axis=0)
    counts = xp.take(counts, index_array(np.asarray(order), counts), axis=1)
    counts = xp.astype(counts, stacked.dtype)
    if not tails:
        return xp.matmul(counts, stacked)
    infinite = stacked == math.inf
    sums = xp.matmul(counts, xp.where(infinite, xp.zeros_like(stacked), stacked))
    return xp.where(xp.any(infinite, axis=0), xp.full_like(sums, math.inf), sums)


def _of_pairs(law: Law, count: int) -> Law:
    """Laws (m, n) of ``count`` pairs as one member over a batch of count·n."""
    xp = namespace(law.atoms.reference)
    n = law.atoms.lead[1]

    def flat(a: Array) -> Array:
        trailing = tuple(a.shape[2:])
        return xp.reshape(xp.broadcast_to(a, (count, n, *trailing)), (1, count * n, *trailing))

    return law.index(flat)


# One term.


class Parts(NamedTuple):
    """Statistics of the members under one term, and what draws take from their entropies."""

    entropies: Array
    dispersion: Array
    #: H_U − H_V, (M, n); None without draws that stand for more
    bias: Array | None

    def of_laws(self) -> Array:
        """Entropies of what draws stand for."""
        return self.entropies if self.bias is None else self.entropies + self.bias

    def less_bias(self, value: Array, weights: Array | float) -> Array:
        """A value (n,) less a sum of what draws take from every member."""
        if self.bias is None:
            return value
        return value - namespace(value).sum(weights * self.bias, axis=0)


Compute: TypeAlias = Callable[[Parts, Array], list[Array]]


def _over_members(
    term: Term,
    view: View,
    stack: Stack,
    options: Options,
    compute: Compute,
    question: Question = PAIRS,
) -> tuple[list[Array], str]:
    """What ``compute`` makes of laws over the batch of a view, and the method.

    It gets the statistics of a part of the batch and the weights of the members, (M, 1).
    """
    return _over_laws(term, view.score, _width(view), stack, options, compute, question)


def _width(view: View) -> Array | float | None:
    return flat_bandwidth(view.score, view.shape, view.marginal is not None, view.stack.reference)


def _over_laws(
    term: Term,
    score: Score,
    width: Array | float | None,
    stack: Stack,
    options: Options,
    compute: Compute,
    question: Question = PAIRS,
) -> tuple[list[Array], str]:
    degree = getattr(score, "degree", None) or 0.0

    def tile(statistics: Statistics, tile_stack: Stack) -> list[Array]:
        if tile_stack.has_tails:
            statistics = _infinite_beyond_tails(statistics, tile_stack, degree)
        h, dispersion, _ = statistics
        parts = Parts(h, dispersion, _bias(tile_stack, h, options))
        return compute(parts, tile_stack.member_weights()[:, None])

    values, method = over_tiles(score, width, stack, options, tile, question)
    if term.factor != 1:
        values = [term.factor * value for value in values]
    return values, worst_method(stack.method, method)


def _bias(stack: Stack, entropies: Array, options: Options) -> Array | None:
    """H_U − H_V of every member, (M, n); None if it is zero for all of them."""
    corrected = [
        law.drawn and (options.unbiased_samples or law.method == "monte-carlo")
        for law in stack.groups
    ]
    if not any(corrected):
        return None
    xp = namespace(entropies)
    biases = []
    for (start, law), draws in zip(stack.offsets(), corrected, strict=True):
        h = entropies[start : start + law.atoms.lead[0], ...]
        biases.append(_bias_of_draws(law, h) if draws else xp.zeros_like(h))
    return biases[0] if len(biases) == 1 else xp.concat(biases, axis=0)


def _bias_of_draws(law: Law, entropies: Array) -> Array:
    """What the finite number of draws takes away from every member, (m, n)."""
    xp = namespace(entropies)
    if law.count < 2:
        raise InsufficientDataError(
            "unbiased statistics need at least two draws of each law, got N = 1; "
            'pass unbiased=False, or unbiased="members" to correct for members only'
        )
    share = law.concentration()
    if not isinstance(share, float):
        alone = share >= 1 - 1e-9
        share = xp.where(alone, xp.full_like(share, math.nan), share)
    return entropies * (share / (1 - share))


def _infinite_beyond_tails(statistics: Statistics, stack: Stack, degree: float) -> Statistics:
    """inf where a moment of the kernel's degree does not exist."""
    if degree == 0:
        return statistics
    xp = namespace(statistics.dispersion)
    entropies = []
    for start, group in stack.offsets():
        h = statistics.entropies[start : start + group.atoms.lead[0], ...]
        entropies.append(h if group.tail is None else _infinite_beyond(h, group.tail, degree))
    dispersion = statistics.dispersion
    if stack.member_count > 1:
        tails = [group.tail for group in stack.groups if group.tail is not None]
        lowest = xp.min(xp.concat(tails, axis=0), axis=0)
        dispersion = _infinite_beyond(dispersion, lowest, degree)
    return statistics._replace(entropies=xp.concat(entropies, axis=0), dispersion=dispersion)


def _infinite_beyond(value: Array, tail: Array, degree: float) -> Array:
    """The tail is (…, d)."""
    xp = namespace(value)
    exists = xp.min(tail, axis=-1) > degree
    return xp.where(exists, value, xp.full_like(value, math.inf))


# The end: results in the shape of the batch, summed over the terms of a kernel.


def _over_terms(score: Score, of_term: Callable[[Term], tuple[Any, ...]]) -> list[Any]:
    """Sums over terms of a score of every array that ``of_term`` gives, and lists of the rest."""
    terms = score.parts
    if len(terms) == 1:
        return [(value,) if isinstance(value, str) else value for value in of_term(terms[0])]
    columns = list(zip(*map(of_term, terms), strict=True))
    return [column if isinstance(column[0], str) else _sum(column, score) for column in columns]


def _sum(values: tuple[Array, ...], score: Score) -> Array:
    shapes = {tuple(value.shape) for value in values}
    if len(shapes) > 1:
        raise ShapeError(
            f"the summands of {score!r} give results of different shapes {sorted(shapes)}; "
            "use the same reduce in all of them"
        )
    return sum(values[1:], start=values[0])
