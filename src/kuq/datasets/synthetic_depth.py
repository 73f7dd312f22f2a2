"""Depth from one picture without any download: rendered rooms, with rendered streets as the twin.

A synthetic stand-in for NYU Depth v2 and ApolloScape. Both domains come from the same renderer,
camera noise and colour order, so they differ by what is in the pictures: sizes and distances
(metres against tens of metres), things, light (a lamp and a flash against sun and haze) and the
sky, whose inverse depth is 0. Depth can be learned from a picture because the things in it have
known sizes, planks, tiles and books have a known width, and light falls off with distance.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from kuq.datasets.base import Dataset, Split
from kuq.datasets.render import render
from kuq.datasets.rooms import room
from kuq.datasets.scene import Pixels, Scene
from kuq.datasets.streets import street
from kuq.errors import ParameterError

#: Rows of training, validation, test and shifted data.
SIZES = (1000, 125, 250, 250)
#: Height and width: half of the real caches.
SHAPE = (64, 80)
#: Standard deviation of the camera's noise, of a range of 1.
NOISE = 0.015


def load_synthetic_depth(
    data_dir: str | os.PathLike[str] | None = None,
    seed: int = 0,
    *,
    sizes: tuple[int, int, int, int] = SIZES,
    shape: tuple[int, int] = SHAPE,
) -> Dataset:
    """Rendered rooms (training, validation, test) and rendered streets (shifted).

    Pictures x are (n, 3, height, width), red, green, blue in [0, 1]; targets y (n, height, width)
    are inverse depths in 1/m. ``sizes`` are the rows of training, validation, test and shifted
    data. Scene i of a split depends on ``seed`` and i alone, so more rows only add to fewer.
    Everything is made here: ``data_dir`` is not looked at.
    """
    if len(sizes) != 4 or min(sizes) < 1 or len(shape) != 2 or min(shape) < 8:
        raise ParameterError(
            "sizes must be four positive numbers of rows and shape (height, width) at least 8 each, "
            f"got {sizes} and {shape}"
        )
    train, validation, test, shifted = (
        rendered(make, count, (seed, part), shape)
        for part, (make, count) in enumerate(zip((room, room, room, street), sizes, strict=True))
    )
    return Dataset(
        name="depth-synthetic",
        train=train,
        validation=validation,
        test=test,
        shifted=shifted,
        synthetic=True,
        units="1/m",
        provenance={
            "source": "synthetic: rooms and streets rendered by kuq",
            "channels": ("red", "green", "blue"),
            "target": "inverse depth along the axis of the camera; 0 for the sky",
            "sizes": tuple(sizes),
            "shape": tuple(shape),
            "noise": NOISE,
            "seed": seed,
        },
    )


def rendered(
    make: Callable[[np.random.Generator], Scene],
    count: int,
    seed: tuple[int, ...],
    shape: tuple[int, int],
) -> Split:
    """``count`` scenes, pictures with noise and inverse depths; scene i from (*seed, i)."""
    generators = [np.random.default_rng([*seed, i]) for i in range(count)]
    pictures, depths = render([make(generator) for generator in generators], shape)
    for picture, generator in zip(pictures, generators, strict=True):
        picture += np.float32(NOISE) * generator.standard_normal(picture.shape, dtype=np.float32)
    x: Pixels = np.clip(pictures, 0, 1)
    return Split(x=x, y=1 / depths)
