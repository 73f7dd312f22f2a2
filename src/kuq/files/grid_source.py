"""Open NetCDF files and Zarr stores: what is in them, and which of it is a prediction."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kuq.adapters.parameter_names import is_spread, pairs, role_of
from kuq.errors import KuqError, ParameterError, ShapeError
from kuq.files.claims import check_memory
from kuq.files.decompose import Layout
from kuq.files.hdf5 import check_hdf5
from kuq.files.output_marks import PARTS
from kuq.files.patterns import is_pattern, matches
from kuq.files.roles import (
    LAYOUT,
    MEMBERS,
    Names,
    as_doubles,
    as_scale,
    check_values,
    find_law,
    is_variance,
    listed,
)
from kuq.files.valid_ranges import ValidRange, with_valid_range
from kuq.files.zarr_store import StoredArray, check_store

if TYPE_CHECKING:
    import xarray as xr

    from kuq.xarray.layout import Layout as NamedLayout


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
    #: Outside of which values of a variable count as missing, where it says so.
    valid: dict[str, ValidRange]


@contextmanager
def opened(path: Path) -> Iterator[Grid]:
    """A grid whose values are read only when they are needed, without the graph of Dask."""
    import xarray as xr

    if not path.is_dir() and path.stat().st_size == 0:
        raise ParameterError(f"{path} is empty")
    stored: dict[str, StoredArray] = {}
    groups: list[str] = []
    ragged: list[str] = []
    with reading(path), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if path.suffix.lower() == ".zarr":
            stored = check_store(path)
            dataset = xr.open_zarr(path, chunks=None, consolidated=False, decode_timedelta=False)
            dataset = dataset[sorted(dataset.data_vars)]  # a folder lists its arrays in any order
        else:
            engine = _engine(path)
            if engine == "h5netcdf":
                groups, ragged = check_hdf5(path)
            dataset = xr.open_dataset(
                path, engine=engine, chunks=None, decode_timedelta=False, drop_variables=ragged
            )
    if ragged and not dataset.data_vars:
        raise ParameterError(
            f"{path} holds lists of different lengths ({ragged[0]!r}), expected arrays of real "
            "numbers"
        )
    notes = (
        *(str(one.message) for one in said if issubclass(one.category, xr.SerializationWarning)),
        *(f"{name!r} has values of different lengths and is left out" for name in ragged),
    )
    netcdf = path.suffix.lower() != ".zarr"
    ranges = {n: ValidRange.of(v.variable, netcdf) for n, v in dataset.data_vars.items()}
    valid = {str(name): one for name, one in ranges.items() if one is not None}
    masked = {name: with_valid_range(dataset[name].variable, one) for name, one in valid.items()}
    file, dataset = dataset, dataset.assign(masked)
    for one in (dataset, *dataset.variables.values()):
        one.attrs = {name: v for name, v in one.attrs.items() if _is_plain(v, path)}
    with file:
        yield Grid(path, dataset, stored, groups, notes, valid)


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


@dataclass(frozen=True)
class GridPrediction:
    """A prediction in a grid, of which nothing large was read."""

    #: A DataArray of draws or points, or a Dataset of parameters by kuq's names.
    data: Any
    weights: xr.DataArray | None
    #: Whether what serves as a scale is a variance.
    squared: bool
    notes: tuple[str, ...]
    #: What happened, where that is known.
    outcome: xr.DataArray | None
    #: The variables that were used, by their roles.
    names: dict[str, str]


def variables_in(grid: Grid, layout: Layout) -> dict[str, Layout]:
    """What is predicted in a grid: the name of each thing, and how it is laid out."""
    every = [str(name) for name in grid.dataset.data_vars]
    names = [name for name in every if not _is_target(name, layout.target)]
    if every and not names:
        raise ParameterError(
            f"--target {layout.target}: nothing is left that could be a prediction; the file holds "
            f"{listed(every)}"
        )
    given = layout.names.given()
    if any(is_pattern(text, names) for text in given.values()):
        roles_of = _by_patterns(given, names)
    elif not given and len(names) > 1:
        roles_of = _pairs(names) or _of_members(grid, layout, names)
    else:
        roles_of = {}
    if not roles_of:
        name = _main_name(grid, layout)
        targets = _targets(layout.target, {name: {}}, every, layout)
        return {name: replace(layout, target=targets.get(name))}
    targets = _targets(layout.target, roles_of, every, layout)
    return {
        name: replace(layout, names=Names(**roles), target=targets.get(name))
        for name, roles in roles_of.items()
    }


def _is_target(name: str, target: str | None) -> bool:
    """Whether a variable is what happened, which may be a pattern of names."""
    if target is None:
        return False
    return re.fullmatch(".+".join(map(re.escape, target.split("{}"))), name) is not None


def _targets(
    target: str | None, roles_of: dict[str, dict[str, str]], names: list[str], layout: Layout
) -> dict[str, str]:
    """Which variable is what happened of each thing that is predicted, where that is known."""
    things = list(roles_of)
    if target is None:
        return {}
    if "{}" in target:
        named = {thing: target.replace("{}", thing) for thing in things}
        named = {thing: name for thing, name in named.items() if name in names}
        if not named:
            raise ParameterError(
                f"--target {target}: there is no {target.replace('{}', things[0])!r}; the file "
                f"holds {listed(names)}"
            )
        return named
    if target not in names:
        raise ParameterError(
            f"--target {target}: there is no such name; the file holds {listed(names)}"
        )
    if len(things) == 1:
        return {things[0]: target}
    called = [thing for thing in things if _is_part(thing, target)]
    longest = max(called, key=len, default="")
    if not called or not all(_is_part(thing, longest) for thing in called):
        given = roles_of[things[0]].items()
        drawn = {"points": "samples"} if layout.sample else {}
        options = " ".join(f"--{drawn.get(role, role)} {name}" for role, name in given)
        raise ParameterError(
            f"--target {target}: of which of {listed(things)} is it what happened? Name that one, "
            f"as in {options}, or give a pattern of names, such as '{{}}_observed'"
        )
    return {longest: target}


def _is_part(name: str, text: str) -> bool:
    """Whether a name is one of the words of a text, or several."""
    letter = "[A-Za-z0-9]"
    return re.search(f"(?<!{letter}){re.escape(name)}(?!{letter})", text) is not None


def _by_patterns(given: dict[str, str], names: list[str]) -> dict[str, dict[str, str]]:
    """Name of a variable -> role -> name, by what fills the gap of each pattern."""
    roles_of: dict[str, dict[str, str]] = {}
    for role, text in given.items():
        for match in matches(f"--{role}", text, names):
            alone = role in ("points", "samples") and "{}" not in text
            roles_of.setdefault(match.name if alone else match.gaps[0], {})[role] = match.name
    incomplete = [name for name, roles in roles_of.items() if len(roles) < len(given)]
    if incomplete:
        raise ParameterError(
            f"the patterns do not fit each other: {incomplete[0]!r} has only "
            f"{listed(roles_of[incomplete[0]].values())}"
        )
    return roles_of


def _pairs(names: list[str]) -> dict[str, dict[str, str]]:
    """Means and spreads of one or more things by the ends of their names: t2m_mean and t2m_std."""
    weighing = [name for name in names if role_of(name) == "weights"]
    weights = {"weights": weighing[0]} if weighing else {}
    by_thing = pairs(names)
    if by_thing and len(weighing) > 1:
        raise ParameterError(
            f"{listed(weighing)} may each be the weights of the predictions; remove all but one"
        )
    for thing, roles in by_thing.items():
        for role, named in roles.items():
            if len(named) > 1:
                raise ParameterError(
                    f"{listed(named)} may each be the {role} of {thing!r}; remove all but one, or "
                    f"name the one that is meant: --loc {roles['loc'][0]} --scale "
                    f"{roles['scale'][0]}"
                )
    return {
        thing: {role: named[0] for role, named in roles.items()} | weights
        for thing, roles in by_thing.items()
    }


def _of_members(grid: Grid, layout: Layout, names: list[str]) -> dict[str, dict[str, str]]:
    """The variables along members, where no name says what it is; each is a prediction."""
    if any(role_of(name) is not None or is_spread(name) for name in names):
        return {}
    usual = (layout.member,) if layout.member else MEMBERS
    dataset = grid.dataset
    along_members = [n for n in names if any(str(dim).lower() in usual for dim in dataset[n].dims)]
    return {name: {"points": name} for name in along_members}


def _main_name(grid: Grid, layout: Layout) -> str:
    _, roles = _law_in(grid, layout)
    return next((roles[role] for role in ("points", "samples", "loc") if role in roles), "")


#: Roles that a parameter has under another name.
_PARAMETERS = {"points": "value", "samples": "values", "mixture": "weights", "weights": "member"}


def prediction_in(grid: Grid, layout: Layout) -> GridPrediction:
    """The prediction that the names in a grid stand for, with coordinates that can be written."""
    import xarray as xr

    from kuq.xarray.units import check_spread

    dataset = grid.dataset
    law, roles = _law_in(grid, layout)
    if layout.sample is not None and law not in ("samples", "points"):
        raise ParameterError(f"--draws is for draws, and the file holds {law} predictions")
    squared = is_variance("scale", roles.get("scale", ""))
    notes = [*grid.notes, *_missing(grid, roles.values())]
    for name in (*roles.values(), *([] if layout.target is None else [layout.target])):
        if name in grid.valid and grid.valid[name].is_told:
            notes.append(f"values of {name!r} are valid {grid.valid[name]}; others are missing")
    if squared:
        notes.append(f"{roles['scale']!r} is a variance; its square root is the scale")
    names = {_PARAMETERS.get(role, role): name for role, name in roles.items()}
    weights = _weights(grid, roles.pop("weights")) if "weights" in roles else None
    parameters = {"weights" if r == "mixture" else r: dataset[name] for r, name in roles.items()}
    if "scale" in parameters:
        check_spread(parameters["loc"], parameters["scale"])
    for name, variable in zip(roles.values(), parameters.values(), strict=True):
        as_doubles(name, np.empty(0, variable.dtype))
        if variable.size == 0:
            raise ShapeError(f"{name!r} is empty, with the dimensions {dict(variable.sizes)}")
    outcome = None if layout.target is None else dataset[layout.target]
    if outcome is not None:
        as_doubles(str(outcome.name), np.empty(0, outcome.dtype))
    with reading(grid.path):  # making a Dataset reads coordinates
        one = law in ("samples", "points")
        data: Any = parameters[law] if one else xr.Dataset(parameters, attrs=dataset.attrs)
        for coordinate in data.coords.values():
            check_memory(grid.path, coordinate.nbytes, "leave out large coordinates")
            coordinate.variable.load()
    _check_names(grid.path, (*data.dims, *data.coords))
    for name in [
        name for name, c in data.coords.items() if not _is_plain(np.asarray(c.values), grid.path)
    ]:
        notes.append(f"the coordinate {name!r} holds no numbers, text or times and is left out")
        data = data.drop_vars(name)
    return GridPrediction(data, weights, squared, tuple(notes), outcome, names)


def check_outcome(outcome: xr.DataArray, layout: NamedLayout, dims: Iterable[Hashable]) -> None:
    """What happened has the dimensions of the inputs and all of one outcome, and no others."""
    prediction_dims = {layout.member, layout.sample, layout.trailing}
    expected = [dim for dim in dims if dim not in prediction_dims]
    if not set(layout.event) <= set(outcome.dims) <= set(expected):
        strange = [dim for dim in outcome.dims if dim not in expected]
        lacking = [dim for dim in expected if dim not in outcome.dims]
        pairs = ", ".join(f"{b!r}: {a!r}" for a, b in zip(lacking, strange, strict=False))
        same = f"; if these are the same, rename({{{pairs}}}) names them so" if pairs else ""
        raise ShapeError(
            f"the target {str(outcome.name)!r} has the dimensions {list(outcome.dims)}, and needs "
            f"those of what is predicted: {[str(dim) for dim in expected]}{same}"
        )


def _weights(grid: Grid, name: str) -> xr.DataArray:
    """The weights of members, which are few; which members they belong to is checked later."""
    weights = grid.dataset[name]
    if weights.ndim != 1:
        raise ShapeError(f"{name!r} must lie along the members, got dimensions {weights.dims}")
    with reading(grid.path):
        check_memory(grid.path, weights.nbytes, "weights lie along the members")
        return weights.copy(data=as_doubles(name, weights.values))


def _check_names(path: Path, names: tuple[Hashable, ...]) -> None:
    for name in names:
        if not isinstance(name, str):
            raise ParameterError(f"{path} has a dimension {name!r}; names are text")
        if name in PARTS:
            raise ParameterError(
                f"{path} has a coordinate or dimension {name!r}, as the result is called; rename it"
            )


def _is_plain(value: Any, path: Path) -> bool:
    """Whether a coordinate or attribute can be written into a file of the same format."""
    if path.suffix.lower() == ".zarr" and not isinstance(value, np.ndarray):
        return True  # JSON, as it came
    if isinstance(value, str):
        return value.isascii() or value.encode(errors="ignore").decode() == value
    if isinstance(value, np.ndarray) and value.dtype.kind in "OT":
        return all(isinstance(v, (str, bytes)) or hasattr(v, "calendar") for v in value.flat)
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind in ("fiubSUMm" if isinstance(value, np.ndarray) else "fiuSU")
    return isinstance(value, (int, float)) or (
        isinstance(value, (list, tuple)) and all(_is_plain(v, path) for v in value)
    )


def _law_in(grid: Grid, layout: Layout) -> tuple[str, dict[str, str]]:
    """A single variable is the prediction, unless its name says that it is something else."""
    names = [str(n) for n in grid.dataset.data_vars if not _is_target(str(n), layout.target)]
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


def _missing(grid: Grid, names: Iterable[str]) -> Iterator[str]:
    """What a store says by leaving chunks out: each of their values is the fill value."""
    for name in names:
        stored = grid.stored.get(name)
        if stored is not None and stored.present < stored.chunks:
            yield (
                f"{stored.chunks - stored.present} of {stored.chunks} chunks of {name!r} are not "
                f"stored; all of their values count as the fill value {stored.fill}"
            )


@dataclass(frozen=True)
class Doubles:
    """A variable of a file as Dask asks for it: piece by piece, in double precision."""

    path: Path
    variable: xr.Variable
    name: str
    squared: bool
    role: str = "samples"
    nan_policy: str | None = "propagate"
    #: Coordinates along dimensions, where they have some.
    labels: Mapping[Hashable, np.ndarray] = field(default_factory=dict)
    #: Whether outcomes have cells.
    of_fields: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.variable.shape

    @property
    def ndim(self) -> int:
        return self.variable.ndim

    @property
    def dtype(self) -> np.dtype[np.float64]:
        return np.dtype(np.float64)

    def _place(self, key: Any, shape: tuple[int, ...]) -> Callable[[int], str]:
        """Says where in the file an entry of a piece is."""
        from kuq.xarray.missing import label

        keys = key if isinstance(key, tuple) else (key,)
        starts = [(one.start or 0) if isinstance(one, slice) else 0 for one in keys]

        def said(at: int) -> str:
            index = np.unravel_index(at, shape)
            named = zip(self.variable.dims, index, starts, strict=False)
            places = {dim: int(i) + start for dim, i, start in named}
            return ", ".join(
                f"{dim} {label(self.labels[dim][at]) if dim in self.labels else at}"
                for dim, at in places.items()
            )

        return said

    def __getitem__(self, key: Any) -> np.ndarray:
        with reading(self.path):
            values = self.variable[key].values
        values = as_doubles(self.name, values)
        policy = self.nan_policy or "propagate"
        place = self._place(key, values.shape)
        check_values(self.role, self.name, values, policy, place, self.of_fields)
        return as_scale(self.name, values) if self.squared else values
