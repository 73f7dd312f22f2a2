"""Normals, mixtures and points on the line under kernels with a closed form, over pairs of atoms.

Members are flattened to weighted normal atoms (a point has scale zero). With u = w·v the weight of
an atom in the mixture of all members and D_ab of atoms,

    H_m = Σ_a v_a H_a + Σ_{a<b in m} v_a v_b D_ab,
    dispersion = 2 Σ_{a<b} u_a u_b D_ab − Σ_m w_m 2 Σ_{a<b in m} v_a v_b D_ab,

so that every pair is looked at once. For single atoms nothing is subtracted.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np

from kuq._array import Array, from_numpy, index_array, namespace
from kuq._compiled import twin
from kuq._special import erfcx
from kuq.distributions.atoms import Atoms, LowRanks, Normals, Points, Products
from kuq.distributions.laws import Law, Stack, to_scalar_atoms
from kuq.expectations import scalar
from kuq.forms.atom_pairs import cross_sum, mean_over_pairs
from kuq.forms.distances import profile_of
from kuq.forms.form import (
    Crossing,
    Differential,
    Differentiated,
    Expecting,
    Form,
    Measure,
    Problem,
    Slopes,
    Statistics,
    by_statistics,
)
from kuq.kernels.base import Score
from kuq.kernels.energy import Energy
from kuq.kernels.gaussian import Gaussian
from kuq.kernels.laplace import Laplace
from kuq.tiles import pieces

#: Below this share of what is subtracted a difference has lost its digits.
CLOSE = 1e-3
#: The same for draws, where every pair is exact.
_CLOSE_DRAWS = 1e-6


def has_closed_form(score: Score) -> bool:
    """Whether two normals on the line have a closed form."""
    absolute = isinstance(score, Energy) and score.beta == 1
    return absolute or isinstance(score, (Gaussian, Laplace))


class PairsDifferentiated(Differentiated):
    """A form for scalars whose statistics are sums over pairs of atoms, however it gets them."""

    def differential(self, stack: Stack, wanted: Sequence[bool], asked: np.ndarray) -> Differential:
        return _differential(stack, wanted, asked)


@final
class ScalarPairs(Form, Expecting, Crossing, PairsDifferentiated):
    def applies(self, problem: Problem) -> bool:
        kinds = problem.only(Points, Normals, Products, LowRanks)
        return problem.dimension == 1 and kinds and has_closed_form(problem.score)

    def scratch(self, problem: Problem) -> int:
        count = sum(group.members * group.atoms * group.inner for group in problem.groups)
        if problem.compiled:
            return count
        return 3 * count if count > 16 else count * count

    def cancels(self, problem: Problem) -> bool:
        several = any(group.atoms * group.inner > 1 for group in problem.groups)
        return several or isinstance(problem.score, Laplace)

    def any_units(self, problem: Problem) -> bool:
        return problem.compiled or (problem.absolute and problem.numpy)

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        atoms = flattened(stack)
        return _compiled(measure, atoms) if measure.compiled else _statistics(measure, atoms)

    def differentiates(self, problem: Problem) -> bool:
        kinds = problem.only(Points, Normals, Products)
        return kinds and isinstance(problem.score, (Energy, Gaussian))

    def cross(self, measure: Measure, p: Law, q: Law) -> Array:
        def between(left: Atoms, right: Atoms) -> Array:
            return _between(measure, *_all_pairs(left, right), 2)[0]

        return cross_sum(to_scalar_atoms(p), to_scalar_atoms(q), 1, measure.budget, between)

    def inside(self, measure: Measure, law: Law) -> Array:
        return self.cross(measure, law, law)

    def expectation(self, measure: Measure, p: Law, q: Law) -> Array:
        p, q = to_scalar_atoms(p), to_scalar_atoms(q)
        laplace = isinstance(measure.kernel, Laplace)
        affinity = scalar.laplace_affinity if laplace else scalar.gaussian_affinity
        return -mean_over_pairs(affinity(*_all_pairs(p.atoms, q.atoms), measure.width(2)), p, q)


@final
class DrawPairs(Form, PairsDifferentiated):
    """Scalar draws under kernels that the compiled engine knows as profiles."""

    def applies(self, problem: Problem) -> bool:
        name, _ = profile_of(problem.score) or ("", 0.0)
        supported = name in ("power", "bump", "rational")
        return supported and problem.scalar_draws and problem.compiled

    def scratch(self, problem: Problem) -> int:
        return problem.atoms

    def cancels(self, problem: Problem) -> bool:
        return True

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        return _between_draws(measure, flattened(stack))

    def differentiates(self, problem: Problem) -> bool:
        return isinstance(problem.score, Gaussian)


class ScalarAtoms(NamedTuple):
    """All atoms of all members: loc, scale and weight inside the member, (T, n) each.

    ``owners`` (T,) are the members' positions in ascending order, ``members`` (M,) their weights.
    """

    loc: Array
    scale: Array
    weights: Array | None
    owners: np.ndarray
    members: Array


def flattened(stack: Stack) -> ScalarAtoms:
    laws = [to_scalar_atoms(law) for law in stack.groups]
    single = all(law.count == 1 for law in laws)
    loc, scale, weights = zip(*(_rows(law, single) for law in laws), strict=True)
    owners = _owners(tuple((law.atoms.lead[0], law.count) for law in laws))
    shares = None if single else _joined(weights)
    return ScalarAtoms(_joined(loc), _joined(scale), shares, owners, stack.member_weights())


@functools.lru_cache(maxsize=256)
def _owners(sizes: tuple[tuple[int, int], ...]) -> np.ndarray:
    """The member of every atom, from members and atoms of each in every group."""
    counts = [count for members, count in sizes for _ in range(members)]
    return np.repeat(np.arange(len(counts)), counts)


def _joined(parts: tuple[Array, ...]) -> Array:
    return parts[0] if len(parts) == 1 else namespace(parts[0]).concat(list(parts), axis=0)


def _rows(law: Law, single: bool) -> tuple[Array, Array, Array | None]:
    """Arrays (m, n, A) of a group as (m·A, n)."""
    loc, scale = _loc_and_scale(law.atoms)
    if single:
        return loc[..., 0], scale[..., 0], None
    xp = namespace(loc)

    def row(a: Array) -> Array:
        m, n, count = a.shape
        return xp.reshape(xp.permute_dims(a, (0, 2, 1)), (m * count, n))

    return row(loc), row(scale), row(law.full_weights())


def _all_pairs(p: Atoms, q: Atoms) -> tuple[Array, Array, Array, Array]:
    """Locations and scales of scalar atoms that broadcast to (m, n, A, B)."""
    (x, s), (y, t) = _loc_and_scale(p), _loc_and_scale(q)
    return x[..., :, None], s[..., :, None], y[..., None, :], t[..., None, :]


def _loc_and_scale(atoms: Atoms) -> tuple[Array, Array]:
    """Of scalar atoms, (m, n, A) each."""
    if isinstance(atoms, Points):
        loc = atoms.value[..., 0]
        if isinstance(loc, np.ndarray):  # the zeros_like of the array API shows in small calls
            return loc, np.zeros(loc.shape, loc.dtype)
        return loc, namespace(loc).zeros_like(loc)
    assert isinstance(atoms, Normals)
    return atoms.loc[..., 0], atoms.scale[..., 0]


def _compiled(measure: Measure, atoms: ScalarAtoms) -> Statistics:
    name = type(measure.kernel).__name__.lower().replace("energy", "absolute")
    entropies, total, size = twin("forms.scalar_pairs").statistics(
        name, 0.0, measure.bandwidth, *atoms
    )
    return Statistics(entropies, total, _lost(measure, atoms, total, size))


def _between_draws(measure: Measure, atoms: ScalarAtoms) -> Statistics:
    profile = profile_of(measure.kernel)
    assert profile is not None
    weights = np.ones_like(atoms.loc) if atoms.weights is None else atoms.weights
    # A homogeneous kernel comes in units of its own.
    width = 1.0 if measure.bandwidth is None else measure.bandwidth
    entropies, total, size = twin("forms.scalar_pairs").statistics(
        *profile, width, *atoms._replace(weights=weights)
    )
    return Statistics(entropies, total, (total <= _CLOSE_DRAWS * size) & (size > 0))


def _differential(stack: Stack, wanted: Sequence[bool], asked: np.ndarray) -> Differential:
    sizes = tuple((law.atoms.lead[0], law.count * law.atoms.inner) for law in stack.groups)
    single = all(count == 1 for _, count in sizes)
    points = all(isinstance(law.atoms, Points) for law in stack.groups)
    owners, n = _owners(sizes), stack.batch_count
    # Of location, scale and weight of every atom: where they stand, and their slopes.
    places, targets = np.full((3, len(owners), 3), -1), np.full((3, len(owners)), -1)
    shares = np.ones(len(owners))
    given: list[np.ndarray] = []  # weights of draws
    slots: list[_Slot | None] = []
    start = used = member = 0
    for law, (m, count) in zip(stack.groups, sizes, strict=True):
        span = slice(start, start + m * count)
        first = (np.arange(m)[:, None] * (n * count) + np.arange(count)).ravel()
        for k in range(len(law.atoms.extra)):
            places[k, span] = np.stack(np.broadcast_arrays(len(slots), first, count), axis=-1)
            weight_of_one = single and k == 2
            if not wanted[len(slots)] or weight_of_one:
                slots.append(None)
                continue
            targets[k, span] = used + first
            here = slice(used, used + m * n * count)
            slots.append(_Slot(here, slice(member, member + m), (m, n, count)))
            used = here.stop
        shares[span] = 1.0 / law.count
        if law.weights is not None:
            source = len(wanted) + len(given)
            places[2, span] = np.stack(np.broadcast_arrays(source, first, count), axis=-1)
            given.append(np.ascontiguousarray(law.full_weights()))
        start, member = span.stop, member + m
    # Few values have slopes of their own. Those of many are sums of these: H of the own member, and
    # the dispersion.
    few = len(asked) <= 2
    both = np.eye(2)[:, [0] * member + [1]]
    rows = asked if few else np.concatenate([both, asked])
    pairs, alone = _counted(rows, np.asarray(stack.member_weights(), dtype=np.float64), single)
    atoms = (places, targets, owners, shares, pairs, alone)
    ends = (len(asked) if few else 2, used, n)
    statistics = twin("forms.scalar_slopes").statistics(*atoms, 0.0 if single else CLOSE, *ends)
    name = "distance" if points else "absolute"

    def run(measure: Measure, arrays: Sequence[Array]) -> tuple[np.ndarray, Slopes] | None:
        score = "gaussian" if type(measure.score) is Gaussian else name
        sums = statistics(score, measure.bandwidth, (*arrays, *given))
        if sums is None:
            return None
        values, slopes = sums

        def by_arrays(by_values: Sequence[np.ndarray | None]) -> list[np.ndarray | None]:
            if few and single:
                rows, factors = slopes.reshape(len(slopes), -1, n), by_values
            elif few and all(by is None or by.strides == (0,) for by in by_values):  # of a sum
                rows, factors = slopes, [by if by is None else by[:1] for by in by_values]
            else:
                if not few:
                    by_values = np.split(by_statistics(asked, by_values, n), [member])
                return [None if slot is None else slot.of(slopes, by_values) for slot in slots]
            row = _total(rows, factors).reshape(-1)  # at once for all arrays
            return [None if slot is None else row[slot.place] for slot in slots]

        return values[-len(asked) :], by_arrays

    return run


def _total(rows: np.ndarray, factors: Sequence[np.ndarray | None]) -> np.ndarray:
    """The sum of rows times factors."""
    total: np.ndarray | None = None
    for row, factor in zip(rows, factors, strict=True):
        if factor is not None:
            total = row * factor if total is None else total + row * factor
    assert total is not None
    return total


class _Slot(NamedTuple):
    """Where the slopes by an array of atoms stand in a row of them, and its members."""

    place: slice
    members: slice
    shape: tuple[int, int, int]

    def of(self, slopes: np.ndarray, factors: Sequence[np.ndarray | None]) -> np.ndarray:
        """The sum of rows of slopes times factors (n,), or (M, n) for those of each member."""
        each = [
            by[self.members] if by is not None and len(by) > 1 < by.ndim else by for by in factors
        ]
        rows = slopes[:, self.place].reshape(-1, *self.shape)
        return _total(rows, [None if by is None else by[..., None] for by in each])


def _counted(asked: np.ndarray, weights: np.ndarray, single: bool) -> tuple[np.ndarray, np.ndarray]:
    """What D of a pair of atoms (R, M, M) and H of an atom (R, M) of members count in each row.

    Unless members are single atoms, the last two are the dispersion and its pairs of members.
    """
    if not single:
        asked = np.concatenate([asked, np.eye(1, len(weights) + 1, len(weights)).repeat(2, 0)])
    alone, spread = asked[:, :-1], asked[:, -1, None]
    pairs = 2 * np.multiply.outer(asked[:, -1], np.multiply.outer(weights, weights))
    inside = alone + 2 * spread * weights * (weights - 1)
    diagonal = np.arange(len(weights))
    pairs[:, diagonal, diagonal] = inside
    if not single:
        pairs[-1, diagonal, diagonal] = 0.0
    return pairs, np.ascontiguousarray(alone)


def _lost(measure: Measure, atoms: ScalarAtoms, total: Array, size: Array) -> Array | None:
    can_lose = atoms.weights is not None or isinstance(measure.kernel, Laplace)
    return (total <= CLOSE * size) & (size > 0) if can_lose and len(atoms.loc) > 1 else None


def _statistics(measure: Measure, atoms: ScalarAtoms) -> Statistics:
    xp = namespace(atoms.loc)
    (count, n), members = atoms.loc.shape, atoms.members.shape[0]
    owned = np.eye(members)[:, atoms.owners]
    entropies = _entropy(measure, atoms.scale)
    if atoms.weights is not None:
        entropies = from_numpy(owned, atoms.loc) @ (atoms.weights * entropies)
    total, size = xp.zeros_like(entropies[0, :]), xp.zeros_like(entropies[0, :])
    inner = xp.zeros_like(entropies)
    rows, columns = np.triu_indices(count, 1)
    for chunk in pieces(len(rows), n, measure.budget, atoms.loc):
        pair = np.stack([rows[chunk], columns[chunk]])
        owners = atoms.owners[pair]
        (x, y), (s, t) = _taken(atoms.loc, pair), _taken(atoms.scale, pair)
        values, magnitude = _between(measure, x, s, y, t, 0)
        if atoms.weights is not None:
            v_i, v_j = _taken(atoms.weights, pair)
            values, magnitude = v_i * v_j * values, v_i * v_j * magnitude
        w_i, w_j = _taken(atoms.members, owners)
        share = 2 * w_i * w_j
        total = total + share @ values
        same = owners[0] == owners[1]
        size = size + (from_numpy(~same * 1.0, share) * share) @ magnitude
        if same.any():
            inner = inner + from_numpy(owned[:, pair[0]] * same, values) @ values
    total = total - 2 * xp.sum(atoms.members[:, None] * inner, axis=0)
    return Statistics(entropies + inner, total, _lost(measure, atoms, total, size))


def _taken(array: Array, places: np.ndarray) -> tuple[Array, Array]:
    """Rows for the first and for the second of every pair, at ``places`` (2, P)."""
    rows = namespace(array).take(array, index_array(places.ravel(), array), axis=0)
    count = places.shape[1]
    return rows[:count, ...], rows[count:, ...]


def _entropy(measure: Measure, scale: Array) -> Array:
    kernel = measure.kernel
    if isinstance(kernel, Energy):
        return scalar.absolute_entropy(scale)
    if isinstance(kernel, Gaussian):
        return scalar.gaussian_entropy(scale, measure.width(0))
    return scalar.laplace_entropy(scale, measure.width(0))


def _between(
    measure: Measure, x: Array, s: Array, y: Array, t: Array, atom_axes: int
) -> tuple[Array, Array]:
    """D of N(x, s²) and N(y, t²), and the size of what was subtracted in it."""
    kernel = measure.kernel
    if isinstance(kernel, Energy):
        value = scalar.absolute_divergence(x, s, y, t)
        return value, value
    width = measure.width(atom_axes)
    if isinstance(kernel, Gaussian):
        value = scalar.gaussian_divergence(x, s, y, t, width)
        return value, value
    selves = (erfcx(s / width) + erfcx(t / width)) / 2
    return selves - scalar.laplace_affinity(x, s, y, t, width), selves
