"""Decompose predictions in ``.nc`` and ``.zarr`` whose members are along several dimensions."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kuq.errors import ParameterError
from kuq.files.decompose import GRIDS, Layout, checked_paths
from kuq.files.decomposed import Partitioned, PartitionedFile
from kuq.files.grid_cells import Areas
from kuq.files.grid_result import areas, readable, thinned, told_missing, told_thinned
from kuq.files.grid_source import Grid, opened, prediction_in, variables_in
from kuq.files.grids import SCRATCH, in_pieces, needs_dask, telling, written
from kuq.files.stored import Progress
from kuq.files.words import for_what
from kuq.kernels.base import Score
from kuq.partition import Partition
from kuq.result import OF_LEVELS_OF_POINTS

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Levels:
    """The dimensions of members, outermost first, and how they lie; see ``kuq.decompose``."""

    dims: tuple[str, ...]
    crossed: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()


def partition_file(
    path: Path,
    score: Score,
    levels: Levels,
    *,
    out: Path | None = None,
    layout: Layout | None = None,
    progress: Progress | None = None,
    draws: int | None = None,
    seed: int | None = None,
    estimator: str = "pairwise",
) -> PartitionedFile:
    """Read a prediction along several dimensions of members, and write what each of them adds.

    ``path`` ends in .nc or .zarr and is read piece by piece; all else is as in ``decompose_file``.

    >>> import kuq, numpy as np, pathlib, tempfile, xarray
    >>> from kuq.files import Levels, partition_file
    >>> runs = xarray.Dataset({"t": (("model", "run"), [[0.0, 2.0], [6.0, 8.0]])})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "runs.nc")
    ...     _ = path.write_bytes(bytes(runs.to_netcdf(engine="h5netcdf")))
    ...     partitioned = partition_file(path, kuq.SquaredError(), Levels(("model", "run")))
    >>> u = partitioned.result.partition
    >>> u.design, {name: float(component) for name, component in u.items()}
    ('model / run', {'total': 38.0, 'noise': 0.0, 'model': 34.0, 'run': 4.0})
    """
    layout = Layout() if layout is None else layout
    if path.suffix.lower() not in GRIDS:
        raise ParameterError(
            f"levels are named dimensions of {' or '.join(GRIDS)}, got {path.name!r}; for arrays "
            "see kuq.decompose(…, levels=…)"
        )
    if layout.member is not None:
        raise ParameterError("--levels name all dimensions of members; leave --member out")
    if layout.target is not None:
        raise ParameterError("--target judges members of one level; leave --levels out")
    out = checked_paths(path, out)
    needs_dask()
    with opened(path) as grid:
        every = variables_in(grid, layout)
        if len(every) > 1:
            raise ParameterError(
                f"the file holds several predictions, {', '.join(every)}; name one of them, such "
                f"as --points {next(iter(every))}"
            )
        (layout,) = every.values()
        u, used, notes, by_area = _decomposed(grid, layout, score, levels, draws, seed, estimator)
        units = str(u["total"].attrs["units"])
        coords = grid.dataset.coords
        coordinates = {dim: readable(coords[dim].values) for dim in layout.event if dim in coords}
        sizes = {str(dim): n for dim, n in u["total"].sizes.items()}
        unknown = u.attrs.get("note") == OF_LEVELS_OF_POINTS
        with telling(progress):
            written(u.drop_encoding(), out, path)
    with opened(out) as grid:
        shown, steps = thinned(grid.dataset[list(u.data_vars)], grid.dataset["total"])
        shown.load()
    total = shown["total"]
    parts = {str(name): np.asarray(v.values) for name, v in shown.data_vars.items()}
    if unknown:
        parts["noise"] = 0 * parts["total"]
    partition = Partition(
        total=parts.pop("total"),
        components=parts,
        levels=levels.dims,
        design=u.attrs["design"],
        fixed=levels.fixed,
        score=used,
        estimator=estimator,
        unbiased=True,
        method=u.attrs["method"],
        units="dimensionless" if units == "1" else units,
    )
    dims = tuple(str(dim) for dim in total.dims)
    event = tuple(map(str, layout.event))

    def cells(of_cell: Score) -> dict[str, np.ndarray]:
        alone = dataclasses.replace(layout, event=(), area_weights=False)
        with opened(path) as grid:
            of_cells = _decomposed(grid, alone, of_cell, levels, draws, seed, estimator)[0]
            of_cells = of_cells.mean([dim for dim in of_cells["total"].dims if dim not in event])
            of_cells = of_cells.transpose(*event).compute()
        return {str(name): np.asarray(v.values) for name, v in of_cells.data_vars.items()}

    result = Partitioned(
        partition,
        f"members along {' × '.join(levels.dims)}; {for_what(sizes, [])}",
        dims or ("input",),
        coordinates=coordinates
        | {dim: readable(total[dim].values) for dim in dims if dim in total.coords},
        notes=(*notes, *told_missing(total.values), *told_thinned(steps)),
        input_weights=areas(total) if by_area else None,
        event_dims=event,
        cells=cells if len(event) == 2 else None,
    )
    return PartitionedFile(path, out, result)


def _decomposed(
    grid: Grid,
    layout: Layout,
    score: Score,
    levels: Levels,
    draws: int | None,
    seed: int | None,
    estimator: str,
) -> tuple[xr.Dataset, Score, tuple[str, ...], bool]:
    """The parts, not yet computed, their score, notes, and whether inputs count by their area."""
    from kuq.xarray.call import Settings
    from kuq.xarray.dimensions import AUTO
    from kuq.xarray.hints import crossing
    from kuq.xarray.layout import Dimensions, layout_of
    from kuq.xarray.missing import LEFT_OUT
    from kuq.xarray.partition import Asked, check_whole, partition

    policy = layout.nan_policy or "propagate"
    settings: Settings = {"nan_policy": policy, "draws": draws, "seed": seed}
    settings["max_memory"] = SCRATCH
    prediction = prediction_in(grid, layout)
    data = prediction.data
    if prediction.weights is not None:
        settings["member_weights"] = prediction.weights
    event = tuple(layout.event)
    dims = Dimensions(None, layout.sample or AUTO, event)
    names, variables = layout_of(data, dims, "raise")
    # Runs that are left out are missing values first.
    read_as = "propagate" if policy == "omit" and names.sample is None else policy
    names = dataclasses.replace(names, nan_policy=read_as)
    data = in_pieces(grid.path, data, prediction, names, variables, levels.dims)
    areas = Areas.of(data, layout)
    asked = Asked(levels.dims, levels.crossed or None, levels.fixed)
    u, resolved = partition(data, score, asked, dims, areas.of_event, estimator, settings)
    if layout.nan_policy is None:  # without one of its members no input would have a result
        check_whole(data, levels.dims, settings)
    notes = (*areas.notes, *([u.attrs[LEFT_OUT]] if LEFT_OUT in u.attrs else []))
    hint = "" if policy == "omit" else crossing(data, levels.dims, levels.crossed, command=True)
    notes = (*notes, *([hint] if hint else []))
    used = set(prediction.names.values())
    unused = [str(name) for name in grid.dataset.data_vars if str(name) not in used]
    told = (f"not used: {', '.join(unused)}",) if unused else ()
    return u, resolved, (*prediction.notes, *notes, *told), areas.of_inputs
