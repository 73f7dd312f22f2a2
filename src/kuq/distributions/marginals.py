"""Distribution functions and quantiles of every coordinate, one implementation for all laws.

The marginal law of a coordinate is a mixture of points, normals and Student-t laws. A quantile is
the smallest x with F(x) ≥ q: a point mass where F jumps over q, else the root of F(x) = q, found by
Newton's method on the scale of a standard normal law, kept inside a bracket.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

from kuq._array import Array, as_numpy, widen
from kuq.distributions.atoms import Normals, Points
from kuq.distributions.laws import Law, to_scalar_atoms
from kuq.distributions.log_densities import student_log_density

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


def _columns(array: Array) -> Values:
    """(lead…, A) to (1, n, A)."""
    values = as_numpy(array, _READS)
    return values.reshape(1, -1, values.shape[-1])


@dataclass(frozen=True, eq=False)
class _Smooth:
    """Components with a density, (K, n): normals, and behind them Student-t laws, which have a df.

    They make n mixtures: of n coordinates, or for n searches in them.
    """

    weights: Values
    loc: Values
    scale: Values
    df: Values

    def map(self, change: Callable[[Values], Values]) -> _Smooth:
        return _Smooth(*(change(a) for a in (self.weights, self.loc, self.scale, self.df)))

    def chance(self, x: Values, above: bool = False) -> Values:
        """P(X ≤ x) for x (E, n), or where ``above`` P(X > x), of the weights that are here."""
        across, way = self.map(lambda a: a[:, None, :]), -1 if above else 1
        chunks = np.array_split(x, max(1, self.loc.size * len(x) // _AT_ONCE))
        each = (across.each(way * across.standardised(chunk)) for chunk in chunks)
        return np.concatenate([np.sum(across.weights * values, axis=0) for values in each])

    def standardised(self, x: Values) -> Values:
        return np.asarray((x - self.loc) / self.scale)

    def each(self, z: Values) -> Values:
        """The standard distribution function of every component."""
        normal, heavy = self._by_kind(z)
        near, far, log_tail = _student_tails(self.df, heavy)
        return _joined(special.ndtr(normal), np.where(far, np.exp(log_tail), near))

    def log_each(self, z: Values) -> Values:
        normal, heavy = self._by_kind(z)
        near, far, log_tail = _student_tails(self.df, heavy)
        return _joined(special.log_ndtr(normal), np.where(far, log_tail, np.log(near)))

    def log_densities(self, z: Values) -> Values:
        """Of every standard component."""
        normal, heavy = self._by_kind(z)
        zero, one = np.zeros_like(heavy), np.ones_like(heavy)
        heavy = student_log_density(heavy, self.df, zero, one)
        return _joined(-normal * normal / 2 - math.log(_ROOT_2PI), heavy)

    def quantiles(self, p: Values) -> Values:
        """Of every component at levels p ≤ ½, (K, n)."""
        normal, _ = self._by_kind(np.broadcast_to(special.ndtri(p), self.loc.shape))
        standard = _joined(normal, _student_quantile(self.df, p))
        return np.asarray(self.loc + self.scale * standard)

    def _by_kind(self, values: Values) -> tuple[Values, Values]:
        normals = len(values) - len(self.df)
        return values[:normals], values[normals:]


def _joined(normal: Values, heavy: Values) -> Values:
    return np.concatenate([normal, heavy]) if len(heavy) else np.asarray(normal)


# Far out, where the routines for Student-t laws fail, their tail is a power of |z| to rounding.


def _far(df: Values) -> Values:
    """log |z| from which on it is."""
    return np.asarray(23 + np.log1p(df))


def _log_power(df: Values) -> Values:
    """log of F(z)·|z|^df there."""
    return np.asarray(df * np.log(df) / 2 - np.log(df) - special.betaln(df / 2, 0.5))


def _student_tails(df: Values, z: Values) -> tuple[Values, NDArray[np.bool_], Values]:
    """F(z) if it is near, whether it is far out, and the logarithm of F(z) there."""
    with np.errstate(divide="ignore"):
        log_size = np.log(np.maximum(-z, 0.0))
    far = log_size > _far(df)
    size = np.where(far, log_size, 0.0)
    log_tail = _log_power(df) - df * size if far.any() else size
    return special.stdtr(df, z), far, log_tail


def _student_quantile(df: Values, p: Values) -> Values:
    """Of the standard Student-t law at p ≤ ½."""
    near = np.asarray(special.stdtrit(df, p))
    log_size = (_log_power(df) - np.log(p)) / df
    return np.asarray(np.where(log_size > _far(df), -np.exp(log_size), near))


class _Points(NamedTuple):
    """Point masses (A, n) of n coordinates."""

    weights: Values
    at: Values


def _parts(groups: tuple[Components, ...], more: int) -> Iterator[tuple[slice, _Smooth, _Points]]:
    """The mixtures of a few coordinates at a time; each is used at ``more`` places."""
    count = sum(group.loc.shape[0] * group.loc.shape[2] for group in groups)
    coordinates = groups[0].loc.shape[1]
    step = max(1, _AT_ONCE // max(1, count * more))
    for start in range(0, coordinates, step):
        columns = slice(start, min(coordinates, start + step))
        yield columns, *_part(groups, columns)


def _part(groups: tuple[Components, ...], columns: slice) -> tuple[_Smooth, _Points]:
    def taken(a: Values) -> Values:  # (m, n, A) -> (m·A, some of n)
        turned = a[:, columns, :].transpose(0, 2, 1)
        return np.ascontiguousarray(turned).reshape(-1, turned.shape[-1])

    none = taken(groups[0].loc)[:0]
    points, normals, heavy, dfs = [[none] * 2], [[none] * 3], [[none] * 3], [none]
    for group in groups:
        weights, loc = taken(group.weights), taken(group.loc)
        if group.scale is None:
            points.append([weights, loc])
            continue
        scale = taken(group.scale)
        flat = scale == 0
        if flat.any():
            points.append([np.where(flat, weights, 0.0), loc])
        smooth = [np.where(flat, 0.0, weights), loc, np.where(flat, 1.0, scale)]
        if group.df is None:
            normals.append(smooth)
        else:
            heavy.append(smooth)
            dfs.append(taken(group.df))
    weights, loc, scale = map(np.concatenate, zip(*normals, *heavy, strict=True))
    smooth_part = _Smooth(weights, loc, scale, np.concatenate(dfs))
    return smooth_part, _Points(*map(np.concatenate, zip(*points, strict=True)))


@np.errstate(over="ignore", invalid="ignore")
def chance(groups: tuple[Components, ...], y: Values, strict: bool = False) -> Values:
    """P(X ≤ y), or P(X < y) where ``strict``, for outcomes y (E, n) of n coordinates."""
    values = np.empty(y.shape)
    for columns, smooth, points in _parts(groups, y.shape[0]):
        x, at = y[:, columns], points.at[:, None, :]
        passed = at < x if strict else at <= x
        weights = np.where(np.isnan(at), at, points.weights[:, None, :])
        total = smooth.chance(x) + np.sum(weights * passed, axis=0)
        values[:, columns] = np.clip(np.where(np.isnan(x), x, total), 0.0, 1.0)
    return values


@np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore")
def quantiles(groups: tuple[Components, ...], below: Values, above: Values) -> Values:
    """Quantiles (E, n) at levels ``below`` (E,), whose distances to one are ``above`` (E,).

    Both are asked for so that levels next to one keep their digits.
    """
    values = np.empty((below.size, groups[0].loc.shape[1]))
    for columns, smooth, points in _parts(groups, below.size):
        shape = values[:, columns].shape
        levels = (np.broadcast_to(a[:, None], shape) for a in (below, above))
        values[:, columns] = _quantiles(smooth, points, *levels)
    return values


def _quantiles(smooth: _Smooth, points: _Points, below: Values, above: Values) -> Values:
    """At levels (E, n): the first point at which F has reached them, or a root before it."""
    at = np.where((points.weights > 0) | np.isnan(points.at), points.at, math.inf)
    order = np.argsort(at, axis=0, kind="stable")
    at, weights = (np.take_along_axis(a, order, axis=0) for a in (at, points.weights))
    none, end = (np.full((1, at.shape[1]), value) for value in (0.0, math.inf))
    # With one place more: what the points before each of them weigh, and those from it on.
    mass = np.sum(smooth.weights, axis=0)
    under = np.concatenate([smooth.chance(at), mass[None, :]])
    over = np.concatenate([smooth.chance(at, above=True), none])
    at = np.concatenate([at, end])
    upto = np.concatenate([none, np.cumsum(weights, axis=0)])
    beyond = np.concatenate([np.cumsum(weights[::-1], axis=0)[::-1], none])
    room = 2 * len(at) * _EPS  # sums of weights are rounded: 0.1 + 0.2 has to reach 0.3
    upper = above < below

    def reached(passed: Values, left: Values) -> NDArray[np.bool_]:
        return np.where(upper, left <= above * (1 + room), passed >= below * (1 - room))

    after = reached((upto[1:] + under[:-1])[:, None], (beyond[1:] + over[:-1])[:, None])
    place = np.sum(~after, axis=0)

    def there(table: Values) -> Values:
        return np.take_along_axis(table, place, axis=0)

    unknown = np.isnan(at).any(axis=0) | np.isnan(upto[-1] + mass)
    values = np.where(unknown, math.nan, there(at))
    before = reached(there(upto + under), there(beyond + over))
    level, row = np.nonzero(before & ~unknown & (mass > 0))
    if row.size:
        bounds = (there(np.concatenate([-end, at[:-1]])), there(at))
        levels = (np.maximum(below - there(upto), 0), np.maximum(above - there(beyond), 0))
        law = smooth.map(lambda a: a[:, row])
        law = replace(law, weights=law.weights / mass[row])
        values[level, row] = _roots(
            law,
            *(a[level, row] / mass[row] for a in levels),
            *(a[level, row] for a in bounds),
        )
    return values


# Roots of F(x) = p where F has a density.


def _roots(law: _Smooth, below: Values, above: Values, lowest: Values, highest: Values) -> Values:
    """x between ``lowest`` and ``highest`` with F(x) = below, where 1 − below = above; all (n,)."""
    sign = np.where(above < below, -1.0, 1.0)
    lowest, highest = np.where(sign > 0, lowest, -highest), np.where(sign > 0, highest, -lowest)
    mirrored = replace(law, loc=law.loc * sign)
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
    roots, deviation = _searched(problem, _on_normal_scale)
    flat = ~(deviation <= _FLAT * width) & (high > low) & np.isfinite(roots)
    if flat.any():
        hard = problem.map(lambda a: a[..., flat])
        roots[flat] = _searched(replace(hard, x=roots[flat]), _in_balance)[0]
    return roots


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
    roots, deviations = problem.x.copy(), np.zeros_like(problem.x)
    places = np.arange(roots.size)
    before = np.full(roots.shape, math.inf)
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
        roots[places], deviations[places] = x, deviation
        problem, before = replace(problem, low=low, high=high, x=x), np.abs(step)
        if done.any():
            left = np.nonzero(~done)[0]
            problem = problem.map(lambda a, left=left: a[..., left])  # type: ignore[misc]
            places, before = places[left], before[left]
    return roots, deviations


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
    density = np.sum(law.weights / law.scale * np.exp(law.log_densities(z)), axis=0)
    deviation = np.exp(-level * level / 2) / _ROOT_2PI / density
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
    log_weights = np.log(law.weights)
    log_tails = log_weights + law.log_each(-np.abs(z))
    log_densities = log_weights + law.log_densities(z) - np.log(law.scale)

    def total(logs: Values, chosen: NDArray[np.bool_]) -> Values:
        logs = np.where(chosen, logs, -math.inf)
        top = np.maximum(np.max(logs, axis=0), -_LARGEST)
        return np.asarray(top + np.log(np.sum(np.exp(logs - top), axis=0)))

    left = np.logaddexp(total(log_tails, ~below), np.log(np.maximum(surplus, 0.0)))
    right = np.logaddexp(total(log_tails, below), np.log(np.maximum(-surplus, 0.0)))
    slope = np.exp(total(log_densities, ~below) - left)
    slope = slope + np.exp(total(log_densities, below) - right)
    return _Look(left > right, left - right, 1 / slope)
