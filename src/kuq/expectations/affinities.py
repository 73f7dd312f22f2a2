"""Affinities of atoms under the Gaussian kernel as functions of its scale.

The form is chosen here: power series in high dimension, compiled code, or plain sums, in pieces
that fit the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from kuq._array import Array, namespace
from kuq.distributions.atoms import LowRanks, Normals, Points, Products
from kuq.expectations import expansion, low_rank, mixture, normal
from kuq.expectations.measure import Measure
from kuq.expectations.overlap import Overlap
from kuq.expectations.tiles import pieces

AnyAtoms: TypeAlias = Any


def self_affinities(measure: Measure, p: AnyAtoms) -> Callable[[Array], Array]:
    """log φ(P, P) as a function of t, from (T, lead…) to (T, lead…)."""
    if isinstance(p, LowRanks):
        return lambda t: low_rank.log_self_affinity(t, p.factor, p.diag)
    if isinstance(p, Products):
        return _in_pieces(measure, mixture.log_self_affinity, p)
    count = _series_terms(measure, p)
    if count is None:
        return _in_pieces(measure, normal.log_self_affinity, p)
    return _self_series(measure, p, count).at


def overlaps(measure: Measure, p: AnyAtoms, q: AnyAtoms) -> Callable[[Array], Overlap]:
    """The overlap as a function of t; p and q pair atoms by broadcasting."""
    if isinstance(p, Products):
        return _in_pieces(measure, mixture.overlap, p, q)
    if isinstance(p, Normals):
        count = _series_terms(measure, p, q)
        if count is None:
            return _in_pieces(measure, normal.overlap, p, q)
        own = [_self_series(measure, law, count) for law in (p, q)]
        rows = [expansion.pair_sums(x, y, count) for _, (x, y) in _rows(measure, p, q)]
        cross, gap, tilt, shift = _joined(rows, axis=0)
        between = expansion.LogAffinity.of(cross, measure.rtol)
        return expansion.Expansion(own[0], own[1], between, gap, tilt, shift).overlap
    # A point needs no factorisation of its own, and D is symmetric.
    if isinstance(p, Points):
        p, q = q, p
    if isinstance(q, Points):
        return lambda t: low_rank.point_overlap(t, p.loc, p.factor, p.diag, q.value)
    return lambda t: low_rank.overlap(t, p.loc, p.factor, p.diag, q.loc, q.factor, q.diag)


def _self_series(measure: Measure, p: Normals, count: int) -> expansion.LogAffinity:
    sums = [expansion.self_sums(x, count) for _, (x,) in _rows(measure, p)]
    return expansion.LogAffinity.of(_joined(sums, axis=0), measure.rtol)


def _series_terms(measure: Measure, *laws: Normals) -> int | None:
    """Power series pay where many scales are needed."""
    return expansion.terms(measure.rtol, *laws) if measure.many_scales else None


def _rows(measure: Measure, *laws: AnyAtoms) -> Iterator[tuple[slice, list[AnyAtoms]]]:
    """Parts of the first lead axis, along which laws of length one stay as they are."""
    count = max(law.lead[0] for law in laws)
    each = max(math.prod(law.lead[1:]) * law.size for law in laws)
    for part in pieces(count, each, measure.budget, laws[0].reference):
        yield part, [_part(law, part) for law in laws]


def _part(law: AnyAtoms, part: slice) -> AnyAtoms:
    return law if law.lead[0] == 1 else law.map(lambda a, _: a[part])


def _in_pieces(
    measure: Measure, function: Callable[..., Any], *laws: AnyAtoms
) -> Callable[[Array], Any]:
    """A function of scales and laws whose temporaries are as large as the event."""

    def at_rows(t: Array, part: slice, some: list[AnyAtoms]) -> Any:
        if t.shape[1] > 1:
            t = t[:, part]
        each = max(math.prod(law.lead) * law.size for law in some)
        nodes = pieces(t.shape[0], each, measure.budget, t)
        return _joined([function(t[k], *some) for k in nodes], axis=0)

    def whole(t: Array) -> Any:
        rows = [at_rows(t, part, some) for part, some in _rows(measure, *laws)]
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
