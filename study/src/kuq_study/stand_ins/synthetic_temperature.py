"""Surface temperature 6 hours ahead without any download: a made-up atmosphere over made-up land.

A synthetic stand-in for ERA5, with the same 12 channels and target. An earlier design could not be
learned. Why was measured by a small net (two hidden layers of 16 channels, 400 steps on 240 rows of
24 × 32), as the ratio of its squared error to that of persistence:

- winds of a quarter, half a cell in 6 hours, and no channel free of the daily cycle: 0.98. Little
  but that cycle is left, and two states 6 hours apart do not tell its phase: after a quarter of a
  day it goes on by −T(t) − T(t−6h), measured from a zero line that nothing shows;
- the same, with the hour of the day as channels: 0.18. So the phase is the cause, not the noise and
  not the length of training;
- winds of 2 cells in 6 hours, as here, but T850 hidden: 0.48;
- as here, 0.31: T850 is carried by the wind alone, so T2M − T850 shows the phase at every point,
  and wind times gradient is most of the change. No channel for the hour is needed.

Static channels can tell two fixed regions apart whatever a model has learned, here and in ERA5.
Both regions have the same share of land and the same heights here, arranged differently, and
``statics="shared"`` gives both the same map, so that only the weather differs: colder, with
stronger seasons, winds, gradients and sun, and another hour of local time at the same UTC. The
spread of three such nets tells the twin from test rows with an AUROC of 0.33 after 20 steps,
without skill, and of 0.97 after 400; with shared statics of 0.77; and other land under the same
weather with 0.54.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kuq._ranges import Count
from kuq.datasets.base import Dataset
from kuq.datasets.weather import (
    CHANNELS,
    EUROPE,
    NORTH_AMERICA,
    TEMPERATURE,
    Field,
    channel_facts,
    standardised_states,
    standardised_statics,
)
from kuq.errors import ParameterError
from kuq_study.stand_ins.geography import Geography, geography
from kuq_study.stand_ins.stand_in import Rows, Side, check_sizes, made_once
from kuq_study.stand_ins.synthetic_weather import Climate, simulated

#: Rows of training, validation, test and shifted data.
SIZES = (960, 120, 240, 240)
#: Height and width: one degree of latitude and of longitude, nearly.
SHAPE = (40, 56)
#: Rows from one stretch of weather: three days.
STRETCH = 12

INSIDE = Climate(EUROPE)
OUTSIDE = Climate(
    NORTH_AMERICA,
    mean=278.0,
    season=11.0,
    gradient=0.85,
    jet=11.0,
    waves=9.0,
    sunshine=2.6,
)


def load_synthetic_temperature(
    data_dir: Path | None = None,
    seed: int = 0,
    *,
    sizes: tuple[Count, Count, Count, Count] = SIZES,
    shape: tuple[Side, Side] = SHAPE,
    target: str = "change",
    statics: str = "own",
) -> Dataset:
    """A made-up Europe (training, validation, test) and a made-up North America (shifted).

    Inputs x are (n, 12, height, width), standardised by the fixed numbers of the real data; targets
    y (n, height, width) in kelvin: the change of T2M over 6 hours, or T2M itself with
    target="temperature". ``sizes`` are the rows of training, validation, test and shifted data.
    With statics="shared" the twin has the land and mountains of the first region. Row i of a
    split depends on ``seed`` and i alone. Everything is made here on first use and
    cached: ``data_dir`` is not looked at.
    """
    check_sizes(sizes, shape)
    if target not in ("change", "temperature"):
        raise ParameterError(f'target must be "change" or "temperature", got {target!r}')
    if statics not in ("own", "shared"):
        raise ParameterError(f'statics must be "own" or "shared", got {statics!r}')
    here = geography(0, shape)
    there = here if statics == "shared" else geography(1, shape)
    places = ((INSIDE, here),) * 3 + ((OUTSIDE, there),)
    train, validation, test, shifted = (
        made_once(
            "temperature-synthetic",
            {"seed": seed, "part": part, "target": target, "statics": statics, **_facts(climate)},
            (count, len(CHANNELS) + 1, *shape),
            partial(forecasts, climate, ground, (seed, part), absolute=target == "temperature"),
            at_once=STRETCH,
        )
        for part, ((climate, ground), count) in enumerate(zip(places, sizes, strict=True))
    )
    return Dataset(
        name="temperature-synthetic",
        train=train,
        validation=validation,
        test=test,
        shifted=shifted,
        synthetic=True,
        units="K",
        provenance={
            "source": "synthetic: an atmosphere over land and sea, made up by kuq",
            "climate": _facts(INSIDE),
            "shifted climate": _facts(OUTSIDE),
            "statics": statics,
            "target": target,
            "channels": channel_facts(),
            "shown": "T2M(t)",
            "outline": "land-sea mask",
            "sizes": tuple(sizes),
            "shape": tuple(shape),
            "seed": seed,
        },
    )


def forecasts(
    climate: Climate,
    ground: Geography,
    seed: tuple[int, ...],
    rows: Rows,
    *,
    absolute: bool = False,
) -> Field:
    """Inputs, and as last channel the target, of rows in one stretch of weather.

    Row i is time i modulo STRETCH of the stretch that starts from (*seed, i // STRETCH).

    >>> forecasts(INSIDE, geography(0, (16, 24)), (0,), range(3)).shape
    (3, 13, 16, 24)
    """
    stretch, first = divmod(rows.start, STRETCH)
    states = simulated(climate, ground, np.random.default_rng([*seed, stretch]), STRETCH + 2)
    before, now, later = (slice(first + k, first + k + len(rows)) for k in range(3))
    scaled = standardised_states(states)
    surface = states[:, TEMPERATURE]
    block: Field = np.empty((len(rows), len(CHANNELS) + 1, *ground.mask.shape), dtype=np.float32)
    block[:, :5], block[:, 5:10] = scaled[before], scaled[now]
    block[:, 10:12] = standardised_statics(ground.mask, ground.orography)
    block[:, 12] = surface[later] - (0 if absolute else surface[now])
    return block


def _facts(climate: Climate) -> dict[str, Any]:
    return {**asdict(climate), "region": str(climate.region)}
