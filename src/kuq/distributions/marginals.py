"""Distribution functions and quantiles of every coordinate, one implementation for all laws.

The marginal law of a coordinate is a mixture of points, normals and Student-t laws. A quantile is
the smallest x with F(x) ≥ q: a point mass where F jumps over q, else the root of F(x) = q, found by
Newton's method on the scale of a standard normal law, kept inside a bracket.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

from kuq._array import Array, as_numpy, widen
from kuq._special import half_step
from kuq.distributions.atoms import Normals, Points
from kuq.distributions.laws import Law, to_scalar_atoms

Values: TypeAlias = NDArray[np.float64]

_ROOT_2PI = math.sqrt(2 * math.pi)
_LARGEST = float(np.finfo(np.float64).max)
_EPS = float(np.finfo(np.float64).eps)
#: Numbers of one array that is worked on at a time: they stay in the cache.
_AT_ONCE = 2**17
#: How exact a quantile is, in units of a standard deviation there.
_EXACT = 1e-11
#: Where a standard deviation is so many times as wide as any component, rounding of F is felt.
_FLAT = 1e4
_READS = "a distribution function or quantile"


@dataclass(frozen=True, eq=False)
class Components:
    """Scalar laws that are mixed, (m, n, A): m members with A components each, for n coordinates.

    A scale of zero is a point mass, and all are where ``scale`` is None. ``df`` is that of
    Student-t laws, None for normals. Weights sum to one over m and A.
    """

    weights: Values
    loc: Values
    scale: Values | None = None
    df: Values | None = None

    @staticmethod
    def of_law(law: Law) -> Components:
        """The components of a law with one coordinate for each of its lead axes."""
        law = to_scalar_atoms(law)
        weights = law.full_weights()
        if isinstance(law.atoms, Points):
            return Components(_columns(weights), _columns(law.atoms.value[..., 0]))
        assert isinstance(law.atoms, Normals)
        loc, scale = law.atoms.loc[..., 0], law.atoms.scale[..., 0]
        return Components(_columns(weights), _columns(loc), _columns(scale))

    @staticmethod
    def of_student(df: Array, loc: Array, scale: Array) -> Components:
        df, loc, scale = (_columns(widen(a)[..., None]) for a in (df, loc, scale))
        return Components(np.ones_like(loc), loc, scale, df)

    def of_members(self, weights: Values) -> Components:
        """The first axes of the coordinates as members with weights, (M,)."""

        def split(a: Values) -> Values:
            return np.reshape(a, (weights.size, -1, a.shape[-1]))

        return Components(
            split(self.weights) * weights[:, None, None],
            split(self.loc),
            None if self.scale is None else split(self.scale),
            None if self.df is None else split(self.df),
        )

    def weighted(self, weight: float) -> Components:
        return replace(self, weights=self.weights * weight)


def _columns(array: Array) -> Values:
    """(lead…, A) to (1, n, A)."""
    values = as_numpy(array, _READS)
    return values.reshape(1, -1, values.shape[-1])


@dataclass(frozen=True, eq=False)
class _Smooth:
    """Components with a density, (K, n); mixtures for n coordinates, or for n searches in them."""

    weights: Values
    loc: Values
    scale: Values
    df: Values | None
    #: log of the density of a Student-t law at its centre, where ``df`` is given.
    peak: Values | None

    def map(self, change: Callable[[Values], Values]) -> _Smooth:
        return _Smooth(
            change(self.weights),
            change(self.loc),
            change(self.scale),
            None if self.df is None else change(self.df),
            None if self.peak is None else change(self.peak),
        )

    def standardised(self, x: Values) -> Values:
        """(x − loc) / scale, (K, …, n) for x of shape (…, n)."""
        return np.asarray((x - self._beside(self.loc, x)) / self._beside(self.scale, x))

    def chance(self, x: Values, above: NDArray[np.bool_] | None = None) -> Values:
        """P(X ≤ x), or where ``above`` P(X > x), of the weights that are here."""
        z = self.standardised(x)
        if above is not None:
            z = np.where(above, -z, z)
        return np.asarray(np.sum(self._beside(self.weights, x) * self.each(z), axis=0))

    def each(self, z: Values) -> Values:
        """The standard distribution function of every component."""
        values = np.asarray(special.ndtr(z))
        if self.df is not None:
            df = np.broadcast_to(self._beside(self.df, z[0]), z.shape)
            heavy = np.isfinite(df)
            values[heavy] = special.stdtr(df[heavy], z[heavy])
        return values

    def density(self, z: Values) -> Values:
        """Of the mixture at standardised values (K, n)."""
        values = np.exp(-z * z / 2) / _ROOT_2PI
        if self.df is not None and self.peak is not None:
            heavy = np.isfinite(self.df)
            df, square = self.df[heavy], z[heavy] * z[heavy]
            values[heavy] = np.exp(self.peak[heavy] - (df + 1) / 2 * np.log1p(square / df))
        return np.asarray(np.sum(self.weights * values / self.scale, axis=0))

    def logarithms(self, z: Values) -> tuple[Values, Values]:
        """log of weight · F(z), and of the density, of every component, (K, n)."""
        tails = np.asarray(special.log_ndtr(z))
        densities = -z * z / 2 - math.log(_ROOT_2PI)
        if self.df is not None and self.peak is not None:
            heavy = np.isfinite(self.df)
            df, square = self.df[heavy], z[heavy] * z[heavy]
            tails[heavy] = np.log(special.stdtr(df, z[heavy]))
            densities[heavy] = self.peak[heavy] - (df + 1) / 2 * np.log1p(square / df)
        log_weights = np.log(self.weights)
        return log_weights + tails, log_weights + densities - np.log(self.scale)

    def quantiles(self, p: Values) -> Values:
        """Of every component at levels p ≤ ½, (K, n)."""
        values = np.broadcast_to(special.ndtri(p), self.loc.shape)
        if self.df is not None:
            heavy = np.isfinite(self.df)
            level = np.broadcast_to(p, heavy.shape)[heavy]
            values = values.copy()
            values[heavy] = _student_quantile(self.df[heavy], level)
        return self.loc + self.scale * values

    @staticmethod
    def _beside(a: Values, x: Values) -> Values:
        return a.reshape(a.shape[0], *(1,) * (x.ndim - 1), a.shape[-1])


def _student_quantile(df: Values, p: Values) -> Values:
    """Of the standard Student-t law at p ≤ ½."""
    near = np.asarray(special.stdtrit(df, p))
    # Far out, where the routine fails, the tail is a power to rounding.
    log_far = -(np.log(p * df) + special.betaln(df / 2, 0.5)) / df + np.log(df) / 2
    return np.asarray(np.where(log_far > 23, -np.exp(log_far), near))


@dataclass(frozen=True, eq=False)
class _Jumps:
    """Point masses (A, n) in rising order, with their weights summed from below and from above."""

    at: Values
    upto: Values
    beyond: Values

    @staticmethod
    def of(weights: Values, at: Values) -> _Jumps:
        at = np.where(weights > 0, at, np.where(np.isnan(at), at, math.inf))
        order = np.argsort(at, axis=0, kind="stable")
        at, weights = (np.take_along_axis(a, order, axis=0) for a in (at, weights))
        none = np.zeros((1, at.shape[1]))
        upto = np.concatenate([none, np.cumsum(weights, axis=0)])
        beyond = np.concatenate([np.cumsum(weights[::-1], axis=0)[::-1], none])
        return _Jumps(at, upto, beyond)

    @property
    def count(self) -> int:
        return int(self.at.shape[0])


@dataclass(frozen=True, eq=False)
class _Part:
    """The mixtures of some coordinates: what has a density, and point masses."""

    smooth: _Smooth | None
    jump_weights: Values | None
    jumps_at: Values | None

    def chance(self, y: Values, strict: bool) -> Values:
        """P(X ≤ y), or P(X < y) where ``strict``, for y (E, n)."""
        total = np.zeros(y.shape) if self.smooth is None else self.smooth.chance(y)
        if self.jump_weights is not None and self.jumps_at is not None:
            weights, at = self.jump_weights[:, None, :], self.jumps_at[:, None, :]
            passed = at < y if strict else at <= y
            total = total + np.sum(np.where(np.isnan(at), at, weights) * passed, axis=0)
        total = np.where(np.isnan(y), y, total)
        return np.clip(total, 0.0, 1.0)


def _parts(groups: tuple[Components, ...], more: int) -> Iterator[tuple[slice, _Part]]:
    """The mixtures of a few coordinates at a time; each is used at ``more`` places."""
    count = sum(group.loc.shape[0] * group.loc.shape[2] for group in groups)
    rows = groups[0].loc.shape[1]
    step = max(1, _AT_ONCE // max(1, count * more))
    for start in range(0, rows, step):
        part = slice(start, min(rows, start + step))
        yield part, _part(groups, part)


def _part(groups: tuple[Components, ...], rows: slice) -> _Part:
    def taken(a: Values) -> Values:  # (m, n, A) -> (m·A, some of n)
        return np.ascontiguousarray(a[:, rows, :].transpose(0, 2, 1)).reshape(
            -1, a[:, rows].shape[1]
        )

    points, smooth = [], []
    heavy = any(group.df is not None for group in groups)
    for group in groups:
        weights, loc = taken(group.weights), taken(group.loc)
        if group.scale is None:
            points.append((weights, loc))
            continue
        scale = taken(group.scale)
        flat = scale == 0
        if flat.any():
            points.append((np.where(flat, weights, 0.0), loc))
            if flat.all():
                continue
            weights, scale = np.where(flat, 0.0, weights), np.where(flat, 1.0, scale)
        df = np.full_like(loc, math.inf) if group.df is None else taken(group.df)
        smooth.append((weights, loc, scale, df))
    jump_weights, jumps_at = _joined(points) if points else (None, None)
    if not smooth:
        return _Part(None, jump_weights, jumps_at)
    weights, loc, scale, df = _joined(smooth)
    if not heavy:
        return _Part(_Smooth(weights, loc, scale, None, None), jump_weights, jumps_at)
    known = np.where(np.isfinite(df), df, 1.0)
    peak = half_step(known / 2)[0] - np.log(known * math.pi) / 2
    return _Part(_Smooth(weights, loc, scale, df, peak), jump_weights, jumps_at)


def _joined(pieces: list[Any]) -> tuple[Values, ...]:
    return tuple(np.concatenate(arrays) for arrays in zip(*pieces, strict=True))


@np.errstate(over="ignore", invalid="ignore")
def chance(groups: tuple[Components, ...], y: Values, strict: bool = False) -> Values:
    """P(X ≤ y), or P(X < y) where ``strict``, for outcomes y (E, n) of n coordinates."""
    values = np.empty(y.shape)
    for part, mixtures in _parts(groups, y.shape[0]):
        values[:, part] = mixtures.chance(y[:, part], strict)
    return values


@np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore")
def quantiles(groups: tuple[Components, ...], below: Values, above: Values) -> Values:
    """Quantiles (E, n) at levels ``below`` (E,), whose distances to one are ``above`` (E,).

    Both are asked for so that levels next to one keep their digits.
    """
    values = np.empty((below.size, groups[0].loc.shape[1]))
    for part, mixtures in _parts(groups, below.size):
        shape = values[:, part].shape
        low, high = (np.broadcast_to(a[:, None], shape) for a in (below, above))
        values[:, part] = _quantiles(mixtures, low, high)
    return values


def _quantiles(part: _Part, below: Values, above: Values) -> Values:
    """For levels (E, n)."""
    lowest, highest = np.full(below.shape, -math.inf), np.full(below.shape, math.inf)
    if part.jump_weights is None or part.jumps_at is None:
        values, open_ = np.full(below.shape, math.nan), np.ones(below.shape, dtype=bool)
    else:
        jumps = _Jumps.of(part.jump_weights, part.jumps_at)
        place = _place(jumps, part.smooth, below, above)
        around = np.concatenate([lowest[:1], jumps.at, highest[:1]])
        lowest, values = (np.take_along_axis(around, place + k, axis=0) for k in (0, 1))
        highest = values
        jumps_over = ~_reached(jumps, part.smooth, place, values, below, above, strict=True)
        unknown = np.isnan(jumps.at).any(axis=0) | np.isnan(jumps.upto[-1])
        values = np.where(unknown, math.nan, values)
        open_ = ~jumps_over & ~unknown
        below = below - np.take_along_axis(jumps.upto, place, axis=0)
        above = above - np.take_along_axis(jumps.beyond, place, axis=0)
    if part.smooth is None:
        return values
    mass = np.sum(part.smooth.weights, axis=0)
    level, row = np.nonzero(open_ & (mass > 0))
    if row.size:
        under, over = (np.maximum(a[level, row], 0.0) / mass[row] for a in (below, above))
        found = _roots(
            part.smooth.map(lambda a: a[:, row]),
            under,
            over,
            lowest[level, row],
            highest[level, row],
        )
        values = values.copy()
        values[level, row] = found
    return values


def _place(jumps: _Jumps, smooth: _Smooth | None, below: Values, above: Values) -> NDArray[np.intp]:
    """The position of the first jump x with F(x) ≥ q, (E, n), by halving; their number if none."""
    first = np.zeros(below.shape, dtype=np.intp)
    last = np.full(below.shape, jumps.count, dtype=np.intp)
    for _ in range(jumps.count.bit_length()):
        middle = (first + last) // 2
        inside = np.minimum(middle, jumps.count - 1)
        at = np.take_along_axis(jumps.at, inside, axis=0)
        reached = _reached(jumps, smooth, middle, at, below, above, strict=False)
        searching = first < last
        last = np.where(searching & reached, middle, last)
        first = np.where(searching & ~reached, middle + 1, first)
    return first


def _reached(
    jumps: _Jumps,
    smooth: _Smooth | None,
    place: NDArray[np.intp],
    x: Values,
    below: Values,
    above: Values,
    strict: bool,
) -> NDArray[np.bool_]:
    """Whether F(x) ≥ q at the jump x at ``place``, or F(x−) ≥ q where ``strict``."""
    upper = above < below
    counted = np.minimum(place if strict else place + 1, jumps.count)
    passed = np.take_along_axis(jumps.upto, counted, axis=0)
    left = np.take_along_axis(jumps.beyond, counted, axis=0)
    if smooth is not None:
        chance = smooth.chance(x, upper)
        passed, left = passed + chance, left + chance
    # Sums of weights are rounded: 0.1 + 0.2 has to reach 0.3.
    room = 2 * (jumps.count + 1) * _EPS
    return np.where(upper, left <= above * (1 + room), passed >= below * (1 - room))


# Roots of F(x) = p where F has a density.


def _roots(law: _Smooth, below: Values, above: Values, lowest: Values, highest: Values) -> Values:
    """x between ``lowest`` and ``highest`` with F(x) = below, where 1 − below = above; all (n,)."""
    mass = np.sum(law.weights, axis=0)
    sign = np.where(above < below, -1.0, 1.0)
    lowest, highest = np.where(sign > 0, lowest, -highest), np.where(sign > 0, highest, -lowest)
    mirrored = replace(law, weights=law.weights / mass, loc=law.loc * sign)
    return sign * _lower_roots(mirrored, np.minimum(below, above), lowest, highest)


def _lower_roots(law: _Smooth, p: Values, lowest: Values, highest: Values) -> Values:
    """The same for p ≤ ½."""
    each = law.quantiles(p)
    counts = law.weights > 0
    low = np.maximum(np.min(np.where(counts, each, math.inf), axis=0), lowest)
    high = np.minimum(np.max(np.where(counts, each, -math.inf), axis=0), highest)
    low = np.where(high > -_LARGEST, np.maximum(low, -_LARGEST), low)
    width = np.max(np.where(counts, law.scale, 0.0), axis=0)
    start = np.sum(np.where(counts, law.weights * each, 0.0), axis=0)
    problem = _Problem(law, p, special.ndtri(p), low, high, np.clip(start, low, high), width)
    found, deviation = _searched(problem, _on_normal_scale)
    flat = ~(deviation <= _FLAT * width) & (high > low) & np.isfinite(found)
    if flat.any():
        hard = problem.map(lambda a: a[..., flat])
        found[flat] = _searched(replace(hard, x=found[flat]), _in_balance)[0]
    return found


@dataclass(frozen=True, eq=False)
class _Problem:
    """F(x) = p for n mixtures, p = Φ(goal), with the root between low and high."""

    law: _Smooth
    p: Values
    goal: Values
    low: Values
    high: Values
    x: Values
    width: Values

    def map(self, change: Callable[[Values], Values]) -> _Problem:
        rest = (self.p, self.goal, self.low, self.high, self.x, self.width)
        return _Problem(self.law.map(change), *(change(a) for a in rest))


class _Look(NamedTuple):
    """Whether x is above the root, how far F is off on some scale, and dx by that scale."""

    over: NDArray[np.bool_]
    miss: Values
    deviation: Values


def _searched(problem: _Problem, look: Callable[[_Problem], _Look]) -> tuple[Values, Values]:
    """Roots by Newton's method inside of brackets, and the last ``deviation``."""
    found, deviations = problem.x.copy(), np.zeros_like(problem.x)
    places = np.arange(found.size)
    before = np.full(found.shape, math.inf)
    while places.size:
        x = problem.x
        over, miss, deviation = look(problem)
        low, high = np.where(over, problem.low, x), np.where(over, x, problem.high)
        step = miss * deviation
        small = (np.abs(miss) <= _EXACT) | (np.abs(step) <= _EPS * np.abs(x))
        newton = x - step
        good = (newton >= low) & (newton <= high) & (small | (np.abs(step) <= before / 2))
        x = np.where(good, newton, _middle(low, high, problem.width))
        # Done too where nothing is left to search, or what is asked for is infinite.
        done = (good & small) | ~(high - low > 2 * _EPS * np.maximum(np.abs(low), np.abs(high)))
        found[places], deviations[places] = x, deviation
        problem, before = replace(problem, low=low, high=high, x=x), np.abs(step)
        if done.any():
            left = np.nonzero(~done)[0]
            problem = problem.map(lambda a, left=left: a[..., left])  # type: ignore[misc]
            places, before = places[left], before[left]
    return found, deviations


def _middle(low: Values, high: Values, width: Values) -> Values:
    """Half-way; in digits where the bracket is far wider than the law."""
    plain = low / 2 + high / 2
    wide = high - low > 1e3 * width
    if not wide.any():
        return plain
    unit = np.where(width > 0, width, 1.0)
    digits = np.sinh((np.arcsinh(low / unit) + np.arcsinh(high / unit)) / 2) * unit
    return np.where(wide & (digits > low) & (digits < high), digits, plain)


def _on_normal_scale(problem: _Problem) -> _Look:
    """Φ⁻¹(F(x)) against Φ⁻¹(p): a straight line for one normal, and nearly so for close ones."""
    law = problem.law
    z = law.standardised(problem.x)
    chance = np.minimum(np.sum(law.weights * law.each(z), axis=0), 1.0)
    level = special.ndtri(chance)
    deviation = np.exp(-level * level / 2) / _ROOT_2PI / law.density(z)
    return _Look(chance > problem.p, level - problem.goal, deviation)


def _in_balance(problem: _Problem) -> _Look:
    """For gaps between components, where F − p is far smaller than the rounding of F.

    With C the weight of the components centred below x, F − p = (C − p) + A − B, where A is what
    those above leave below x, and B what those below leave above it.
    """
    law, x = problem.law, problem.x
    z = law.standardised(x)
    below = law.loc <= x
    surplus = np.sum(np.where(below, law.weights, 0.0), axis=0) - problem.p
    rounding = 4 * law.loc.shape[0] * _EPS * problem.p
    surplus = np.where(np.abs(surplus) <= rounding, 0.0, surplus)
    log_tails, log_densities = law.logarithms(-np.abs(z))

    def total(logs: Values, chosen: NDArray[np.bool_]) -> Values:
        logs = np.where(chosen, logs, -math.inf)
        top = np.maximum(np.max(logs, axis=0), -_LARGEST)
        return np.asarray(top + np.log(np.sum(np.exp(logs - top), axis=0)))

    left = np.logaddexp(total(log_tails, ~below), np.log(np.maximum(surplus, 0.0)))
    right = np.logaddexp(total(log_tails, below), np.log(np.maximum(-surplus, 0.0)))
    slope = np.exp(total(log_densities, ~below) - left)
    slope = slope + np.exp(total(log_densities, below) - right)
    return _Look(left > right, left - right, 1 / slope)
