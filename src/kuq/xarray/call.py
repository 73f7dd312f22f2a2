"""One call of a measure: operands, the score with numbers, options of the core."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

import numpy as np
import xarray as xr

import kuq
from kuq.kernels.base import MarginalStage
from kuq.kernels.names import as_score
from kuq.scores.options import DEFAULT_MEMORY, Options
from kuq.xarray.applied import Measure, Operand, applied, check_numbers
from kuq.xarray.bandwidths import with_numbers
from kuq.xarray.dimensions import AUTO, MEMBER, needed
from kuq.xarray.event_weights import with_weights
from kuq.xarray.layout import Data, Dimensions, Layout, Numbers, layout_of
from kuq.xarray.missing import LEFT_OUT, check_gaps, check_outcome, in_words, known_cells
from kuq.xarray.units import check_spreads


class Settings(TypedDict, total=False):
    """Options of every function: those of ``kuq`` itself, and names that are rarely needed.

    ``nan_policy``, what NaN means. By default it is a mask where it is in every member and draw:
    such a prediction has no result (NaN), and a cell of ``event_dims`` that is missing in every
    prediction is left out, which the attribute ``left_out`` says; any other NaN is an error.
    "raise": every NaN is; "propagate": none is, and predictions with one have no result; "omit":
    missing draws are left out. Looking for masks of ``event_dims`` reads data: in Dask arrays it is
    done only if "propagate" or "omit" asks for it.
    ``component_dim`` and ``rank_dim``: the dimension of mixture components, and of the columns of
    a low-rank factor. ``member_weights``: numbers along the member dimension.
    """

    unbiased: bool | str
    rtol: float
    draws: int | None
    seed: int | None
    max_memory: float
    nan_policy: str | None
    component_dim: Hashable
    rank_dim: Hashable
    member_weights: Any


@dataclass(frozen=True)
class Call:
    """What a measure needs, and what its result will look like."""

    operands: list[Operand]
    score: kuq.Score
    options: dict[str, Any]
    #: Which cells of the event count; None if all do.
    cells: xr.DataArray | None = None
    #: What a reader has to know of it, as attributes of a result.
    told: dict[str, str] = field(default_factory=dict)

    @property
    def layout(self) -> Layout:
        return self.operands[0].layout

    def trials(self, most: int = 3) -> list[kuq.Prediction]:
        """Small predictions: they show what will come, and raise at once what would be raised."""
        whole = not _fits_any_event(self.score)
        return [operand.layout.trial(operand.sizes, whole, most) for operand in self.operands]

    def outputs(self, trial: Any) -> list[Hashable]:
        """The event dimensions, where the score keeps a map of them."""
        return list(self.layout.event) if np.ndim(trial) else []

    def measured(
        self,
        measure: Measure,
        outputs: list[list[Hashable]],
        outcome: xr.DataArray | None = None,
        sizes: dict[Hashable, int] | None = None,
    ) -> list[xr.DataArray]:
        """The results of a measure; a map of the event has none in cells that do not count."""
        results = applied(measure, self.operands, outcome, outputs, sizes)
        cells = self.cells
        if cells is None:
            return results
        return [
            one.where(cells) if set(self.layout.event) <= set(dims) else one
            for one, dims in zip(results, outputs, strict=True)
        ]


def prepared(
    data: Sequence[Data],
    score: kuq.Score | str,
    dims: Dimensions,
    weights: xr.DataArray | str | None,
    settings: Settings,
    outcome: xr.DataArray | None = None,
) -> Call:
    """Operands whose own dimensions have names of their own, and a score for all of them.

    Cells of the event that are missing everywhere do not count, in any of them.
    """
    score = as_score(score)
    if unknown := set(settings) - set(Settings.__annotations__):
        raise kuq.ParameterError(
            f"unknown options {sorted(unknown)}; known are {sorted(Settings.__annotations__)}"
        )
    core: dict[str, Any] = {
        "unbiased": settings.get("unbiased", True),
        "rtol": settings.get("rtol", 1e-8),
        "draws": settings.get("draws"),
        "seed": settings.get("seed"),
        "max_memory": settings.get("max_memory", DEFAULT_MEMORY),
    }
    options = Options.checked(**core)
    dims = dataclasses.replace(
        dims,
        component=settings.get("component_dim", AUTO),
        rank=settings.get("rank_dim", AUTO),
    )
    policy = settings.get("nan_policy")
    laid_out = [(one, *layout_of(one, dims, policy)) for one in data]
    every = [variable for *_, variables in laid_out for variable in variables.values()]
    check_numbers(every if outcome is None else [*every, outcome])
    lazy = any(variable.chunks is not None for variable in every)
    # Looking for masks reads data, so that of Dask arrays it has to be asked for.
    looked_for = policy in ("propagate", "omit") or (policy is None and not lazy)
    cells = known_cells(laid_out, outcome) if dims.event and looked_for else None
    operands = []
    for position, (one, layout, variables) in enumerate(laid_out):
        layout = dataclasses.replace(
            layout,
            weights=_member_weights(layout, one, settings.get("member_weights")),
            cells=None if cells is None else cells.values,
        )
        check_gaps(variables, layout)
        check_spreads(variables)
        operands.append(_named_apart(Operand(layout, variables), position))
    if outcome is not None:
        check_outcome(outcome, operands[0].layout)
    score = with_weights(score, weights, data[0], dims.event, cells)
    told = {} if cells is None else {LEFT_OUT: in_words(cells, outcome is not None)}
    return Call(operands, with_numbers(score, operands, options), core, cells, told)


def with_members(data: Data, dims: Dimensions) -> Dimensions:
    """The dimensions with one of members, which a Dataset of second-order parameters has not."""
    layout, _ = layout_of(data, dims, "raise")
    if layout.family.second_order:
        return dims
    asked = AUTO if dims.member is None else dims.member
    others = [dim for dim in data.dims if dim != layout.sample]
    return dataclasses.replace(dims, member=needed(others, asked, MEMBER, "member"))


def is_of_one_model(data: Data, dims: Dimensions, draws_dim: Hashable | None) -> bool:
    """Whether ``draws_dim`` holds draws and there are no members: one level of uncertainty."""
    if draws_dim is None:
        return False
    if not isinstance(data, xr.DataArray):
        raise kuq.ParameterError(
            "draws_dim says which dimension of a DataArray holds draws, and a Dataset of "
            "parameters has none; pass one variable: dataset[name]"
        )
    return layout_of(data, dims, "raise")[0].member is None


def with_draws(sample_dim: Hashable | None, draws_dim: Hashable | None) -> Hashable | None:
    """The dimension of draws, by either of its names."""
    if draws_dim is None:
        return sample_dim
    if sample_dim not in (AUTO, draws_dim):
        raise kuq.ParameterError(
            f"draws_dim={draws_dim!r} and sample_dim={sample_dim!r} both say where draws are; "
            "give one of them"
        )
    return draws_dim


def _member_weights(layout: Layout, data: Data, weights: Any) -> Numbers | None:
    if weights is None:
        return None
    if layout.member is None:
        raise kuq.ShapeError("member_weights need a member dimension, and there is none")
    if isinstance(weights, xr.DataArray):
        if weights.dims != (layout.member,):
            raise kuq.ShapeError(
                f"member_weights lie along {layout.member!r}, got dimensions {weights.dims}"
            )
        weights = of_these_members(weights, data, layout.member)
    return np.asarray(weights, dtype=np.float64)


def of_these_members(weights: xr.DataArray, data: Data, dim: Hashable) -> xr.DataArray:
    """Weights in the order of the members along one dimension, where both have names."""
    if dim not in weights.indexes or dim not in data.indexes:
        return weights
    named, wanted = weights.indexes[dim], data.indexes[dim]
    if named.equals(wanted):
        return weights
    if not named.is_unique:
        again = named[named.duplicated()][0]
        raise kuq.ShapeError(f"member_weights name {again!r} twice along {dim!r}")
    if len(unknown := wanted[~wanted.isin(named)]):
        raise kuq.ShapeError(
            f"member_weights need a weight for every member along {dim!r}, and have none for "
            f"{unknown[0]!r}; they name {', '.join(map(repr, named[:12]))}"
        )
    return weights.sel({dim: wanted})


def _named_apart(operand: Operand, position: int) -> Operand:
    """Two predictions may have different members and draws: their names must not meet."""
    if position == 0:
        return operand
    layout = operand.layout
    new = {
        dim: f"{dim} of prediction {position}"
        for dim in (layout.member, layout.sample, layout.trailing)
        if dim is not None
    }
    renamed = Operand(
        dataclasses.replace(
            layout,
            member=new.get(layout.member),
            sample=new.get(layout.sample),
            trailing=new.get(layout.trailing),
        ),
        operand.variables,
    )
    return renamed.map(lambda v: v.rename({d: n for d, n in new.items() if d in v.dims}))


def _fits_any_event(score: kuq.Score) -> bool:
    """Whether nothing in a score depends on the sizes of the event: no weights, no features."""
    if not isinstance(score, kuq.Kernel):
        return True
    for term in score.terms():
        stages = term.stages
        if term.kernel.weights is not None or not all(isinstance(s, MarginalStage) for s in stages):
            return False
        if any(isinstance(s, MarginalStage) and s.weights is not None for s in stages):
            return False
    return True
