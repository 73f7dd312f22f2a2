"""Weights over the event of a prediction, as part of a score."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import xarray as xr

import kuq
from kuq.kernels.event_weights import weighted
from kuq.xarray.area import area_weights, latitude_of
from kuq.xarray.missing import in_words


def with_weights(
    score: kuq.Score,
    weights: xr.DataArray | str | None,
    data: xr.DataArray | xr.Dataset,
    event: tuple[Hashable, ...],
    cells: xr.DataArray | None,
) -> kuq.Score:
    """The score with weights by name, or by the area of grid cells, in the order of the event.

    ``cells`` are those that count, if not all do.
    """
    if cells is not None:
        return _with_mask(score, weights, data, event, cells)
    return score if weights is None else weighted(score, _weights(weights, data, event).values)


def _with_mask(
    score: kuq.Score,
    weights: xr.DataArray | str | None,
    data: xr.DataArray | xr.Dataset,
    event: tuple[Hashable, ...],
    cells: xr.DataArray,
) -> kuq.Score:
    if weights is None and isinstance(score, kuq.Marginal) and score.reduce is None:
        return score  # every cell has a number of its own
    counts = cells.astype(np.float64).values
    if weights is not None:
        given = _weights(weights, data, event).values * counts
        # The areas of the cells that are left have mean one.
        counts = given * (counts.sum() / given.sum()) if isinstance(weights, str) else given
    try:
        return weighted(score, counts)
    except kuq.ParameterError as error:
        raise kuq.ParameterError(
            f"{in_words(cells)}, which is done by weights, and {error}; use a kernel score, or "
            f"take the cells that are there as one dimension: data.stack(cell={tuple(event)!r})"
            f'.dropna("cell", how="all"), event_dims=["cell"]'
        ) from None


def _weights(
    weights: xr.DataArray | str, data: xr.DataArray | xr.Dataset, event: tuple[Hashable, ...]
) -> xr.DataArray:
    """Weights over the whole event, in its order."""
    if isinstance(weights, str):
        if weights != "area":
            raise kuq.ParameterError(f'weights must be "area" or a DataArray, got {weights!r}')
        if latitude_of(data) not in event:
            raise kuq.ShapeError(
                f"weights={weights!r} need latitude among event_dims, got {list(event)}; for means "
                "of a map of results: result.weighted(kuq.xarray.area_weights(result)).mean()"
            )
        weights = area_weights(data)
    if not isinstance(weights, xr.DataArray):
        raise kuq.ParameterError(
            f'weights must be "area" or a DataArray, got {type(weights).__name__}'
        )
    unknown = [dim for dim in weights.dims if dim not in event]
    if unknown or not event:
        raise kuq.ShapeError(
            f"weights lie over event dimensions {list(event)}, got {list(weights.dims)}; weights "
            "of members are member_weights"
        )
    frame = xr.DataArray(
        np.ones([data.sizes[dim] for dim in event]),
        coords={dim: data[dim] for dim in event if dim in data.coords},
        dims=event,
    )
    try:
        full, _ = xr.align(frame, weights, join="exact", copy=False)
    except ValueError as error:
        raise kuq.ShapeError(f"weights do not fit the coordinates of the data: {error}") from None
    return (full * weights).transpose(*event)
