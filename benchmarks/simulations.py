"""python -m benchmarks.simulations [--quick]: trajectories of Kuramoto-Sivashinsky; prints only.

The peer is py-pde with its adaptive Runge-Kutta solver on compiled code, one trajectory of the
paper's size (256 points, 50 frames, up to time 98) per call, as its documentation solves an
equation. Every call compiles anew; what its steps cost without that stands in a row of its own,
from the difference of a long and a short call. Its differences in space are of second order: on a
spacing of a quarter its error is about 2e-2 after two units of time, where that of kuq is 2e-6.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks import fresh, goals, table
from benchmarks.findings import number
from benchmarks.measure import MIB, cpu_seconds, peak_memory

POINTS, LENGTH, FINAL_TIME = 256, 64.0, 98.0

#: What is measured -> (bound, unit, whether more is better); None for no goal.
GOALS: dict[str, tuple[float, str, bool] | None] = {
    "py-pde, per call, over kuq": (100.0, "×", True),
    "py-pde, steps alone, over kuq": None,
    "10 000 trajectories, wall": (600.0, "s", False),
    "10 000 trajectories, memory beside the result": (64.0, "MiB", False),
}


class Finding(NamedTuple):
    """One measured number."""

    name: str
    value: float

    @property
    def verdict(self) -> str:
        goal = GOALS[self.name]
        if goal is None:
            return goals.verdict(None)
        bound, _, more = goal
        return goals.verdict(self.value >= bound if more else self.value <= bound)


def py_pde() -> Callable[[float], np.ndarray]:
    """A function that solves up to a time, from noise."""
    import pde

    grid = pde.CartesianGrid([[0, LENGTH]], POINTS, periodic=True)
    equation = pde.PDE({"u": "-u * d_dx(u) - laplace(u + laplace(u))"})
    noise = np.random.default_rng(0).uniform(-1, 1, POINTS)

    def solve(final_time: float) -> np.ndarray:
        field = pde.ScalarField(grid, noise)
        return equation.solve(
            field,
            t_range=final_time,
            dt=1e-4,
            solver="runge-kutta",
            adaptive=True,
            backend="numba",
            tracker=None,
        ).data

    return solve


def per_trajectory(count: int) -> float:
    """CPU seconds of kuq for one of ``count`` trajectories."""
    from kuq.datasets import kuramoto_sivashinsky

    kuramoto_sivashinsky(n=1, frames=2)
    return cpu_seconds(lambda: kuramoto_sivashinsky(n=count))[0] / count


def against_py_pde(count: int, repeats: int) -> list[Finding]:
    """Ratios of CPU time per trajectory; the calls of both sides alternate."""
    solve = py_pde()
    solve(0.01)  # compiles what is kept
    ours, whole, short = [], [], []
    for _ in range(repeats):
        ours.append(per_trajectory(count))
        whole.append(cpu_seconds(lambda: solve(FINAL_TIME))[0])
        short.append(cpu_seconds(lambda: solve(FINAL_TIME / 98))[0])
    steps = (min(whole) - min(short)) * 98 / 97
    return [
        Finding("py-pde, per call, over kuq", min(whole) / min(ours)),
        Finding("py-pde, steps alone, over kuq", steps / min(ours)),
    ]


def large(count: int) -> list[Finding]:
    """Wall time of very many trajectories, scaled to 10 000, and memory beside the result."""
    from kuq.datasets import kuramoto_sivashinsky

    start = time.perf_counter()
    peak, _ = peak_memory(lambda: kuramoto_sivashinsky(n=count))
    lasted = time.perf_counter() - start
    result = count * 50 * POINTS * 8 / MIB
    return [
        Finding("10 000 trajectories, wall", lasted * 10_000 / count),
        Finding("10 000 trajectories, memory beside the result", max(0.0, peak - result)),
    ]


def text(findings: list[Finding]) -> str:
    """The findings in columns."""
    rows = []
    for finding in findings:
        goal = GOALS[finding.name]
        bound = "–" if goal is None else f"{'≥' if goal[2] else '≤'} {number(goal[0])} {goal[1]}"
        rows.append((finding.name, finding.verdict, number(finding.value), bound))
    return table.columns(("measured", "", "value", "goal"), rows)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulations", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer trajectories, scaled")
    parser.add_argument("--threads", type=int, default=2, help="for very many trajectories (2)")
    options = parser.parse_args(arguments)
    os.environ.update(fresh.limit_threads(1))
    findings = against_py_pde(*((64, 1) if options.quick else (256, 3)))
    os.environ.update(fresh.limit_threads(options.threads))  # kuq reads it at every call
    findings += large(256 if options.quick else 10_000)
    print(text(findings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
