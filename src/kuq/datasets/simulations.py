"""The two simulated data sets: one-step prediction, with a twin under another parameter."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np

from kuq import __version__
from kuq._digest import files_digest
from kuq._numbers import whole_number
from kuq._ranges import Count, Positive, Seed, Within
from kuq.datasets import pdebench
from kuq.datasets.base import Dataset
from kuq.datasets.burgers import burgers
from kuq.datasets.cache import cached_array
from kuq.datasets.etdrk4 import Real
from kuq.datasets.kuramoto_sivashinsky import kuramoto_sivashinsky
from kuq.datasets.pairs import Pairs, pair_dataset
from kuq.datasets.progress import progress
from kuq.datasets.superposed_waves import superposed_waves
from kuq.datasets.tables import split_rows
from kuq.datasets.trajectories import positive
from kuq.errors import ParameterError

#: From initial states to their trajectories.
Evolve: TypeAlias = Callable[[Real], Real]

#: Points of the grid on which trajectories start; data sets may keep every second, fourth, ….
POINTS = 256
#: Trajectories held in memory at once: 50 MiB with 50 frames.
_AT_ONCE = 512
#: To be raised when the numbers of a simulation change, so that no old ones are read.
_VERSION = 1
_ORIGIN = {
    "source": "simulated by kuq",
    "licence": "MIT",
    "version": f"kuq {__version__}",
    "method": "Fourier modes, exponential Runge-Kutta steps of order four",
}


def load_kuramoto_sivashinsky(
    data_dir: Path | None,
    seed: int,
    *,
    trajectories: Count = 1000,
    points: Count = POINTS,
    frames: Annotated[int, Within(least=3)] = 50,
    interval: Positive = 2.0,
    length: Positive = 64.0,
    shifted_length: Positive = 80.0,
    pairs: Count = 10,
    test_pairs: Count | None = None,
    first_frame: Annotated[int, Within(least=2)] = 2,
    simulation_seed: Seed = 0,
    own_simulations: bool = False,
    standardise: bool = False,
) -> Dataset:
    """Kuramoto-Sivashinsky on [0, 64), its twin on [0, 80): states and their next increments.

    ``seed`` chooses splits and pairs of one fixed set of trajectories, which
    ``simulation_seed`` starts; with ``own_simulations`` every ``seed`` has trajectories of its
    own. They are simulated on first use and cached. The twin has as many trajectories as the
    test split. Pairs have targets u(s) − u(s−1) with s from ``first_frame`` on: early ones are of
    the transient from noise, where all lengths look alike. Of every trajectory ``pairs`` are drawn
    at random, of those of test split and twin ``test_pairs``. The paper has
    ``trajectories=10_000``.
    """
    how = Pairs(pairs, whole_number(frames, "frames", 3), first_frame, test_pairs)
    positive("interval", interval)
    settings = {"frames": frames, "interval": interval, "points": points}

    def simulated(count: int, on: float, begin: int) -> Real:
        def noise() -> Real:
            return np.random.default_rng(begin).uniform(-1.0, 1.0, (count, POINTS))

        def evolve(initial: Real) -> Real:
            return kuramoto_sivashinsky(
                initial=initial, length=on, points=POINTS, frames=frames, interval=interval
            )

        facts = {**settings, "length": on, "seed": begin}
        return _cached("kuramoto-sivashinsky", facts, count, noise, evolve)

    begin = _begin(points, simulation_seed, seed, own_simulations)
    inside = simulated(trajectories, positive("length", length), begin)
    tests = len(split_rows(trajectories, seed)[2])
    outside = simulated(tests, positive("shifted_length", shifted_length), _twin(begin))
    provenance = {
        **_ORIGIN,
        "equation": "∂ₜu + u∂ₓu + ∂ₓₓu + ∂ₓₓₓₓu = 0, periodic, from uniform noise in (−1, 1)",
        "simulation_seed": simulation_seed,
        "own_simulations": own_simulations,
        "trajectories": trajectories,
        "inside": {"length": length},
        "shifted": {"length": shifted_length},
        **settings,
    }
    name = "kuramoto-sivashinsky"
    return pair_dataset(name, inside, outside, how, seed, "dimensionless", provenance, standardise)


def load_burgers(
    data_dir: Path | None,
    seed: int,
    *,
    trajectories: Count = 1000,
    points: Count = POINTS,
    frames: Annotated[int, Within(least=3)] = 41,
    final_time: Positive = 2.0,
    viscosity: Positive = 0.1,
    shifted_viscosity: Positive = 0.01,
    pairs: Count = 10,
    test_pairs: Count | None = None,
    first_frame: Annotated[int, Within(least=2)] = 2,
    simulation_seed: Seed = 0,
    own_simulations: bool = False,
    standardise: bool = False,
) -> Dataset:
    """Burgers' equation with viscosity 0.1, its twin with 0.01: states and their next increments.

    PDEBench's files ``1D_Burgers_Sols_Nu0.1.hdf5`` and ``1D_Burgers_Sols_Nu0.01.hdf5`` are read
    where the user's folder has both. Otherwise trajectories are simulated on first use and cached;
    ``seed`` chooses splits and pairs of one fixed set of them, and with ``own_simulations`` every
    ``seed`` has trajectories of its own (of files: other ones). The twin has as many trajectories
    as the test split. Pairs have targets u(s) − u(s−1) with s from ``first_frame`` on; of every
    trajectory ``pairs`` are drawn at random, of those of test split and twin ``test_pairs``.
    """
    how = Pairs(pairs, whole_number(frames, "frames", 3), first_frame, test_pairs)
    positive("final_time", final_time)
    settings = {"frames": frames, "final_time": final_time, "points": points}
    tests = len(split_rows(whole_number(trajectories, "trajectories", 1), seed)[2])
    provenance = {
        "equation": "∂ₜu + ∂ₓ(u²/2) = (ν/π)∂ₓₓu, periodic on [0, 1), from superposed sinusoids",
        "trajectories": trajectories,
        "inside": {"viscosity": viscosity},
        "shifted": {"viscosity": shifted_viscosity},
        **settings,
    }
    files = pdebench.find(data_dir, (viscosity, shifted_viscosity))
    if files is not None:
        reading = pdebench.Reading(points, frames, final_time, seed if own_simulations else None)
        inside = reading.of(files[0], viscosity, trajectories)
        outside = reading.of(files[1], shifted_viscosity, tests)
        provenance |= {"source": pdebench.SOURCE, "licence": pdebench.LICENCE}
    else:
        begin = _begin(points, simulation_seed, seed, own_simulations)

        def simulated(count: int, nu: float, begin: int) -> Real:
            def evolve(initial: Real) -> Real:
                return burgers(
                    initial=initial,
                    viscosity=nu,
                    points=POINTS,
                    frames=frames,
                    final_time=final_time,
                )

            facts = {**settings, "viscosity": nu, "seed": begin}
            waves = partial(superposed_waves, count, POINTS, begin)
            return _cached("burgers", facts, count, waves, evolve)

        inside = simulated(trajectories, positive("viscosity", viscosity), begin)
        outside = simulated(tests, positive("shifted_viscosity", shifted_viscosity), _twin(begin))
        provenance |= {**_ORIGIN, "simulation_seed": simulation_seed}
    provenance["own_simulations"] = own_simulations
    return pair_dataset(
        "burgers", inside, outside, how, seed, "dimensionless", provenance, standardise
    )


def burgers_digest(
    data_dir: Path | None,
    *,
    viscosity: Positive = 0.1,
    shifted_viscosity: Positive = 0.01,
    **_: object,
) -> str:
    """The digest of PDEBench's files, empty where Burgers' equation is simulated."""
    files = pdebench.find(data_dir, (viscosity, shifted_viscosity))
    return "" if files is None else files_digest(files, files[0].parent)


def _begin(points: int, simulation_seed: int, seed: int, own_simulations: bool) -> int:
    """The seed of the first states: one for all splits, or one for each."""
    begin = whole_number(simulation_seed, "simulation_seed", 0)
    if POINTS % whole_number(points, "points", 4):
        raise ParameterError(f"points must divide {POINTS}, got {points}")
    if not own_simulations:
        return begin
    words = np.random.SeedSequence([begin, 2, whole_number(seed, "seed", 0)]).generate_state(2)
    return int(words[0]) << 32 | int(words[1])


def _twin(seed: int) -> int:
    """The seed of the twin, which starts from states of its own."""
    return int(np.random.SeedSequence([seed, 1]).generate_state(1)[0])


def _cached(
    name: str, settings: dict[str, Any], count: int, start: Callable[[], Real], evolve: Evolve
) -> Real:
    """Trajectories from the cache, or simulated into it, some at a time."""
    shape = (count, settings["frames"], settings["points"])

    def fill(result: Real) -> None:
        initial = start()
        keep = POINTS // shape[2]
        rounds = range(0, count, _AT_ONCE)
        for begin in progress(rounds, math.ceil(count / _AT_ONCE), f"simulating {name}"):
            rows = slice(begin, begin + _AT_ONCE)
            result[rows] = evolve(initial[rows])[..., ::keep]

    return cached_array(name, {"version": _VERSION, **settings}, shape, fill)
