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
from kuq.distributions.atoms import LowRanks, Normals, Points, Products
from kuq.distributions.laws import Law, Stack, to_scalar_atoms
from kuq.expectations import scalar
from kuq.forms.distances import profile_of
from kuq.forms.form import (
    Crossing,
    Differential,
    Differentiated,
    Expecting,
    Form,
    Measure,
    Problem,
    Reading,
    Slopes,
    Statistics,
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

    def differential(
        self, stack: Stack, wanted: Sequence[bool], entropies: bool = True
    ) -> Differential:
        return _differential(stack, wanted, entropies)


@final
class ScalarPairs(Form, Expecting, Crossing, PairsDifferentiated):
    def applies(self, problem: Problem) -> bool:
        kinds = problem.only(Points, Normals, Products, LowRanks)
        return problem.dimension == 1 and kinds and has_closed_form(problem.score)

    def scratch(self, problem: Problem) -> int:
        count = sum(group.members * group.atoms * group.inner for group in problem.groups)
        if problem.reading is Reading.COMPILED:
            return count
        return 3 * count if count > 16 else count * count

    def cancels(self, problem: Problem) -> bool:
        several = any(group.atoms * group.inner > 1 for group in problem.groups)
        return several or isinstance(problem.score, Laplace)

    def any_units(self, problem: Problem) -> bool:
        compiled = problem.reading is Reading.COMPILED
        return compiled or (problem.absolute and problem.reading is Reading.NUMPY)

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        atoms = flattened(stack)
        return _compiled(measure, atoms) if measure.compiled else _statistics(measure, atoms)

    def differentiates(self, problem: Problem) -> bool:
        kinds = problem.only(Points, Normals, Products)
        return kinds and isinstance(problem.score, (Energy, Gaussian))

    def cross(self, measure: Measure, p: Law, q: Law) -> Array:
        p, q = to_scalar_atoms(p), to_scalar_atoms(q)
        xp = namespace(p.atoms.reference)
        (x, s), (y, t) = (_loc_and_scale(law) for law in (p, q))
        w, v = p.full_weights(), q.full_weights()
        lead = max(p.atoms.lead[0], q.atoms.lead[0]) * p.atoms.lead[1]
        total: Array | float = 0.0
        for part in pieces(p.count, lead * q.count, measure.budget, x):
            left = x[..., part, None], s[..., part, None]
            values, _ = _between(measure, *left, y[..., None, :], t[..., None, :], 2)
            inner = xp.sum(values * v[..., None, :], axis=-1)
            total = total + xp.sum(inner * w[..., part], axis=-1)
        return total

    def inside(self, measure: Measure, law: Law) -> Array:
        return self.cross(measure, law, law)

    def expectation(self, measure: Measure, p: Law, q: Law) -> Array:
        laws = [to_scalar_atoms(law) for law in (p, q)]
        (x, s, w), (y, t, v) = (_rows(law, single=False) for law in laws)
        assert w is not None
        assert v is not None
        xp = namespace(x)
        both = x[:, None, :], s[:, None, :], y[None, ...], t[None, ...]
        width = measure.width(0)
        if isinstance(measure.kernel, Laplace):
            values = -scalar.laplace_affinity(*both, width)
        else:
            values = -scalar.gaussian_affinity(*both, width)
        return xp.sum(w[:, None, :] * v[None, ...] * values, axis=(0, 1))[None, :]


@final
class DrawPairs(Form, PairsDifferentiated):
    """Scalar draws under kernels that the compiled engine knows as profiles."""

    def applies(self, problem: Problem) -> bool:
        name, _ = profile_of(problem.score) or ("", 0.0)
        known = name in ("power", "bump", "rational")
        return known and problem.scalar_draws and problem.reading is Reading.COMPILED

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
    loc, scale = _loc_and_scale(law)
    if single:
        return loc[..., 0], scale[..., 0], None
    xp = namespace(loc)

    def row(a: Array) -> Array:
        m, n, count = a.shape
        return xp.reshape(xp.permute_dims(a, (0, 2, 1)), (m * count, n))

    return row(loc), row(scale), row(law.full_weights())


def _loc_and_scale(law: Law) -> tuple[Array, Array]:
    """Of scalar atoms, (m, n, A) each."""
    atoms = law.atoms
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
    known = profile_of(measure.kernel)
    assert known is not None
    weights = atoms.weights
    if weights is None:
        weights = np.ones_like(atoms.loc)
    width = measure.bandwidth
    if width is None:  # a homogeneous kernel comes in units of its own
        width = 1.0
    entropies, total, size = twin("forms.scalar_pairs").statistics(
        *known, width, *atoms._replace(weights=weights)
    )
    return Statistics(entropies, total, (total <= _CLOSE_DRAWS * size) & (size > 0))


def _differential(stack: Stack, wanted: Sequence[bool], entropies: bool) -> Differential:
    sizes = tuple((law.atoms.lead[0], law.count * law.atoms.inner) for law in stack.groups)
    single = all(count == 1 for _, count in sizes)
    points = all(isinstance(law.atoms, Points) for law in stack.groups)
    owners, n = _owners(sizes), stack.batch_count
    # Of location, scale and weight of every atom: where they stand, and the rows of their slopes.
    places, slots = np.full((3, len(owners), 3), -1), np.full((3, len(owners)), -1)
    shares = np.ones(len(owners))
    given: list[np.ndarray] = []  # weights of draws
    parts: list[tuple[slice, int, tuple[int, ...]] | None] = []
    start = used = 0
    for law, (m, count) in zip(stack.groups, sizes, strict=True):
        own = slice(start, start + m * count)
        first = (np.arange(m)[:, None] * (n * count) + np.arange(count)).ravel()
        place = np.stack(np.broadcast_arrays(0, first, count), axis=-1)
        for k, name in enumerate(law.atoms.extra):
            places[k, own] = place + np.array([len(parts), 0, 0])
            weight_of_one = single and k == 2
            if not wanted[len(parts)] or weight_of_one:
                parts.append(None)
                continue
            rows = slice(used, used + m * count)
            slots[k, own] = np.arange(rows.start, rows.stop)
            parts.append((rows, m, getattr(law.atoms, name).shape))
            used = rows.stop
        shares[own] = 1.0 / law.count
        if law.weights is not None:
            places[2, own] = place + np.array([len(wanted) + len(given), 0, 0])
            given.append(np.ascontiguousarray(law.full_weights()))
        start = own.stop
    owners_of_rows = np.broadcast_to(owners, slots.shape)[slots >= 0]
    owners_of_rows = owners_of_rows[np.argsort(slots[slots >= 0])]
    members = np.asarray(stack.member_weights(), dtype=np.float64)
    alone = entropies or not single

    def run(measure: Measure, arrays: Sequence[np.ndarray]) -> tuple[Statistics, Slopes]:
        name = "distance" if points else "absolute"
        each, sums, found = twin("forms.scalar_slopes").statistics(
            "gaussian" if isinstance(measure.kernel, Gaussian) else name,
            measure.bandwidth,
            [*arrays, *given],
            places,
            slots,
            shares,
            owners,
            members,
            used,
            n,
            alone,
            lossy=not single,
        )

        def slopes(
            by_entropies: np.ndarray | None, by_dispersion: np.ndarray
        ) -> list[np.ndarray | None]:
            rows = by_dispersion * found[-1]
            if by_entropies is not None:
                rows += by_entropies[owners_of_rows] * found[0]
            rows = rows.astype(arrays[0].dtype, copy=False)
            return [part if part is None else _of_array(rows, *part) for part in parts]

        lost = None if single else (sums[0] <= CLOSE * sums[1]) & (sums[1] > 0)
        return Statistics(each, sums[0], lost), slopes

    return run


def _of_array(rows: np.ndarray, own: slice, m: int, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of columns as the array (m, n, …) of atoms to which they belong."""
    found: np.ndarray = rows[own].reshape(m, -1, rows.shape[-1]).swapaxes(1, 2).reshape(shape)
    return found


def _lost(measure: Measure, atoms: ScalarAtoms, total: Array, size: Array) -> Array | None:
    can_lose = atoms.weights is not None or isinstance(measure.kernel, Laplace)
    return (total <= CLOSE * size) & (size > 0) if can_lose and len(atoms.loc) > 1 else None


def _statistics(measure: Measure, atoms: ScalarAtoms) -> Statistics:
    xp = namespace(atoms.loc)
    count, n = atoms.loc.shape
    alone = _entropy(measure, atoms.scale)
    members = int(atoms.owners[-1]) + 1
    w = atoms.members[:, None]
    if atoms.weights is None:
        inner = None
        entropies, shares = alone, w
    else:
        selection = from_numpy(np.eye(members)[:, atoms.owners], atoms.loc)
        entropies = selection @ (atoms.weights * alone)
        shares = xp.take(w, index_array(atoms.owners, w), axis=0) * atoms.weights
        inner = xp.zeros_like(entropies)
    total, size = xp.zeros_like(alone[0, :]), xp.zeros_like(alone[0, :])
    rows, columns = np.triu_indices(count, 1)
    blocks = [slice(0, len(rows))]
    if len(rows) * n > measure.budget:
        blocks = list(pieces(len(rows), n, measure.budget, atoms.loc))
    for part in blocks:
        i, j = (index_array(k[part], atoms.loc) for k in (rows, columns))
        x, s, y, t = (xp.take(a, k, axis=0) for k in (i, j) for a in (atoms.loc, atoms.scale))
        values, magnitude = _between(measure, x, s, y, t, 0)
        share = 2 * xp.take(shares, i, axis=0) * xp.take(shares, j, axis=0)
        total = total + xp.sum(share * values, axis=0)
        if inner is None:
            size = size + xp.sum(share * magnitude, axis=0)
            continue
        same = atoms.owners[rows[part]] == atoms.owners[columns[part]]
        size = size + xp.sum(from_numpy(~same * 1.0, total)[:, None] * share * magnitude, axis=0)
        if same.any():
            inner = inner + _inside(
                atoms,
                rows[part][same],
                columns[part][same],
                xp.take(values, index_array(np.flatnonzero(same), total), axis=0),
            )
    if inner is not None:
        entropies = entropies + inner
        total = total - 2 * xp.sum(w * inner, axis=0)
    return Statistics(entropies, total, _lost(measure, atoms, total, size))


def _inside(atoms: ScalarAtoms, i: np.ndarray, j: np.ndarray, values: Array) -> Array:
    """Σ v_i v_j D_ij over pairs of atoms of the same member, (M, n)."""
    assert atoms.weights is not None
    xp = namespace(values)
    v, w = (xp.take(atoms.weights, index_array(k, values), axis=0) for k in (i, j))
    owner = np.eye(int(atoms.owners[-1]) + 1)[:, atoms.owners[i]]
    return from_numpy(owner, values) @ (v * w * values)


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
