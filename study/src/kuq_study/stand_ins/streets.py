"""Streets with houses, trees and cars, made by chance: the shifted twin of the synthetic rooms."""

from __future__ import annotations

import numpy as np

from kuq_study.stand_ins.materials import Material
from kuq_study.stand_ins.scene import Camera, Light, Scene, Solid, Surface, Triple, close_to, pick

_HOUSES = ((0.62, 0.40, 0.30), (0.70, 0.64, 0.52), (0.52, 0.52, 0.54), (0.74, 0.70, 0.66))
_CARS = (
    (0.55, 0.06, 0.06),
    (0.08, 0.14, 0.38),
    (0.75, 0.75, 0.76),
    (0.06, 0.06, 0.07),
    (0.5, 0.42, 0.1),
)
_LANES = (-1.8, 1.8)
_KERBS = (-5.4, 5.4)
#: How far colours are from those of their kind.
_SPREAD = 0.04


def street(generator: np.random.Generator) -> Scene:
    """One street that runs away from the camera, with houses on both sides, by day."""
    air = (0.50, 0.62, generator.uniform(0.72, 0.85))
    sun = generator.uniform(0.5, 1.0)
    bearing, rise = generator.uniform(-np.pi, np.pi), generator.uniform(0.5, 1.1)
    solids = [
        *(solid for side in (-1.0, 1.0) for solid in _houses(generator, side)),
        *_trees(generator),
        *_cars(generator),
    ]
    nothing = Surface(air, Material.SKY)
    road = Surface((generator.uniform(0.16, 0.24),) * 3, Material.ASPHALT)
    return Scene(
        low=(-np.inf, -np.inf, 0.0),
        high=(np.inf, np.inf, np.inf),
        walls=(nothing, nothing, nothing, nothing, road, nothing),
        solids=tuple(solids),
        camera=Camera(
            (generator.uniform(-2.2, 2.2), 0.0, generator.uniform(1.3, 2.0)),
            yaw=generator.uniform(-0.15, 0.15),
            pitch=generator.uniform(-0.06, 0.05),
            focal=generator.uniform(0.8, 1.1),
        ),
        light=Light(
            (
                1e3 * float(np.cos(rise) * np.sin(bearing)),
                1e3 * float(np.cos(rise) * np.cos(bearing)),
                1e3 * float(np.sin(rise)),
            ),
            reach=1e6,
            strength=sun,
            ambient=generator.uniform(0.3, 0.5),
            colour=(1.0, 0.96, 0.88),
        ),
        haze=generator.uniform(150.0, 400.0),
        pattern=generator.uniform(0.0, 8.0),
    )


def _houses(generator: np.random.Generator, side: float) -> list[Solid]:
    """A row of houses of different width, height and colour along one side."""
    solids, start = [], generator.uniform(-4.0, 4.0)
    for _ in range(6):
        width, height = generator.uniform(6.0, 14.0), generator.choice([2, 3, 4, 5]) * 3.0 + 0.6
        depth, setback = 6.0, generator.uniform(7.5, 9.5)
        colour = close_to(generator, pick(generator, _HOUSES), _SPREAD)
        x, y = side * (setback + depth), start + width / 2
        solids.append(_box((x, y, height / 2), (depth, width / 2, height / 2), colour, "FACADE"))
        if generator.random() < 0.6:
            eaves = (depth + 0.3, width / 2 + 0.1, 0.35)
            solids.append(_box((x, y, height + 0.3), eaves, (0.32, 0.2, 0.16), "PLAIN"))
        start += width + generator.choice([0.0, 0.0, 3.0])
    return solids


def _trees(generator: np.random.Generator) -> list[Solid]:
    """Trees and lamp posts at the kerbs."""
    solids = []
    for _ in range(int(generator.integers(1, 4))):
        x, y = generator.choice(_KERBS), generator.uniform(7.0, 45.0)
        height, crown = generator.uniform(2.0, 3.2), generator.uniform(1.2, 2.0)
        green = close_to(generator, (0.14, 0.30, 0.09), _SPREAD)
        solids.append(
            _box((x, y, height / 2), (0.13, 0.13, height / 2), (0.22, 0.15, 0.1), "PLAIN")
        )
        leaves = Surface(green, Material.LEAVES)
        centre = (x, y, height + 0.7 * crown)
        solids.append(Solid(centre, (0.9 * crown, 0.9 * crown, crown), 0.0, leaves, round=True))
    x, y = generator.choice(_KERBS), generator.uniform(6.0, 20.0)
    solids.append(_box((x, y, 2.6), (0.06, 0.06, 2.6), (0.2, 0.21, 0.22), "PLAIN"))
    solids.append(_box((0.85 * x, y, 5.2), (0.5, 0.08, 0.06), (0.25, 0.26, 0.27), "PLAIN"))
    return solids


def _cars(generator: np.random.Generator) -> list[Solid]:
    """Cars in both lanes or parked at the kerbs: a body, a cabin, a roof and wheels."""
    solids = []
    ahead = generator.uniform(6.0, 12.0)
    for _ in range(int(generator.integers(1, 5))):
        parked = generator.random() < 0.35
        x = generator.choice((-3.2, 3.2) if parked else _LANES) + generator.uniform(-0.15, 0.15)
        paint = close_to(generator, pick(generator, _CARS), _SPREAD)
        length, tall = generator.uniform(1.9, 2.4), generator.choice([0.0, 0.0, 0.35])
        body = (x, ahead + length, 0.62 + tall / 2)
        cabin = (x, ahead + length + 0.1, 1.18 + tall)
        solids.append(_box(body, (0.88, length, 0.36 + tall / 2), paint, "CAR"))
        solids.append(_box(cabin, (0.74, 0.58 * length, 0.26), (0.1, 0.13, 0.16), "PLAIN"))
        roof = (x, ahead + length + 0.1, 1.46 + tall)
        solids.append(_box(roof, (0.72, 0.52 * length, 0.035), paint, "PLAIN"))
        for axle in (-0.62, 0.62):
            wheel = (x, ahead + length * (1 + axle), 0.3)
            solids.append(_box(wheel, (0.84, 0.3, 0.3), (0.03, 0.03, 0.03), "PLAIN"))
        ahead += 2 * length + generator.uniform(3.0, 14.0)
    return solids


def _box(centre: Triple, half: Triple, colour: Triple, material: str) -> Solid:
    return Solid(centre, half, 0.0, Surface(colour, Material[material]))
