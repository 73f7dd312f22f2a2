"""Missing values (NaN): masks, such as those of the sea, and values that should be there."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

import kuq
from kuq.xarray.layout import SAMPLES, Data, Layout, Numbers

#: The attribute of results which says that cells were left out.
LEFT_OUT = "left_out"


def known_cells(
    operands: Iterable[tuple[Data, Layout, Mapping[str, xr.DataArray]]],
    outcome: xr.DataArray | None = None,
) -> xr.DataArray | None:
    """Which cells of the event are known somewhere; None if all are.

    A cell that is missing in every prediction, such as one of the sea, is no part of the outcome;
    nor is one that is missing in all that happened.
    """
    missing: Any = None
    frame: dict[Hashable, int] = {}
    for data, layout, variables in operands:
        frame = {dim: data.sizes[dim] for dim in layout.event}
        for variable in variables.values():
            missing = _either(missing, _never(variable, layout.event, layout.prediction_dims))
    if outcome is not None:
        missing = _either(missing, _never(outcome, tuple(frame), ()))
    if missing is None:
        return None
    if bool(missing.all()):
        raise kuq.ParameterError(
            "every cell is missing (NaN) in every prediction; there is no result"
        )
    absent = {dim: size for dim, size in frame.items() if dim not in missing.dims}
    cells: xr.DataArray = (~missing).expand_dims(absent).transpose(*frame)
    return cells.drop_vars([name for name in cells.coords if name not in cells.dims])


def _either(one: Any, other: Any) -> Any:
    return one if other is None else other if one is None else one | other


def _never(
    variable: xr.DataArray, event: tuple[Hashable, ...], prediction_dims: Iterable[Hashable]
) -> xr.DataArray | None:
    """Where a variable is missing throughout; None if that is nowhere."""
    kept = [dim for dim in event if dim in variable.dims]
    if not kept or variable.size == 0:
        return None
    others = [dim for dim in variable.dims if dim not in kept]
    first = variable.isel({dim: 0 for dim in others if dim not in prediction_dims})
    never = first.isnull().all([dim for dim in others if dim in first.dims]).compute()
    if bool(never.any()):  # most grids have no mask, and are read once only
        never = variable.isnull().all(others).compute()
    return never if bool(never.any()) else None


def in_words(cells: xr.DataArray, judged: bool = False) -> str:
    """How many cells are left out."""
    where = "in every prediction or in all that happened" if judged else "in every prediction"
    return (
        f"{int((~cells).sum())} of {cells.size} cells are missing (NaN) {where} and left out of "
        "the outcome"
    )


def check_gaps(variables: Mapping[str, xr.DataArray], layout: Layout) -> None:
    """Refuse values that are missing and should be there, and say where, by their coordinates.

    Dask arrays are checked while they are computed.
    """
    for name, variable in variables.items():
        _check_named(variable, name, layout.dims_of(name), layout)


def check_outcome(outcome: xr.DataArray, layout: Layout) -> None:
    """The same of what happened."""
    _check_named(outcome, "the outcome", layout.event, layout)


def _check_named(array: xr.DataArray, name: str, dims: Iterable[Hashable], layout: Layout) -> None:
    refused = layout.nan_policy in (None, "raise")
    if refused and array.chunks is None and array.dtype.kind == "f":
        core = [dim for dim in dims if dim in array.dims]
        ordered = array.transpose(..., *core)
        check_values(ordered.values, core, array.name or name, layout, ordered)


def check_values(
    values: Numbers,
    core: list[Hashable],
    name: Hashable,
    layout: Layout,
    where: xr.DataArray | None = None,
) -> None:
    """Refuse values (batch…, core…) that are missing and should be there, if any are refused."""
    if layout.nan_policy in (None, "raise"):
        gaps = _gaps_in(values, core, layout)
        if gaps.any():
            raise _gap_error(name, where, gaps, layout)


def _gaps_in(values: Numbers, core: list[Hashable], layout: Layout) -> Numbers:
    """Where values (batch…, core…) are missing and should be there."""
    missing: Numbers = np.isnan(values)
    if not missing.any():
        return missing
    missing = missing & _counted(core, layout)
    if layout.nan_policy is None:
        missing &= ~_whole(missing, core, layout)
    return missing


def _gap_error(
    name: Hashable, where: xr.DataArray | None, gaps: Numbers, layout: Layout
) -> kuq.ParameterError:
    """An error about the first gap; without ``where`` it is one of a chunk of a Dask array."""
    count = int(gaps.sum())
    more = f" and {count - 1} more" if count > 1 else ""
    what, place = repr(str(name)), f"{'' if where is None else _place(where, gaps)}{more}"
    if where is None:  # names and coordinates are not known inside of a chunk
        what = "a prediction" if name in ("value", "values") else what
        place = f"in a chunk of the Dask array, {count} value{'s' * (count > 1)}"
    omit = ', "omit" leaves missing draws out' if layout.family is SAMPLES else ""
    others = "" if layout.nan_policy == "raise" else ", and is not missing throughout"
    masks = "leaves cells out that are missing in every prediction, and "
    return kuq.ParameterError(
        f"{what} must be finite, and is missing (NaN) {place}{others}; "
        f'nan_policy="propagate" {masks if where is None and layout.event else ""}gives such '
        f"predictions no result{omit}"
    )


def _place(where: xr.DataArray, gaps: Numbers) -> str:
    """The first gap by its coordinates, or by positions along dimensions that have none."""
    index = np.unravel_index(int(np.argmax(gaps)), gaps.shape)
    said = []
    for dim, at in zip(where.dims, index, strict=True):
        labels = [c for c in where.coords.values() if c.dims == (dim,)]
        naming = [c for c in labels if c.name == dim] or labels
        said += [f"{c.name} {label(c.values[at])}" for c in naming] or [f"{dim} {int(at)}"]
    return "at " + ", ".join(said) if said else ""


def label(value: Any) -> str:
    """A coordinate in an error."""
    if isinstance(value, np.datetime64):
        return str(np.datetime_as_string(value, unit="auto"))
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)


def filled(
    values: Numbers, core: list[Hashable], layout: Layout, neutral: float
) -> tuple[Numbers, Numbers]:
    """Valid numbers for missing ones, and which predictions these leave without a result."""
    missing = np.isnan(values)
    if not missing.any():  # most are whole, and need no copy
        return values, np.zeros(values.shape[: values.ndim - len(core)], dtype=bool)
    counted = missing & _counted(core, layout)
    axes = tuple(range(values.ndim - len(core), values.ndim))
    return np.where(missing, neutral, values), np.any(counted, axis=axes)


def without_masked_cells(
    values: Numbers, core: list[Hashable], layout: Layout, neutral: float
) -> Numbers:
    """Valid numbers in cells that do not count; what else is missing stays so."""
    if layout.cells is None:
        return values
    return np.where(_counted(core, layout), values, neutral)


def _counted(core: list[Hashable], layout: Layout) -> Any:
    """Which values of a prediction are in cells that count, to broadcast with (core…)."""
    if layout.cells is None:
        return True
    lost = tuple(place for place, dim in enumerate(layout.event) if dim not in core)
    counted = np.any(layout.cells, axis=lost)
    after = sum(dim == layout.trailing for dim in core)
    return counted.reshape(*counted.shape, *(1,) * after)


def _whole(missing: Numbers, core: list[Hashable], layout: Layout) -> Numbers:
    """Which predictions are missing as a whole, in every member, draw and cell that counts."""
    axes = tuple(range(missing.ndim - len(core), missing.ndim))
    there = np.broadcast_to(~np.asarray(_counted(core, layout)), missing.shape)
    return np.asarray(np.all(missing | there, axis=axes, keepdims=True))
