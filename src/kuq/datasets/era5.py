"""A WeatherBench2 store of ERA5: opened without reading, checked, and read a few times at once.

Stores differ in the order of latitudes and of dimensions and in whether longitudes run from 0 to
360 or from −180 to 180; what comes out runs from north to south and from west to east.
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from kuq._digest import folder_digest
from kuq.datasets.cache import DataError, data_folder
from kuq.datasets.weather import (
    CHANNELS,
    TEMPERATURE,
    Field,
    Region,
    standardised_states,
    standardised_statics,
)
from kuq.errors import ShapeError

#: The store with 0.25° and 6 hours, readable without an account (needs gcsfs).
SOURCE = (
    "gs://weatherbench2/datasets/era5/1959-2023_01_10-wb13-6h-1440x721_with_derived_variables.zarr"
)
#: Names of the five variables of a state, with the pressure level in hPa.
STATE: tuple[tuple[str, int | None], ...] = (
    ("10m_u_component_of_wind", None),
    ("10m_v_component_of_wind", None),
    ("2m_temperature", None),
    ("temperature", 850),
    ("geopotential", 500),
)
#: What temperatures (K) and the geopotential at 500 hPa (m²/s²) can be on Earth, by number.
POSSIBLE = {2: (150.0, 350.0), 3: (150.0, 350.0), 4: (30_000.0, 70_000.0)}
MASK, OROGRAPHY = "land_sea_mask", "geopotential_at_surface"
#: Standard gravity, which turns geopotential into height.
GRAVITY = 9.80665


@final
@dataclass(frozen=True, eq=False)
class Grid:
    """The places of a region in a store: indices from north to south and from west to east."""

    region: Region
    latitudes: NDArray[np.int64]
    longitudes: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.latitudes), len(self.longitudes)

    @property
    def identity(self) -> tuple[object, ...]:
        return (str(self.region), self.latitudes, self.longitudes)

    def cut(self, height: int, width: int) -> Grid:
        """The south-western part of this size."""
        return Grid(self.region, self.latitudes[-height:], self.longitudes[:width])


@final
@dataclass(frozen=True, eq=False)
class ERA5:
    """An open store: where it is, its times, and its variables, none of which is read yet."""

    place: str
    variables: Any
    times: NDArray[np.datetime64]

    @classmethod
    def open(cls, data_dir: str | os.PathLike[str] | None, store: str | None) -> ERA5:
        """The store at the address ``store``, or of this name in ``data_dir``, or its only one."""
        place = _find(data_dir, store)
        variables = _open(place)
        _check_variables(variables, place)
        return cls(place, variables, variables["time"].values.astype("datetime64[ns]"))

    @classmethod
    def digest(cls, data_dir: str | os.PathLike[str] | None, store: str | None) -> str:
        """The digest of the files of a store on disk; an address stands for itself."""
        place = _find(data_dir, store)
        return "" if "://" in place else folder_digest(Path(place))

    def grid(self, region: Region, stride: int) -> Grid:
        """Where ``region`` lies in the store, with every ``stride``-th point."""
        latitudes = np.asarray(self.variables["latitude"].values, dtype=float)
        eastward = (self.variables["longitude"].values.astype(float) - region.west) % 360
        rows = np.flatnonzero((latitudes >= region.south) & (latitudes < region.north))
        columns = np.flatnonzero(eastward < region.east - region.west)
        rows = rows[np.argsort(latitudes[rows])][::stride][::-1]
        columns = columns[np.argsort(eastward[columns])][::stride]
        self._check_cover(region, latitudes[rows] - region.south, region.north - region.south)
        self._check_cover(region, eastward[columns], region.east - region.west)
        return Grid(region, rows, columns)

    def _check_cover(self, region: Region, offsets: NDArray[np.float64], extent: float) -> None:
        """Points at equal distances, from one edge of the region to the other."""
        steps = np.diff(np.sort(offsets))
        whole = len(steps) > 0 and np.allclose(steps, steps[0], rtol=1e-3)
        if not (whole and offsets.min() <= steps[0] and extent - offsets.max() <= 2 * steps[0]):
            raise ShapeError(
                f"the store {self.place} does not cover {region} by a regular grid; a copy of a "
                "part of WeatherBench2 must hold Europe and North America"
            )

    def read(self, k: int, moments: NDArray[np.int64], grid: Grid) -> NDArray[Any]:
        """Variable number ``k`` of a state at the times ``moments``, (times, height, width)."""
        name, level = STATE[k]
        array = self.variables[name].isel(time=moments)
        array = array if level is None else array.sel(level=level)
        values = _values(array, grid, ("time", "latitude", "longitude"))
        low, high = POSSIBLE.get(k, (-np.inf, np.inf))
        if values.min() < low or values.max() > high:
            raise DataError(
                f"{name!r} of {self.place} has values between {values.min():.4g} and "
                f"{values.max():.4g}, possible are {low:g} to {high:g}: it has another unit, or a "
                "part of it is missing and reads as 0"
            )
        return values

    def read_static(self, name: str, grid: Grid) -> NDArray[Any]:
        """A variable that never changes, (height, width)."""
        array = self.variables[name]
        array = array.isel(time=0) if "time" in array.dims else array
        return _values(array, grid, ("latitude", "longitude"))


@final
@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs (rows, 12, height, width) of triples of times: before, now and later."""

    era5: ERA5
    grid: Grid
    triples: NDArray[np.int64]
    dtype = np.dtype(np.float32)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.triples), len(CHANNELS), *self.grid.shape)

    @property
    def identity(self) -> tuple[object, ...]:
        return ("inputs", self.era5.place, *self.grid.identity, self.triples)

    def read(self, rows: NDArray[np.int64]) -> Field:
        """The rows of these numbers."""
        # Neighbouring rows share times: each is read once.
        moments, places = np.unique(self.triples[rows, :2], return_inverse=True)
        variables = [self.era5.read(k, moments, self.grid) for k in range(len(STATE))]
        states = standardised_states(np.stack(variables, axis=1))[places.reshape(-1, 2)]
        pairs = states.reshape(len(states), -1, *self.grid.shape)
        mask = self.era5.read_static(MASK, self.grid)
        orography = self.era5.read_static(OROGRAPHY, self.grid) / GRAVITY
        statics = standardised_statics(mask, orography)
        repeated = np.broadcast_to(statics, (len(pairs), *statics.shape))
        return np.concatenate([pairs, repeated], axis=1)


@final
@dataclass(frozen=True, eq=False)
class Targets:
    """T2M 6 hours later (rows, height, width) in kelvin, or its change till then."""

    era5: ERA5
    grid: Grid
    triples: NDArray[np.int64]
    absolute: bool
    dtype = np.dtype(np.float32)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.triples), *self.grid.shape)

    @property
    def identity(self) -> tuple[object, ...]:
        return ("targets", self.absolute, self.era5.place, *self.grid.identity, self.triples)

    def read(self, rows: NDArray[np.int64]) -> Field:
        """The rows of these numbers."""
        moments, places = np.unique(self.triples[rows, 1:], return_inverse=True)
        values = self.era5.read(TEMPERATURE, moments, self.grid)[places.reshape(-1, 2)]
        target: Field = values[:, 1] if self.absolute else values[:, 1] - values[:, 0]
        return target.astype(np.float32)


def _values(array: Any, grid: Grid, order: tuple[str, ...]) -> NDArray[Any]:
    place = {"latitude": grid.latitudes, "longitude": grid.longitudes}
    values: NDArray[Any] = array.isel(place).transpose(*order).values
    if not np.isfinite(values).all():
        raise DataError(
            f"{array.name!r} over {grid.region.name} has missing values: a part of the store was "
            "not copied, or not written yet"
        )
    return values


def _find(data_dir: str | os.PathLike[str] | None, store: str | None) -> str:
    if store is not None and "://" in store:
        return store
    folder = data_folder(None if data_dir is None else Path(data_dir))
    if folder is None:
        raise DataError(
            "a WeatherBench2 store is needed: give its folder (data_dir, or KUQ_DATA) or its "
            f"address (store), for example {SOURCE}"
        )
    if store is not None:
        if not (folder / store).is_dir():
            raise DataError(f"there is no store {store!r} in {folder}")
        return str(folder / store)
    if any((folder / name).exists() for name in (".zgroup", ".zmetadata", "zarr.json")):
        return str(folder)
    stores = sorted(path for path in folder.glob("*.zarr") if path.is_dir())
    if len(stores) != 1:
        raise DataError(
            f"{folder} must be a Zarr store or hold one folder NAME.zarr, found "
            f"{[path.name for path in stores]}; copy the two regions from {SOURCE}, or name one "
            "by store"
        )
    return str(stores[0])


def _open(place: str) -> Any:
    missing = [name for name in ("xarray", "zarr", "dask") if not importlib.util.find_spec(name)]
    if missing:
        raise DataError(
            f'reading {place} needs {" and ".join(missing)}: pip install "kuq[datasets]"'
        )
    import xarray

    folder = Path(place)
    # Without a summary of its metadata xarray would warn and read them one by one; it still can.
    scattered = (folder / ".zgroup").exists() and not (folder / ".zmetadata").exists()
    try:
        return xarray.open_zarr(place, chunks=None, consolidated=False if scattered else None)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise DataError(
            f"{place} cannot be opened as a Zarr store ({type(error).__name__}: {error}); is it "
            "whole? Addresses gs:// need gcsfs: pip install gcsfs"
        ) from error


def _check_variables(variables: Any, place: str) -> None:
    """All names, dimensions and levels that are needed are there."""
    names = [*(name for name, _ in STATE), MASK, OROGRAPHY]
    coordinates = ["time", "latitude", "longitude", "level"]
    lost = [name for name in (*names, *coordinates) if name not in variables]
    if lost:
        raise DataError(
            f"the store {place} has no {', '.join(lost)}; it has {', '.join(map(str, variables))}"
        )
    for name, level in (*STATE, (MASK, None), (OROGRAPHY, None)):
        dims = {"latitude", "longitude"}
        dims |= set() if name in (MASK, OROGRAPHY) else {"time"}
        dims |= set() if level is None else {"level"}
        have = set(variables[name].dims)
        if not dims <= have <= dims | {"time"}:
            raise ShapeError(
                f"{name!r} of {place} needs the dimensions {sorted(dims)}, got {sorted(have)}"
            )
        if level is not None and level not in variables["level"].values:
            raise DataError(
                f"{name!r} of {place} is needed at {level} hPa, the store has "
                f"{variables['level'].values.tolist()}"
            )
