"""∂ₜu = Lu − ∂ₓ(u²/2) on a periodic interval, by Fourier modes and exponential Runge-Kutta steps.

Both equations of the data sets have this form. The linear part is solved exactly, so that its
stiffness does not limit the step; the product is computed on a grid of three halves of the modes,
so that it is free of aliasing. Steps are those of Cox and Matthews, of order four, with
coefficients by contour integrals after Kassam and Trefethen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import fft

Real: TypeAlias = NDArray[np.float64]
Modes: TypeAlias = NDArray[np.complex128]
#: From the wave numbers 2πk/length to the growth rates of the linear part.
Rates: TypeAlias = Callable[[Real], Real]

_CONTOUR = 32


def to_modes(values: Real) -> Modes:
    """Fourier coefficients of the trigonometric polynomial through points along the last axis."""
    modes = fft.rfft(values, axis=-1, norm="forward")
    if values.shape[-1] % 2 == 0:
        modes[..., -1] /= 2  # on a finer grid the highest mode stands for two, ±points/2
    return np.asarray(modes)


def to_points(modes: Modes, points: int) -> Real:
    """Values on equidistant points, exact also where there are more modes than points."""
    finer = math.ceil((2 * modes.shape[-1] - 1) / points)
    values = fft.irfft(modes, finer * points, axis=-1, norm="forward")
    return np.asarray(values[..., ::finer])


def resized(modes: Modes, highest: int) -> Modes:
    """The same function with modes 0 … highest: cut off, or filled with zeros."""
    if modes.shape[-1] > highest:
        return modes[..., : highest + 1]
    wider = np.zeros((*modes.shape[:-1], highest + 1), np.complex128)
    wider[..., : modes.shape[-1]] = modes
    return wider


def coefficients(rates: Real, step: float) -> tuple[Real, ...]:
    """The factors exp(hL), exp(hL/2) and the four weights of a step h.

    Each weight is an entire function of hL with cancellation around zero; its mean over a circle
    around hL is its value, without cancellation.
    """
    circle = np.exp(1j * math.pi * (np.arange(_CONTOUR) + 0.5) / _CONTOUR)
    z = step * rates[:, None] + circle
    exp, half = np.exp(z), np.exp(z / 2)
    weights = (
        (half - 1) / z,
        (-4 - z + exp * (4 - 3 * z + z**2)) / z**3,
        2 * (2 + z + exp * (z - 2)) / z**3,
        (-4 - 3 * z - z**2 + exp * (4 - z)) / z**3,
    )
    return (
        np.exp(step * rates),
        np.exp(step * rates / 2),
        *(step * weight.mean(axis=1).real for weight in weights),
    )


def first_step(modes: Modes, rates: Rates, length: float, step: float, halvings: int) -> Modes:
    """One step, halved so many times towards its start, where stiff modes decay."""
    for halving in (halvings, *range(halvings, 0, -1)):
        modes = advance(modes, rates, length, step * 2.0**-halving / 2, 2)
    return modes


def advance(modes: Modes, rates: Rates, length: float, step: float, count: int) -> Modes:
    """``count`` steps from coefficients (rows, modes); all rows at once."""
    highest = modes.shape[-1] - 1
    wave_numbers = 2 * math.pi / length * np.arange(highest + 1)
    whole, half, inner, first, middle, last = coefficients(rates(wave_numbers), step)
    slope = -0.5j * wave_numbers
    grid = fft.next_fast_len(3 * highest + 1, real=True)

    def transport(v: Modes) -> Modes:
        u = fft.irfft(v, grid, axis=-1, norm="forward")
        np.multiply(u, u, out=u)
        square = fft.rfft(u, axis=-1, norm="forward", overwrite_x=True)
        return np.asarray(square[:, : highest + 1] * slope)

    v = modes
    for _ in range(count):
        at_start = transport(v)
        decayed = half * v
        a = inner * at_start
        a += decayed
        at_a = transport(a)
        b = inner * at_a
        b += decayed
        at_b = transport(b)
        at_a += at_b
        at_b *= 2
        at_b -= at_start
        at_b *= inner
        a *= half
        a += at_b
        at_end = transport(a)
        at_start *= first
        at_a *= middle
        at_end *= last
        v = whole * v
        v += at_start
        v += at_a
        v += at_end
    return v
