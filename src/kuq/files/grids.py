"""Predictions in ``.nc`` and ``.zarr``: named dimensions, read piece by piece."""

from __future__ import annotations

import math
import os
import uuid
import warnings
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kuq.errors import KuqError, ParameterError, ShapeError
from kuq.files.atomic import replacing
from kuq.files.claims import check_memory
from kuq.files.decompose import PARTS, DecomposedFile, Layout
from kuq.files.hdf5 import check_hdf5
from kuq.files.roles import (
    LAYOUT,
    as_doubles,
    as_scale,
    find_law,
    is_spread,
    is_variance,
    listed,
    role_of,
)
from kuq.files.stored import Progress
from kuq.files.zarr_store import StoredArray, check_store
from kuq.kernels.base import Score

if TYPE_CHECKING:
    import xarray as xr

    from kuq.xarray.layout import Layout as NamedLayout

#: Bytes of a variable in one piece, pieces at once, and scratch memory of each.
_PIECE, _WORKERS, _SCRATCH = 2**24, 4, 2**25


def decompose_grid(
    path: Path,
    score: Score,
    out: Path,
    layout: Layout,
    progress: Progress | None,
    options: dict[str, Any],
) -> DecomposedFile:
    """Decompose a NetCDF file or Zarr store into another, without loading it as a whole."""
    try:
        import dask
    except ImportError:
        raise ParameterError('.nc and .zarr files need: pip install "kuq[files]"') from None
    from kuq.files.grid_result import read_result
    from kuq.xarray.call import Settings, prepared, with_members
    from kuq.xarray.dimensions import AUTO
    from kuq.xarray.layout import Dimensions, layout_of
    from kuq.xarray.measures import decompose

    settings: Settings = {
        "nan_policy": layout.nan_policy,
        "draws": options["draws"],
        "seed": options["seed"],
        "max_memory": _SCRATCH,
    }
    with opened(path) as grid:
        data, weights, squared, used = prediction_in(grid, layout)
        if weights is not None:
            settings["member_weights"] = weights
        event = tuple(layout.event)
        dims = with_members(data, Dimensions(layout.member or AUTO, layout.sample or AUTO, event))
        data = _in_pieces(path, data, squared, *layout_of(data, dims, layout.nan_policy))
        call = prepared([data], score, dims, None, settings)
        u = decompose(data, call.score, dims.member or AUTO, dims.sample, event, **settings)
        u = u.drop_encoding()  # codecs of another format would not fit
        with dask.config.set(num_workers=min(_WORKERS, os.cpu_count() or 1)), _telling(progress):
            _write(u, out)
        about = {**u.attrs, "units": u["total"].attrs["units"]}
        notes = (*grid.notes, *_missing(grid, used))
    return replace(read_result(path, out, call, about, layout, options), notes=notes)


@dataclass(frozen=True)
class Grid:
    """An open file or store: what xarray sees, and what it does not."""

    path: Path
    dataset: xr.Dataset
    #: What is stored of the arrays of a Zarr store.
    stored: dict[str, StoredArray]
    #: Groups inside of a NetCDF file; only what is outside of them is read.
    groups: list[str]
    notes: tuple[str, ...]


@contextmanager
def opened(path: Path) -> Iterator[Grid]:
    """A grid whose values are read only when they are needed, without the graph of Dask."""
    import xarray as xr

    if not path.is_dir() and path.stat().st_size == 0:
        raise ParameterError(f"{path} is empty")
    stored: dict[str, StoredArray] = {}
    groups: list[str] = []
    with reading(path), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if path.suffix.lower() == ".zarr":
            stored = check_store(path)
            dataset = xr.open_zarr(path, chunks=None, consolidated=False, decode_timedelta=False)
        else:
            engine = _engine(path)
            groups = check_hdf5(path) if engine == "h5netcdf" else []
            dataset = xr.open_dataset(path, engine=engine, chunks=None, decode_timedelta=False)
    notes = tuple(
        str(one.message) for one in said if issubclass(one.category, xr.SerializationWarning)
    )
    with dataset:
        yield Grid(path, dataset, stored, groups, notes)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Whatever goes wrong inside is said of the file that is read, in one line."""
    try:
        yield
    except KuqError:
        raise
    except Exception as error:  # every backend has errors of its own for damaged files
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ParameterError(f"{path} cannot be read as a grid: {text}") from None


def _engine(path: Path) -> str:
    """The reader of a NetCDF file by its first bytes, so that no other reader guesses."""
    import h5py

    with path.open("rb") as file:
        start = file.read(4)
    if start in (b"CDF\1", b"CDF\2"):
        return "scipy"
    if h5py.is_hdf5(path):
        return "h5netcdf"
    hint = "; nccopy -k nc4 makes one that is" if start == b"CDF\5" else ""
    raise ParameterError(f"{path} cannot be read as a grid: it is not NetCDF 3 or 4{hint}")


def prediction_in(
    grid: Grid, layout: Layout
) -> tuple[Any, xr.DataArray | None, bool, tuple[str, ...]]:
    """A DataArray of draws or points, or a Dataset of parameters by kuq's names; weights.

    The third says whether what serves as a scale is a variance, the last which variables these
    are. Nothing large is read.
    """
    import xarray as xr

    dataset = grid.dataset
    law, roles = _law_in(grid, layout)
    if layout.sample is not None and law not in ("samples", "points"):
        raise ParameterError(f"--sample is for draws, and the file holds {law} predictions")
    used = tuple(roles.values())
    with reading(grid.path):
        weights = dataset[roles.pop("weights")].load() if "weights" in roles else None
    if weights is not None:
        weights = weights.copy(data=as_doubles(str(weights.name), weights.values))
    found = {"weights" if r == "mixture" else r: dataset[name] for r, name in roles.items()}
    for name, variable in zip(roles.values(), found.values(), strict=True):
        as_doubles(name, np.empty(0, variable.dtype))
        if variable.size == 0:
            raise ShapeError(f"{name!r} is empty, with the dimensions {dict(variable.sizes)}")
    with reading(grid.path):  # coordinates are
        one = law in ("samples", "points")
        data: Any = found[law] if one else xr.Dataset(found, attrs=dataset.attrs)
        for coordinate in data.coords.values():
            check_memory(grid.path, coordinate.nbytes, "leave out large coordinates")
            coordinate.variable.load()
    nameless = [name for name in (*data.dims, *data.coords) if not isinstance(name, str)]
    if nameless:
        raise ParameterError(f"{grid.path} has a dimension {nameless[0]!r}; names are text")
    taken = [part for part in PARTS if part in data.coords or part in data.dims]
    if taken:
        raise ParameterError(
            f"{grid.path} has a coordinate or dimension {taken[0]!r}, as the result is called; "
            "rename it"
        )
    return data, weights, is_variance("scale", roles.get("scale", "")), used


def _law_in(grid: Grid, layout: Layout) -> tuple[str, dict[str, str]]:
    """A single variable is the prediction, unless its name says that it is something else."""
    names = [str(name) for name in grid.dataset.data_vars]
    if not names and grid.groups:
        raise ParameterError(
            f"{grid.path} holds its variables in groups ({listed(grid.groups)}), which are not "
            "read; write the prediction outside of them"
        )
    if len(names) > 1 or layout.names.given():
        return find_law(names, layout.names)
    for name in names:
        if role_of(name) not in (None, "samples", "points") or is_spread(name):
            raise ParameterError(
                f"{grid.path} holds {name!r} alone, which is no prediction by itself; expected "
                f"{LAYOUT}; if it is one, say --points {name} or --samples {name}"
            )
        return "points", {"points": name}
    return find_law(names, layout.names)


def _missing(grid: Grid, names: tuple[str, ...]) -> Iterator[str]:
    """What a store says by leaving chunks out: each of their values is the fill value."""
    for name in names:
        stored = grid.stored.get(name)
        if stored is not None and stored.found < stored.chunks:
            yield (
                f"{stored.chunks - stored.found} of {stored.chunks} chunks of {name!r} are not "
                f"stored; all of their values count as the fill value {stored.fill}"
            )


@dataclass(frozen=True)
class Doubles:
    """A variable of a file as Dask asks for it: piece by piece, in double precision."""

    path: Path
    variable: xr.Variable
    name: str
    squared: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return self.variable.shape

    @property
    def ndim(self) -> int:
        return self.variable.ndim

    @property
    def dtype(self) -> np.dtype[np.float64]:
        return np.dtype(np.float64)

    def __getitem__(self, key: Any) -> np.ndarray:
        with reading(self.path):
            values = self.variable[key].values
        values = as_doubles(self.name, values)
        return as_scale(self.name, values) if self.squared else values


def _in_pieces(
    path: Path,
    data: Any,
    squared: bool,
    names: NamedLayout,
    variables: dict[str, xr.DataArray],
) -> Any:
    """The data as Dask arrays, each piece with whole predictions and cut along the batch.

    Pieces are read from the file as they are needed; a Dask array with the chunks of the file
    would have to be rearranged, which can take the memory of all of it.
    """
    core = {dim for dims in names.core_dims(variables) for dim in dims}
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
        name: _lazy(path, variable, squared and name == "scale", pieces)
        for name, variable in variables.items()
    }
    return data.assign(lazy) if hasattr(data, "data_vars") else next(iter(lazy.values()))


def _lazy(
    path: Path, variable: xr.DataArray, squared: bool, pieces: dict[Hashable, int]
) -> xr.DataArray:
    import dask.array

    make: Any = dask.array.from_array  # has no types
    values = make(
        Doubles(path, variable.variable, str(variable.name), squared),
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


def _telling(progress: Progress | None) -> Any:
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


def _write(u: xr.Dataset, out: Path) -> None:
    with replacing(out) as part:
        try:
            if out.suffix.lower() == ".zarr":
                u.to_zarr(part, mode="w", consolidated=False)
            else:
                u.to_netcdf(part, engine="h5netcdf")
        except (KuqError, OSError):
            raise
        except (ValueError, RuntimeError, TypeError) as error:
            raise ParameterError(f"{out} cannot be written: {error}") from None
