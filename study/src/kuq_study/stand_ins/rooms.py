"""Furnished rooms, made by chance: synthetic indoor scenes that stand in for NYU Depth v2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import cos, pi, sin
from typing import TypeAlias

import numpy as np

from kuq_study.stand_ins.materials import Material
from kuq_study.stand_ins.scene import Camera, Light, Scene, Solid, Surface, Triple, close_to, pick

#: A part of a piece of furniture: middle and half lengths relative to the place it stands on, with
#: its back along +y, and its surface; True for an ellipsoid.
Part: TypeAlias = tuple[Triple, Triple, Surface, bool]
Furniture: TypeAlias = list[Part]

_WALLS = ((0.86, 0.82, 0.74), (0.70, 0.76, 0.80), (0.80, 0.72, 0.66), (0.72, 0.78, 0.68))
_WOODS = ((0.46, 0.29, 0.16), (0.33, 0.20, 0.11), (0.62, 0.46, 0.30), (0.72, 0.60, 0.44))
_CLOTHS = ((0.55, 0.15, 0.13), (0.16, 0.28, 0.48), (0.22, 0.42, 0.28), (0.50, 0.46, 0.40))
_WHITE = (0.86, 0.86, 0.84)


def room(generator: np.random.Generator) -> Scene:
    """One room with furniture along its walls and in the middle, seen from its south end."""
    width, length = generator.uniform(3.2, 6.0), generator.uniform(3.8, 7.5)
    height = generator.uniform(2.4, 3.0)
    eye = (
        width * generator.uniform(0.3, 0.7),
        generator.uniform(0.25, 0.5),
        generator.uniform(1.2, 1.7),
    )
    wall = close_to(generator, pick(generator, _WALLS))
    solids = [
        *_on_walls(generator, width, length),
        *_along_walls(generator, width, length),
        *_in_the_middle(generator, width, length),
    ]
    lamp = (width * generator.uniform(0.35, 0.65), length * generator.uniform(0.4, 0.7))
    solids.append(
        Solid(
            (*lamp, height - 0.12), (0.16, 0.16, 0.1), 0.0, _surface((1.4, 1.35, 1.2), "GLOW"), True
        )
    )
    return Scene(
        low=(0.0, 0.0, 0.0),
        high=(width, length, height),
        walls=(
            Surface(wall),
            Surface(wall),
            Surface(wall),
            Surface(close_to(generator, wall, 0.06)),
            _floor(generator),
            Surface(_WHITE),
        ),
        solids=tuple(solid for solid in solids if _clear(solid, eye)),
        camera=Camera(
            eye,
            yaw=generator.uniform(-0.4, 0.4),
            pitch=generator.uniform(-0.28, -0.04),
            focal=generator.uniform(0.72, 0.88),
        ),
        light=Light(
            (*lamp, height - 0.3),
            reach=generator.uniform(2.5, 4.5),
            strength=generator.uniform(0.5, 0.9),
            ambient=generator.uniform(0.16, 0.28),
            colour=(1.0, generator.uniform(0.88, 0.98), generator.uniform(0.72, 0.92)),
            flash=generator.uniform(0.25, 0.45),
        ),
    )


def _clear(solid: Solid, eye: Triple) -> bool:
    """Whether the camera is not inside a solid or too close to see past it."""
    away = np.hypot(solid.centre[0] - eye[0], solid.centre[1] - eye[1])
    return bool(away > 0.45 + min(max(solid.half[:2]), 1.0) or solid.half[2] < 0.03)


def _floor(generator: np.random.Generator) -> Surface:
    kind = generator.integers(3)
    if kind == 0:
        return _surface(close_to(generator, (0.52, 0.36, 0.22)), "PLANKS")
    if kind == 1:
        return _surface(close_to(generator, (0.62, 0.60, 0.56)), "TILES")
    return _surface(close_to(generator, pick(generator, _CLOTHS), 0.1), "CARPET")


def _on_walls(generator: np.random.Generator, width: float, length: float) -> list[Solid]:
    """A window, a door and pictures: flat things that hang on walls."""
    window: Furniture = [
        ((0, -0.02, 1.45), (0.62, 0.03, 0.5), _surface(_WHITE), False),
        ((0, -0.04, 1.45), (0.55, 0.04, 0.44), _surface(_WHITE, "WINDOW"), False),
    ]
    door: Furniture = [
        (
            (0, -0.03, 1.0),
            (0.45, 0.04, 1.0),
            _surface(close_to(generator, pick(generator, _WOODS)), "DOORS"),
            False,
        )
    ]
    tint = tuple(generator.uniform(0.2, 0.9, 3).tolist())
    frame: Furniture = [
        ((0, -0.02, 1.6), (0.42, 0.03, 0.32), _surface((0.12, 0.09, 0.07)), False),
        ((0, -0.04, 1.6), (0.36, 0.03, 0.26), _surface(tint, "PICTURE"), False),
    ]
    walls = generator.permutation(3)
    hung = [window, door, frame]
    return [
        solid
        for wall, parts in zip(walls, hung, strict=True)
        for solid in _against(generator, parts, int(wall), width, length, margin=0.8)
    ]


def _along_walls(generator: np.random.Generator, width: float, length: float) -> list[Solid]:
    """Two pieces of furniture with their backs to different walls."""
    makers: list[Callable[[np.random.Generator], Furniture]] = [_sofa, _bed, _cabinet, _bookshelf]
    chosen = generator.permutation(len(makers))[:2]
    walls = generator.permutation(3)[:2]
    return [
        solid
        for k, wall in zip(chosen, walls, strict=True)
        for solid in _against(
            generator, makers[int(k)](generator), int(wall), width, length, margin=1.1
        )
    ]


def _in_the_middle(generator: np.random.Generator, width: float, length: float) -> list[Solid]:
    """A rug, a table with a chair, and a lamp or a plant."""
    x, y = width * generator.uniform(0.3, 0.7), length * generator.uniform(0.4, 0.75)
    turn = generator.uniform(-0.6, 0.6)
    cloth = close_to(generator, pick(generator, _CLOTHS), 0.12)
    rug: Furniture = [((0, 0, 0.01), (1.1, 0.8, 0.01), _surface(cloth, "CARPET"), False)]
    solids = _placed(rug, x, y, turn)
    if generator.random() < 0.8:
        table, half = _table(generator)
        solids += _placed(table, x, y, turn)
        side = generator.choice([-1.0, 1.0])
        cx, cy = x + side * (half + 0.25) * cos(turn), y + side * (half + 0.25) * sin(turn)
        solids += _placed(_chair(generator), cx, cy, turn - side * pi / 2)
    corner = (width - 0.4 if generator.random() < 0.5 else 0.4, length - 0.4)
    solids += _placed(_lamp() if generator.random() < 0.5 else _plant(generator), *corner, 0.0)
    return solids


def _table(generator: np.random.Generator) -> tuple[Furniture, float]:
    wood = _surface(close_to(generator, pick(generator, _WOODS)), "PLANKS")
    a, b, h = (
        generator.uniform(0.4, 0.7),
        generator.uniform(0.3, 0.45),
        generator.uniform(0.45, 0.76),
    )
    parts: Furniture = [((0, 0, h), (a, b, 0.03), wood, False)]
    parts += [
        ((sx * (a - 0.05), sy * (b - 0.05), h / 2), (0.03, 0.03, h / 2), wood, False)
        for sx in (-1, 1)
        for sy in (-1, 1)
    ]
    jar = _surface(close_to(generator, pick(generator, _CLOTHS), 0.2))
    parts.append(((0.1, 0.0, h + 0.13), (0.08, 0.08, 0.11), jar, True))
    return parts, float(a)


def _chair(generator: np.random.Generator) -> Furniture:
    wood = _surface(close_to(generator, pick(generator, _WOODS)))
    parts: Furniture = [
        ((0, 0, 0.45), (0.21, 0.21, 0.025), wood, False),
        ((0, 0.2, 0.72), (0.21, 0.02, 0.26), wood, False),
    ]
    return parts + [
        ((sx * 0.18, sy * 0.18, 0.22), (0.02, 0.02, 0.22), wood, False)
        for sx in (-1, 1)
        for sy in (-1, 1)
    ]


def _sofa(generator: np.random.Generator) -> Furniture:
    cloth = close_to(generator, pick(generator, _CLOTHS))
    fabric, pillow = _surface(cloth, "FABRIC"), _surface(close_to(generator, cloth, 0.25), "FABRIC")
    return [
        ((0, -0.42, 0.22), (0.9, 0.42, 0.2), fabric, False),
        ((0, -0.1, 0.55), (0.9, 0.12, 0.32), fabric, False),
        ((-0.85, -0.42, 0.35), (0.12, 0.42, 0.28), fabric, False),
        ((0.85, -0.42, 0.35), (0.12, 0.42, 0.28), fabric, False),
        ((-0.45, -0.32, 0.56), (0.22, 0.12, 0.2), pillow, True),
    ]


def _bed(generator: np.random.Generator) -> Furniture:
    wood = _surface(close_to(generator, pick(generator, _WOODS)))
    blanket = _surface(close_to(generator, pick(generator, _CLOTHS)), "FABRIC")
    return [
        ((0, -1.0, 0.16), (0.75, 1.0, 0.14), wood, False),
        ((0, -1.1, 0.42), (0.72, 0.88, 0.14), blanket, False),
        ((0, -0.05, 0.55), (0.78, 0.04, 0.5), wood, False),
        ((-0.35, -0.35, 0.58), (0.28, 0.2, 0.1), _surface(_WHITE), True),
        ((0.35, -0.35, 0.58), (0.28, 0.2, 0.1), _surface(_WHITE), True),
    ]


def _cabinet(generator: np.random.Generator) -> Furniture:
    wood = close_to(generator, pick(generator, _WOODS))
    h = generator.uniform(0.4, 0.95)
    a = generator.uniform(0.45, 0.8)
    return [
        ((0, -0.25, h), (a, 0.25, h), _surface(wood, "DOORS"), False),
        ((0, -0.26, 2 * h + 0.02), (a + 0.03, 0.28, 0.02), _surface(wood, "PLANKS"), False),
    ]


def _bookshelf(generator: np.random.Generator) -> Furniture:
    wood = close_to(generator, pick(generator, _WOODS))
    a = generator.uniform(0.4, 0.8)
    return [
        ((0, -0.16, 0.95), (a, 0.15, 0.93), _surface(wood, "BOOKS"), False),
        ((-a, -0.16, 0.96), (0.03, 0.17, 0.96), _surface(wood), False),
        ((a, -0.16, 0.96), (0.03, 0.17, 0.96), _surface(wood), False),
    ]


def _lamp() -> Furniture:
    dark, bright = _surface((0.1, 0.1, 0.1)), _surface((1.3, 1.15, 0.8), "GLOW")
    return [
        ((0, 0, 0.75), (0.02, 0.02, 0.75), dark, False),
        ((0, 0, 0.02), (0.16, 0.16, 0.02), dark, False),
        ((0, 0, 1.6), (0.2, 0.2, 0.17), bright, True),
    ]


def _plant(generator: np.random.Generator) -> Furniture:
    green = _surface(close_to(generator, (0.16, 0.36, 0.12)), "LEAVES")
    return [
        ((0, 0, 0.2), (0.15, 0.15, 0.2), _surface((0.55, 0.3, 0.2)), False),
        ((0, 0, 0.75), (0.3, 0.3, 0.4), green, True),
    ]


def _against(
    generator: np.random.Generator,
    parts: Furniture,
    wall: int,
    width: float,
    length: float,
    margin: float,
) -> list[Solid]:
    """``parts`` with their back to the west (0), north (1) or east (2) wall."""
    if wall == 1:
        return _placed(parts, generator.uniform(margin, width - margin), length, 0.0)
    y = generator.uniform(max(margin, 0.4 * length), length - margin)
    return _placed(parts, 0.0, y, pi / 2) if wall == 0 else _placed(parts, width, y, -pi / 2)


def _placed(parts: Furniture, x: float, y: float, yaw: float) -> list[Solid]:
    c, s = cos(yaw), sin(yaw)
    return [
        Solid((x + c * px - s * py, y + s * px + c * py, pz), half, yaw, surface, rounded)
        for (px, py, pz), half, surface, rounded in parts
    ]


def _surface(colour: Sequence[float], material: str = "PLAIN") -> Surface:
    red, green, blue = colour
    return Surface((red, green, blue), Material[material])
