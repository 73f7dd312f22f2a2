"""Surface temperature of the next month from the last two: real fields that come with kuq.

Europe is the region of training, North America its shifted twin, both in the boxes of the paper.
Fields are anomalies: what is left of a month when the mean of its calendar month over the training
years is removed, cell by cell. With a climatology of its own, the twin shows its weather alone;
with that of Europe it also shows that it lies elsewhere. The training rows are the same in both
cases, so one model answers whether a shift is seen by its geography or by its weather.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from kuq.datasets.base import Dataset, Split
from kuq.datasets.monthly_temperature import (
    ACKNOWLEDGEMENT,
    LICENCE,
    SOURCE,
    Fields,
    MonthlyTemperature,
    Years,
    monthly_temperature,
)
from kuq.errors import InsufficientDataError, ParameterError

#: Channels of the input: centre, scale and unit.
CHANNELS = {
    "anomaly(t-2)": (0.0, 1.0, "K"),
    "anomaly(t-1)": (0.0, 1.0, "K"),
}


def load_reanalysis(
    data_dir: Path | None = None,
    seed: int = 0,
    *,
    train_years: Years = (1948, 2002),
    validation_years: Years = (2003, 2007),
    test_years: Years = (2008, 2026),
    climatology: str = "own",
) -> Dataset:
    """NCEP-NCAR Reanalysis 1 over Europe, shifted twin North America, as anomalies in kelvin.

    Inputs x (n, 2, 17, 23) are the months t−2 and t−1, targets y (n, 17, 23) month t. Years are
    first and last; the three months of a row lie in the same years. From both regions the
    climatology of the training years is removed: of either its ``"own"``, or with
    climatology="shared" that of Europe. ``rows["time"]`` of a split has its months t, ``grid``
    latitude and longitude. The data come with kuq, and nothing is drawn: ``data_dir`` and
    ``seed`` change nothing.
    """
    if climatology not in ("own", "shared"):
        raise ParameterError(f'climatology must be "own" or "shared", got {climatology!r}')
    years = {"train": train_years, "validation": validation_years, "test": test_years}
    _check_apart(years)
    here, there = monthly_temperature("europe"), monthly_temperature("north_america")
    normal = here.climatology(train_years)
    other = normal if climatology == "shared" else there.climatology(train_years)
    inside, outside = here.anomalies(normal), there.anomalies(other)
    return Dataset(
        name="reanalysis",
        train=_rows(here, inside, "train", train_years),
        validation=_rows(here, inside, "validation", validation_years),
        test=_rows(here, inside, "test", test_years),
        shifted=_rows(there, outside, "test", test_years),
        synthetic=False,
        units="K",
        provenance={
            "source": SOURCE,
            "licence": LICENCE,
            "acknowledgement": ACKNOWLEDGEMENT,
            "regions": [str(here.region), str(there.region)],
            "years": {name: f"{first} to {last}" for name, (first, last) in years.items()},
            "climatology": climatology,
            "channels": CHANNELS,
            "shown": "anomaly(t-1)",
            "seed": seed,
        },
    )


def _check_apart(years: dict[str, Years]) -> None:
    for (one, (first, last)), (two, (begin, end)) in itertools.combinations(years.items(), 2):
        if max(first, begin) <= min(last, end):
            raise ParameterError(
                f"{one}_years ({first}, {last}) and {two}_years ({begin}, {end}) overlap; a month "
                "must not be in two splits"
            )


def _rows(months: MonthlyTemperature, anomalies: Fields, name: str, years: Years) -> Split:
    """All t of these years whose two predecessors are of these years, too."""
    target = months.months(years)[2:]
    if target.size == 0:
        raise InsufficientDataError(f"{name}_years {tuple(years)} have fewer than three months")
    return Split(
        x=np.stack([anomalies[target - 2], anomalies[target - 1]], axis=1),
        y=anomalies[target],
        rows={"time": months.time[target]},
        grid={"latitude": months.latitude, "longitude": months.longitude},
    )
