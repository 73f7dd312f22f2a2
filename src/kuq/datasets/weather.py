"""What the real and the synthetic temperature data share: regions, channels and their scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

Field: TypeAlias = NDArray[np.float32]


@final
@dataclass(frozen=True)
class Region:
    """A rectangle of latitudes [south, north) and longitudes [west, east), in degrees."""

    name: str
    south: float
    north: float
    west: float
    east: float

    def __str__(self) -> str:
        return f"{self.name} ({self.south}..{self.north} N, {self.west}..{self.east} E)"


EUROPE = Region("Europe", south=35.0, north=75.0, west=-12.5, east=42.5)
NORTH_AMERICA = Region("North America", south=30.0, north=70.0, west=-125.0, east=-70.0)


@final
@dataclass(frozen=True)
class Channel:
    """One variable of the input, its unit, and the fixed centre and scale that standardise it."""

    name: str
    unit: str
    centre: float
    scale: float

    def standardised(self, values: NDArray[Any]) -> Field:
        """(values − centre) / scale as float32."""
        scaled: Field = ((values - self.centre) / self.scale).astype(np.float32)
        return scaled


#: Round numbers of the middle latitudes instead of statistics: the same for both regions, nothing
#: leaks from test rows, and nothing has to be read before it is used.
DYNAMIC = (
    Channel("U10", "m/s", 0.0, 5.0),
    Channel("V10", "m/s", 0.0, 5.0),
    Channel("T2M", "K", 280.0, 10.0),
    Channel("T850", "K", 274.0, 10.0),
    Channel("Z500", "m²/s²", 54000.0, 2500.0),
)
STATIC = (
    Channel("land-sea mask", "share of land", 0.5, 0.5),
    Channel("orography", "m", 300.0, 500.0),
)
TEMPERATURE = 2

CHANNELS = (
    *(f"{channel.name}(t-6h)" for channel in DYNAMIC),
    *(f"{channel.name}(t)" for channel in DYNAMIC),
    *(channel.name for channel in STATIC),
)


def channel_facts() -> dict[str, tuple[float, float, str]]:
    """Centre, scale and unit of every channel of the input, by its name."""
    rows = (*DYNAMIC, *DYNAMIC, *STATIC)
    return {
        name: (channel.centre, channel.scale, channel.unit)
        for name, channel in zip(CHANNELS, rows, strict=True)
    }


def standardised_states(states: NDArray[Any]) -> Field:
    """``states`` (..., 5, height, width) in their units, as channels of the input."""
    scaled = [channel.standardised(states[..., k, :, :]) for k, channel in enumerate(DYNAMIC)]
    return np.stack(scaled, axis=-3)


def standardised_statics(mask: NDArray[Any], orography: NDArray[Any]) -> Field:
    """Land-sea mask and orography (height, width), as channels of the input."""
    return np.stack([STATIC[0].standardised(mask), STATIC[1].standardised(orography)])
