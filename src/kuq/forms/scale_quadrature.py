"""Normals, mixtures and low-rank normals under radial kernels, by affinities over scales.

The Gaussian kernel needs one scale; every other radial kernel is an integral over scales, which
the engine in ``expectations.scales`` does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any, ClassVar, NamedTuple, final

from kuq._array import Array, constants, is_traced, moved_axis, namespace
from kuq.distributions.atoms import (
    Atoms,
    LowRanks,
    Normals,
    Points,
    Products,
    mean_difference,
    smallest_gap,
    spread,
    tail_order,
    to_low_ranks,
    to_normals,
    to_products,
)
from kuq.distributions.gamma_grid import TRACED_DF
from kuq.distributions.laws import Law
from kuq.expectations import expansion, heavy_tails, low_rank, mixture, normal, overlap
from kuq.expectations.overlap import Overlap
from kuq.expectations.scales import BLOCK, AtScale, integrate
from kuq.forms.atom_pairs import AtomPairs, mean_over_pairs, most_pairs
from kuq.forms.form import Expecting, Measure, Problem
from kuq.forms.point_pairs import between_points
from kuq.kernels.base import Kernel, Radial, ScaleMixture
from kuq.kernels.energy import Energy
from kuq.kernels.gaussian import Gaussian
from kuq.tiles import pieces

#: Scales at once for low-rank normals, which share work between them.
LOW_RANK_NODES = 18
#: Laws whose moments end before this order have no slope at t = 0 that a window could use.
_HEAVY = 6.0
#: Moments that only just exist converge too slowly; `heavy_entropy` has these.
_SLOW = 0.3
#: Coordinates that sums over the event take at once.
_COORDINATES = 8


class OverScales(AtomPairs, Expecting):
    """Kinds are brought to a common one pair by pair; a point mass stays a point."""

    kernels: ClassVar[type[Kernel]]

    def applies(self, problem: Problem) -> bool:
        plain = problem.only(Points, Normals, Products)
        kinds = plain or problem.only(Points, Normals, LowRanks)
        return kinds and isinstance(problem.score, self.kernels)

    def scratch(self, problem: Problem) -> int:
        many = self.kernels is ScaleMixture
        ranks = [group.inner for group in problem.groups if group.kind is LowRanks]
        components = max(group.inner for group in problem.groups)
        size = problem.dimension if ranks else problem.dimension * components**2
        pair = _pair_scratch(many, size, max(ranks, default=None), problem.dimension)
        together = min(2, max(1, problem.members - 1))
        return max(together * most_pairs(problem) * pair, problem.atoms * size // 8)

    def pair_scratch(self, measure: Measure, p: Atoms, q: Atoms) -> int:
        if isinstance(p, Points) and isinstance(q, Points):
            return p.size
        ranks = [a.inner for a in (p, q) if isinstance(a, LowRanks)]
        size = max(p.size, q.size)
        dimension = p.mean().shape[-1]
        return _pair_scratch(measure.many_scales, size, max(ranks, default=None), dimension)

    def entropy(self, measure: Measure, atoms: Atoms) -> Array:
        xp = namespace(atoms.reference)
        if isinstance(atoms, Points):
            return xp.zeros_like(atoms.value[..., 0])
        log_affinity = _self_affinities(measure, atoms)

        def at_scale(t: Array) -> tuple[Array, Array]:
            log_self = log_affinity(t)
            return overlap.entropy(log_self), xp.exp(log_self) / 2

        def window() -> Window:
            moment = 2 * spread(atoms)
            tail = _tail(measure, atoms, _SLOW)
            slope = moment / 2 if tail > _HEAVY else None
            cautious = isinstance(atoms, Products)
            return Window(moment, _smallest(atoms), tail / 2, slope, cautious=cautious)

        return over_scales(measure, at_scale, window, atoms, 1)

    def divergence(self, measure: Measure, p: Atoms, q: Atoms) -> Array:
        if isinstance(p, Points) and isinstance(q, Points):
            return between_points(measure, p.value[..., :, None, :], q.value[..., None, :, :])
        p, q = _promoted(p.expand(0), q.expand(1))
        xp = namespace(p.reference)
        overlap_at = _overlaps(measure, p, q)

        def between(t: Array) -> tuple[Array, Array]:
            o = overlap_at(t)
            rest = (xp.exp(o.log_p) + xp.exp(o.log_q)) / 2 + xp.exp(o.log_c - o.shift)
            return overlap.divergence(o), rest

        return over_scales(measure, between, lambda: _pair_window(measure, p, q), p, 2)

    def expectation(self, measure: Measure, p: Law, q: Law) -> Array:
        kernel = measure.kernel
        assert isinstance(kernel, Radial)
        if isinstance(p.atoms, Points) and isinstance(q.atoms, Points):
            values = kernel.diagonal + self.divergence(measure, p.atoms, q.atoms)
            return mean_over_pairs(values, p, q)
        left, right = _promoted(p.atoms.expand(0), q.atoms.expand(1))
        overlap_at = _overlaps(measure, left, right)

        def at_scale(t: Array) -> tuple[Array, Array]:
            o = overlap_at(t)
            value = namespace(t).exp(o.log_c - o.shift)
            return value, value

        def window() -> Window:
            between = _pair_window(measure, left, right)
            slope = None if between.slope is None else -between.moment
            return between._replace(order=between.order / 2, slope=slope, start_value=1.0)

        values = over_scales(measure, at_scale, window, left, 2)
        return kernel.diagonal * mean_over_pairs(values, p, q)


@final
class OneScale(OverScales):
    """The Gaussian kernel."""

    kernels = Gaussian


@final
class ScaleQuadrature(OverScales):
    """Every other radial kernel."""

    kernels = ScaleMixture
    method = "quadrature"


def heavy_entropy(measure: Measure, law: Law) -> Array:
    """H of vectors with heavy tails under the energy kernel, (m, n).

    Sums over coordinates are known in closed form. What the whole lacks of them starts with a
    higher power of t, so that nothing is left of the pole.
    """
    atoms, kernel = law.atoms, measure.kernel
    assert isinstance(atoms, Products)
    assert isinstance(kernel, Energy)
    assert law.tail is not None
    xp = namespace(atoms.reference)
    whole = _self_affinities(measure, atoms)
    # Coordinates in the place of atoms: laws on the line.
    each = _self_affinities(measure, atoms.map(lambda a, _: moved_axis(a, -2, -3)))

    def at_scale(t: Array) -> tuple[Array, Array]:
        log_whole, log_each = whole(t), each(t)
        lack = overlap.entropy(log_whole)
        lack = lack - xp.sum(overlap.entropy(log_each), axis=-1, keepdims=True)
        rest = xp.exp(log_whole) + xp.sum(xp.exp(log_each), axis=-1, keepdims=True)
        return lack, rest / 2

    def window() -> Window:
        order = _tail(measure, atoms)
        return Window(2 * spread(atoms), atoms.smallest_variance(), order, None, cautious=True)

    lack = over_scales(measure, at_scale, window, atoms, 1)[..., 0]
    return lack + xp.sum(heavy_tails.coordinate_entropies(law, kernel.beta), axis=-1)


def _pair_scratch(many_scales: bool, size: int, rank: int | None, dimension: int) -> int:
    if rank is not None:  # small matrices at every scale
        nodes = LOW_RANK_NODES if many_scales else 1
        return dimension + nodes * (2 * rank + 1) ** 2
    return BLOCK * min(size, _COORDINATES) if many_scales else size


def _promoted(p: Atoms, q: Atoms) -> tuple[Atoms, Atoms]:
    """Two kinds of atoms as one; a point against a low-rank normal stays a point."""
    kinds = {type(p), type(q)} - {Points}
    if LowRanks in kinds:
        if kinds == {LowRanks} and Points in {type(p), type(q)}:
            return p, q
        rank = max(a.factor.shape[-1] for a in (p, q) if isinstance(a, LowRanks))
        return to_low_ranks(p, rank), to_low_ranks(q, rank)
    if Products in kinds:
        count = max(a.loc.shape[-1] for a in (p, q) if isinstance(a, Products))
        return to_products(p, count), to_products(q, count)
    return to_normals(p), to_normals(q)


# Affinities under the Gaussian kernel as functions of its scale.


def _self_affinities(measure: Measure, p: Atoms) -> Callable[[Array], Array]:
    """log φ(P, P) as a function of t, from (T, lead…) to (T, lead…)."""
    if isinstance(p, LowRanks):
        return lambda t: low_rank.log_self_affinity(t, p.factor, p.diag)
    if isinstance(p, Products):
        return _in_pieces(measure, mixture.log_self_affinity, p)
    assert isinstance(p, Normals)
    count = _series_terms(measure, p)
    if count is None:
        return _in_pieces(measure, normal.log_self_affinity, p)
    return _self_series(measure, p, count).at


def _overlaps(measure: Measure, p: Atoms, q: Atoms) -> Callable[[Array], Overlap]:
    """The overlap as a function of t; p and q pair atoms by broadcasting."""
    if isinstance(p, Products):
        return _in_pieces(measure, mixture.overlap, p, q)
    if isinstance(p, Normals):
        assert isinstance(q, Normals)
        count = _series_terms(measure, p, q)
        if count is None:
            return _in_pieces(measure, normal.overlap, p, q)
        selves = [_self_series(measure, law, count) for law in (p, q)]
        rows = [expansion.pair_sums(x, y, count) for _, (x, y) in _rows(measure, p, q)]
        cross, gap, tilt, shift = _joined(rows, axis=0)
        between = expansion.LogAffinity.of(cross, measure.rtol)
        return expansion.Expansion(selves[0], selves[1], between, gap, tilt, shift).overlap
    # A point needs no factorisation of its own, and D is symmetric.
    if isinstance(p, Points):
        p, q = q, p
    assert isinstance(p, LowRanks)
    if isinstance(q, Points):
        return lambda t: low_rank.point_overlap(t, p.loc, p.factor, p.diag, q.value)
    assert isinstance(q, LowRanks)
    return lambda t: low_rank.overlap(t, p.loc, p.factor, p.diag, q.loc, q.factor, q.diag)


def _self_series(measure: Measure, p: Normals, count: int) -> expansion.LogAffinity:
    sums = [expansion.self_sums(x, count) for _, (x,) in _rows(measure, p)]
    return expansion.LogAffinity.of(_joined(sums, axis=0), measure.rtol)


def _series_terms(measure: Measure, *laws: Normals) -> int | None:
    """Power series pay where many scales are needed."""
    return expansion.terms(measure.rtol, *laws) if measure.many_scales else None


def _rows(measure: Measure, *laws: Atoms) -> Iterator[tuple[slice, list[Any]]]:
    """Parts of the first lead axis, along which laws of length one stay as they are."""
    count = max(law.lead[0] for law in laws)
    each = max(math.prod(law.lead[1:]) * law.size for law in laws)
    for chunk in pieces(count, each, measure.budget, laws[0].reference):
        yield chunk, [_taken(law, chunk) for law in laws]


def _taken(law: Atoms, chunk: slice) -> Atoms:
    return law if law.lead[0] == 1 else law.map(lambda a, _: a[chunk])


def _in_pieces(
    measure: Measure, function: Callable[..., Any], *laws: Atoms
) -> Callable[[Array], Any]:
    """A function of scales and laws whose temporaries are as large as the event."""

    def at_rows(t: Array, chunk: slice, atoms: list[Any]) -> Any:
        if t.shape[1] > 1:
            t = t[:, chunk]
        each = max(math.prod(law.lead) * law.size for law in atoms)
        nodes = pieces(t.shape[0], each, measure.budget, t)
        return _joined([function(t[k], *atoms) for k in nodes], axis=0)

    def whole(t: Array) -> Any:
        rows = [at_rows(t, chunk, atoms) for chunk, atoms in _rows(measure, *laws)]
        return _joined(rows, axis=1)

    return whole


def _joined(values: list[Any], axis: int) -> Any:
    if len(values) == 1:
        return values[0]
    if isinstance(values[0], Overlap):
        return Overlap(*(_joined(list(x), axis) for x in zip(*values, strict=True)))
    if isinstance(values[0], list):
        return [_joined(list(x), axis) for x in zip(*values, strict=True)]
    return namespace(values[0]).concat(values, axis=axis)


# From one scale to the kernel.


class Window(NamedTuple):
    """What the engine has to know of g: where it bends, and how it starts at t = 0."""

    moment: Array
    smallest_variance: Array
    order: float
    slope: Array | None
    start_value: float = 0.0
    cautious: bool = False


def _pair_window(measure: Measure, p: Atoms, q: Atoms) -> Window:
    """The window of a divergence: its slope is the squared distance of the means.

    Tails of order ν make affinities differ from one by t^(ν/2), but these terms of both laws
    cancel in the divergence, which is a mean of |difference of characteristic functions|² and
    has t^ν.
    """
    xp = namespace(p.reference)
    difference = mean_difference(p, q)
    gap = xp.sum(difference * difference, axis=-1)
    moment = gap + spread(p) + spread(q)
    smallest = xp.broadcast_to(_smallest(p, q), moment.shape)
    tail = min(_tail(measure, p), _tail(measure, q))
    slope = gap if tail > _HEAVY else None
    return Window(moment, smallest, tail, slope, cautious=isinstance(p, Products))


def _smallest(*laws: Atoms) -> Array:
    """The smallest square of a length at which overlaps bend: of a width, or between points."""
    lengths = [law.smallest_variance() for law in laws]
    gap = smallest_gap(*(law for law in laws if isinstance(law, Normals | Products)))
    if gap is not None:
        lengths.append(gap)
    return reduce(namespace(lengths[0]).minimum, lengths)


def _tail(measure: Measure, p: Atoms, above: float = 0.0) -> float:
    """The order from which on moments do not exist, where it can be read.

    Results are infinite unless it is above the degree of the kernel.
    """
    order = tail_order(p)
    degree = getattr(measure.kernel, "degree", None) or 0.0
    if order < math.inf and is_traced(p.reference):
        return max(order, degree + TRACED_DF)
    return max(order, degree + above) if degree else order


def over_scales(
    measure: Measure, g: AtScale, make_window: Callable[[], Window], p: Atoms, atom_axes: int
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
    window = make_window()
    if isinstance(bandwidth, float):
        bandwidth = constants([bandwidth], window.moment)
    return integrate(
        kernel,
        g,
        window.moment,
        window.smallest_variance,
        bandwidth,
        measure.rtol,
        window.start_value,
        order=window.order,
        slope=window.slope,
        cautious=window.cautious,
        block=LOW_RANK_NODES if isinstance(p, LowRanks) else BLOCK,
    )
