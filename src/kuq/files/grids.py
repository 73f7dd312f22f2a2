"""Predictions in ``.nc`` and ``.zarr``: named dimensions, piece by piece, larger than memory too."""

from __future__ import annotations

import math
import os
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kuq.distributions.base import Prediction
from kuq.errors import KuqError, ParameterError
from kuq.files.atomic import replacing
from kuq.files.decompose import PARTS, DecomposedFile, Layout
from kuq.files.roles import find_law, is_variance
from kuq.files.stored import Progress
from kuq.kernels.base import Score
from kuq.result import Uncertainty

if TYPE_CHECKING:
    import xarray as xr

    from kuq.xarray.call import Call

#: Bytes of a variable in one piece, pieces at once, and scratch memory of each.
_PIECE, _WORKERS, _SCRATCH = 2**24, 4, 2**25
#: Values of a component, and numbers of a prediction, that are brought into memory for a report.
_MOST_VALUES, _MOST_NUMBERS = 2**24, 2**23


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
        import xarray as xr
    except ImportError:
        raise ParameterError('.nc and .zarr files need: pip install "kuq[files]"') from None
    from kuq.xarray.call import Settings, prepared, with_members
    from kuq.xarray.dimensions import AUTO
    from kuq.xarray.layout import Dimensions
    from kuq.xarray.measures import decompose

    settings: Settings = {
        "nan_policy": layout.nan_policy,
        "draws": options["draws"],
        "seed": options["seed"],
        "max_memory": _SCRATCH,
    }
    with _opened(path, xr) as dataset:
        data, weights = _prediction(dataset, layout, xr)
        if weights is not None:
            settings["member_weights"] = weights
        event = tuple(layout.event)
        dims = with_members(data, Dimensions(layout.member or AUTO, layout.sample or AUTO, event))
        data = _in_pieces(data, prepared([data], score, dims, None, settings))
        call = prepared([data], score, dims, None, settings)
        u = decompose(data, call.score, dims.member or AUTO, dims.sample, event, **settings)
        with dask.config.set(num_workers=min(_WORKERS, os.cpu_count() or 1)), _Tasks(progress):
            _write(u, out)
    return _result(path, out, call, u, layout, options, xr)


def _opened(path: Path, xr: Any) -> Any:
    """A dataset whose values are read only when they are needed, without the graph of Dask."""
    if not path.is_dir() and path.stat().st_size == 0:
        raise ParameterError(f"{path} is empty")
    try:
        if path.suffix.lower() == ".zarr":
            return xr.open_zarr(path, chunks=None)
        return xr.open_dataset(path, chunks=None)
    except Exception as error:  # every backend has errors of its own for damaged files
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ParameterError(f"{path} cannot be read as a grid: {text}") from None


def _prediction(dataset: xr.Dataset, layout: Layout, xr: Any) -> tuple[Any, np.ndarray | None]:
    """A DataArray of draws or points, or a Dataset of parameters by kuq's names; weights."""
    names = [str(name) for name in dataset.data_vars]
    if len(names) == 1 and not layout.names.given():
        return dataset[names[0]], None
    law, roles = find_law(names, layout.names)
    weights = roles.pop("weights", None)
    numbers = None if weights is None else np.asarray(dataset[weights].values, dtype=float)
    if law in ("samples", "points"):
        return dataset[roles[law]], numbers
    found = {}
    for role, name in roles.items():
        variable = dataset[name]
        squared = is_variance(role, name)
        found["weights" if role == "mixture" else role] = (variable**0.5) if squared else variable
    return xr.Dataset(found, attrs=dataset.attrs), numbers


def _in_pieces(data: Any, call: Call) -> Any:
    """The data as Dask arrays, each piece with whole predictions and cut along the batch.

    Pieces are read from the file as they are needed; a Dask array with the chunks of the file
    would have to be rearranged, which can take the memory of all of it.
    """
    core = {dim for dims in call.operands[0].core for dim in dims}
    variables = call.operands[0].variables.values()
    sizes = {dim: n for v in variables for dim, n in v.sizes.items() if dim not in core}
    largest = max(variables, key=lambda v: math.prod(n for d, n in v.sizes.items() if d in core))
    whole = largest.dtype.itemsize * math.prod(n for d, n in largest.sizes.items() if d in core)
    room = max(1, _PIECE // max(whole, 1))
    pieces: dict[Hashable, int] = dict.fromkeys(core, -1)
    for dim in reversed([d for d in largest.dims if d in sizes]):
        stored = _stored_chunk(largest, dim)
        pieces[dim] = _piece(sizes[dim], stored, room)
        room = max(1, room // pieces[dim])
    return data.chunk({dim: n for dim, n in pieces.items() if dim in data.dims})


def _stored_chunk(variable: xr.DataArray, dim: Hashable) -> int:
    preferred = variable.encoding.get("preferred_chunks") or {}
    return int(preferred.get(dim, 1)) if isinstance(preferred, dict) else 1


def _piece(size: int, stored: int, room: int) -> int:
    """A length that holds whole chunks of the file where there is room for them."""
    if size <= room:
        return size
    return room // stored * stored if stored <= room else room


def _tasks_class() -> Any:
    from dask.callbacks import Callback

    return Callback


class _Tasks:
    """Tells how many tasks of Dask are done, while it is entered."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._done = self._total = 0
        self._callback = _tasks_class()(start_state=self._start, posttask=self._finished)

    def _start(self, graph: Any, state: Any) -> None:
        self._total = len(state["ready"]) + len(state["waiting"])

    def _finished(self, key: Any, result: Any, graph: Any, state: Any, worker: Any) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)

    def __enter__(self) -> None:
        self._callback.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._callback.__exit__(*error)


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


def _result(
    path: Path,
    out: Path,
    call: Call,
    u: xr.Dataset,
    layout: Layout,
    options: dict[str, Any],
    xr: Any,
) -> DecomposedFile:
    """The components as they were written, thinned if they are very many."""
    with _opened(out, xr) as written:
        steps = _thinning(written["total"])
        some = written.isel({dim: slice(None, None, step) for dim, step in steps.items()}).load()
    dims = tuple(some["total"].dims)
    uncertainty = Uncertainty(
        *(some[part].values for part in PARTS),
        score=call.score,
        estimator="pairwise",
        unbiased=True,
        method=str(u.attrs["method"]),
        units=str(u["total"].attrs["units"]),
    )
    texts = {str(dim): _texts(some[dim].values) for dim in dims if dim in some.coords}
    numbers = {
        str(dim): some[dim].values
        for dim in dims
        if dim in some.coords and some[dim].dtype.kind in "fiu"
    }
    first = str(dims[0]) if dims else "input"
    return DecomposedFile(
        source=path,
        out=out,
        uncertainty=uncertainty,
        description=_described(path, call, u, layout),
        dims=tuple(map(str, dims)),
        labels=texts.get(first, ()),
        some=_Some(path, layout, call, first, steps.get(first, 1)),
        coordinates={**texts_as_arrays(texts), **numbers},
        options=options,
    )
