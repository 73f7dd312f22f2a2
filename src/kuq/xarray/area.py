"""Weights of the cells of a grid."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import xarray as xr

import kuq

_NAMES = ("lat", "latitude")
_UNITS = ("degrees_north", "degree_north", "degrees_n", "degree_n")


def area_weights(data: xr.DataArray | xr.Dataset) -> xr.DataArray:
    """The area of the cells of a latitude-longitude grid along its latitude, with mean one.

    A cell ends half-way to the next latitude, or at a pole: sin(north) − sin(south). Latitude is
    found by its name or its attributes (``standard_name``, ``units``).

    >>> import kuq, xarray
    >>> grid = xarray.DataArray([0.0, 0.0, 0.0], coords={"lat": [-60.0, 0.0, 60.0]}, dims="lat")
    >>> kuq.xarray.area_weights(grid).values.round(4).tolist()
    [0.75, 1.5, 0.75]
    """
    lat = data[latitude_of(data)]
    degrees = lat.values.astype(np.float64)
    if degrees.size < 2 or np.any(np.abs(degrees) > 90.0 + 1e-6):
        raise kuq.ParameterError(
            "latitudes must be at least two numbers between −90 and 90, got "
            f"{degrees.size} from {degrees.min(initial=np.inf):g} to "
            f"{degrees.max(initial=-np.inf):g}"
        )
    steps = np.diff(degrees)
    if not (np.all(steps > 0) or np.all(steps < 0)):
        raise kuq.ParameterError("latitudes must increase or decrease along the grid")
    inner = degrees[:-1] + steps / 2
    outer = (degrees[0] - steps[0] / 2, degrees[-1] + steps[-1] / 2)
    edges = np.clip(np.concatenate([outer[:1], inner, outer[1:]]), -90.0, 90.0)
    area = np.abs(np.diff(np.sin(np.radians(edges))))
    coords = {lat.name: lat}
    return xr.DataArray(area / area.mean(), coords=coords, dims=lat.dims, name="area_weights")


def latitude_of(data: xr.DataArray | xr.Dataset) -> Hashable:
    """The name of the latitude coordinate, which has one dimension of its own name."""
    latitudes = [name for name, value in data.coords.items() if _is_latitude(name, value)]
    along = [name for name in latitudes if data[name].dims == (name,)]
    if len(along) != 1:
        raise kuq.ShapeError(
            f"area weights need one latitude coordinate along a dimension, found {latitudes}; its "
            'usual names are "lat" and "latitude"'
        )
    return along[0]


def _is_latitude(name: Hashable, value: xr.DataArray) -> bool:
    return (
        str(name).lower() in _NAMES
        or value.attrs.get("standard_name") == "latitude"
        or str(value.attrs.get("units", "")).lower() in _UNITS
    )
