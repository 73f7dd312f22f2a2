"""Student-t laws on the line under kernels without a closed form, by characteristic functions.

D(P, Q) = ∫ |φ_P − φ_Q|² W du and H(P) = ∫ (1 − |φ_P|²) W du over u = log ω, where the weights W
are a mean of normal densities over the kernel's scales. A law of many components enters by sums
over them, not over their pairs. What is small is built from 1 − cos and 1 − exp: nothing cancels.
Two points are apart by the kernel itself; their own part of the integrand, which has no end, is
left out.
"""

from __future__ import annotations

import math
from typing import NamedTuple, final

import numpy as np

from kuq.distributions.atoms import Normals, Points, Products, to_products
from kuq.distributions.laws import Stack
from kuq.expectations.scales import is_narrow
from kuq.forms.form import Form, Measure, Problem, Statistics
from kuq.forms.point_pairs import between_points
from kuq.kernels.base import ScaleMixture

#: Nodes at most; what oscillates more is lost.
_MOST_NODES = 3000
#: From e^−_LEFT over the largest size to _RIGHT over the smallest one and e^_BEYOND over the
#: bandwidth: outside the integrands are powers of ω, or nothing.
_LEFT, _RIGHT, _BEYOND = 14.0, 9.6, 8.0
#: Components below this weight do not set the step.
_RARE = 1e-10
#: The rounding of characteristic functions, which leaves no digits of members that agree.
_DIGITS = 1e-13
#: log y of the rule for the weights; their integrand is √y e^(−y) times a density.
_LOG_Y = np.arange(-80.0, 4.75, 0.25)


@final
class Spectral(Form):
    """Lost are members that nearly agree, mixtures with points, and laws many scales apart."""

    method = "quadrature"

    def applies(self, problem: Problem) -> bool:
        heavy = any(group.kind is Products and not group.itself for group in problem.groups)
        single = all(group.atoms == 1 for group in problem.groups)
        line = problem.dimension == 1 and problem.only(Points, Normals, Products)
        kernel = isinstance(problem.score, ScaleMixture) and not is_narrow(problem.score)
        return heavy and single and line and problem.numpy and kernel

    def scratch(self, problem: Problem) -> int:
        return 256 * max(group.inner for group in problem.groups)

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        kernel = measure.kernel
        assert isinstance(kernel, ScaleMixture)
        members = list(_members(stack))
        log_width = np.log(np.asarray(1.0 if measure.bandwidth is None else measure.bandwidth))
        nodes = _nodes(members, None if kernel.degree is not None else log_width, measure.rtol)
        weights = nodes.step * _weights(kernel, nodes.log_omega + log_width[..., None])
        beyond = _right_tail(weights)
        entropies, real, imaginary = [], [], []
        for member in members:
            fall, turn = _around_centre(member, np.exp(nodes.log_omega))
            both = weights * (fall * (2 - fall) - turn * turn)
            entropies.append(np.where(member.is_point, 0.0, _with_left_tail(both) + beyond))
            angle = np.exp(nodes.log_omega) * (member.centre - members[0].centre)
            rise = 2 * np.sin(angle / 2) ** 2  # 1 − cos
            real.append(fall * (1 - rise) + turn * np.sin(angle) + rise)
            imaginary.append((1 - fall) * np.sin(angle) + turn * (1 - rise))
        shares = stack.member_weights()[:, None]
        of_points = shares * np.stack([member.is_point for member in members])
        pointed = np.sum(of_points, axis=0)  # their weight, (n,)
        spread: np.ndarray = np.zeros_like(weights)
        for x in (np.stack(real), np.stack(imaginary)):
            spread = spread + _spread(x, shares[..., None]) - _spread(x, of_points[..., None])
        total = _with_left_tail(2 * weights * spread) + 2 * pointed * (1 - pointed) * beyond
        close = _DIGITS / measure.rtol
        kept = nodes.usable & (total > close * close * np.max(np.stack(entropies), axis=0))
        total = total + _between_points(measure, members, of_points)
        return Statistics(np.stack(entropies), total, ~kept)


def _spread(values: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Σ_{i<j} w_i w_j (x_i − x_j)² over the first axis."""
    mass = np.sum(w, axis=0)
    gap = values - np.sum(w * values, axis=0) / np.where(mass > 0, mass, 1.0)
    return np.asarray(mass * np.sum(w * gap * gap, axis=0))


def _between_points(measure: Measure, members: list[_Member], w: np.ndarray) -> np.ndarray | float:
    """Σ w_i w_j D_ij of point masses, (n,)."""
    if np.sum(np.any(w > 0, axis=1)) < 2:
        return 0.0
    places = np.concatenate([member.centre for member in members], axis=-1)[..., None]
    apart = between_points(measure, places[:, :, None, :], places[:, None, :, :])
    return np.asarray(np.einsum("in,jn,nij->n", w, w, apart))


class _Member(NamedTuple):
    """Weights, offsets from the first location and scales of the components (n, K)."""

    centre: np.ndarray
    weights: np.ndarray
    offset: np.ndarray
    scale: np.ndarray

    @property
    def is_point(self) -> np.ndarray:
        """(n,)"""
        return np.asarray(np.all((self.scale == 0) & (self.offset == 0), axis=-1))


def _members(stack: Stack) -> list[_Member]:
    members = []
    for group in stack.groups:
        atoms = to_products(group.atoms, group.atoms.inner)
        for m in range(atoms.lead[0]):
            loc, scale, weights = (
                a[m, :, 0, 0, :] for a in (atoms.loc, atoms.scale, atoms.weights)
            )
            members.append(_Member(loc[:, :1], weights, loc - loc[:, :1], scale))
    return members


class _Nodes(NamedTuple):
    """u = log ω (n, T), its step, and which entries need no more nodes than there are."""

    log_omega: np.ndarray
    step: float
    usable: np.ndarray


def _nodes(members: list[_Member], log_width: np.ndarray | None, rtol: float) -> _Nodes:
    low, high = (
        fold([bound(m.centre + m.offset, axis=-1) for m in members])
        for fold, bound in ((np.minimum.reduce, np.min), (np.maximum.reduce, np.max))
    )
    distance = high - low
    usual = [np.where(m.weights > 1e-3, m.scale, 0.0).max(axis=-1) for m in members]
    seen = [
        np.where(m.is_point, math.inf, np.where(m.weights > _RARE, m.scale, math.inf).min(axis=-1))
        for m in members
    ]
    largest, smallest = np.maximum.reduce([distance, *usual]), np.minimum.reduce(seen)
    usable = (smallest > 1e-12 * largest) & np.isfinite(smallest)
    largest, smallest = (np.where(usable, x, 1.0) for x in (largest, smallest))
    first, last = -_LEFT - np.log(largest), np.log(_RIGHT / smallest)
    if log_width is not None:
        last = np.maximum(last, _BEYOND - log_width)
        first = np.minimum(first, -_LEFT - log_width)
    # e^(iωδ) beside exp(−σ²ω²) is analytic in a strip of the width σ/δ.
    digits = math.log(1 / rtol) + 5
    step = np.minimum(
        4.4 / digits, 2 * math.pi / math.sqrt(digits) * smallest / (distance + 1e-300)
    )
    usable = usable & ((last - first) / step < _MOST_NODES)
    finest = float(np.min(np.where(usable, step, 4.4 / digits)))
    count = int(np.max(np.where(usable, (last - first) / finest, 8.0))) + 2
    usable = usable & (count <= 2 * _MOST_NODES)
    count = min(count, 2 * _MOST_NODES)
    return _Nodes(first[:, None] + finest * np.arange(count), finest, usable)


@np.errstate(over="ignore", under="ignore")
def _weights(kernel: ScaleMixture, u: np.ndarray) -> np.ndarray:
    """W at u = log(ω·bandwidth): π^(−½) ∫ √y e^(−y) ρ(2u − log 4y) d log y."""
    y = np.exp(_LOG_Y)
    rule = 0.25 / math.sqrt(math.pi) * np.sqrt(y) * np.exp(-y)
    out = np.zeros_like(u)
    for log_y, weight in zip(_LOG_Y, rule, strict=True):
        out += weight * np.exp(kernel.log_density(2 * u - (log_y + math.log(4.0))))
    return out


@np.errstate(over="ignore", under="ignore")
def _around_centre(member: _Member, omega: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1 − Re φ and Im φ of a law about its centre, (n, T), component by component."""
    fall, turn = np.zeros_like(omega), np.zeros_like(omega)
    moved = bool(np.any(member.offset != 0))
    for k in range(member.weights.shape[-1]):
        weight, offset, scale = (a[:, k, None] for a in member[1:])
        width = scale * omega
        lack = -np.expm1(-0.5 * width * width)
        if moved:
            angle = offset * omega
            rise = 2 * np.sin(angle / 2) ** 2
            turn += weight * (1 - lack) * np.sin(angle)
            lack = lack + (1 - lack) * rise
        fall += weight * lack
    return fall, turn


def _right_tail(weights: np.ndarray) -> np.ndarray:
    """What a power of ω through the last two weights adds on the right, where φ is zero."""
    before, last = weights[..., -2], weights[..., -1]
    falls = (last < before) & (last > 0)
    ratio = np.where(falls, last, 1.0) / np.where(falls, before, 2.0)
    return np.where(falls, last * ratio / (1 - ratio), 0.0)


def _with_left_tail(values: np.ndarray) -> np.ndarray:
    """Their sum, and what a power of ω through the first two adds on the left."""
    first, second = values[..., 0], values[..., 1]
    rises = (second > first) & (first > 0)
    ratio = np.where(rises, second, 2.0) / np.where(rises, first, 1.0)
    tail = np.where(rises, first / (ratio - 1), 0.0)
    return np.asarray(np.sum(values, axis=-1) + tail)
