"""Dimensions that are called like levels of members, and what they could be used for."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise

from kuq.xarray.dimensions import MEMBER, MODEL
from kuq.xarray.layout import Data, Layout

#: Runs of one model, whose labels say nothing: the first of one model is not that of another.
_RUNS = (*(name for name in MEMBER if name not in MODEL), "run", "runs", "variant_label")
#: Usual names of levels of members, outermost first.
_LEVELS = (
    ("scenario", "scenarios", "experiment", "experiments", "experiment_id"),
    ("institution", "institutions", "institution_id"),
    (*MODEL, "source", "sources", "source_id"),
    _RUNS,
)


def unused_levels(data: Data, layout: Layout, command: bool = False) -> str:
    """A hint at dimensions of inputs which are called like levels; empty if there are none.

    It names options of the command line, or those of ``kuq.xarray``.
    """
    core = {*layout.prediction_dims, *layout.event}
    unused = [dim for dim in data.dims if dim not in core and _rank(dim) is not None]
    if not unused or layout.family.second_order:
        return ""
    members = [] if layout.member is None else [layout.member]
    levels = sorted([*unused, *members], key=lambda dim: _rank(dim) or 0)
    if len(levels) > 1:
        use = f"{_option('levels', levels, command)} tells what each level adds"
    else:
        use = f"{_option('member', levels, command)} compares them"
    count = "counts" if len(unused) == 1 else "count"
    return f"{_listed(unused)} {count} as inputs, with a result for each; {use}"


def crossing(data: Data, levels: Sequence[Hashable], crossed: object, command: bool = False) -> str:
    """A hint at levels that have the same labels in each group of the one before; or empty."""
    if crossed:
        return ""
    for outer, inner in pairwise(levels):
        named = inner in data.coords and data[inner].dtype.kind in "OUST"
        if named and str(inner).lower() not in _RUNS:
            option = _option("crossed", (outer, inner), command)
            return (
                f"{str(inner)!r} has the same labels in every {str(outer)!r}; if they stand for "
                f"the same there, both are crossed: {option}"
            )
    return ""


def _rank(dim: Hashable) -> int | None:
    name = str(dim).lower()
    return next((rank for rank, names in enumerate(_LEVELS) if name in names), None)


#: The options of kuq.xarray by those of the command line.
_NAMED = {"levels": "level_dims", "member": "member_dim", "crossed": "crossed"}


def _option(name: str, dims: Sequence[Hashable], command: bool) -> str:
    if command:
        return f"--{name} {','.join(map(str, dims))}"
    return f"{_NAMED[name]}={tuple(dims) if len(dims) > 1 else dims[0]!r}"


def _listed(dims: Iterable[Hashable]) -> str:
    return " and ".join(repr(str(dim)) for dim in dims)
