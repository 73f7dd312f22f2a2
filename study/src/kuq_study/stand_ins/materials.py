"""What surfaces look like from close by: patterns over the two lengths along a surface."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Pixels: TypeAlias = NDArray[np.floating[Any]]

#: Side of the tile of noise, a power of two, and its cells per metre.
_TILE = 256
_CELLS = 32.0


class Material(IntEnum):
    """Patterns that a surface can have."""

    PLAIN = 0
    PLANKS = 1
    TILES = 2
    CARPET = 3
    BOOKS = 4
    DOORS = 5
    FABRIC = 6
    WINDOW = 7
    PICTURE = 8
    GLOW = 9
    FACADE = 10
    ASPHALT = 11
    LEAVES = 12
    CAR = 13
    SKY = 14


@lru_cache(maxsize=1)
def _noise() -> Pixels:
    """A periodic tile of smooth noise in [−1, 1] with several octaves, always the same."""
    generator = np.random.default_rng(20240)
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(_TILE), np.fft.rfftfreq(_TILE), indexing="ij"))
    amplitude = 1 / np.maximum(frequency, 1 / 64) ** 1.1
    spectrum = np.fft.rfft2(generator.standard_normal((_TILE, _TILE))) * amplitude
    spectrum[0, 0] = 0
    tile = np.fft.irfft2(spectrum, s=(_TILE, _TILE))
    smooth: Pixels = np.clip(tile / (2.5 * tile.std()), -1, 1).astype(np.float32)
    return smooth


def noise(u: Pixels, v: Pixels, scale: float = 1.0) -> Pixels:
    """Smooth noise in [−1, 1] at places (u, v) in metres; larger ``scale`` means coarser."""
    i = np.floor(u * np.float32(_CELLS / scale)).astype(np.int64) & (_TILE - 1)
    j = np.floor(v * np.float32(_CELLS / scale)).astype(np.int64) & (_TILE - 1)
    values: Pixels = _noise().ravel()[i * _TILE + j]
    return values


def _step(values: Pixels) -> Pixels:
    """Numbers in [0, 1) that look random, one for every whole number."""
    mixed = np.sin(np.floor(values) * np.float32(12.9898)) * np.float32(43758.547)
    fraction: Pixels = mixed - np.floor(mixed)
    return fraction


def _line(values: Pixels, width: float) -> Pixels:
    """1 on a line of relative ``width`` at every whole number, else 0."""
    away = np.abs(values - np.round(values))
    drawn: Pixels = (away < width).astype(np.float32)
    return drawn


def _plain(u: Pixels, v: Pixels, colour: Pixels) -> Pixels:
    return colour * (1 + 0.04 * noise(u, v, 2.0))[:, None]


def _planks(u: Pixels, v: Pixels, colour: Pixels) -> Pixels:
    board = u / np.float32(0.14)
    joint = v / np.float32(1.2) + 7 * _step(board)
    tone = 0.82 + 0.3 * _step(board + 31 * np.floor(joint)) + 0.12 * noise(u * 6, v, 1.0)
    tone = tone * (1 - 0.4 * np.maximum(_line(board, 0.05), _line(joint, 0.01)))
    shown: Pixels = colour * tone[:, None]
    return shown


def _tiles(u: Pixels, v: Pixels, colour: Pixels) -> Pixels:
    a, b = u / np.float32(0.4), v / np.float32(0.4)
    checker = (np.floor(a) + np.floor(b)) % 2
    grout = np.maximum(_line(a, 0.03), _line(b, 0.03))
    tone = (0.72 + 0.32 * checker + 0.05 * noise(u, v)) * (1 - 0.3 * grout)
    shown: Pixels = colour * tone[:, None]
    return shown


def _carpet(u: Pixels, v: Pixels, colour: Pixels) -> Pixels:
    return colour * (1 + 0.16 * noise(u, v, 0.4) + 0.08 * noise(v, u, 3.0))[:, None]


def _books(u: Pixels, v: Pixels, colour: Pixels) -> Pixels:
    """Shelves 0.36 m apart, on them books 5 cm wide in many colours."""
    shelf = v / np.float32(0.36)
    book = u / np.float32(0.055) + 17 * np.floor(shelf)
    tint = np.stack([_step(book), _step(book + 5.0), _step(book + 11.0)], axis=1)
    height = 0.6 + 0.3 * _step(book + 3.0)
    inside = (shelf - np.floor(shelf)) < height
    spine = (0.25 + 0.65 * tint) * (1 - 0.5 * _line(book, 0.12))[:, None]
    shown = np.where(inside[:, None], spine, colour * np.float32(0.35))
    return np.where((_line(shelf, 0.06) > 0)[:, None], colour, shown)


def _doors(u: Pixels, v: Pixels, colour: Pixels) -> Pixels:
    a, b = u / np.float32(0.45), v / np.float32(0.6)
    seam = np.maximum(_line(a, 0.03), _line(b, 0.025))
    grain = 1 + 0.1 * noise(u, v * 5, 1.0)
    return colour * (grain * (1 - 0.55 * seam))[:, None]


def _fabric(u: Pixels, v: Pixels, colour: Pixels) -> Pixels:
    stripe = 0.06 * np.sign(np.sin(u * np.float32(40.0)))
    shown: Pixels = colour * (1 + stripe + 0.12 * noise(u, v, 0.6))[:, None]
    return shown


def _window(u: Pixels, v: Pixels, colour: Pixels) -> Pixels:
    frame = np.maximum(_line(u / np.float32(0.55) + 0.5, 0.06), _line(v / np.float32(0.7), 0.05))
    outside = np.stack([1.15 + 0.3 * v, 1.25 + 0.25 * v, 1.45 + 0.1 * v], axis=1)
    return np.where((frame > 0)[:, None], colour, outside.astype(np.float32))


def _picture(u: Pixels, v: Pixels, colour: Pixels) -> Pixels:
    a, b = noise(u, v, 4.0), noise(v, u, 4.0)
    painted = 0.5 + 0.45 * np.stack([a, b, a * b], axis=1)
    return (0.55 * painted + 0.45 * colour).astype(np.float32)


def _glow(u: Pixels, v: Pixels, colour: Pixels) -> Pixels:
    return colour * np.float32(1.0)


def _facade(u: Pixels, v: Pixels, colour: Pixels) -> Pixels:
    """Storeys of 3 m with windows every 2.4 m, some of them lit or curtained."""
    a, b = u / np.float32(2.4), v / np.float32(3.0)
    pane = (np.abs(a - np.floor(a) - 0.5) < 0.28) & (np.abs(b - np.floor(b) - 0.55) < 0.27)
    shade = 0.2 + 0.35 * _step(np.floor(a) + 57 * np.floor(b))
    glass = np.stack([0.85 * shade, 0.95 * shade, 1.15 * shade], axis=1)
    wall = colour * (1 + 0.08 * noise(u, v, 8.0) - 0.15 * _line(b, 0.03))[:, None]
    return np.where(pane[:, None], glass, wall)


def _asphalt(u: Pixels, v: Pixels, colour: Pixels) -> Pixels:
    """A road along v with two lanes of 3.5 m, a broken middle line, kerbs and pavements."""
    tone = 1 + 0.12 * noise(u, v, 6.0) + 0.08 * noise(v, u, 1.0)
    middle = (np.abs(u) < 0.09) & ((v / 6 - np.floor(v / 6)) < 0.5)
    edge = np.abs(np.abs(u) - 3.5) < 0.08
    pavement = np.abs(u) > 4.2
    kerb = np.abs(np.abs(u) - 4.2) < 0.15
    slab = 1 - 0.25 * np.maximum(_line(u / np.float32(0.8), 0.03), _line(v / np.float32(0.8), 0.03))
    shown = colour * tone[:, None]
    light = np.float32(0.52) * (slab * tone)[:, None] * np.array([1.0, 0.97, 0.92])
    shown = np.where(pavement[:, None], light, shown)
    shown = np.where(kerb[:, None], 0.68 * tone[:, None], shown)
    return np.where((middle | edge)[:, None], np.float32(0.88), shown)


def _leaves(u: Pixels, v: Pixels, colour: Pixels) -> Pixels:
    return colour * (0.85 + 0.55 * noise(u, v, 3.0))[:, None]


def _car(u: Pixels, v: Pixels, colour: Pixels) -> Pixels:
    """Paint with a dark strip below, a hint of wheels and lamps."""
    low = v < -0.22
    return np.where(low[:, None], np.float32(0.08), colour * (1 + 0.2 * v)[:, None])


def _sky(u: Pixels, v: Pixels, colour: Pixels) -> Pixels:
    """Blue above, pale at the horizon, with clouds; u is the direction, v the rise."""
    rise = np.clip(v, 0, 1)[:, None]
    clear = colour * (1 - 0.55 * rise) + np.array([0.25, 0.22, 0.15]) * (1 - rise) ** 3
    cloud = np.clip(1.6 * noise(u, v * 2.5, 0.6) + 0.1, 0, 1)[:, None] * np.clip(4 * rise, 0, 1)
    shown: Pixels = clear * (1 - 0.7 * cloud) + np.float32(0.95) * 0.7 * cloud
    return shown


_PATTERNS: dict[Material, Callable[[Pixels, Pixels, Pixels], Pixels]] = {
    Material.PLAIN: _plain,
    Material.PLANKS: _planks,
    Material.TILES: _tiles,
    Material.CARPET: _carpet,
    Material.BOOKS: _books,
    Material.DOORS: _doors,
    Material.FABRIC: _fabric,
    Material.WINDOW: _window,
    Material.PICTURE: _picture,
    Material.GLOW: _glow,
    Material.FACADE: _facade,
    Material.ASPHALT: _asphalt,
    Material.LEAVES: _leaves,
    Material.CAR: _car,
    Material.SKY: _sky,
}


def painted(material: NDArray[np.int8], u: Pixels, v: Pixels, colour: Pixels) -> Pixels:
    """The colours (pixels, 3) of surfaces at (u, v), by material and base colour."""
    shown = np.empty_like(colour)
    for kind, pattern in _PATTERNS.items():
        here = np.flatnonzero(material == kind)
        if here.size:
            shown[here] = pattern(u[here], v[here], colour[here])
    return shown
