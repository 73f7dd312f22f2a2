"""Predictions in ``.nc`` and ``.zarr``: named dimensions, read piece by piece."""

from __future__ import annotations

import importlib
import math
import os
import uuid
from collections.abc import Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kuq._replacing import replacing
from kuq.errors import KuqError, ParameterError
from kuq.files.claims import check_memory
from kuq.files.decompose import Layout
from kuq.files.decomposed import Decomposed, DecomposedFile
from kuq.files.grid_cells import Areas
from kuq.files.grid_result import Made, read_result
from kuq.files.grid_source import (
    Doubles,
    Grid,
    GridPrediction,
    check_outcome,
    opened,
    prediction_in,
    variables_in,
)
from kuq.files.hdf5_output import PatientFile
from kuq.files.output_marks import KINDS, MADE_BY, grid_mark
from kuq.files.roles import listed
from kuq.files.stored import Progress
from kuq.files.words import not_judged
from kuq.kernels.base import Score

if TYPE_CHECKING:
    import xarray as xr

    from kuq.xarray.layout import Layout as NamedLayout

#: Bytes of a variable in one piece, pieces at once, and scratch memory of each.
_PIECE, _WORKERS, SCRATCH = 2**24, 4, 2**25


def decompose_grid(
    path: Path,
    score: Score,
    out: Path,
    layout: Layout,
    progress: Progress | None,
    options: dict[str, Any],
    estimator: str = "pairwise",
) -> DecomposedFile:
    """Decompose a NetCDF file or Zarr store into another, without loading it as a whole."""
    needs_dask()
    import xarray as xr

    layout = replace(layout, nan_policy=layout.nan_policy or "propagate")
    with opened(path) as grid:
        every = variables_in(grid, layout)
        made = {
            name: _decomposed(grid, one, score, options, estimator) for name, one in every.items()
        }
        parts = {
            f"{_prefix(name, every)}{component}": values
            for name, one in made.items()
            for component, values in one.u.items()
        }
        used = {name for one in made.values() for name in one.used}
        unused = [str(n) for n in grid.dataset.data_vars if str(n) not in used]
        attrs = next(iter(made.values())).u.attrs if len(made) == 1 else grid.dataset.attrs
        whole = xr.Dataset(parts, attrs=attrs).drop_encoding()  # codecs of another format
        with telling(progress):
            written(whole, out, path)
    variables: list[Decomposed] = []
    for name, one in made.items():
        variable = read_result(path, out, name, _prefix(name, every), one, every[name], options)
        notes = (*one.notes, *variable.notes)
        if layout.target is not None and every[name].target is None:
            notes = (*notes, not_judged(name))
        if unused and not variables:
            notes = (*notes, f"not used: {listed(unused)}")
        variables.append(replace(variable, notes=notes))
    return DecomposedFile(path, out, tuple(variables))


def needs_dask() -> None:
    """Refuse where what reads grids is not installed."""
    try:
        importlib.import_module("dask")
    except ImportError:
        raise ParameterError('.nc and .zarr files need: pip install "kuq[files]"') from None


def _prefix(name: str, every: dict[str, Layout]) -> str:
    """What stands before the names of components, where there is more than one variable."""
    return f"{name}_" if len(every) > 1 else ""


def _decomposed(
    grid: Grid, layout: Layout, score: Score, options: dict[str, Any], estimator: str
) -> Made:
    """The components of one variable, not yet computed, and how they come about."""
    from kuq.xarray.call import Settings, is_of_one_model, prepared, with_members
    from kuq.xarray.dimensions import AUTO
    from kuq.xarray.hints import unused_levels
    from kuq.xarray.layout import Dimensions, layout_of
    from kuq.xarray.measures import of_members, of_one_model
    from kuq.xarray.units import check_units

    policy = layout.nan_policy or "propagate"
    settings: Settings = {
        "nan_policy": policy,
        "draws": options["draws"],
        "seed": options["seed"],
        "max_memory": SCRATCH,
    }
    prediction = prediction_in(grid, layout)
    data = prediction.data
    if prediction.weights is not None:
        settings["member_weights"] = prediction.weights
    event = tuple(layout.event)
    dims = Dimensions(layout.member or AUTO, layout.sample or AUTO, event)
    alone = is_of_one_model(data, dims, layout.sample)
    dims = replace(dims, member=None) if alone else with_members(data, dims)
    names, variables = layout_of(data, dims, policy)
    if prediction.outcome is not None:
        check_outcome(prediction.outcome, names, data.dims)
        what = f"the target {layout.target!r}"
        check_units("the prediction", variables, what, prediction.outcome)
    data = in_pieces(grid.path, data, prediction, names, variables)
    areas = Areas.of(data, layout)
    call = prepared([data], score, dims, areas.of_event, settings)
    if alone:
        if options.get("directions") is not None:
            raise ParameterError(
                "--directions are for draws of several members, and these are of one model; leave "
                "them out"
            )
        u = of_one_model(data, call)
    else:
        u = of_members(data, call, estimator, options.get("directions"))
    about = {**u.attrs, "units": u["total"].attrs["units"]}
    history = {key: v for key, v in u.attrs.items() if key not in grid.dataset.attrs}
    for component in u.data_vars.values():
        component.attrs.update(history)
    used = (*prediction.names.values(), *([layout.target] if layout.target else []))
    hint = unused_levels(data, names, command=True)
    notes = (*prediction.notes, *areas.notes, *call.told.values(), *([hint] if hint else []))
    if prediction.outcome is not None:
        lacking = [dim for dim in call.operands[0].inputs if dim not in prediction.outcome.dims]
        if lacking:
            notes += (f"{layout.target!r} has no {listed(lacking)}: each value judges all of them",)
    return Made(u, call, about, notes, used, areas)


def in_pieces(
    path: Path,
    data: Any,
    prediction: GridPrediction,
    names: NamedLayout,
    variables: dict[str, xr.DataArray],
    levels: tuple[Hashable, ...] = (),
) -> Any:
    """The data as Dask arrays, each piece with whole predictions and cut along the batch.

    Pieces are read from the file as they are needed; a Dask array with the chunks of the file
    would have to be rearranged, which can take the memory of all of it.
    """
    core = {dim for dims in names.core_dims(variables) for dim in dims} | set(levels)
    every = variables.values()
    sizes = {dim: n for v in every for dim, n in v.sizes.items() if dim not in core}
    largest = max(every, key=lambda v: math.prod(n for d, n in v.sizes.items() if d in core))
    whole = 8 * math.prod(n for d, n in largest.sizes.items() if d in core)
    check_memory(path, whole * len(variables), "one prediction has to fit; take fewer draws")
    room = max(1, _PIECE // max(whole, 1))
    pieces: dict[Hashable, int] = {}
    for dim in reversed([d for d in largest.dims if d in sizes]):
        stored = _stored_chunk(largest, dim)
        pieces[dim] = _piece(sizes[dim], stored, room)
        room = max(1, room // pieces[dim])
    lazy = {
        name: _lazy(
            variable,
            Doubles(
                path,
                variable.variable,
                prediction.names.get(name, str(variable.name)),
                prediction.squared and name == "scale",
                _ROLES.get(name, name),
                names.nan_policy,
                {dim: variable[dim].values for dim in variable.dims if dim in variable.coords},
                bool(names.event),
            ),
            pieces,
        )
        for name, variable in variables.items()
    }
    return data.assign(lazy) if hasattr(data, "data_vars") else next(iter(lazy.values()))


_ROLES = {"value": "points", "values": "samples"}


def _lazy(variable: xr.DataArray, source: Doubles, pieces: dict[Hashable, int]) -> xr.DataArray:
    import dask.array

    make: Any = dask.array.from_array  # has no types
    values = make(
        source,
        chunks=tuple(pieces.get(dim, -1) for dim in variable.dims),
        name=f"{variable.name}-{uuid.uuid4().hex}",  # a digest would read all of it
        asarray=False,
        meta=np.empty((0,) * variable.ndim),
    )
    return variable.copy(data=values)


def _stored_chunk(variable: xr.DataArray, dim: Hashable) -> int:
    preferred = variable.encoding.get("preferred_chunks") or {}
    return int(preferred.get(dim, 1)) if isinstance(preferred, dict) else 1


def _piece(size: int, stored: int, room: int) -> int:
    """A length that holds whole chunks of the file where there is room for them."""
    if size <= room:
        return size
    return room // stored * stored if stored <= room else room


def telling(progress: Progress | None) -> Any:
    """While it is entered, tells how many tasks of Dask are done."""
    from dask import callbacks

    counts = {"done": 0, "total": 0}

    def start(graph: Any, state: Any) -> None:
        counts["total"] += len(state["ready"]) + len(state["waiting"])

    def finished(*about: Any) -> None:
        counts["done"] += 1
        if progress is not None:
            progress(counts["done"], counts["total"])

    make: Any = callbacks.Callback  # has no types
    return make(start_state=start, posttask=finished)


def written(u: xr.Dataset, out: Path, source: Path) -> None:
    """Compute a result into a file of its own, whole or not at all."""
    suffix = out.suffix.lower()
    u = u.assign_attrs({MADE_BY: grid_mark({*u.variables, *u.dims})})
    with replacing(out, KINDS[suffix], [source]) as unfinished, _threads():
        try:
            if suffix == ".zarr":
                u.to_zarr(unfinished, mode="w", consolidated=False)
            else:
                _write_netcdf(u, unfinished)
        except (KuqError, OSError):
            raise
        except (ValueError, RuntimeError, TypeError) as error:
            raise ParameterError(f"{out} cannot be written: {error}") from None


@contextmanager
def _threads() -> Iterator[None]:
    """Threads for Dask that have ended when the block has: what they write can be removed then."""
    import dask

    pool = ThreadPoolExecutor(min(_WORKERS, os.cpu_count() or 1))
    try:
        with dask.config.set(pool=pool):
            yield
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _write_netcdf(u: xr.Dataset, unfinished: Path) -> None:
    from dask import callbacks

    make: Any = callbacks.Callback  # has no types
    with closing(PatientFile(unfinished)) as file, make(posttask=file.check):
        try:
            u.to_netcdf(file, engine="h5netcdf")
        finally:
            file.check()
