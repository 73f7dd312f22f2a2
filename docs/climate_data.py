"""Make docs/data/north-america.nc, the climate model runs of a tutorial, from their source.

    pip install iris-sample-data
    python -m docs.climate_data FOLDER     # the folder sample_data of that package

The source has annual mean air temperatures near the surface over North America of 1860 to 2099,
from the Met Office's climate model under the scenarios A1B and E1. Kept are three decades, as means
over two by two cells, rounded to 0.01 K. © British Crown copyright 2018, the Met Office; contains
public sector information licensed under the Open Government Licence v3.0, which permits an extract.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import xarray as xr

TARGET = Path(__file__).parent / "data" / "north-america.nc"
SCENARIOS = ("A1B", "E1")
FIRST_YEAR, DECADES = 1860, (2010, 2050, 2090)
LICENCE = (
    "© British Crown copyright 2018, the Met Office. Contains public sector information licensed "
    "under the Open Government Licence v3.0, "
    "http://www.nationalarchives.gov.uk/doc/open-government-licence/version/3/"
)


def extract(folder: Path) -> xr.Dataset:
    """The temperatures along scenario, decade, year of the decade, and cells of a coarser grid."""
    scenarios = []
    for name in SCENARIOS:
        source = xr.load_dataset(folder / f"{name}_north_america.nc", decode_times=False)
        yearly = source.air_temperature
        coarse = yearly.coarsen(latitude=2, longitude=2, boundary="trim").mean()
        decades = [
            coarse.isel(time=slice(first - FIRST_YEAR, first - FIRST_YEAR + 10))
            .drop_vars([name for name in coarse.coords if "itude" not in str(name)])
            .rename(time="year")
            for first in DECADES
        ]
        scenarios.append(xr.concat(decades, "decade"))
    whole = xr.concat(scenarios, "scenario").transpose("scenario", "decade", "year", ...)
    whole = whole.assign_coords(
        scenario=list(SCENARIOS), decade=list(DECADES), longitude=whole.longitude - 360.0
    )
    whole.longitude.attrs |= {"units": "degrees_east"}
    whole.attrs = {"units": "K", "long_name": "air temperature near the surface"}
    source_of = "iris-sample-data 2.5.2 (A1B_north_america.nc, E1_north_america.nc), PyPI"
    return xr.Dataset({"temperature": whole}, attrs={"source": source_of, "license": LICENCE})


if __name__ == "__main__":
    packed = {"dtype": "int16", "scale_factor": 0.01, "add_offset": 280.0, "zlib": True}
    packed |= {"complevel": 9, "_FillValue": np.int16(-32768), "shuffle": True}
    data = extract(Path(sys.argv[1]))
    data.to_netcdf(TARGET, engine="h5netcdf", encoding={"temperature": packed})
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")
