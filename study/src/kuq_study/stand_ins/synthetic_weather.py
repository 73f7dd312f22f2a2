"""A small made-up atmosphere: travelling waves carry air over land, sea and mountains.

Temperature at 850 hPa is carried by the wind of a stream function made of Rossby waves on a mean
flow, against a temperature that falls towards the pole, and mixed by diffusion. Surface
temperature follows it with the lapse rate over orography, is held back over the sea, and over land
warms by day and cools by night under clouds that drift with the wind. Nothing of the clouds is in
the input, and the air beyond the edge of the window is not seen: both make for real, uneven
uncertainty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates

from kuq.datasets.weather import Region
from kuq_study.stand_ins.geography import Geography, random_field

Map: TypeAlias = NDArray[np.floating[Any]]

#: Metres per degree of latitude, the middle latitude, the Coriolis parameter there and its change
#: per metre towards the pole.
DEGREE, MIDDLE, CORIOLIS, BETA = 111_200.0, 55.0, 1.2e-4, 1.3e-11
#: Metres of the strongest waves.
LONG = 3.0e6
#: Seconds of a step of the air, the hours in it, and seconds over which air forgets.
AIR_STEP, HOURS, MEMORY = 10_800.0, 3, 3 * 86_400.0
#: Kelvin per kilometre of height; kelvin per hour that the ground loses under a clear sky; hours
#: over which it gives its warmth to the air.
LAPSE, COOLING, RESPONSE = 5.5, 0.35, 7.0
#: Cells around the window that are simulated but not shown.
HALO = 12
#: Steps that are thrown away at the start, so that fronts have formed: three days.
SPIN_UP = 24


@final
@dataclass(frozen=True)
class Climate:
    """What makes the weather of a region.

    ``mean`` is the yearly mean temperature in kelvin at 55° N and ``season`` half its range;
    ``gradient`` is its fall per degree towards the pole; ``jet`` and ``waves`` are the mean and the
    spread of the wind in m/s; ``mixing`` is the diffusion of warmth in m²/s; ``sunshine`` is what
    the sun in the zenith adds to bare land in kelvin per hour; ``noise`` is the spread of what
    cannot be foreseen, in kelvin.
    """

    region: Region
    mean: float = 281.0
    season: float = 9.0
    gradient: float = 0.75
    jet: float = 9.0
    waves: float = 8.0
    mixing: float = 4e4
    sunshine: float = 2.2
    noise: float = 0.25


def simulated(
    climate: Climate, ground: Geography, generator: np.random.Generator, frames: int
) -> Map:
    """States (frames, 5, height, width), 6 hours apart: U10, V10, T2M, T850, Z500 in their units.

    Rows run from north to south; the first frame is at 0 UTC of a day drawn by chance.
    """
    shape = ground.mask.shape
    air = _Air.drawn(climate, (shape[0], shape[1]), generator)
    surface = _Surface.below(air, ground, day=int(generator.integers(365)))
    states = np.empty((frames, 5, *shape))
    warmth: Map = np.zeros(shape)
    local = random_field(generator, air.waves.shape, steepness=1.2)
    for step in range(-SPIN_UP, 2 * frames - 1):
        hour = step * HOURS
        if step >= 0 and step % 2 == 0:
            weather = climate.noise * air.waves.inside(local)
            states[step // 2] = surface.state(air, warmth, weather)
        air = air.advanced()
        for k in range(HOURS):
            warmth = surface.warmed(air, warmth, hour + k + 0.5)
        fresh = random_field(generator, air.waves.shape, steepness=1.2)
        local = np.sqrt(0.5) * (local + fresh)
    return states


@final
@dataclass(frozen=True, eq=False)
class _Waves:
    """A stream function of Rossby waves, known at all times, on a periodic window with its halo."""

    climate: Climate
    shape: tuple[int, int]
    degrees: tuple[float, float]
    metres: tuple[float, float]
    north: Map
    east: Map
    spectrum: NDArray[np.complex128]

    @classmethod
    def drawn(
        cls, climate: Climate, window: tuple[int, int], generator: np.random.Generator
    ) -> _Waves:
        region = climate.region
        shape = (window[0] + 2 * HALO, window[1] + 2 * HALO)
        degrees = (
            (region.north - region.south) / window[0],
            (region.east - region.west) / window[1],
        )
        narrowing = np.cos(np.radians((region.north + region.south) / 2))
        metres = (degrees[0] * DEGREE, float(degrees[1] * DEGREE * narrowing))
        north = -2 * np.pi * np.fft.fftfreq(shape[0], metres[0])[:, None]
        east = 2 * np.pi * np.fft.rfftfreq(shape[1], metres[1])[None]
        size = np.hypot(north, east)
        length = 2 * np.pi / np.where(size > 0, size, np.inf)
        # Mostly waves between 2000 and 4500 km.
        strength = np.exp(-0.5 * (np.log(np.maximum(length, 1.0) / LONG) / 0.4) ** 2)
        spectrum = np.fft.rfft2(generator.standard_normal(shape)) * strength
        wind = np.fft.irfft2(1j * east * spectrum, s=shape)
        scaled = spectrum * (climate.waves / wind.std())
        return cls(climate, shape, degrees, metres, north, east, scaled)

    def _stream(self, time: float) -> NDArray[np.complex128]:
        """Each wave runs with the mean flow, the long ones slower: the dispersion of Rossby."""
        squared = self.north**2 + self.east**2
        drift = self.climate.jet - BETA / np.where(squared > 0, squared, np.inf)
        turned: NDArray[np.complex128] = self.spectrum * np.exp(-1j * self.east * drift * time)
        return turned

    def winds(self, time: float) -> tuple[Map, Map]:
        """Eastward and northward wind of the free air."""
        stream = self._stream(time)
        east = self.climate.jet + np.fft.irfft2(-1j * self.north * stream, s=self.shape)
        return east, np.fft.irfft2(1j * self.east * stream, s=self.shape)

    def geopotential(self, time: float) -> Map:
        """That of the waves, on a slope towards the pole that balances the mean flow."""
        slope = self.climate.jet * DEGREE * (self.latitudes() - MIDDLE)
        field: Map = CORIOLIS * (np.fft.irfft2(self._stream(time), s=self.shape) - slope)
        return field

    def latitudes(self) -> Map:
        """Of the rows, as a column."""
        rows = np.arange(self.shape[0])[:, None] - HALO + 0.5
        column: Map = self.climate.region.north - rows * self.degrees[0]
        return column

    def inside(self, field: Map) -> Map:
        """The window of a field."""
        return field[HALO:-HALO, HALO:-HALO]


@final
@dataclass(frozen=True, eq=False)
class _Air:
    """What the wind carries: temperature at 850 hPa beside its mean, and clouds."""

    waves: _Waves
    temperature: Map
    cloud: Map
    time: float

    @classmethod
    def drawn(
        cls, climate: Climate, window: tuple[int, int], generator: np.random.Generator
    ) -> _Air:
        waves = _Waves.drawn(climate, window, generator)
        temperature = 3.0 * random_field(generator, waves.shape, steepness=1.8)
        return cls(waves, temperature, random_field(generator, waves.shape, steepness=1.5), 0.0)

    def advanced(self) -> _Air:
        """One step later: each value comes from where the air was before."""
        waves = self.waves
        east, north = waves.winds(self.time + AIR_STEP / 2)
        down, right = -north * AIR_STEP / waves.metres[0], east * AIR_STEP / waves.metres[1]
        rows, columns = np.indices(waves.shape, dtype=float)
        # The midpoint rule: the wind is taken half-way along the path.
        half_way = [rows - down / 2, columns - right / 2]
        down = map_coordinates(down, half_way, order=1, mode="grid-wrap")
        right = map_coordinates(right, half_way, order=1, mode="grid-wrap")
        origin = [rows - down, columns - right]
        temperature = map_coordinates(self.temperature, origin, order=3, mode="grid-wrap")
        # Air that comes from farther south (from rows farther down) is warmer.
        temperature -= waves.climate.gradient * waves.degrees[0] * down
        cloud = map_coordinates(self.cloud, origin, order=3, mode="grid-wrap")
        squared = waves.north**2 + waves.east**2
        kept = np.exp(-AIR_STEP * (1 / MEMORY + waves.climate.mixing * squared))
        temperature = np.fft.irfft2(kept * np.fft.rfft2(temperature), s=waves.shape)
        return _Air(waves, temperature, cloud, self.time + AIR_STEP)


@final
@dataclass(frozen=True, eq=False)
class _Surface:
    """What lies below the air on one day of the year: land, sea, and the sun on them."""

    climate: Climate
    ground: Geography
    latitudes: Map
    longitudes: Map
    day: int

    @classmethod
    def below(cls, air: _Air, ground: Geography, day: int) -> _Surface:
        climate, waves = air.waves.climate, air.waves
        columns = np.arange(ground.mask.shape[1])[None] + 0.5
        longitudes = climate.region.west + columns * waves.degrees[1]
        return cls(climate, ground, waves.latitudes()[HALO:-HALO], longitudes, day)

    def sun(self, hour: float) -> Map:
        """The sine of the sun's elevation at an hour of UTC, 0 at night."""
        tilt = np.radians(23.4) * np.sin(2 * np.pi * (self.day + hour / 24 - 81) / 365)
        angle = np.radians(15 * (hour - 12) + self.longitudes)
        latitude = np.radians(self.latitudes)
        height = np.sin(latitude) * np.sin(tilt) + np.cos(latitude) * np.cos(tilt) * np.cos(angle)
        above: Map = np.maximum(height, 0.0)
        return above

    def warmed(self, air: _Air, warmth: Map, hour: float) -> Map:
        """How much warmer than the air the surface is an hour later, in kelvin."""
        overcast = 1 / (1 + np.exp(-2.0 * air.waves.inside(air.cloud)))
        exchange = (self.climate.sunshine * self.sun(hour) - COOLING) * (1 - 0.6 * overcast)
        response = 0.06 + 0.94 * self.ground.mask
        kept = np.exp(-1 / RESPONSE)
        later: Map = kept * warmth + (1 - kept) * RESPONSE * response * exchange
        return later

    def state(self, air: _Air, warmth: Map, weather: Map) -> Map:
        """U10, V10, T2M, T850, Z500 over the window; ``weather`` is added to T2M."""
        climate, land = self.climate, self.ground.mask
        kilometres = self.ground.orography / 1000
        season = -climate.season * np.cos(2 * np.pi * (self.day - 20) / 365)
        poleward = climate.gradient * (self.latitudes - MIDDLE)
        upper = climate.mean - 7.5 + season - poleward + air.waves.inside(air.temperature)
        at_ground = upper + LAPSE * (1.5 - kilometres)
        sea = climate.mean + 2.0 + 0.5 * season - 0.6 * poleward
        follows = 0.45 + 0.55 * land
        surface = follows * at_ground + (1 - follows) * sea + warmth + weather
        east, north = (air.waves.inside(wind) for wind in air.waves.winds(air.time))
        # Friction slows the wind at the ground and turns it towards low pressure.
        slowed = (0.75 - 0.3 * land) / (1 + 0.4 * kilometres)
        turn = np.radians(12 + 15 * land)
        u10 = slowed * (np.cos(turn) * east - np.sin(turn) * north)
        v10 = slowed * (np.sin(turn) * east + np.cos(turn) * north)
        height = air.waves.inside(air.waves.geopotential(air.time)) + 53_800 + 150 * season
        return np.stack([u10, v10, surface, upper, height])
