"""Measures applied to blocks of named arrays, in memory or lazily on Dask."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import xarray as xr

import kuq
from kuq._compiled import by_work_alone
from kuq._switch import Settings, settings, under
from kuq.xarray.chunks import whole_predictions
from kuq.xarray.layout import SAMPLES, Layout, Numbers
from kuq.xarray.missing import check_values, filled, without_masked_cells

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
    def inputs(self) -> list[Hashable]:
        """The dimensions along which there are several predictions."""
        core = (*self.layout.prediction_dims, *self.layout.event)
        return [dim for dim in self.sizes if dim not in core]

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
        """The prediction, and where it has no result because values are missing, (batch…)."""
        policy = self.layout.nan_policy
        masked = np.zeros(batch, dtype=bool)
        if policy == "omit" or (policy == "propagate" and self.layout.family is SAMPLES):
            arrays = self._without_masked_cells(arrays)  # draws know what to do with the others
        else:
            arrays, masked = self.filled(arrays, batch)
        return self.layout.prediction(
            dict(zip(self.names, arrays, strict=True)), self.core, batch
        ), masked

    def filled(
        self, arrays: tuple[Numbers, ...], batch: tuple[int, ...]
    ) -> tuple[tuple[Numbers, ...], Numbers]:
        """Valid numbers for missing ones, and which predictions have no result for that."""
        masked = np.zeros(batch, dtype=bool)
        made = []
        for (name, array, core), neutral in zip(self._each(arrays), self._neutral(), strict=True):
            check_values(array, core, name, self.layout)
            array, missing = filled(array, core, self.layout, neutral)
            masked = masked | missing
            made.append(array)
        return tuple(made), masked

    def _without_masked_cells(self, arrays: tuple[Numbers, ...]) -> tuple[Numbers, ...]:
        return tuple(
            without_masked_cells(array, core, self.layout, neutral)
            for (_, array, core), neutral in zip(self._each(arrays), self._neutral(), strict=True)
        )

    def _each(self, arrays: tuple[Numbers, ...]) -> Iterator[tuple[str, Numbers, list[Hashable]]]:
        return zip(self.names, arrays, self.core, strict=True)

    def _neutral(self) -> list[float]:
        """Values at which the parameters are valid."""
        family = self.layout.family
        values = dict(zip(family.parameters, family.neutral, strict=True))
        return [values[name] for name in self.names]


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
    computed = xr.apply_ufunc(
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
    results = list(computed) if isinstance(computed, tuple) else [computed]
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
        parameters = tuple(remaining.pop(0) for _ in block.names)
        prediction, missing = block.prediction(parameters, batch)
        given.append(prediction)
        masked = masked | missing
    if event is not None:
        layout = blocks[0].layout
        outcome = _outcome(remaining.pop(0), event, layout, batch)
        check_values(outcome, event, "the outcome", layout)
        outcome, missing = filled(outcome, event, layout, 0.0)
        given.append(outcome)
        masked = masked | missing
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


def check_numbers(arrays: Iterable[xr.DataArray]) -> None:
    """Refuse data that are no real numbers."""
    for array in arrays:
        if array.dtype.kind not in "fiub":
            raise kuq.ParameterError(f"data must hold real numbers, got dtype {array.dtype}")


def _result_dtype(arrays: list[xr.DataArray]) -> np.dtype[Any]:
    kinds = [a.dtype for a in arrays]
    floating = [kind for kind in kinds if kind.kind == "f"]
    return np.result_type(*floating) if floating else np.dtype(np.float64)
