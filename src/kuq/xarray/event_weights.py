"""Weights over the event of a prediction, as part of a score."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import xarray as xr

import kuq
from kuq.kernels.event_weights import weighted
from kuq.xarray.area import area_weights, latitude_of


def with_weights(
    score: kuq.Score,
    weights: xr.DataArray | str | None,
    data: xr.DataArray | xr.Dataset,
    event: tuple[Hashable, ...],
) -> kuq.Score:
    """The score with weights by name, or by the area of grid cells, in the order of the event."""
    if weights is None:
        return score
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
    return weighted(score, (full * weights).transpose(*event).values)
