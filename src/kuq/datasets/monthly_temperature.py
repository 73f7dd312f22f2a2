"""Monthly surface air temperature of the NCEP-NCAR Reanalysis 1, which comes with kuq."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from kuq.datasets.weather import EUROPE, NORTH_AMERICA, Region
from kuq.errors import InsufficientDataError, ParameterError

Fields: TypeAlias = NDArray[np.float64]
#: The first and the last year, both included.
Years: TypeAlias = tuple[int, int]

REGIONS: dict[str, Region] = {"europe": EUROPE, "north_america": NORTH_AMERICA}
SOURCE = "NCEP-NCAR Reanalysis 1 (Kalnay et al., 1996), monthly means near the surface"
ACKNOWLEDGEMENT = (
    "NCEP-NCAR Reanalysis 1 data provided by the NOAA PSL, Boulder, Colorado, USA "
    "(https://psl.noaa.gov)"
)
LICENCE = "US government work, free to use with acknowledgement"


@final
@dataclass(frozen=True, eq=False)
class MonthlyTemperature:
    """Temperatures (months, 17, 23) of a region in °C, with their months and coordinates.

    ``time`` counts months (datetime64[M]) without a gap; ``latitude`` falls from north to south,
    ``longitude`` rises from west to east, both in degrees.
    """

    region: Region
    temperature: Fields
    time: NDArray[np.datetime64]
    latitude: Fields
    longitude: Fields

    @property
    def year(self) -> NDArray[np.int64]:
        """The year of each month."""
        return self.time.astype("datetime64[Y]").astype(np.int64) + 1970

    @property
    def calendar_month(self) -> NDArray[np.int64]:
        """The month of the year, from 0 for January to 11."""
        return self.time.astype(np.int64) % 12

    def months(self, years: Years) -> NDArray[np.int64]:
        """The places of the months of these years."""
        first, last = years
        if not self.year[0] <= first <= last <= self.year[-1]:
            raise ParameterError(
                f"years are the first and the last of {self.year[0]} to {self.year[-1]}, got "
                f"{tuple(years)}"
            )
        return np.flatnonzero((self.year >= first) & (self.year <= last))

    def climatology(self, years: Years) -> Fields:
        """The mean of each calendar month over these years, (12, 17, 23)."""
        places = self.months(years)
        month = self.calendar_month[places]
        if np.unique(month).size < 12:
            raise InsufficientDataError(
                f"a climatology needs every month of the year, which {tuple(years)} do not have"
            )
        kept = self.temperature[places]
        return np.stack([kept[month == number].mean(axis=0) for number in range(12)])

    def anomalies(self, climatology: Fields) -> Fields:
        """What is left of each month after ``climatology`` (12, 17, 23) is removed, in kelvin."""
        return np.asarray(self.temperature - climatology[self.calendar_month])


def monthly_temperature(region: str = "europe") -> MonthlyTemperature:
    """Monthly surface air temperature from January 1948 to February 2026 on a grid of 2.5°.

    ``region`` is "europe" (75° to 35° N, 12.5° W to 42.5° E) or "north_america" (70° to 30° N,
    125° to 70° W). NCEP-NCAR Reanalysis 1 data provided by the NOAA PSL, Boulder, Colorado, USA.

    >>> europe = monthly_temperature()
    >>> europe.temperature.shape, str(europe.time[-1])
    ((938, 17, 23), '2026-02')
    >>> normals = europe.climatology((1961, 1990))  # July less January, over the whole region
    >>> round(float(normals[6].mean() - normals[0].mean()), 1)
    16.0
    """
    if region not in REGIONS:
        raise ParameterError(f"region must be one of {list(REGIONS)}, got {region!r}")
    place = resources.files("kuq.datasets") / "ncep" / "monthly-air.npz"
    with place.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        return MonthlyTemperature(
            REGIONS[region],
            stored[region] / 100.0,
            np.datetime64("1948-01", "M") + stored["month"],
            stored[f"{region}_lat"].astype(np.float64),
            stored[f"{region}_lon"].astype(np.float64),
        )
