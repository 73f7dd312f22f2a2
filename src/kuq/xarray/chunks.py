"""Chunks of Dask arrays that hold whole predictions and fit into memory."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import xarray as xr

#: The most bytes of a variable in one chunk.
LARGEST_CHUNK = 2**26


def whole_predictions(variable: xr.DataArray, core: list[Hashable]) -> xr.DataArray:
    """The variable with all of each prediction in one chunk, and chunks of moderate size.

    Arrays in memory, and chunks that are fine, stay as they are.
    """
    if variable.chunks is None:
        return variable
    size = dict(zip(variable.dims, (max(c, default=1) for c in variable.chunks), strict=True))
    split = any(size[dim] < variable.sizes[dim] for dim in core)
    bytes_now = variable.dtype.itemsize * math.prod(size.values())
    if not split and bytes_now <= LARGEST_CHUNK:
        return variable
    whole = variable.dtype.itemsize * math.prod(variable.sizes[dim] for dim in core)
    room = max(1, LARGEST_CHUNK // max(1, whole))
    wanted: dict[Any, int] = {dim: variable.sizes[dim] for dim in core}
    # Batch dimensions keep their chunks as far as there is room, the last ones first.
    for dim in reversed([d for d in variable.dims if d not in core]):
        wanted[dim] = max(1, min(size[dim], room))
        room = max(1, room // wanted[dim])
    return variable.chunk(wanted)
