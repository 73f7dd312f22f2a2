"""Entropy and divergence of single atoms under one elementary kernel.

This is the one place where the route is chosen: closed forms where they are known, the scale
engine for every other radial kernel, and an error where there is neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from kuq._array import Array, constants, is_traced, namespace
from kuq._special import erfcx
from kuq.distributions.atoms import (
    LowRanks,
    Normals,
    Points,
    Products,
    mean_difference,
    spread,
    tail_order,
    to_low_ranks,
    to_normals,
    to_products,
)
from kuq.distributions.clipped import ClippedMixtures, to_clipped
from kuq.distributions.gamma_grid import TRACED_DF
from kuq.errors import NoClosedFormError
from kuq.expectations import affinities, clipped, overlap, scalar
from kuq.expectations.measure import Measure
from kuq.expectations.scales import BLOCK, AtScale, integrate
from kuq.expectations.tiles import pieces, recomputed
from kuq.kernels.base import Kernel, Radial, ScaleMixture, squared_distance
from kuq.kernels.energy import Energy
from kuq.kernels.gaussian import Gaussian
from kuq.kernels.laplace import Laplace
from kuq.kernels.squared_error import SquaredError

AnyAtoms: TypeAlias = Any

#: Scales at once for low-rank normals, which share work between them.
LOW_RANK_NODES = 18
#: Laws whose moments end before this order have no slope at t = 0 that a window could use.
_HEAVY = 6.0
#: Below this fraction of the affinities the closed form of the Laplace kernel has lost digits.
_CLOSE = 1e-3


def entropy(measure: Measure, p: AnyAtoms) -> Array:
    """H of every atom, (lead…, A)."""
    xp = namespace(p.reference)
    if isinstance(p, Points):
        return xp.zeros_like(p.value[..., 0])
    if isinstance(p, ClippedMixtures):
        return clipped.entropy(p)
    kernel = measure.kernel
    if isinstance(kernel, SquaredError):
        return xp.sum(p.variance(), axis=-1)
    if isinstance(p, Normals) and p.loc.shape[-1] == 1 and measure.closed_in_one_dimension:
        if isinstance(kernel, Energy):
            return scalar.absolute_entropy(p.scale[..., 0])
        return scalar.laplace_entropy(p.scale[..., 0], measure.width(1))

    if isinstance(p, Normals) and p.loc.shape[-1] == 1 and isinstance(kernel, Gaussian):
        return scalar.gaussian_entropy(p.scale[..., 0], measure.width(1))
    if not has_route(kernel, {type(p)}):
        raise no_closed_form(kernel, p, p)

    log_affinity = affinities.self_affinities(measure, p)

    def at_scale(t: Array) -> tuple[Array, Array]:
        log_self = log_affinity(t)
        return overlap.entropy(log_self), xp.exp(log_self) / 2

    def window() -> Window:
        moment = 2 * spread(p)
        smallest, cautious = p.smallest_variance(), isinstance(p, Products)
        tail = _tail(measure, p)
        slope = moment / 2 if tail > _HEAVY else None
        return Window(moment, smallest, tail / 2, slope, cautious=cautious)

    return _over_scales(measure, at_scale, window, p, 1)


def divergence(measure: Measure, p: AnyAtoms, q: AnyAtoms) -> Array:
    """D of all pairs of atoms, (lead…, A, B)."""
    p, q = p.expand(0), q.expand(1)
    kernel = measure.kernel
    if isinstance(p, Points) and isinstance(q, Points):
        return _between_points(measure, p.value, q.value)
    if isinstance(p, ClippedMixtures) or isinstance(q, ClippedMixtures):
        return clipped.divergence(to_clipped(p), to_clipped(q))
    if isinstance(kernel, SquaredError):
        return squared_distance(p.mean(), q.mean())
    p, q = _promote(measure, p, q)
    closed = measure.closed_in_one_dimension or isinstance(kernel, Gaussian)
    if closed and _plain(p) and _plain(q) and p.mean().shape[-1] == 1:
        return _scalar_divergence(measure, to_normals(p), to_normals(q))
    return _radial_divergence(measure, p, q)


def matched_divergence(measure: Measure, p: Points, q: Points) -> Array:
    """D of two sets of N draws each from second differences over matched draws, (lead…).

    D = −½ mean_ij of Δ²(k − k₀), where Δ² replaces draw i, then draw j of P by that of Q.
    """
    xp = namespace(p.value)
    move = q.value - p.value
    start, first, mixed = _matched_distances(p.value, move, measure.budget)
    second = xp.matrix_transpose(first)

    def at_scale(t: Array) -> tuple[Array, Array]:
        a, b, c = -t * first, -t * second, -t * mixed
        small = xp.abs(a) + xp.abs(b) + xp.abs(c) < 1
        a0, b0, c0 = (xp.where(small, v, xp.zeros_like(v)) for v in (a, b, c))
        near = xp.expm1(a0) * xp.expm1(b0) + xp.exp(a0 + b0) * xp.expm1(c0)
        origin = -t * start
        far = xp.exp(origin) - xp.exp(origin + a) - xp.exp(origin + b) + xp.exp(origin + a + b + c)
        value = xp.where(small, xp.exp(origin) * near, far)
        return value / 2, xp.abs(value)

    diagonal = xp.sum(move * move, axis=-1)
    moment = start + diagonal[..., :, None] + diagonal[..., None, :]
    smallest = xp.where(moment > 0, moment, xp.full_like(moment, math.inf)) / 1e2
    window = Window(moment, smallest, math.inf, -mixed / 2)
    return xp.mean(_over_scales(measure, at_scale, lambda: window, p.expand(0), 2), axis=(-2, -1))


def _matched_distances(x: Array, move: Array, budget: int) -> tuple[Array, Array, Array]:
    """‖x_i − x_j‖², its change when i moves, and the mixed change when both do, (…, N, N)."""
    xp = namespace(x)
    rows = []
    for part in pieces(x.shape[-2], math.prod(x.shape), budget, x):
        gap = x[..., part, None, :] - x[..., None, :, :]
        step = move[..., part, None, :]
        rows.append(
            (
                xp.sum(gap * gap, axis=-1),
                xp.sum(step * (2 * gap + step), axis=-1),
                -2 * xp.sum(step * move[..., None, :, :], axis=-1),
            )
        )
    start, first, mixed = (xp.concat(list(part), axis=-2) for part in zip(*rows, strict=True))
    return start, first, mixed


def affinity(measure: Measure, p: AnyAtoms, q: AnyAtoms) -> Array:
    """−E k(X, Y) of all pairs of atoms for a bounded kernel, without a difference."""
    p, q = p.expand(0), q.expand(1)
    if isinstance(p, Points) and isinstance(q, Points):
        return 1 - _between_points(measure, p.value, q.value)
    p, q = _promote(measure, p, q)
    if p.mean().shape[-1] == 1 and isinstance(measure.kernel, Laplace) and _plain(p) and _plain(q):
        return _laplace_affinity(measure, to_normals(p), to_normals(q))

    overlap_at = affinities.overlaps(measure, p, q)

    def at_scale(t: Array) -> tuple[Array, Array]:
        o = overlap_at(t)
        value = namespace(t).exp(o.log_c - o.shift)
        return value, value

    def window() -> Window:
        between = _pair_window(measure, p, q)
        slope = None if between.slope is None else -between.moment
        return between._replace(order=between.order / 2, slope=slope, start_value=1.0)

    return _over_scales(measure, at_scale, window, p, 2)


def _plain(atoms: AnyAtoms) -> bool:
    return isinstance(atoms, (Points, Normals))


def _between_points(measure: Measure, x: Array, y: Array) -> Array:
    kernel = measure.kernel
    if isinstance(kernel, Radial):
        return kernel.excess(squared_distance(x, y), measure.width(2))
    return kernel(x, y) - (kernel(x, x) + kernel(y, y)) / 2


def _promote(measure: Measure, p: AnyAtoms, q: AnyAtoms) -> tuple[AnyAtoms, AnyAtoms]:
    """Bring two kinds of atoms to one; a point mass stays a point."""
    kinds = {type(p), type(q)} - {Points}
    if not has_route(measure.kernel, kinds):
        raise no_closed_form(measure.kernel, p, q)
    if kinds == {LowRanks} and Points in {type(p), type(q)}:
        return p, q
    if kinds == {Normals}:
        return to_normals(p), to_normals(q)
    if LowRanks in kinds:
        rank = max(a.factor.shape[-1] for a in (p, q) if isinstance(a, LowRanks))
        return to_low_ranks(p, rank), to_low_ranks(q, rank)
    if Products in kinds:
        count = max(a.loc.shape[-1] for a in (p, q) if isinstance(a, Products))
        return to_products(p, count), to_products(q, count)
    return p, q


def has_route(kernel: Kernel, kinds: set[type]) -> bool:
    """Whether atoms of these kinds, and points, can be measured without drawing from them."""
    if not isinstance(kernel, (Gaussian, ScaleMixture, SquaredError)):
        return kinds <= {Points}
    return not kinds >= {LowRanks, Products} or isinstance(kernel, SquaredError)


def no_closed_form(kernel: object, p: AnyAtoms, q: AnyAtoms) -> NoClosedFormError:
    names: dict[Any, str] = {
        Points: "point masses",
        Normals: "normals",
        LowRanks: "low-rank normals",
        Products: "products of mixtures",
    }
    pair = " and ".join(sorted({names[type(p)], names[type(q)]}))
    return NoClosedFormError(
        f"no exact or quadrature route for {kernel!r} between {pair}; "
        "pass draws=2000, seed=0 to opt in to Monte Carlo"
    )


def _scalar_divergence(measure: Measure, p: Normals, q: Normals) -> Array:
    loc, scale, loc2, scale2 = (a[..., 0] for a in (p.loc, p.scale, q.loc, q.scale))
    if isinstance(measure.kernel, Energy):
        return scalar.absolute_divergence(loc, scale, loc2, scale2)
    if isinstance(measure.kernel, Gaussian):
        return scalar.gaussian_divergence(loc, scale, loc2, scale2, measure.width(2))
    selves = (erfcx(scale / measure.width(2)) + erfcx(scale2 / measure.width(2))) / 2
    closed = selves - _laplace_affinity(measure, p, q)
    if closed.shape[-1] * closed.shape[-2] > 1:  # only their sum matters, and that is repaired
        return closed
    value, lost = (a[..., 0, 0] for a in (closed, closed <= _CLOSE * selves))
    left, right = (law.map(lambda a, axes: a[..., 0, :]) for law in (p, q))
    found = repaired(measure, left, right, value, lost, _single_radial_divergence)
    return found[..., None, None]


def _single_radial_divergence(measure: Measure, p: AnyAtoms, q: AnyAtoms) -> Array:
    return _radial_divergence(measure, p.expand(0), q.expand(1))[..., 0, 0]


def repaired(
    measure: Measure,
    p: AnyAtoms,
    q: AnyAtoms,
    closed: Array,
    lost: Array,
    exact: Callable[[Measure, AnyAtoms, AnyAtoms], Array],
) -> Array:
    """D of laws, (lead…): a closed form, and an exact one where that lost its digits.

    Closed forms cancel for laws that are close. Only these are computed again, since the exact
    form costs up to some hundred times as much.
    """
    xp = namespace(closed)
    if is_traced(closed):
        return xp.where(lost, exact(measure, p, q), closed)
    shape = tuple(closed.shape)

    def flat(a: Array, axes: int) -> Array:
        own = tuple(a.shape[a.ndim - axes - 1 :])
        return xp.reshape(xp.broadcast_to(a, (*shape, *own)), (-1, *own))

    def again(some: Array) -> Array:
        return exact(measure.at(some % shape[-1]), *(taken(law.map(flat), some) for law in (p, q)))

    flat_lost = xp.reshape(lost, (-1,))
    return xp.reshape(recomputed(xp.reshape(closed, (-1,)), flat_lost, again), shape)


def taken(law: AnyAtoms, some: Array) -> AnyAtoms:
    """Some entries of the first lead axis."""
    return law.map(lambda a, axes: namespace(a).take(a, some, axis=0))


def _laplace_affinity(measure: Measure, p: Normals, q: Normals) -> Array:
    loc, scale, loc2, scale2 = (a[..., 0] for a in (p.loc, p.scale, q.loc, q.scale))
    return scalar.laplace_affinity(loc, scale, loc2, scale2, measure.width(2))


def _radial_divergence(measure: Measure, p: AnyAtoms, q: AnyAtoms) -> Array:
    xp = namespace(p.reference)
    overlap_at = affinities.overlaps(measure, p, q)

    def between(t: Array) -> tuple[Array, Array]:
        o = overlap_at(t)
        rest = (xp.exp(o.log_p) + xp.exp(o.log_q)) / 2 + xp.exp(o.log_c - o.shift)
        return overlap.divergence(o), rest

    return _over_scales(measure, between, lambda: _pair_window(measure, p, q), p, 2)


class Window(NamedTuple):
    """What the engine has to know of g: where it bends, and how it starts at t = 0."""

    moment: Array
    smallest_variance: Array
    order: float
    slope: Array | None
    start_value: float = 0.0
    cautious: bool = False


def _pair_window(measure: Measure, p: AnyAtoms, q: AnyAtoms) -> Window:
    """The window of a divergence: its slope is the squared distance of the means.

    Tails of order ν make affinities differ from one by t^(ν/2), but these terms of both laws
    cancel in the divergence, which is a mean of |difference of characteristic functions|² and
    has t^ν.
    """
    xp = namespace(p.reference)
    difference = mean_difference(p, q)
    gap = xp.sum(difference * difference, axis=-1)
    moment = gap + spread(p) + spread(q)
    smallest = xp.minimum(p.smallest_variance(), q.smallest_variance())
    smallest = xp.broadcast_to(smallest, moment.shape)
    tail = min(_tail(measure, p), _tail(measure, q))
    slope = gap if tail > _HEAVY else None
    return Window(moment, smallest, tail, slope, cautious=isinstance(p, Products))


def _tail(measure: Measure, p: AnyAtoms) -> float:
    """The order from which on moments do not exist, where it can be read."""
    known = tail_order(p)
    if known < math.inf and is_traced(p.reference):
        return max(known, (measure.kernel.card.homogeneous_degree or 0.0) + TRACED_DF)
    return known


def _over_scales(
    measure: Measure, g: AtScale, window: Callable[[], Window], p: AnyAtoms, atom_axes: int
) -> Array:
    """g at the single scale of the Gaussian kernel, or integrated over scales.

    ``p`` has the lead axes of g, or ones that broadcast to them.
    """
    kernel, bandwidth = measure.kernel, measure.width(atom_axes)
    if isinstance(kernel, Gaussian):
        t = 1 / bandwidth / bandwidth
        if isinstance(t, float):
            t = constants([t], p.reference)
        t = namespace(p.reference).reshape(t, (1,) * (1 + len(p.lead) - t.ndim) + tuple(t.shape))
        return g(t)[0][0]
    assert isinstance(kernel, ScaleMixture)
    known = window()
    if isinstance(bandwidth, float):
        bandwidth = constants([bandwidth], known.moment)
    return integrate(
        kernel,
        g,
        known.moment,
        known.smallest_variance,
        bandwidth,
        measure.rtol,
        known.start_value,
        order=known.order,
        slope=known.slope,
        cautious=known.cautious,
        block=LOW_RANK_NODES if isinstance(p, LowRanks) else BLOCK,
    )
