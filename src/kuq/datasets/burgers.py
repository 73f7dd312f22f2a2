"""Burgers' equation ∂ₜu + ∂ₓ(u²/2) = (ν/π)∂ₓₓu on the periodic unit interval.

The solution is smooth, but a shock of height J is only about 4D/J wide, with D = ν/π. Its modes
decay like exp(−4π²Dk/J), so that their number can be chosen: enough for the highest jump that is
left, since the equation never raises it. Shocks fade with time, and modes and steps with them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from kuq._numbers import whole_number
from kuq.datasets.etdrk4 import Modes, Real, advance, first_step, resized, to_modes, to_points
from kuq.datasets.superposed_waves import superposed_waves
from kuq.datasets.trajectories import initial_states, positive, solve_all

#: Modes are kept down to exp(−_DECAY); with |u|·q·h = COURANT for the largest wave number q and
#: the step h, the error is below 2e-7 at both viscosities of the data sets.
_DECAY = 19.0
COURANT = 0.75
_FEWEST_MODES = 32
#: Initial states may have kinks: the first step is refined towards time zero, where they decay.
_HALVINGS = 10
#: Rows solved at once; they are alike, since rows are sorted by their jumps.
_BLOCK = 16


def burgers(
    n: int = 100,
    viscosity: float = 0.1,
    points: int = 256,
    frames: int = 41,
    final_time: float = 2.0,
    seed: int = 0,
    initial: ArrayLike | None = None,
    *,
    courant: float = COURANT,
    out: Real | None = None,
) -> Real:
    """Trajectories (n, frames, points) on [0, 1), frames from time 0 to ``final_time``.

    They start from superposed sinusoids, those of PDEBench (``superposed_waves``), or from
    ``initial`` (n, points), which is frame 0; between the points it is their trigonometric
    polynomial. ``courant`` scales the time steps. The mean of the function is conserved to
    rounding; that of its points as well as they resolve shocks. ``out`` takes the result, for
    example a memory-mapped file.

    >>> x = np.arange(64) / 64
    >>> u = burgers(initial=np.sin(2 * np.pi * x)[None], points=64, frames=3)
    >>> u.shape, bool(abs(u[0, 2]).max() < abs(u[0, 1]).max() < 1)
    ((1, 3, 64), True)
    """
    points, frames = whole_number(points, "points", 4), whole_number(frames, "frames", 2)
    viscosity, final_time = positive("viscosity", viscosity), positive("final_time", final_time)
    courant = positive("courant", courant)
    if initial is None:
        states = superposed_waves(n, points, seed)
    else:
        states = initial_states(initial, points)
    interval = final_time / (frames - 1)

    def solve(start: Real) -> Iterator[Real]:
        for modes in _frames(to_modes(start), viscosity / math.pi, interval, courant):
            yield to_points(modes, points)

    by_jump = np.argsort(np.ptp(states, axis=1), kind="stable")
    blocks = [by_jump[start : start + _BLOCK] for start in range(0, len(states), _BLOCK)]
    return solve_all(states, frames, solve, blocks, out)


def _frames(modes: Modes, diffusion: float, interval: float, courant: float) -> Iterator[Modes]:
    """Modes at times ``interval``, 2·``interval``, …, without end.

    Rows are solved in the frame that moves with their mean, where they are slowest.
    """
    means = modes[:, :1].real.copy()
    modes = modes.copy()
    modes[:, 0] = 0
    time = 0.0
    while True:
        values = to_points(modes, 4 * modes.shape[-1])
        modes = resized(modes, _modes_needed(modes, values, diffusion))
        highest_wave_number = 2 * math.pi * (modes.shape[-1] - 1)
        fastest = float(np.abs(values).max())
        count = max(1, math.ceil(interval * fastest * highest_wave_number / courant))
        modes = _stretch(modes, diffusion, interval / count, count, refined=time == 0)
        time += interval
        phases = 2 * math.pi * np.arange(modes.shape[-1]) * (means * time)
        moved = modes * np.exp(-1j * phases)
        moved[:, :1] = means
        yield moved


def _modes_needed(modes: Modes, values: Real, diffusion: float) -> int:
    """As many as there are, and as many as shocks of the jump that is left may need."""
    present = np.flatnonzero(np.abs(modes).max(axis=0) > math.exp(-_DECAY) * np.abs(values).max())
    jump = float(np.ptp(values, axis=1).max())
    shock = math.ceil(_DECAY * jump / (4 * math.pi**2 * diffusion))
    return max(_FEWEST_MODES, shock, int(present[-1]) if present.size else 0)


def _stretch(modes: Modes, diffusion: float, step: float, count: int, refined: bool) -> Modes:
    def rates(wave_numbers: Real) -> Real:
        return -diffusion * wave_numbers**2

    if refined:
        modes, count = first_step(modes, rates, 1.0, step, _HALVINGS), count - 1
    return advance(modes, rates, 1.0, step, count)
