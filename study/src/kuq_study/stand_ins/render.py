"""Pictures and depths of scenes: light, shadow, haze and the noise of a camera.

Many scenes are rendered at once with NumPy. A scene's picture depends on the scene alone, not on
those beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kuq_study.stand_ins.materials import Material, painted
from kuq_study.stand_ins.scene import Bodies, Pixels, Scene, Vectors, rays_of

#: Scenes that are rendered at once: their arrays stay in the cache.
BATCH = 8
#: Materials that shine by themselves.
_SHINING = (Material.WINDOW, Material.GLOW, Material.SKY)
#: The share of a pixel's light that falls on the two pixels beside it, along each axis.
_SPREAD = np.float32(0.12)


def render(scenes: Sequence[Scene], shape: tuple[int, int]) -> tuple[Pixels, Pixels]:
    """Pictures (n, 3, height, width) in [0, 1] and depths (n, height, width) in metres.

    Depth is measured along the axis of the camera; the open sky is infinitely far.
    """
    pictures = np.empty((len(scenes), 3, *shape), dtype=np.float32)
    depths = np.empty((len(scenes), *shape), dtype=np.float32)
    for start in range(0, len(scenes), BATCH):
        block = slice(start, start + BATCH)
        picture, far = _rendered(scenes[block], shape)
        pictures[block] = np.moveaxis(picture, -1, 1).reshape(-1, 3, *shape)
        depths[block] = far.reshape(-1, *shape)
    return _softened(pictures), depths


def _rendered(scenes: Sequence[Scene], shape: tuple[int, int]) -> tuple[Pixels, Pixels]:
    bodies = Bodies.of(scenes)
    origins, rays = rays_of(scenes, shape)
    near, which = bodies.first(origins, rays)
    wall, side = _surroundings(scenes, origins, rays)
    depth = np.minimum(near, wall)
    solid = near < wall
    reach = np.where(np.isfinite(depth), depth, np.float32(1e4))
    x, y, z = (o + reach * d for o, d in zip(origins, rays, strict=True))
    points = (x, y, z)
    normals, u, v = _surface_frame(bodies, np.where(solid, which, 0), points, solid, side)
    sky = ~np.isfinite(depth)
    heading = np.arctan2(rays[0], rays[1])
    rise = rays[2] / np.sqrt(rays[0] ** 2 + rays[1] ** 2 + rays[2] ** 2)
    pattern = _column([scene.pattern for scene in scenes])
    u = np.where(sky, heading + pattern, u)
    v = np.where(sky, rise, v)
    number = np.where(solid, which, len(bodies) + side)
    colour, material = _tables(scenes, len(bodies))
    rows = np.arange(len(scenes))[:, None]
    kinds = np.where(sky, np.int8(Material.SKY), material[rows, number])
    base = np.where(sky[..., None], _column_of_colours(scenes)[:, None], colour[rows, number])
    shown = painted(kinds.ravel(), u.ravel(), v.ravel(), base.reshape(-1, 3))
    lit = _light(scenes, bodies, points, normals, depth, rays, solid, side)
    lit = np.where(np.isin(kinds, _SHINING)[..., None], np.float32(1), lit)
    return _hazed(scenes, shown.reshape(*kinds.shape, 3) * lit, depth), depth


def _surroundings(
    scenes: Sequence[Scene], origins: Vectors, rays: Vectors
) -> tuple[Pixels, NDArray[np.intp]]:
    """How far the surroundings are along each ray, and which of the six sides is met."""
    nearest = np.full(rays[0].shape, np.inf, dtype=np.float32)
    side = np.zeros(rays[0].shape, dtype=np.intp)
    for axis, (o, d) in enumerate(zip(origins, rays, strict=True)):
        low = _column([scene.low[axis] for scene in scenes])
        high = _column([scene.high[axis] for scene in scenes])
        d = np.where(np.abs(d) < 1e-7, np.float32(1e-7), d)
        far = (np.where(d > 0, high, low) - o) / d
        closer = far < nearest
        np.copyto(nearest, far, where=closer)
        np.copyto(side, 2 * axis + (d > 0), where=closer)
    return nearest, side


def _surface_frame(
    bodies: Bodies,
    which: NDArray[np.intp],
    points: Vectors,
    solid: NDArray[np.bool_],
    side: NDArray[np.intp],
) -> tuple[Vectors, Pixels, Pixels]:
    """Unit normals towards the viewer's side, and two lengths along each surface."""
    local, half = bodies.relative(which, points), bodies.halves(which)
    reduced = [c / h for c, h in zip(local, half, strict=True)]
    axis = np.argmax(np.abs(reduced), axis=0)
    rounded = np.take_along_axis(bodies.round, which, axis=1)
    steep = [r / h for r, h in zip(reduced, half, strict=True)]
    size = np.sqrt(sum(s * s for s in steep)) + np.float32(1e-12)
    x, y, z = (
        np.where(rounded, s / size, np.where(axis == k, np.sign(r), 0)).astype(np.float32)
        for k, (s, r) in enumerate(zip(steep, reduced, strict=True))
    )
    outer = bodies.outward(which, (x, y, z))
    # Surroundings are seen from inside: their normals point away from their sides.
    inner = [np.where(side // 2 == k, 1 - 2 * (side % 2), 0).astype(np.float32) for k in range(3)]
    nx, ny, nz = (np.where(solid, o, i) for o, i in zip(outer, inner, strict=True))
    axis = np.where(solid, axis, side // 2)
    lx, ly, lz = (np.where(solid, c, point) for c, point in zip(local, points, strict=True))
    u = np.where(axis == 0, ly, lx)
    v = np.where(axis == 2, ly, lz)
    return (nx, ny, nz), u, v


def _light(
    scenes: Sequence[Scene],
    bodies: Bodies,
    points: Vectors,
    normals: Vectors,
    depth: Pixels,
    rays: Vectors,
    solid: NDArray[np.bool_],
    side: NDArray[np.intp],
) -> Pixels:
    """How much light of each colour falls on each point, (scenes, pixels, 3)."""
    lights = [scene.light for scene in scenes]
    x, y, z = (_column([light.position[axis] for light in lights]) for axis in range(3))
    px, py, pz = (p + np.float32(5e-3) * n for p, n in zip(points, normals, strict=True))
    dx, dy, dz = x - px, y - py, z - pz
    away = np.sqrt(dx * dx + dy * dy + dz * dz) + np.float32(1e-6)
    facing = np.maximum(normals[0] * dx + normals[1] * dy + normals[2] * dz, 0) / away
    dark = bodies.shade((px, py, pz), (x, y, z))
    fall = 1 / (1 + (away / _column([light.reach for light in lights])) ** 2)
    direct = _column([light.strength for light in lights]) * facing * fall
    direct = np.where(dark, np.float32(0.25) * direct, direct)
    tint = np.array([light.colour for light in lights], dtype=np.float32)[:, None]
    ambient = _column([light.ambient for light in lights]) * (0.85 + 0.15 * normals[2])
    ambient = ambient * _corners(scenes, points, solid, side)
    length = np.sqrt(rays[0] ** 2 + rays[1] ** 2 + rays[2] ** 2)
    seen = np.abs(normals[0] * rays[0] + normals[1] * rays[1] + normals[2] * rays[2]) / length
    flash = _column([light.flash for light in lights]) * (0.4 + 0.6 * seen) / (1 + depth**2 / 4)
    return direct[..., None] * tint + (ambient + flash)[..., None]


def _corners(
    scenes: Sequence[Scene],
    points: Vectors,
    solid: NDArray[np.bool_],
    side: NDArray[np.intp],
) -> Pixels:
    """Where less light comes from everywhere: in the corners of a room and close to the floor."""
    kept = np.ones(points[0].shape, dtype=np.float32)
    for axis, point in enumerate(points):
        low = _column([scene.low[axis] for scene in scenes])
        high = _column([scene.high[axis] for scene in scenes])
        gap = np.minimum(point - low, high - point)
        darker = 1 - np.float32(0.4) * np.exp(-np.maximum(gap, 0) / np.float32(0.25))
        on_side = ~solid & (side // 2 == axis)
        kept *= np.where(on_side, np.float32(1), darker)
    return kept


def _hazed(scenes: Sequence[Scene], shown: Pixels, depth: Pixels) -> Pixels:
    haze = _column([scene.haze for scene in scenes])
    left = np.where(np.isfinite(depth), np.exp(-depth / haze), np.float32(1))[..., None]
    air = _column_of_colours(scenes)[:, None] * np.float32(0.9) + np.float32(0.1)
    seen: Pixels = shown * left + air * (1 - left)
    return seen


def _tables(scenes: Sequence[Scene], solids: int) -> tuple[Pixels, NDArray[np.int8]]:
    """Colour and material of every solid and then of the six sides, (scenes, solids + 6)."""
    colour = np.zeros((len(scenes), solids + 6, 3), dtype=np.float32)
    material = np.zeros((len(scenes), solids + 6), dtype=np.int8)
    for s, scene in enumerate(scenes):
        numbers = [*range(len(scene.solids)), *range(solids, solids + 6)]
        surfaces = [*(solid.surface for solid in scene.solids), *scene.walls]
        colour[s, numbers] = [surface.colour for surface in surfaces]
        material[s, numbers] = [surface.material for surface in surfaces]
    return colour, material


def _column(values: Sequence[float]) -> Pixels:
    return np.array(values, dtype=np.float32)[:, None]


def _column_of_colours(scenes: Sequence[Scene]) -> Pixels:
    """The colour of the ceiling, which is that of the air where the ceiling is open."""
    return np.array([scene.walls[5].colour for scene in scenes], dtype=np.float32)


def _softened(pictures: Pixels) -> Pixels:
    """A lens's blur, the camera's curve (a square root), and the range [0, 1]."""
    framed = np.pad(pictures, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
    down = framed[:, :, 1:-1] * (1 - 2 * _SPREAD) + _SPREAD * (framed[:, :, :-2] + framed[:, :, 2:])
    both = down[..., 1:-1] * (1 - 2 * _SPREAD) + _SPREAD * (down[..., :-2] + down[..., 2:])
    return np.sqrt(np.clip(both, 0, 1))
