"""What came out of a NetCDF file or Zarr store, as much of it as is worth looking at."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kuq.files.decompose import Layout
from kuq.files.decomposed import Decomposed, Part
from kuq.files.grid_cells import Areas
from kuq.files.grid_source import opened, prediction_in, reading
from kuq.files.output_marks import ERRORS, PARTS
from kuq.files.roles import as_doubles, as_scale
from kuq.files.words import EVIDENTIAL, for_what, of_kind
from kuq.result import OF_POINTS, PartErrors, Uncertainty

if TYPE_CHECKING:
    import xarray as xr

    from kuq.xarray.call import Call

#: Values of a component, and numbers of the predictions at one place of the first dimension.
_MOST_VALUES, _MOST_NUMBERS = 2**24, 2**20


@dataclass(frozen=True, eq=False)
class Made:
    """The components of a variable and how they come about."""

    u: xr.Dataset
    call: Call
    about: Mapping[Hashable, Any]
    notes: tuple[str, ...]
    #: The variables of the file that were used.
    used: tuple[str, ...]
    areas: Areas


def read_result(
    path: Path,
    out: Path,
    name: str,
    prefix: str,
    made: Made,
    layout: Layout,
    options: dict[str, Any],
) -> Decomposed:
    """The components as they were written; every so many if there are more than fit."""
    call, about = made.call, made.about
    with opened(out) as grid:
        names = PARTS if options.get("directions") is None else (*PARTS, *ERRORS)
        written = grid.dataset[[f"{prefix}{name}" for name in names]]
        total = written[f"{prefix}total"]
        shown, every = thinned(written, total)
        shown.load()
    dims = tuple(str(dim) for dim in shown[f"{prefix}total"].dims)
    parts = {name: shown[f"{prefix}{name}"].values for name in names}
    errors = PartErrors(*(parts[name] for name in ERRORS)) if ERRORS[0] in parts else None
    if about.get("note") == OF_POINTS:
        parts |= {"aleatoric": 0 * parts["total"], "epistemic": parts["total"]}
    uncertainty = Uncertainty(
        parts["total"],
        parts["aleatoric"],
        parts["epistemic"],
        score=call.score,
        estimator=str(about.get("estimator", "pairwise")),
        unbiased=True,
        method=str(about["method"]),
        units="dimensionless" if about["units"] == "1" else str(about["units"]),
        standard_error=errors,
    )
    coords = next(iter(call.operands[0].variables.values())).coords
    inside = [dim for dim in layout.event if dim in coords]
    coordinates = {dim: readable(shown[dim].values) for dim in dims if dim in shown.coords}
    coordinates |= {dim: readable(coords[dim].values) for dim in inside}
    first = dims[0] if dims else None
    looked_at = _Thinned(path, layout, call, first, every.get(first, 1) if first else 1, made.areas)
    member = call.layout.member
    notes = [*told_missing(parts["total"]), *told_thinned(every)]
    return Decomposed(
        name=name,
        uncertainty=uncertainty,
        description=_described(call, dict(total.sizes)),
        dims=dims or ("input",),
        labels=tuple(_label(v) for v in coordinates.get(first, ())) if first else (),
        inputs_at=looked_at,
        coordinates=coordinates,
        event_dims=layout.event,
        options=options,
        notes=tuple(notes),
        member_names=tuple(_label(v) for v in coords[member].values) if member in coords else (),
        input_weights=areas(shown[f"{prefix}total"]) if made.areas.of_inputs else None,
        target=layout.target,
    )


def _described(call: Call, sizes: dict[Any, int]) -> str:
    operand = call.operands[0]
    layout, every = operand.layout, operand.sizes
    who = EVIDENTIAL
    draws = None if layout.sample is None else every[layout.sample]
    if draws is not None:
        who = f"{draws} draws of one model"
    if layout.member is not None:
        who = of_kind(layout.family.build.__name__, every[layout.member], draws)
    outcome = [f"{every[dim]} {dim}" for dim in layout.event if dim not in sizes]
    return f"{who}; {for_what({str(dim): n for dim, n in sizes.items()}, outcome)}"


def thinned(written: xr.Dataset, total: xr.DataArray) -> tuple[xr.Dataset, dict[Any, int]]:
    """A result, or every so many of its values if there are more than fit, and how many."""
    steps = _strides(total, tuple(total.dims), 1, _MOST_VALUES)
    return written.isel({dim: slice(None, None, step) for dim, step in steps.items()}), steps


def told_missing(total: np.ndarray) -> list[str]:
    """How many inputs have no result."""
    missing = int(np.isnan(total).sum())
    if not missing:
        return []
    return [f"{missing} of {total.size} inputs have missing values (NaN) and no result"]


def told_thinned(steps: dict[Any, int]) -> list[str]:
    """A note where not all values are looked at."""
    every = [f"every {step}th along {dim}" for dim, step in steps.items() if step > 1]
    return [f"figures and tables show {', '.join(every)}"] if every else []


def areas(total: xr.DataArray) -> np.ndarray:
    """The areas of the cells of a result, in its shape."""
    import xarray as xr

    from kuq.xarray.area import area_weights

    areas, _ = xr.broadcast(area_weights(total), total)
    return np.asarray(areas.transpose(*total.dims).values)


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


def readable(values: np.ndarray) -> np.ndarray:
    """Coordinates that are not numbers as text."""
    if values.dtype.kind in "fiu":
        return values
    if values.dtype.kind == "M":
        whole_days = bool(np.all(values == values.astype("datetime64[D]")))
        return np.datetime_as_string(values, unit="D" if whole_days else "m")
    return values.astype(object).astype(str)


def _label(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)


@dataclass(frozen=True)
class _Thinned:
    """Predictions at some places of the first dimension, thinned along the others."""

    path: Path
    layout: Layout
    call: Call
    first: str | None
    step: int
    areas: Areas

    def __call__(self, places: np.ndarray) -> Part:
        from kuq.xarray.applied import Block

        operand = self.call.operands[0]
        core = operand.core
        with opened(self.path) as grid:
            stored = prediction_in(grid, self.layout)
            data = stored.data
            area = self.areas.along(data)
            if self.first is not None:
                data = data.isel({self.first: places * self.step})
            variables = {
                name: data[name] if name in getattr(data, "data_vars", {}) else data
                for name in operand.variables
            }
            core_dims = {dim for dims in core for dim in dims}
            batch = [d for v in variables.values() for d in v.dims if d not in core_dims]
            batch = [d for d in dict.fromkeys(batch) if d != self.first]
            widest = max(variables.values(), key=lambda v: v.size)
            each = math.prod(n for d, n in widest.sizes.items() if d in core_dims)
            steps = _strides(
                widest, tuple(d for d in batch if d in widest.dims), each, _MOST_NUMBERS
            )
            thin: dict[Hashable, Any] = {d: slice(None, None, step) for d, step in steps.items()}
            order = ([self.first] if self.first is not None else []) + batch
            arrays = []
            for (name, variable), dims in zip(variables.items(), core, strict=True):
                strided = variable.isel({d: s for d, s in thin.items() if d in variable.dims})
                missing = [d for d in order if d not in strided.dims]
                strided = strided.expand_dims(missing).transpose(*order, *dims)
                with reading(self.path):
                    values = as_doubles(name, strided.values)
                arrays.append(
                    as_scale(name, values) if stored.squared and name == "scale" else values
                )
            chosen = thin | ({} if self.first is None else {self.first: places * self.step})
            outcome = self._outcome(stored.outcome, chosen, order)
        shape = np.broadcast_shapes(*(a.shape[: len(order)] for a in arrays))
        block = Block(operand.layout, tuple(operand.variables), core)
        numbers, masked = tuple(arrays), np.zeros(shape, dtype=bool)
        if operand.layout.nan_policy == "propagate":
            numbers, masked = block.filled(numbers, shape)
        prediction, _ = block.prediction(numbers, shape)
        if outcome is not None:
            event = outcome.shape[len(order) :]
            outcome = np.broadcast_to(outcome, (*shape, *event))
        weights, event_weights = self._weights(area, chosen, order, shape)
        cells = operand.layout.cells
        return Part(prediction, masked, outcome, cells, weights, event_weights)

    def _weights(
        self,
        area: xr.DataArray | None,
        chosen: Mapping[Hashable, Any],
        order: list[Hashable],
        batch: tuple[int, ...],
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """How much predictions, (batch…), and coordinates of an outcome, (event…), count."""
        if area is None:
            return None, None
        (lat,) = area.dims
        if self.areas.of_inputs:
            area = area.isel({dim: index for dim, index in chosen.items() if dim == lat})
            beside = [dim for dim in order if dim != lat]
            return np.broadcast_to(area.expand_dims(beside).transpose(*order), batch), None
        layout, sizes = self.call.layout, self.call.operands[0].sizes
        beside = [dim for dim in layout.event if dim != lat]
        event = tuple(sizes[dim] for dim in layout.event)
        return None, np.broadcast_to(area.expand_dims(beside).transpose(*layout.event), event)

    def _outcome(
        self,
        outcome: xr.DataArray | None,
        chosen: Mapping[Hashable, Any],
        order: list[Hashable],
    ) -> np.ndarray | None:
        """What happened at these places, (batch…, event…)."""
        if outcome is None:
            return None
        event = self.call.layout.event
        outcome = outcome.isel({dim: index for dim, index in chosen.items() if dim in outcome.dims})
        missing = [dim for dim in order if dim not in outcome.dims]
        with reading(self.path):
            ordered = outcome.expand_dims(missing).transpose(*order, *event)
            return as_doubles(str(outcome.name), ordered.values)
