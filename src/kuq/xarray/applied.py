"""Measures applied to blocks of named arrays, in memory or lazily on Dask."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import xarray as xr

import kuq
from kuq._compiled import by_work_alone
from kuq._switch import Settings, settings, under
from kuq.xarray.chunks import whole_predictions
from kuq.xarray.layout import SAMPLES, Layout, Numbers

#: Predictions, and an outcome if there is one, to arrays (batch…, further axes…).
Measure: TypeAlias = Callable[..., tuple[Numbers, ...]]


@dataclass(frozen=True)
class Operand:
    """A prediction with its named arrays, all of one prediction in one chunk."""

    layout: Layout
    variables: Mapping[str, xr.DataArray]

    @property
    def core(self) -> list[list[Hashable]]:
        return self.layout.core_dims(self.variables)

    @property
    def sizes(self) -> dict[Hashable, int]:
        return {dim: n for v in self.variables.values() for dim, n in v.sizes.items()}

    @property
    def is_lazy(self) -> bool:
        return any(v.chunks is not None for v in self.variables.values())

    def map(self, change: Callable[[xr.DataArray], xr.DataArray]) -> Operand:
        return Operand(self.layout, {name: change(v) for name, v in self.variables.items()})


@dataclass(frozen=True)
class Block:
    """The part of an operand that a block needs: names and dimensions, no data."""

    layout: Layout
    names: tuple[str, ...]
    core: list[list[Hashable]]

    def prediction(
        self, arrays: tuple[Numbers, ...], batch: tuple[int, ...]
    ) -> tuple[kuq.Prediction, Numbers]:
        """The prediction, and where it is masked by NaN parameters, (batch…)."""
        masked = np.zeros(batch, dtype=bool)
        if self.layout.nan_policy == "propagate" and self.layout.family is not SAMPLES:
            fill = dict(zip(self.layout.family.parameters, self.layout.family.neutral, strict=True))
            filled = []
            for name, array, core in zip(self.names, arrays, self.core, strict=True):
                missing = np.isnan(array)
                masked = masked | np.any(missing, axis=_last(array, len(core)))
                filled.append(np.where(missing, fill[name], array))
            arrays = tuple(filled)
        return self.layout.prediction(
            dict(zip(self.names, arrays, strict=True)), self.core, batch
        ), masked


def applied(
    measure: Measure,
    operands: list[Operand],
    outcome: xr.DataArray | None,
    outputs: list[list[Hashable]],
    output_sizes: dict[Hashable, int] | None = None,
) -> list[xr.DataArray]:
    """The results of a measure, with the batch dimensions and those in ``outputs``."""
    blocks = [Block(o.layout, tuple(o.variables), o.core) for o in operands]
    arrays = [
        whole_predictions(variable, core)
        for operand in operands
        for variable, core in zip(operand.variables.values(), operand.core, strict=True)
    ]
    core = [dims for block in blocks for dims in block.core]
    if outcome is not None:
        event = [dim for dim in operands[0].layout.event if dim in outcome.dims]
        arrays.append(whole_predictions(outcome, event))
        core.append(event)
    dtype = _result_dtype(arrays)
    with by_work_alone():  # Dask runs blocks later, in threads of its own or in several processes
        states = settings()
    found = xr.apply_ufunc(
        _computed,
        *arrays,
        input_core_dims=core,
        output_core_dims=outputs,
        dask="parallelized",
        output_dtypes=[dtype] * len(outputs),
        dask_gufunc_kwargs={"output_sizes": output_sizes} if output_sizes else None,
        join="exact",
        keep_attrs=False,
        kwargs={
            "blocks": blocks,
            "event": None if outcome is None else core[-1],
            "measure": measure,
            "dtype": dtype,
            "states": states,
        },
    )
    results = list(found) if isinstance(found, tuple) else [found]
    for result in results:
        _describe_coordinates(result, arrays)
    return results


def _describe_coordinates(result: xr.DataArray, arrays: list[xr.DataArray]) -> None:
    """Coordinates keep their attributes, such as units, which apply_ufunc drops with the others."""
    for name, coordinate in result.coords.items():
        for array in arrays:
            if name in array.coords:
                coordinate.attrs.update(array.coords[name].attrs)
                break


def _computed(
    *arrays: Numbers,
    blocks: list[Block],
    event: list[Hashable] | None,
    measure: Measure,
    dtype: np.dtype[Any],
    states: Settings,
) -> Any:
    """The measure of one block of plain arrays (batch…, core dimensions…)."""
    with under(states):
        return _measured(arrays, blocks, event, measure, dtype)


def _measured(
    arrays: tuple[Numbers, ...],
    blocks: list[Block],
    event: list[Hashable] | None,
    measure: Measure,
    dtype: np.dtype[Any],
) -> Any:
    core = [dims for block in blocks for dims in block.core] + ([] if event is None else [event])
    lead = [a.shape[: a.ndim - len(dims)] for a, dims in zip(arrays, core, strict=True)]
    batch = np.broadcast_shapes(*lead)
    remaining = list(arrays)
    given: list[Any] = []
    masked = np.zeros(batch, dtype=bool)
    for block in blocks:
        own = tuple(remaining.pop(0) for _ in block.names)
        prediction, missing = block.prediction(own, batch)
        given.append(prediction)
        masked = masked | missing
    if event is not None:
        outcome = _outcome(remaining.pop(0), event, blocks[0].layout, batch)
        if blocks[0].layout.nan_policy == "propagate":
            missing = np.isnan(outcome)
            masked = masked | np.any(missing, axis=_last(outcome, len(blocks[0].layout.event)))
            outcome = np.where(missing, 0.0, outcome)
        given.append(outcome)
    results = []
    for result in measure(*given):
        hidden = masked.reshape(masked.shape + (1,) * (result.ndim - masked.ndim))
        results.append(np.where(hidden, np.nan, result).astype(dtype, copy=False))
    return tuple(results) if len(results) > 1 else results[0]


def _outcome(
    y: Numbers, present: list[Hashable], layout: Layout, batch: tuple[int, ...]
) -> Numbers:
    if len(present) < len(layout.event):
        raise kuq.ShapeError(
            f"the outcome needs the event dimensions {list(layout.event)}, got {present}"
        )
    return np.broadcast_to(y, (*batch, *y.shape[y.ndim - len(present) :]))


def _last(array: Numbers, count: int) -> tuple[int, ...]:
    return tuple(range(array.ndim - count, array.ndim))


def _result_dtype(arrays: list[xr.DataArray]) -> np.dtype[Any]:
    kinds = [a.dtype for a in arrays]
    for kind in kinds:
        if kind.kind not in "fiub":
            raise kuq.ParameterError(f"data must hold real numbers, got dtype {kind}")
    floating = [kind for kind in kinds if kind.kind == "f"]
    return np.result_type(*floating) if floating else np.dtype(np.float64)
