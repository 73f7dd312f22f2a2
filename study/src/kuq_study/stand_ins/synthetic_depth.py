"""Depth from one picture without any download: rendered rooms, with rendered streets as the twin.

A synthetic stand-in for NYU Depth v2 and ApolloScape. Both domains come from the same renderer,
camera noise and colour order, so they differ by what is in the pictures: sizes and distances
(metres against tens of metres), things, light (a lamp and a flash against sun and haze) and the
sky, whose inverse depth is 0. Depth can be learned from a picture because the things in it have
known sizes, planks, tiles and books have a known width, and light falls off with distance.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from kuq._ranges import Count
from kuq.datasets.base import Dataset
from kuq_study.stand_ins.render import render
from kuq_study.stand_ins.rooms import room
from kuq_study.stand_ins.scene import Pixels, Scene
from kuq_study.stand_ins.stand_in import Rows, Side, check_sizes, made_once
from kuq_study.stand_ins.streets import street

Maker: TypeAlias = Callable[[np.random.Generator], Scene]

#: Rows of training, validation, test and shifted data.
SIZES = (1000, 125, 250, 250)
#: Height and width: half of the real caches.
SHAPE = (64, 80)
#: Standard deviation of the camera's noise, of a range of 1.
NOISE = 0.015


def load_synthetic_depth(
    data_dir: Path | None = None,
    seed: int = 0,
    *,
    sizes: tuple[Count, Count, Count, Count] = SIZES,
    shape: tuple[Side, Side] = SHAPE,
) -> Dataset:
    """Rendered rooms (training, validation, test) and rendered streets (shifted).

    Pictures x are (n, 3, height, width), red, green, blue in [0, 1]; targets y (n, height, width)
    are inverse depths in 1/m. ``sizes`` are the rows of training, validation, test and shifted
    data. Scene i of a split depends on ``seed`` and i alone, so more rows only add to fewer.
    Everything is made here on first use and cached:
    ``data_dir`` is not looked at.
    """
    check_sizes(sizes, shape)
    settings = {"seed": seed, "noise": NOISE}
    train, validation, test, shifted = (
        made_once(
            f"depth-synthetic-{make.__name__}s",
            {**settings, "part": split},
            (count, 4, *shape),
            partial(rendered, make, (seed, split), shape),
        )
        for split, (make, count) in enumerate(zip((room, room, room, street), sizes, strict=True))
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


def rendered(make: Maker, seed: tuple[int, ...], shape: tuple[int, int], rows: Rows) -> Pixels:
    """Pictures with noise, and as fourth channel the inverse depth; scene i from (*seed, i).

    >>> rendered(room, (0,), (64, 80), range(2)).shape
    (2, 4, 64, 80)
    """
    generators = [np.random.default_rng([*seed, i]) for i in rows]
    pictures, depths = render([make(generator) for generator in generators], shape)
    for picture, generator in zip(pictures, generators, strict=True):
        picture += np.float32(NOISE) * generator.standard_normal(picture.shape, dtype=np.float32)
    return np.concatenate([np.clip(pictures, 0, 1), 1 / depths[:, None]], axis=1)
