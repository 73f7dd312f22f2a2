"""Surface temperature 6 hours ahead: ERA5 from a WeatherBench2 Zarr store, read as it is used.

Inputs are the states 6 hours ago and now (U10, V10, T2M, T850, Z500) over Europe, with land-sea
mask and orography: 12 channels; the shifted twin is North America. The target is the change of
T2M over the next 6 hours. Kernel scores do not change when prediction and truth are moved by the
same amount, so the uncertainty is that of T2M itself; and a model starts from persistence
instead of having to learn it first.
"""

from __future__ import annotations

import os
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kuq._ranges import Count
from kuq.datasets.base import Dataset, Split
from kuq.datasets.era5 import ERA5, Grid, Inputs, Targets
from kuq.datasets.lazy_rows import lazy_rows
from kuq.datasets.weather import EUROPE, NORTH_AMERICA, channel_facts
from kuq.errors import InsufficientDataError, ParameterError

LEAD = np.timedelta64(6, "h")
#: Rows that are read at once: two days.
ROWS = 8

Years: TypeAlias = tuple[int, int]


def load_temperature(
    data_dir: str | os.PathLike[str] | None = None,
    seed: int = 0,
    *,
    store: str | None = None,
    stride: Count = 1,
    train_years: Years = (2011, 2018),
    validation_years: Years = (2019, 2020),
    test_years: Years = (2022, 2022),
    target: str = "change",
) -> Dataset:
    """ERA5 over Europe, shifted twin North America, as lazy Dask arrays.

    The store is ``data_dir`` or the one ``*.zarr`` in it, or ``store``: a name in that folder or
    an address (``kuq.datasets.era5.SOURCE``). Inputs x are (n, 12, height, width), each channel
    standardised by fixed numbers (``provenance["channels"]``); targets y (n, height, width) in
    kelvin: the change of T2M over 6 hours, or T2M itself with target="temperature". Rows of
    pixels run from north to south. ``stride=2`` keeps every second grid point. Years are first
    and last; the times t−6h, t and t+6h of a row lie in the same years. Rows are in order of time
    and nothing is drawn, so ``seed`` changes nothing.
    """
    if target not in ("change", "temperature"):
        raise ParameterError(f'target must be "change" or "temperature", got {target!r}')
    if stride < 1:
        raise ParameterError(f"stride must be a positive whole number, got {stride}")
    years = {"train": train_years, "validation": validation_years, "test": test_years}
    era5 = ERA5.open(data_dir, store)
    here, there = era5.grid(EUROPE, stride), era5.grid(NORTH_AMERICA, stride)
    # On coarse grids one region can have a row more than the other; models want one size.
    height = min(len(here.latitudes), len(there.latitudes))
    width = min(len(here.longitudes), len(there.longitudes))
    here, there = here.cut(height, width), there.cut(height, width)
    triples = {name: _triples(era5, name, *span) for name, span in years.items()}

    absolute = target == "temperature"

    def split(grid: Grid, name: str) -> Split:
        return Split(
            x=lazy_rows(Inputs(era5, grid, triples[name]), ROWS),
            y=lazy_rows(Targets(era5, grid, triples[name], absolute), ROWS),
        )

    return Dataset(
        name="temperature",
        train=split(here, "train"),
        validation=split(here, "validation"),
        test=split(here, "test"),
        shifted=split(there, "test"),
        synthetic=False,
        units="K",
        provenance={
            "source": "ERA5 by WeatherBench2",
            "store": era5.place,
            "regions": (str(EUROPE), str(NORTH_AMERICA)),
            "years": years,
            "stride": stride,
            "target": target,
            "channels": channel_facts(),
            "shown": "T2M(t)",
            "outline": "land-sea mask",
            "seed": seed,
        },
    )


def temperature_digest(
    data_dir: str | os.PathLike[str] | None, *, store: str | None = None, **_: object
) -> str:
    """The digest of the store that ``load_temperature`` reads, empty for an address."""
    return ERA5.digest(data_dir, store)


def _triples(era5: ERA5, name: str, first: int, last: int) -> NDArray[np.int64]:
    """Indices (n, 3) of t − 6 h, t and t + 6 h in the store, for all t at 0, 6, 12 and 18 UTC.

    A time that is missing in the store takes with it the rows that need it.
    """
    times = era5.times
    start, end = np.datetime64(str(first), "ns"), np.datetime64(str(last + 1), "ns")
    six_hourly = (times - times.astype("datetime64[D]")) % LEAD == np.timedelta64(0)
    inside = np.flatnonzero((times >= start) & (times < end) & six_hourly)
    where = {moment: k for k, moment in zip(inside.tolist(), times[inside], strict=True)}
    triples = [
        (where[moment - LEAD], k, where[moment + LEAD])
        for moment, k in where.items()
        if moment - LEAD in where and moment + LEAD in where
    ]
    if not triples:
        span = f"from {times.min()} to {times.max()}" if times.size else "none"
        raise InsufficientDataError(
            f"the years {first}..{last} for {name} have no three times in a row with 6 hours "
            f"between them; the store {era5.place} has times {span}. Get those years, or choose "
            f"others by {name}_years"
        )
    return np.array(triples, dtype=np.int64)
