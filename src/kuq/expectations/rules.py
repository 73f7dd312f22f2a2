"""Structural rules: from atoms to laws, and from laws to ensembles.

For P = Σ w_i P_i: H(P) = Σ w_i H_i + ½ Σ w_i w_j D_ij, and
D(Σ wP, Σ vQ) = Σ w_i v_j D(P_i, Q_j) − ½ Σ wwD − ½ Σ vvD. All functions give the exact
functional of the laws as they are (V-statistics); unbiasing comes after, elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from kuq._array import Array, is_traced, namespace
from kuq._compiled import repeated
from kuq.distributions.atoms import LowRanks, Normals, Points, Products, to_products
from kuq.distributions.laws import Law, Stack, to_scalar_atoms
from kuq.expectations import atoms, gram, heavy_tails, mixture_cdf, moments, routes
from kuq.expectations import sorted as by_sorting
from kuq.expectations.affinities import AnyAtoms
from kuq.expectations.measure import Measure
from kuq.expectations.scales import BLOCK
from kuq.expectations.tiles import PairBlock, member_pairs, pieces, recomputed
from kuq.kernels.base import Radial


def prepare(measure: Measure, law: Law) -> Law:
    """Scalar mixtures become weighted normals where those have a closed form."""
    if measure.closed_in_one_dimension and law.dimension == 1:
        return to_scalar_atoms(law)
    return law


def entropy(measure: Measure, law: Law) -> Array:
    """H of laws, (lead…)."""
    known = heavy_tails.entropy(measure, law)
    if known is not None:
        return known
    route = routes.chosen(measure, Stack((law,)))
    if route is not None:
        return route.entropy(measure, law)
    law = prepare(measure, law)
    xp = namespace(law.atoms.reference)
    within = xp.sum(law.atom_weights() * atoms.entropy(measure, law.atoms), axis=-1)
    return within + _inner_dispersion(measure, law) / 2


def divergence(
    measure: Measure, p: Law, q: Law, known: tuple[Array | None, Array | None] = (None, None)
) -> Array:
    """D of laws, (lead…) broadcast; the dispersions inside them may be known already."""
    if routes.is_sorted(measure, p, q):
        return by_sorting.divergence(p, q)
    if measure.is_quadratic:
        xp = namespace(p.atoms.reference)
        gap = moments.mean_gap(p, q)
        return xp.sum(gap * gap, axis=-1)
    inner = (
        _inner_dispersion(measure, prepare(measure, law)) if value is None else value
        for law, value in zip((p, q), known, strict=True)
    )
    return _pair(measure, p, q, *inner)


def _pair(measure: Measure, p: Law, q: Law, inner_p: Array, inner_q: Array) -> Array:
    """D(P, Q) with the dispersions inside P and Q known.

    The sums over atoms cancel for laws that are close; matched atoms do not.
    """
    left, right = prepare(measure, p), prepare(measure, q)
    if left.count == right.count == 1:
        return atoms.divergence(measure, left.atoms, right.atoms)[..., 0, 0]
    cross = _cross(measure, left, right)
    value = cross - inner_p / 2 - inner_q / 2
    exact: Callable[[Measure, AnyAtoms, AnyAtoms], Array]
    if _are_matched_draws(measure, p, q):
        exact, close = atoms.matched_divergence, 1e-6
    elif _are_scalar_mixtures(measure, p, q):
        exact, close = _matched_components, 1e-3
    else:
        return value
    return atoms.repaired(measure, p.atoms, q.atoms, value, value <= close * cross, exact)


def _are_scalar_mixtures(measure: Measure, p: Law, q: Law) -> bool:
    mixtures = isinstance(p.atoms, Products) or isinstance(q.atoms, Products)
    scalar = measure.closed_in_one_dimension and p.dimension == 1
    return mixtures and scalar and p.count == q.count == 1


def _are_matched_draws(measure: Measure, p: Law, q: Law) -> bool:
    """Equally many unweighted draws; under tracing the repair would cost more than it is worth."""
    points = isinstance(p.atoms, Points) and isinstance(q.atoms, Points)
    routed = atoms.has_route(measure.kernel, {Points, Normals})
    equal = p.count == q.count > 1 and p.weights is None and q.weights is None
    return points and routed and equal and not is_traced(p.atoms.reference)


def _matched_components(measure: Measure, p: AnyAtoms, q: AnyAtoms) -> Array:
    """D of close scalar mixtures: by distribution functions, or over scales where those cannot."""

    def over_scales(some: Array) -> Array:
        some_of = (atoms.taken(law, some) for law in (p, q))
        return atoms.divergence(measure.at(some), *some_of)[..., 0, 0]

    if not measure.is_absolute or is_traced(p.reference):
        return atoms.divergence(measure, p, q)[..., 0, 0]
    count = max(law.loc.shape[-1] for law in (p, q) if isinstance(law, Products))
    value, usable = mixture_cdf.divergence(
        to_products(p, count), to_products(q, count), measure.budget
    )
    return recomputed(value, ~usable, over_scales)


def _inner_dispersion(measure: Measure, law: Law) -> Array:
    """Σ w_i w_j D_ij inside a law."""
    if law.count == 1:
        return namespace(law.atoms.reference).zeros_like(law.atoms.mean()[..., 0, 0])
    route = routes.chosen(measure, Stack((law,)))
    if route is not None:
        return 2 * route.entropy(measure, law)
    return _cross(measure, law, law)


def _cross(measure: Measure, p: Law, q: Law) -> Array:
    """Σ w_i v_j D(P_i, Q_j), in pieces of P's atoms that fit the budget."""
    if routes.has_gram_cross(measure, p, q):
        return gram.cross(measure, p, q)
    xp = namespace(p.atoms.reference)
    w, v = p.atom_weights(), q.atom_weights()
    lead = max(int(np.prod(p.atoms.lead[:-1])), int(np.prod(q.atoms.lead[:-1])))
    cost = lead * _pair_cost(measure, p, q) // p.count
    total = None
    for part in pieces(p.count, cost, measure.budget, p.atoms.reference):
        some = p.atoms.map(lambda a, k, part=part: a[(..., part, *(slice(None),) * k)])
        values = atoms.divergence(measure, some, q.atoms)
        inner = xp.sum(values * v[..., None, :], axis=-1)
        piece = xp.sum(inner * w[..., part], axis=-1)
        total = piece if total is None else total + piece
    assert total is not None
    return total


def _pair_cost(measure: Measure, p: Law, q: Law) -> int:
    """Numbers that the comparison of two laws touches at once, for each batch entry."""
    left, right = prepare(measure, p.head()), prepare(measure, q.head())
    size = max(left.atoms.size, right.atoms.size)
    points = isinstance(left.atoms, Points) and isinstance(right.atoms, Points)
    closed = points or (measure.closed_in_one_dimension and left.dimension == 1)
    ranks = [x.atoms.factor.shape[-1] for x in (left, right) if isinstance(x.atoms, LowRanks)]
    if ranks and not measure.is_quadratic:  # small matrices at every scale
        nodes = atoms.LOW_RANK_NODES if measure.many_scales else 1
        size = left.dimension + nodes * (2 * max(ranks) + 1) ** 2
    elif measure.many_scales and not closed:  # sums over the event go in pieces, see affinities
        size = BLOCK * min(size, 8)
    return int(left.count * right.count * size)


def item_cost(measure: Measure, *stacks: Stack) -> int:
    """Numbers that one batch entry touches at once."""
    cost = max(_member_cost(measure, stack) for stack in stacks)
    groups = [group for stack in stacks for group in stack.groups]
    if len(stacks) == 1 or routes.is_sorted(measure, *groups):
        return cost
    if all(routes.has_gram_cross(measure, p, p) for p in groups):
        counts = sorted(group.count for group in groups)
        return int(max(cost, counts[-1] * counts[-2]))
    left, right = (stack.groups for stack in stacks)
    return max(cost, *(_pair_cost(measure, p, q) for p in left for q in right))


def _member_cost(measure: Measure, stack: Stack) -> int:
    route = routes.chosen(measure, stack)
    if route is not None:
        return route.cost(stack)
    draws = sum(int(group.atoms.lead[0]) * group.count for group in stack.groups)
    size = max(int(group.atoms.size) for group in stack.groups)
    # Two pairs at a time fill a piece; all members together are touched by few operations.
    together = min(2, max(1, stack.member_count - 1))
    pair = max(_pair_cost(measure, p, q) for p in stack.groups for q in stack.groups)
    return max(together * pair, draws * size * measure.budget // max(measure.budget, measure.room))


def statistics(measure: Measure, stack: Stack) -> tuple[Array, Array]:
    """H of every member, (M, n), and the dispersion of the members, (n,)."""
    route = routes.chosen(measure, stack)
    if route is not None:
        return route.statistics(measure, stack, _statistics_by_pairs)
    return _statistics_by_pairs(measure, stack)


def _statistics_by_pairs(measure: Measure, stack: Stack) -> tuple[Array, Array]:
    xp = namespace(stack.reference)
    entropies = [entropy(measure, group) for group in stack.groups]
    return xp.concat(entropies, axis=0), _dispersion_by_pairs(measure, stack)


def dispersion(measure: Measure, stack: Stack) -> Array:
    """Σ w_i w_j D(P_i, P_j) over the members, (n,)."""
    if routes.chosen(measure, stack) is not None:
        return statistics(measure, stack)[1]
    return _dispersion_by_pairs(measure, stack)


def _dispersion_by_pairs(measure: Measure, stack: Stack) -> Array:
    xp = namespace(stack.reference)
    w = stack.member_weights()
    total = xp.zeros_like(stack.groups[0].atoms.mean()[0, :, 0, 0])
    with repeated(stack.member_count // 2):
        for block, values in pair_divergences(measure, stack):
            w_i, w_j = block.pick(w)
            total = total + (2 * w_i * w_j) @ values
    return total


def pair_divergences(measure: Measure, stack: Stack) -> Iterator[tuple[PairBlock, Array]]:
    """Divergences of all pairs i < j, in blocks with values (pairs, n)."""
    xp = namespace(stack.reference)
    parts = [_inner_dispersion(measure, prepare(measure, group)) for group in stack.groups]
    inner = xp.concat(parts, axis=0)

    for block in member_pairs(stack, partial(_pair_cost, measure), measure.budget):
        yield block, _law_pair(measure, block.p, block.q, *block.pick(inner))


def _law_pair(measure: Measure, p: Law, q: Law, inner_p: Array, inner_q: Array) -> Array:
    if measure.is_quadratic or routes.is_sorted(measure, p, q):
        return divergence(measure, p, q)
    return _pair(measure, p, q, inner_p, inner_q)


def cross_divergence(
    measure: Measure, left: Stack, right: Stack, entropies: tuple[Array | None, Array | None]
) -> Array:
    """Σ w_i v_j D(P_i, Q_j) over the members of two stacks, (n,).

    ``entropies`` (M, n) of either, where they are known: those of draws are half the dispersion
    inside them.
    """

    def inside(h: Array | None, k: int, law: Law) -> Array | None:
        return 2 * h[k : k + 1, ...] if h is not None and isinstance(law.atoms, Points) else None

    def value(i: int, p: Law, j: int, q: Law) -> Array:
        known = inside(entropies[0], i, p), inside(entropies[1], j, q)
        return divergence(measure, p, q, known)

    return _over_members(left, right, value)


def expected_kernel(measure: Measure, left: Stack, right: Stack) -> Array:
    """Σ w_i v_j E k(X_i, Y_j), (n,)."""
    return _over_members(left, right, lambda i, p, j, q: _expected(measure, p, q))


def _over_members(left: Stack, right: Stack, value: Callable[[int, Law, int, Law], Array]) -> Array:
    w, v = left.member_weights(), right.member_weights()
    total = None
    for i, p in enumerate(left.members()):
        for j, q in enumerate(right.members()):
            part = w[i] * v[j] * value(i, p, j, q)[0]
            total = part if total is None else total + part
    assert total is not None
    return total


def _expected(measure: Measure, p: Law, q: Law) -> Array:
    kernel = measure.kernel
    xp = namespace(p.atoms.reference)
    if isinstance(kernel, Radial) and kernel.diagonal == 0:
        inside = entropy(measure, p) + entropy(measure, q)
        return inside + divergence(measure, p, q)
    p, q = prepare(measure, p), prepare(measure, q)
    w, v = p.atom_weights(), q.atom_weights()
    if isinstance(kernel, Radial):
        values = kernel.diagonal * atoms.affinity(measure, p.atoms, q.atoms)
    elif isinstance(p.atoms, Points) and isinstance(q.atoms, Points):
        values = kernel(p.atoms.value[..., :, None, :], q.atoms.value[..., None, :, :])
    else:
        raise atoms.no_closed_form(kernel, p.atoms, q.atoms)
    return xp.sum(xp.sum(values * v[..., None, :], axis=-1) * w, axis=-1)


def divergence_matrix(measure: Measure, stack: Stack) -> Array:
    """D(P_i, P_j), (M, M, n)."""
    xp = namespace(stack.reference)
    m = stack.member_count
    n = stack.batch_count
    rows: dict[tuple[int, int], Array] = {}
    for block, values in pair_divergences(measure, stack):
        for k, (i, j) in enumerate(np.broadcast(block.rows, block.columns)):
            rows[int(i), int(j)] = values[k, ...]
    zero = xp.zeros_like(stack.groups[0].atoms.mean()[0, :, 0, 0])
    cells = [rows[min(i, j), max(i, j)] if i != j else zero for i in range(m) for j in range(m)]
    return xp.reshape(xp.stack(cells), (m, m, n))
