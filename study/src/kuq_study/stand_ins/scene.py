"""Scenes of boxes and ellipsoids in front of a camera, and where its rays meet them.

Axes: x to the right, y forward, z up, in metres. The surroundings are a box seen from inside (a
room); a side at infinity is open (the sky over a street).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from kuq_study.stand_ins.materials import Material

Pixels: TypeAlias = NDArray[np.floating[Any]]
Triple: TypeAlias = tuple[float, float, float]
#: Three arrays: the x, y and z parts of vectors, one per pixel.
Vectors: TypeAlias = tuple[Pixels, Pixels, Pixels]

#: How far a ray has to go before it can meet anything, in metres.
_START = np.float32(1e-3)


@final
@dataclass(frozen=True)
class Surface:
    """The colour of a thing and what it is made of."""

    colour: Triple
    material: Material = Material.PLAIN


def pick(generator: np.random.Generator, colours: Sequence[Triple]) -> Triple:
    """One of the colours by chance."""
    return colours[int(generator.integers(len(colours)))]


def close_to(generator: np.random.Generator, colour: Triple, spread: float = 0.05) -> Triple:
    """A colour by chance, close to ``colour``."""
    red, green, blue = np.clip(
        np.array(colour) + generator.normal(0, spread, 3), 0.03, 0.95
    ).tolist()
    return red, green, blue


@final
@dataclass(frozen=True)
class Solid:
    """A box, or the ellipsoid in it, turned by ``yaw`` about the vertical."""

    centre: Triple
    half: Triple
    yaw: float
    surface: Surface
    round: bool = False


@final
@dataclass(frozen=True)
class Camera:
    """A pinhole camera: ``yaw`` turns to the right, ``pitch`` up; ``focal`` in widths."""

    position: Triple
    yaw: float
    pitch: float
    focal: float


@final
@dataclass(frozen=True)
class Light:
    """A lamp at ``position`` whose light halves at ``reach`` metres, and light from everywhere."""

    position: Triple
    reach: float
    strength: float
    ambient: float
    colour: Triple = (1.0, 1.0, 1.0)
    flash: float = 0.0


@final
@dataclass(frozen=True)
class Scene:
    """All that a picture is made from; ``walls`` are west, east, south, north, floor, ceiling."""

    low: Triple
    high: Triple
    walls: tuple[Surface, Surface, Surface, Surface, Surface, Surface]
    solids: tuple[Solid, ...]
    camera: Camera
    light: Light
    haze: float = np.inf
    pattern: float = 0.0


@final
@dataclass(frozen=True)
class Bodies:
    """The solids of a batch of scenes as arrays (scenes, solids), padded by what no ray meets."""

    centre: Pixels
    half: Pixels
    cos: Pixels
    sin: Pixels
    round: NDArray[np.bool_]

    @classmethod
    def of(cls, scenes: Sequence[Scene]) -> Bodies:
        """Boxes and ellipsoids of ``scenes``, each scene's in their order."""
        most = max(1, *(len(scene.solids) for scene in scenes))
        centre = np.zeros((len(scenes), most, 3), dtype=np.float32)
        centre[...] = (0.0, 0.0, -1e6)
        half = np.ones_like(centre)
        yaw = np.zeros((len(scenes), most), dtype=np.float32)
        rounded = np.zeros((len(scenes), most), dtype=bool)
        for s, scene in enumerate(scenes):
            for k, solid in enumerate(scene.solids):
                centre[s, k], half[s, k] = solid.centre, solid.half
                yaw[s, k], rounded[s, k] = solid.yaw, solid.round
        return cls(centre, half, np.cos(yaw), np.sin(yaw), rounded)

    def __len__(self) -> int:
        return int(self.centre.shape[1])

    def inward(self, k: NDArray[np.intp] | int, vectors: Vectors) -> Vectors:
        """``vectors`` in the axes of the solids ``k`` (one for all pixels, or one per pixel)."""
        cos, sin = self._picked(self.cos, k), self._picked(self.sin, k)
        x, y, z = vectors
        return cos * x + sin * y, cos * y - sin * x, z

    def outward(self, k: NDArray[np.intp], vectors: Vectors) -> Vectors:
        """``vectors`` given in the axes of the solids ``k``, in the axes of the world."""
        cos, sin = self._picked(self.cos, k), self._picked(self.sin, k)
        x, y, z = vectors
        return cos * x - sin * y, sin * x + cos * y, z

    def relative(self, k: NDArray[np.intp] | int, points: Vectors) -> Vectors:
        """``points`` seen from the centres of the solids ``k``, in their axes."""
        centre = [self._picked(self.centre[..., axis], k) for axis in range(3)]
        x, y, z = (point - middle for point, middle in zip(points, centre, strict=True))
        return self.inward(k, (x, y, z))

    def halves(self, k: NDArray[np.intp] | int) -> Vectors:
        """Half the lengths of the solids ``k``."""
        x, y, z = (self._picked(self.half[..., axis], k) for axis in range(3))
        return x, y, z

    def crossing(self, k: int, origins: Vectors, rays: Vectors) -> tuple[Pixels, Pixels]:
        """Where rays enter and leave solid ``k`` of each scene; entry > exit where they miss."""
        origin, ray, half = self.relative(k, origins), self.inward(k, rays), self.halves(k)
        boxes = _through_box(origin, ray, half)
        if not self.round[:, k].any():
            return boxes
        balls = _through_ellipsoid(origin, ray, half)
        rounded = self.round[:, k, None]
        return np.where(rounded, balls[0], boxes[0]), np.where(rounded, balls[1], boxes[1])

    def first(self, origins: Vectors, rays: Vectors) -> tuple[Pixels, NDArray[np.intp]]:
        """How far the nearest solid is along each ray (infinity for none), and which it is."""
        nearest = np.full(rays[0].shape, np.inf, dtype=np.float32)
        which = np.full(rays[0].shape, -1, dtype=np.intp)
        for k in range(len(self)):
            entry, leave = self.crossing(k, origins, rays)
            seen = (entry < leave) & (entry > _START) & (entry < nearest)
            np.copyto(nearest, entry, where=seen)
            np.copyto(which, k, where=seen)
        return nearest, which

    def shade(self, points: Vectors, lamps: Vectors) -> NDArray[np.bool_]:
        """Whether a solid stands between ``points`` and ``lamps``."""
        x, y, z = (lamp - point for lamp, point in zip(lamps, points, strict=True))
        dark = np.zeros(points[0].shape, dtype=bool)
        for k in range(len(self)):
            entry, leave = self.crossing(k, points, (x, y, z))
            dark |= (entry < leave) & (leave > _START) & (entry < 1) & (entry > -1e3)
        return dark

    def _picked(self, table: Pixels, k: NDArray[np.intp] | int) -> Pixels:
        if isinstance(k, int):
            return table[:, k, None]
        return np.take_along_axis(table, k, axis=1)


def rays_of(scenes: Sequence[Scene], shape: tuple[int, int]) -> tuple[Vectors, Vectors]:
    """Origins (scenes, 1) and rays (scenes, pixels), as long as one metre of depth."""
    height, width = shape
    across = (np.arange(width, dtype=np.float32) + 0.5) / width - 0.5
    down = ((np.arange(height, dtype=np.float32) + 0.5) / height - 0.5) * (height / width)
    cameras = [scene.camera for scene in scenes]
    yaw, pitch, focal = (
        np.array([getattr(camera, name) for camera in cameras], dtype=np.float32)[:, None]
        for name in ("yaw", "pitch", "focal")
    )
    a = np.tile(across, height)[None] / focal
    b = -np.repeat(down, width)[None] / focal
    level = np.cos(pitch) - b * np.sin(pitch)
    rays = (
        a * np.cos(yaw) + level * np.sin(yaw),
        level * np.cos(yaw) - a * np.sin(yaw),
        np.sin(pitch) + b * np.cos(pitch),
    )
    position = np.array([camera.position for camera in cameras], dtype=np.float32)
    return (position[:, 0:1], position[:, 1:2], position[:, 2:3]), rays


def _through_box(origin: Vectors, ray: Vectors, half: Vectors) -> tuple[Pixels, Pixels]:
    entry = leave = None
    for o, d, h in zip(origin, ray, half, strict=True):
        inverse = 1 / _nonzero(d)
        middle, spread = -o * inverse, h * np.abs(inverse)
        near, far = middle - spread, middle + spread
        entry = near if entry is None else np.maximum(entry, near)
        leave = far if leave is None else np.minimum(leave, far)
    assert entry is not None
    assert leave is not None
    return entry, leave


def _through_ellipsoid(origin: Vectors, ray: Vectors, half: Vectors) -> tuple[Pixels, Pixels]:
    o = [x / h for x, h in zip(origin, half, strict=True)]
    d = [x / h for x, h in zip(ray, half, strict=True)]
    square = d[0] * d[0] + d[1] * d[1] + d[2] * d[2]
    slope = o[0] * d[0] + o[1] * d[1] + o[2] * d[2]
    rest = slope * slope - square * (o[0] * o[0] + o[1] * o[1] + o[2] * o[2] - 1)
    root = np.sqrt(np.maximum(rest, 0))
    # A ray that misses has no root: entry and exit fall together, which counts as a miss.
    return (-slope - root) / square, (-slope + root) / square


def _nonzero(values: Pixels) -> Pixels:
    return np.where(np.abs(values) < 1e-7, np.float32(1e-7), values)
