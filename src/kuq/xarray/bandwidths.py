"""Bandwidths of a score that has to be the same in every chunk."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import xarray as xr

import kuq
from kuq._array import is_array
from kuq.scores.options import Options
from kuq.views import resolve_bandwidths
from kuq.xarray.applied import Block, Operand

#: Entries of the batch of a Dask array that decide about a median bandwidth.
MOST_ENTRIES = 4096


def with_numbers(score: kuq.Score, operands: list[Operand], options: Options) -> kuq.Score:
    """The score with "median" as a number: over all of the batch, or some of a Dask array.

    Of a Dask array evenly spaced entries are read at once.
    """
    if not isinstance(score, kuq.Kernel):
        return score
    widths: list[Any] = [getattr(term.kernel, "bandwidth", None) for term in score.terms()]
    if any(is_array(width) and width.ndim > 0 for width in widths):
        raise kuq.ParameterError(
            "a bandwidth for every entry of the batch cannot follow named dimensions; give a "
            'number or "median"'
        )
    if not score.is_open:
        return score
    predictions = [_entries(operand) for operand in operands]
    return resolve_bandwidths(score, predictions, options)


def _entries(operand: Operand) -> kuq.Prediction:
    if operand.is_lazy:
        operand = operand.map(_thinned(operand)).map(lambda variable: variable.compute())
    arrays = xr.broadcast(
        *operand.variables.values(), exclude={d for dims in operand.core for d in dims}
    )
    ordered = [a.transpose(..., *dims).values for a, dims in zip(arrays, operand.core, strict=True)]
    batch = np.broadcast_shapes(
        *(a.shape[: a.ndim - len(dims)] for a, dims in zip(ordered, operand.core, strict=True))
    )
    block = Block(operand.layout, tuple(operand.variables), operand.core)
    if operand.layout.nan_policy != "omit":
        filled, masked = block.filled(tuple(ordered), batch)
        if masked.any():
            ordered, batch = _complete(filled, operand.core, masked)
    return block.prediction(tuple(ordered), batch)[0]


def _complete(
    arrays: tuple[np.ndarray, ...], core: list[list[Hashable]], masked: np.ndarray
) -> tuple[list[np.ndarray], tuple[int, ...]]:
    """The entries of the batch in which nothing is missing, along one axis."""
    shapes = [a.shape[a.ndim - len(dims) :] for a, dims in zip(arrays, core, strict=True)]
    flat = [
        np.broadcast_to(a, (*masked.shape, *shape)).reshape(-1, *shape)
        for a, shape in zip(arrays, shapes, strict=True)
    ]
    complete = ~masked.ravel()
    if not complete.any():
        raise kuq.ParameterError(
            'bandwidth="median" needs predictions without NaN, and there is none; give a number'
        )
    return [a[complete] for a in flat], (int(complete.sum()),)


def _thinned(operand: Operand) -> Callable[[xr.DataArray], xr.DataArray]:
    """The same evenly spaced entries of every variable."""
    core = {dim for dims in operand.core for dim in dims}
    kept = {dim: n for dim, n in operand.sizes.items() if dim not in core}
    while kept and math.prod(kept.values()) > MOST_ENTRIES:
        widest = max(kept, key=lambda dim: kept[dim])
        kept[widest] = (kept[widest] + 1) // 2
    steps: dict[Hashable, slice] = {
        dim: slice(None, None, math.ceil(operand.sizes[dim] / n)) for dim, n in kept.items()
    }

    def thinned(variable: xr.DataArray) -> xr.DataArray:
        return variable.isel({dim: step for dim, step in steps.items() if dim in variable.dims})

    return thinned
