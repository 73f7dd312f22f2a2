"""Relative entropies of 1-D mixtures of normals, by Gauss-Legendre on panels of all components.

The integrand q log(q/p) − q + p is never negative, and log(q/p) is built from differences of
matched components, so close mixtures keep their digits. Components of scale zero are point
masses: they are summed as atoms beside the integral, for which they do not exist.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kuq._array import (
    Array,
    as_index,
    constants,
    detach,
    from_numpy,
    moved_axis,
    namespace,
    safe_ratio,
)
from kuq._special import exp_remainder
from kuq.distributions.log_densities import bounded_exp, log_sum, lowest, normal_log_density
from kuq.expectations.densities import normal_entropy, unit_gauss_legendre

# Panel ends in units of each component's scale; beyond the last one its mass is below 1e-17.
_ENDS = (0.7, 1.4, 2.1, 2.8, 3.5, 4.2, 5.0, 6.0, 7.2, 8.7)
_ENDS_OF_A_CROSSING = (3.0, 10.0)


class Mixture(NamedTuple):
    """Weights, locations and scales with components on the last axis."""

    weights: Array
    loc: Array
    scale: Array

    def continuous_weights(self) -> Array:
        return namespace(self.weights).where(self.scale == 0, 0.0, self.weights)

    def safe_scale(self) -> Array:
        return namespace(self.scale).where(self.scale == 0, 1.0, self.scale)


class _Grid(NamedTuple):
    """Where two or more mixtures are compared: nodes of a rule, then possible atoms.

    Nodes count from the left ends of their panels, and these are sums of two numbers: one tells
    no place in a component that is far from zero, or from others, in its scales.
    """

    left: tuple[Array, Array]
    steps: Array
    atoms: Array
    measure: Array


def points_for(rtol: float) -> int:
    """Points of a panel for a relative error of about ``rtol``."""
    return min(max(round(3 - 0.6 * math.log10(rtol)), 4), 11)


def node_count(members: int, components: int) -> int:
    """How many nodes members with so many components share, with the points of the default."""
    return 8 * members * components * (2 * len(_ENDS) + 1 + 2 * (2 * len(_ENDS_OF_A_CROSSING) + 1))


def mixture_entropy(weights: Array, loc: Array, scale: Array, points: int = 8) -> Array:
    """The differential entropy of a mixture of normals, −inf if it has a point mass.

    It is the mean entropy of the components plus their mutual information with the outcome.
    """
    xp = namespace(weights, loc, scale)
    law = Mixture(*xp.broadcast_arrays(weights, loc, scale))
    within = xp.sum(law.weights * normal_entropy(law.safe_scale()), axis=-1)
    shares, locs, scales = (moved_axis(a, -1, 0) for a in law)
    ones = xp.ones_like(shares)[..., None]
    between = mutual_information(shares, ones, locs[..., None], scales[..., None], points)
    point = xp.any((law.weights > 0) & (law.scale == 0), axis=-1)
    return xp.where(point, -math.inf, within + between)


def mixture_kl(
    p_weights: Array,
    p_loc: Array,
    p_scale: Array,
    q_weights: Array,
    q_loc: Array,
    q_scale: Array,
    points: int = 8,
) -> Array:
    """KL(Q‖P) of mixtures of normals; infinite if Q has a point mass that P has not.

    Components are matched by position when both have equally many.
    """
    p, q = Mixture(p_weights, p_loc, p_scale), Mixture(q_weights, q_loc, q_scale)
    xp = namespace(*p, *q)
    grid = _grid([p, q], points, crossings_of=Mixture(*(a[None, ...] for a in p)))
    log_p, log_q, log_ratio = _compare(grid, p, q)
    nothing = lowest(log_p) / 2
    outside = (log_q > nothing) & (log_p < nothing) & (grid.measure > 0)
    density = _relative_entropy_density(log_p, log_q, xp.where(outside, 0.0, log_ratio))
    value = xp.sum(density * grid.measure, axis=-1)
    return xp.where(xp.any(outside, axis=-1), math.inf, value)


def entropies_and_dispersion(
    member_weights: Array, weights: Array, loc: Array, scale: Array, points: int = 8
) -> tuple[Array, Array]:
    """The entropies of an ensemble of mixtures (members first) and Σ_ij ω_i ω_j KL(P_j‖P_i).

    The second is the integral of the covariance of density and log density over members, which is
    never negative. All members share the nodes.
    """
    xp = namespace(member_weights, weights, loc, scale)
    members = Mixture(*xp.broadcast_arrays(weights, loc, scale))
    share = _shares(member_weights, members)
    grid = _grid([pooled(share, members)], points, crossings_of=members)
    reference = Mixture(*(a[:1, ...] for a in members))
    _, logs, ratios = _compare(grid, reference, members)
    nothing = lowest(logs) / 2
    inside = xp.all(logs > nothing, axis=0)
    outside = ~inside & xp.any(logs > nothing, axis=0) & (grid.measure > 0)
    close = xp.all(xp.abs(ratios) < 0.5, axis=0)
    small = xp.where(close & inside, ratios, 0.0)
    top = detach(xp.max(logs, axis=0))
    far = xp.where(inside & ~close, logs - top, 0.0)
    apart = xp.where(close, _covariance(share, xp.expm1(small), small), 0.0)
    apart = xp.where(close, apart, _covariance(share, xp.exp(far), far))
    density = apart * xp.exp(xp.where(inside, xp.where(close, logs[0, ...], top), nothing))
    value = xp.sum(density * grid.measure, axis=-1)
    count = logs.shape[-1] - grid.atoms.shape[-1]
    at_nodes, widths = logs[..., :count], grid.measure[..., :count]
    entropies = -xp.sum(xp.exp(at_nodes) * at_nodes * widths, axis=-1)
    point = xp.any((members.weights > 0) & (members.scale == 0), axis=-1)
    entropies = xp.where(point, -math.inf, entropies)
    return entropies, xp.where(xp.any(outside, axis=-1), math.inf, value)


def _covariance(share: Array, a: Array, b: Array) -> Array:
    """Over members, along the first axis."""
    xp = namespace(a, b)
    a, b = (x - xp.sum(share * x, axis=0) for x in (a, b))
    return xp.sum(share * a * b, axis=0)


def _shares(member_weights: Array, members: Mixture) -> Array:
    """Member weights (M, …, 1) that broadcast against components or nodes."""
    if member_weights.ndim == 1:
        member_weights = member_weights[(slice(None), *(None,) * (members.loc.ndim - 2))]
    return member_weights[..., None]


def mutual_information(
    member_weights: Array, weights: Array, loc: Array, scale: Array, points: int = 8
) -> Array:
    """Σ_m ω_m KL(P_m‖P̄) of an ensemble of mixtures (members first), P̄ = Σ_m ω_m P_m.

    Between zero and the entropy of the member weights, which distinct point masses attain.
    """
    xp = namespace(member_weights, weights, loc, scale)
    members = Mixture(*xp.broadcast_arrays(weights, loc, scale))
    share = _shares(member_weights, members)
    grid = _grid([pooled(share, members)], points)
    reference = Mixture(*(a[:1, ...] for a in members))
    _, log_members, log_ratios = _compare(grid, reference, members)
    log_mean = log_sum(moved_axis(share, 0, -1), moved_axis(log_members, 0, -1))
    close = xp.all(xp.abs(log_ratios) < 0.5, axis=0)
    small = xp.where(close, log_ratios, 0.0)
    to_mean = small - xp.log1p(xp.sum(share * xp.expm1(small), axis=0))
    to_mean = xp.where(close, to_mean, log_members - log_mean)
    density = xp.sum(share * _relative_entropy_density(log_mean, log_members, to_mean), axis=0)
    return xp.sum(density * grid.measure, axis=-1)


def pooled(share: Array, members: Mixture) -> Mixture:
    """The components of all members as those of one mixture."""
    joint = members._replace(weights=share * members.weights)
    return Mixture(*(_flatten(moved_axis(a, 0, -2)) for a in joint))


# The integrand.


def _relative_entropy_density(log_p: Array, log_q: Array, log_ratio: Array) -> Array:
    """q log(q/p) − q + p, from the larger density and the distance |log(q/p)| alone."""
    xp = namespace(log_p, log_q, log_ratio)
    above, below = log_ratio >= 0.25, log_ratio <= -0.25
    far = above | below
    distance = xp.where(far, xp.abs(log_ratio), 1.0)
    decay = xp.expm1(-distance)
    apart = xp.where(below, -decay - distance * (1 + decay), distance + decay)
    factor = xp.where(far, apart, exp_remainder(-xp.where(far, 0.0, log_ratio)))
    return factor * xp.exp(xp.where(below, log_p, log_q))


def _compare(grid: _Grid, p: Mixture, q: Mixture) -> tuple[Array, Array, Array]:
    """log p, log q and log(q/p) at every node and atom."""
    xp = namespace(grid.steps)
    at_nodes = _compare_densities(grid, p, q)
    masses = [_log_mass(grid.atoms, law) for law in (p, q)]
    at_atoms = (*masses, masses[1] - masses[0])
    pairs = zip(at_nodes, at_atoms, strict=True)
    return tuple(xp.concat([node, atom], axis=-1) for node, atom in pairs)


def _log_mass(atoms: Array, law: Mixture) -> Array:
    xp = namespace(atoms)
    weights, loc, scale = (a[..., None, :] for a in law)
    hit = (scale == 0) & (loc == atoms[..., None])
    return log_sum(xp.where(hit, weights, 0.0), xp.zeros_like(atoms)[..., None])


def _compare_densities(grid: _Grid, p: Mixture, q: Mixture) -> tuple[Array, Array, Array]:
    """log p, log q and log(q/p) at the nodes.

    Matched components enter q − p by the difference of their logarithms: log(q/p) is then small
    by construction where the laws are close, not by cancellation.
    """
    xp = namespace(grid.steps)
    p_kernels, q_kernels = _log_kernels(grid, p), _log_kernels(grid, q)
    p_weights, q_weights = (law.continuous_weights()[..., None, :] for law in (p, q))
    log_p, log_q = log_sum(p_weights, p_kernels), log_sum(q_weights, q_kernels)
    difference = log_q - log_p
    if p_kernels.shape[-1] != q_kernels.shape[-1]:
        return log_p, log_q, difference
    change = _log_kernel_change(grid, p, q)
    matched = xp.abs(change) < 1
    p_ratio = p_weights * bounded_exp(p_kernels - log_p[..., None], p_weights)
    q_ratio = bounded_exp(q_kernels - log_p[..., None], q_weights)
    terms = xp.where(
        matched,
        p_ratio * xp.expm1(xp.where(matched, change, 0.0)) + (q_weights - p_weights) * q_ratio,
        q_weights * q_ratio - p_ratio,
    )
    close = xp.abs(difference) < 0.5
    relative = xp.where(close, xp.sum(terms, axis=-1), 0.0)
    return log_p, log_q, xp.where(close, xp.log1p(relative), difference)


def _offsets(grid: _Grid, law: Mixture) -> Array:
    """Of all nodes from all components; where panels begin in one, the difference is exact."""
    place, rest = (a[..., None] for a in grid.left)
    from_left = ((place - law.loc[..., None, :]) + rest)[..., None, :]
    offsets = from_left + grid.steps[..., None]
    return namespace(offsets).reshape(offsets, (*offsets.shape[:-3], -1, offsets.shape[-1]))


def _log_kernels(grid: _Grid, law: Mixture) -> Array:
    return normal_log_density(_offsets(grid, law), law.safe_scale()[..., None, :])


@np.errstate(over="ignore")
def _log_kernel_change(grid: _Grid, p: Mixture, q: Mixture) -> Array:
    """log N(x; q) − log N(x; p) of each component, from the differences of its parameters."""
    p_scale, q_scale = (law.safe_scale()[..., None, :] for law in (p, q))
    z = _offsets(grid, p) / p_scale
    step = ((p.loc - q.loc)[..., None, :] - z * (q_scale - p_scale)) / q_scale
    return -_log_ratio(p_scale, q_scale) - step * (z + step / 2)


def _log_ratio(p: Array, q: Array) -> Array:
    """log(q/p) of positive numbers, relatively accurate when they are close."""
    xp = namespace(p, q)
    gap = (q - p) / p
    close = xp.abs(gap) < 0.5
    return xp.where(close, xp.log1p(xp.where(close, gap, 0.0)), xp.log(q) - xp.log(p))


# The grid. It follows the parameters but carries no gradient: any fine enough grid will do.


def _grid(laws: list[Mixture], points: int, crossings_of: Mixture | None = None) -> _Grid:
    xp = namespace(*laws[0])
    loc, scale = _all_components(laws)
    ends = _component_ends(loc, scale)
    if crossings_of is not None and crossings_of.loc.shape[-1] > 1:
        law = Mixture(*(detach(a) for a in crossings_of))
        crossings = _crossing_ends(law.continuous_weights(), law.loc, law.safe_scale())
        crossings = [_flatten(moved_axis(a, 0, -2)) for a in crossings]
        low, high = xp.min(ends[0], axis=-1, keepdims=True), xp.max(ends[0], axis=-1, keepdims=True)
        beyond = (crossings[0] < low) | (crossings[0] > high)
        inside = [xp.where(beyond, e[..., :1], c) for e, c in zip(ends, crossings, strict=True)]
        ends = [xp.concat([e, c], axis=-1) for e, c in zip(ends, inside, strict=True)]
    for key in (1, 0):  # by places, and where these agree by what they leave out
        order = xp.argsort(ends[key], axis=-1, stable=True)
        ends = [xp.take_along_axis(a, order, axis=-1) for a in ends]
    place, rest = ends
    widths = (place[..., 1:] - place[..., :-1]) + (rest[..., 1:] - rest[..., :-1])
    steps, measure = _rules(widths, points)
    point = scale == 0
    same = point[..., None] & point[..., None, :] & (loc[..., None] == loc[..., None, :])
    copies = xp.sum(xp.astype(same, loc.dtype), axis=-1)
    atom_measure = safe_ratio(xp.astype(point, loc.dtype), copies)
    left = place[..., :-1], rest[..., :-1]
    return _Grid(left, steps, loc, xp.concat([_flatten(measure), atom_measure], axis=-1))


def _all_components(laws: list[Mixture]) -> list[Array]:
    """Locations and scales."""
    xp = namespace(*laws[0])
    batch = np.broadcast_shapes(*(tuple(a.shape[:-1]) for law in laws for a in law))
    spread = [[xp.broadcast_to(detach(a), (*batch, a.shape[-1])) for a in law[1:]] for law in laws]
    return [xp.concat(list(arrays), axis=-1) for arrays in zip(*spread, strict=True)]


def _component_ends(loc: Array, scale: Array) -> list[Array]:
    ends = constants([*(-e for e in reversed(_ENDS)), 0.0, *_ENDS], loc)
    return [_flatten(a) for a in _exact_sum(loc[..., None], scale[..., None] * ends)]


def _exact_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b as it rounds, and what that leaves out."""
    total = a + b
    added = total - a
    return total, (a - (total - added)) + (b - added)


def panels(ends: Array, points: int) -> tuple[Array, Array]:
    """Nodes and weights of a Gauss-Legendre rule between all neighbouring ends."""
    ends = namespace(ends).sort(ends, axis=-1)
    steps, weights = _rules(ends[..., 1:] - ends[..., :-1], points)
    return _flatten(ends[..., :-1, None] + steps), _flatten(weights)


def _rules(widths: Array, points: int) -> list[Array]:
    """Steps to nodes from the left ends of panels, and weights, on an axis behind the panels."""
    return [widths[..., None] * from_numpy(a, widths) for a in unit_gauss_legendre(points)]


def _crossing_ends(weights: Array, loc: Array, scale: Array) -> list[Array]:
    """Panel ends around the points where two components of P are equally dense.

    log p bends there within a width that no scale tells; it matters where a wide Q sees the
    bend far from all components.
    """
    xp = namespace(weights, loc, scale)
    # Of equal components, which meet everywhere, the first stands for all.
    same = (loc[..., None] == loc[..., None, :]) & (scale[..., None] == scale[..., None, :])
    same = xp.astype(same, loc.dtype)
    weights = xp.sum(same * weights[..., None, :], axis=-1)
    weights = xp.where(xp.any(xp.tril(same, k=-1) > 0, axis=-1), 0.0, weights)
    log_height = xp.log(xp.where(weights > 0, weights, 1.0)) - xp.log(scale)
    log_height = xp.where(weights > 0, log_height, lowest(loc))
    pairs = (as_index(from_numpy(i, loc)) for i in np.triu_indices(loc.shape[-1], 1))
    one, other = ([xp.take(a, i, axis=-1) for a in (loc, scale, log_height)] for i in pairs)
    # Counted from the narrower of the two, beside which it bends if they are far apart.
    swapped = one[1] > other[1]
    near = [xp.where(swapped, b, a) for a, b in zip(one, other, strict=True)]
    wide = [xp.where(swapped, a, b) for a, b in zip(one, other, strict=True)]
    away, width = _crossings(wide[0] - near[0], near[1], near[2], wide[1], wide[2])
    away, least = xp.concat(away, axis=-1), xp.minimum(near[2], wide[2])
    centre, unit, top, width, least = (xp.concat([a, a], axis=-1) for a in (*near, width, least))
    # Only the components that are the largest of all at a root bend the sum; parabolas have at
    # most 2K such roots. Heights are rounded in proportion to their size.
    with np.errstate(over="ignore", invalid="ignore"):
        place, rest = (a[..., None] for a in _exact_sum(centre, away))
        z = ((place - loc[..., None, :]) + rest) / scale[..., None, :]
        heights = log_height[..., None, :] - z * z / 2
        height = top - (away / unit) ** 2 / 2
        below = (xp.max(heights, axis=-1) - height) / (1 + xp.abs(height))
    usable = xp.isfinite(below) & (least > lowest(loc))
    below = xp.where(usable, below, xp.full_like(below, math.inf))
    order = xp.argsort(below, axis=-1)[..., : 2 * loc.shape[-1]]
    centre, away, width = (
        xp.take_along_axis(a, order, axis=-1)[..., None] for a in (centre, away, width)
    )
    ends = constants([*(-e for e in _ENDS_OF_A_CROSSING), 0.0, *_ENDS_OF_A_CROSSING], loc)
    return [_flatten(a) for a in _exact_sum(centre, away + width * ends)]


@np.errstate(over="ignore", invalid="ignore")
def _crossings(
    distance: Array, scale: Array, log_height: Array, scale_2: Array, log_height_2: Array
) -> tuple[list[Array], Array]:
    """Where two weighted normal densities agree, from the first one, and how wide they change."""
    xp = namespace(distance, scale, log_height)
    # The log densities differ by (a y² − 2 distance y + c) / (2 scale_2²) at y from the first.
    a = 1 - (scale_2 / scale) ** 2
    c = distance**2 + 2 * scale_2**2 * (log_height - log_height_2)
    discriminant = distance**2 - a * c
    root = xp.sqrt(xp.maximum(discriminant, xp.zeros_like(discriminant)))
    reach = distance + xp.where(distance < 0, -root, root)
    solutions = [_finite_ratio(reach, a), _finite_ratio(c, reach)]
    return solutions, _finite_ratio(scale_2**2, root + scale_2 * xp.sqrt(xp.abs(a)))


def _finite_ratio(a: Array, b: Array) -> Array:
    """a / b, and zero where that has no finite value."""
    xp = namespace(a, b)
    ratio = a / xp.where(b == 0, 1.0, b)
    return xp.where((b != 0) & xp.isfinite(ratio), ratio, 0.0)


def _flatten(a: Array) -> Array:
    """Join the last two axes."""
    return namespace(a).reshape(a, (*a.shape[:-2], -1))
