"""Made-up land: coasts and mountains that look like those of a middle latitude.

All geographies have the same share of land and the same heights; only where they lie differs. So
land-sea mask and orography have one distribution of values for every seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

Map: TypeAlias = NDArray[np.floating[Any]]

#: The share of the area that is land, in both regions.
LAND = 0.6
#: Metres of the highest mountain, and how fast heights fall off from it.
PEAK = 2600.0
STEEPNESS = 3.0


@final
@dataclass(frozen=True)
class Geography:
    """Land-sea mask (share of land, 0 to 1) and orography (metres), rows from north to south."""

    mask: Map
    orography: Map


def geography(seed: int, shape: tuple[int, int]) -> Geography:
    """The geography of ``seed``: one continent's edge with bays, islands and a mountain range."""
    generator = np.random.default_rng([seed, 77])
    ground = random_field(generator, shape, steepness=1.9)
    height, width = shape
    north, east = np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij")
    angle = generator.uniform(-np.pi, np.pi)
    ground = ground + 0.9 * (np.cos(angle) * east + np.sin(angle) * north)
    rank = _ranks(ground)
    # The coast is as wide as a grid cell: a cell can be half land, as in reanalyses.
    mask = np.clip((rank - (1 - LAND)) / 0.03 + 0.5, 0, 1)
    ridge = -np.abs(random_field(generator, shape, steepness=2.0))
    inland = np.clip((rank - (1 - LAND)) / LAND, 0, 1)
    relief = _ranks(np.where(inland > 0, ridge + 0.6 * inland, -np.inf))
    orography = PEAK * np.clip((relief - (1 - LAND)) / LAND, 0, 1) ** STEEPNESS
    return Geography(mask, orography)


def random_field(generator: np.random.Generator, shape: tuple[int, int], steepness: float) -> Map:
    """A smooth random field, periodic, with mean 0 and variance 1 on average over the area.

    Its amplitude falls off as wavenumber^−steepness; 2 and more is smooth, 1 is rough.
    """
    rows, columns = shape
    wave = np.hypot(
        np.fft.fftfreq(rows)[:, None] * max(shape), np.fft.rfftfreq(columns)[None] * max(shape)
    )
    amplitude = np.where(wave > 0, np.maximum(wave, 1.0) ** -steepness, 0.0)
    field = np.fft.irfft2(np.fft.rfft2(generator.standard_normal(shape)) * amplitude, s=shape)
    normalised: Map = field / field.std()
    return normalised


def _ranks(values: Map) -> Map:
    """The rank of each value in (0, 1): the same numbers in another order, whatever the values."""
    order = np.argsort(values, axis=None, kind="stable")
    ranks = np.empty(values.size)
    ranks[order] = (np.arange(values.size) + 0.5) / values.size
    return ranks.reshape(values.shape)
