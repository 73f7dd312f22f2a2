"""What came out of a NetCDF file or Zarr store, as much of it as is worth looking at."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kuq.distributions.base import Prediction
from kuq.files.decompose import DecomposedFile, Layout
from kuq.files.grid_source import opened, prediction_in, reading
from kuq.files.own import PARTS
from kuq.files.roles import as_doubles, as_scale
from kuq.result import Uncertainty

if TYPE_CHECKING:
    import xarray as xr

    from kuq.xarray.call import Call

#: Values of a component, and numbers of the predictions at one place of the first dimension.
_MOST_VALUES, _MOST_NUMBERS = 2**24, 2**20


def read_result(
    path: Path,
    out: Path,
    call: Call,
    about: Mapping[Hashable, Any],
    layout: Layout,
    options: dict[str, Any],
) -> DecomposedFile:
    """The components as they were written; every so many if there are more than fit."""
    with opened(out) as grid:
        written = grid.dataset
        total = written["total"]
        every = _strides(total, tuple(total.dims), 1, _MOST_VALUES)
        some = written.isel({dim: slice(None, None, step) for dim, step in every.items()}).load()
    dims = tuple(str(dim) for dim in some["total"].dims)
    parts = {part: some[part].values for part in PARTS}
    uncertainty = Uncertainty(
        parts["total"],
        parts["aleatoric"],
        parts["epistemic"],
        score=call.score,
        estimator=str(about.get("estimator", "pairwise")),
        unbiased=True,
        method=str(about["method"]),
        units="dimensionless" if about["units"] == "1" else str(about["units"]),
    )
    known = next(iter(call.operands[0].variables.values())).coords
    inside = [dim for dim in layout.event if dim in known]
    coordinates = {dim: _readable(some[dim].values) for dim in dims if dim in some.coords}
    coordinates |= {dim: _readable(known[dim].values) for dim in inside}
    first = dims[0] if dims else None
    looked_at = _Some(path, layout, call, first, every.get(first, 1) if first else 1)
    return DecomposedFile(
        source=path,
        out=out,
        uncertainty=uncertainty,
        description=_described(call, {d: n for d, n in every.items() if n > 1}),
        dims=dims or ("input",),
        labels=tuple(_label(v) for v in coordinates.get(first, ())) if first else (),
        some=looked_at,
        coordinates=coordinates,
        event_dims=layout.event,
        options=options,
    )


def _strides(
    variable: xr.DataArray, dims: tuple[Hashable, ...], each: int, most: int
) -> dict[Any, int]:
    """Every how many entries to take along dimensions, so that no more than ``most`` remain."""
    left = {dim: variable.sizes[dim] for dim in dims}
    steps = dict.fromkeys(dims, 1)
    while left and each * math.prod(left.values()) > most and max(left.values()) > 1:
        widest = max(left, key=lambda dim: left[dim])
        steps[widest] *= 2
        left[widest] = -(-variable.sizes[widest] // steps[widest])
    return steps


def _readable(values: np.ndarray) -> np.ndarray:
    """Coordinates that are not numbers as text."""
    if values.dtype.kind in "fiu":
        return values
    if values.dtype.kind == "M":
        whole_days = bool(np.all(values == values.astype("datetime64[D]")))
        return np.datetime_as_string(values, unit="D" if whole_days else "m")
    return values.astype(object).astype(str)


def _label(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)


def _described(call: Call, thinned: dict[Any, int]) -> str:
    operand = call.operands[0]
    sizes = ", ".join(f"{dim} {n}" for dim, n in operand.sizes.items())
    members, draws = operand.layout.member, operand.layout.sample
    whose = f"draws of one model along {draws!r}" if draws is not None else "evidential"
    whose = f"members along {members!r}" if members is not None else whose
    text = f"{operand.layout.family.build.__name__}, {whose} ({sizes})"
    if thinned:
        shown = ", ".join(f"every {step}th along {dim}" for dim, step in thinned.items())
        text += f"; figures and tables show {shown}"
    return text


@dataclass(frozen=True)
class _Some:
    """Predictions at some places of the first dimension, thinned along the others."""

    path: Path
    layout: Layout
    call: Call
    first: str | None
    step: int

    def __call__(self, places: np.ndarray) -> Prediction:
        from kuq.xarray.applied import Block

        operand = self.call.operands[0]
        core = operand.core
        with opened(self.path) as grid:
            found = prediction_in(grid, self.layout)
            data = found.data
            if self.first is not None:
                data = data.isel({self.first: places * self.step})
            variables = {
                name: data[name] if name in getattr(data, "data_vars", {}) else data
                for name in operand.variables
            }
            own = {dim for dims in core for dim in dims}
            batch = [d for v in variables.values() for d in v.dims if d not in own]
            batch = [d for d in dict.fromkeys(batch) if d != self.first]
            widest = max(variables.values(), key=lambda v: v.size)
            each = math.prod(n for d, n in widest.sizes.items() if d in own)
            steps = _strides(
                widest, tuple(d for d in batch if d in widest.dims), each, _MOST_NUMBERS
            )
            thin = {d: slice(None, None, step) for d, step in steps.items()}
            order = ([self.first] if self.first is not None else []) + batch
            arrays = []
            for (name, variable), dims in zip(variables.items(), core, strict=True):
                part = variable.isel({d: s for d, s in thin.items() if d in variable.dims})
                missing = [d for d in order if d not in part.dims]
                part = part.expand_dims(missing).transpose(*order, *dims)
                with reading(self.path):
                    values = as_doubles(name, part.values)
                arrays.append(
                    as_scale(name, values) if found.squared and name == "scale" else values
                )
        shapes = [a.shape[: len(order)] for a in arrays]
        block = Block(operand.layout, tuple(operand.variables), core)
        return block.prediction(tuple(arrays), np.broadcast_shapes(*shapes))[0]
