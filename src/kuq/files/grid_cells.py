"""The cells of a grid: those that are masked, and how much each counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kuq.errors import ParameterError
from kuq.files.decompose import Layout

if TYPE_CHECKING:
    import xarray as xr

    from kuq.xarray.layout import Layout as NamedLayout


def never_known(
    data: xr.DataArray | xr.Dataset, layout: NamedLayout, variables: dict[str, xr.DataArray]
) -> xr.DataArray | None:
    """Which cells of the event are known somewhere; None if all are.

    A cell that is missing in every prediction, such as one of the sea, is no part of the outcome.
    """
    missing: Any = None
    for variable in variables.values():
        event = [dim for dim in layout.event if dim in variable.dims]
        own = {*event, layout.member, layout.sample, layout.trailing}
        others = [dim for dim in variable.dims if dim not in event]
        first = variable.isel({dim: 0 for dim in variable.dims if dim not in own})
        never = first.isnull().all([dim for dim in others if dim in first.dims]).compute()
        if not bool(never.any()):
            continue  # most grids have no mask, and are read once only
        never = variable.isnull().all(others).compute()
        missing = never if missing is None else missing | never
    if missing is None or not bool(missing.any()):
        return None
    if bool(missing.all()):
        raise ParameterError("every cell is missing (NaN) in every prediction; there is no result")
    absent = {dim: data.sizes[dim] for dim in layout.event if dim not in missing.dims}
    cells: xr.DataArray = (~missing).expand_dims(absent).transpose(*layout.event)
    return cells.drop_vars([name for name in cells.coords if name not in cells.dims])


def filled(
    data: xr.DataArray | xr.Dataset, layout: NamedLayout, cells: xr.DataArray
) -> xr.DataArray | xr.Dataset:
    """The data with valid numbers in cells that are not known, which have no weight."""
    neutral = dict(zip(layout.family.parameters, layout.family.neutral, strict=True))
    if not hasattr(data, "data_vars"):
        return data.where(cells, next(iter(neutral.values()))).assign_attrs(data.attrs)
    made = {
        name: variable.where(cells, neutral.get(str(name), 0.0)).assign_attrs(variable.attrs)
        if set(cells.dims) & set(variable.dims)
        else variable
        for name, variable in data.data_vars.items()
    }
    return data.assign(made)


def cell_weights(
    data: xr.DataArray | xr.Dataset, layout: Layout, cells: xr.DataArray | None
) -> tuple[xr.DataArray | None, list[str]]:
    """Weights over the event: the area of cells if that is asked for, zero where masked."""
    from kuq.xarray.area import area_weights, latitude_of

    notes = []
    weights = None
    if layout.area_weights:
        if latitude_of(data) in layout.event:
            weights = area_weights(data)
            notes.append("cells of an outcome count by their area")
        else:
            notes.append("means are weighted by the areas of grid cells")
    if cells is not None:
        count = int((~cells).sum())
        notes.append(
            f"{count} of {cells.size} cells are missing (NaN) in every prediction and left out of "
            "the outcome"
        )
        known = cells.astype(np.float64)
        if weights is not None:  # their mean is one over the cells that are left
            left = (weights * known).transpose(*layout.event)
            known = left * (known.sum() / left.sum())
        weights = known
    return weights, notes
