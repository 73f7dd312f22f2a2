"""How the cost of kuq grows: exponents of CPU time in n, M, N and d, by least squares of logs."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import kuq
from benchmarks import problems
from benchmarks.peers import Pair
from benchmarks.problems import Problem
from benchmarks.workloads import Solver, decomposed, of_draws, of_low_rank, of_normals

#: A size whose call takes longer than this is the last of its series; the same for quick runs.
LONGEST, QUICK_LONGEST = 0.8, 0.06


@dataclass(frozen=True)
class Series:
    """A route of kuq at growing sizes of one variable."""

    route: str
    variable: str
    sizes: tuple[int, ...]
    build: Callable[[int], Problem]
    solve: Solver
    expected: float


def doubling(first: int, count: int) -> tuple[int, ...]:
    return tuple(first * 2**k for k in range(count))


def by_directions(score: kuq.Score) -> Solver:
    def solve(problem: Problem) -> Pair:
        law = kuq.Samples(problem["values"], 1)
        return decomposed(kuq.Ensemble(law), score, directions=100)

    return solve


crps, energy, gaussian = kuq.CRPS(), kuq.Energy(), kuq.Gaussian
SERIES = (
    Series(
        "CRPS of normals",
        "n",
        doubling(200, 5),
        lambda n: problems.normals(10, n, 64),
        of_normals(crps),
        1,
    ),
    Series(
        "CRPS of normals",
        "d",
        doubling(1000, 5),
        lambda d: problems.normals(10, 16, d),
        of_normals(crps),
        1,
    ),
    Series(
        "CRPS of normals, pairs",
        "M",
        doubling(5, 5),
        lambda m: problems.normals(m, 8192),
        of_normals(crps),
        2,
    ),
    Series(
        "CRPS of normals, distribution functions",
        "M",
        doubling(200, 4),
        lambda m: problems.normals(m, 40),
        of_normals(crps),
        1,
    ),
    Series(
        "Gaussian kernel of diagonal normals",
        "d",
        doubling(1000, 5),
        lambda d: problems.normals(10, 16, d),
        lambda p: of_normals(gaussian(math.sqrt(6 * p["loc"].shape[-1])), 1)(p),
        1,
    ),
    Series(
        "Gaussian kernel of low-rank normals",
        "d",
        doubling(2000, 5),
        lambda d: problems.low_rank_normals(5, 2, d, 10),
        lambda p: of_low_rank(gaussian(math.sqrt(6 * p["loc"].shape[-1])))(p),
        1,
    ),
    Series(
        "energy score of diagonal normals",
        "d",
        doubling(8000, 5),
        lambda d: problems.normals(5, 4, d),
        of_normals(energy, 1),
        1,
    ),
    Series(
        "energy score of draws",
        "N",
        doubling(8, 5),
        lambda n: problems.draws(10, 1, n, 2048),
        of_draws(energy, 1),
        2,
    ),
    Series(
        "energy score of draws",
        "M",
        doubling(4, 5),
        lambda m: problems.draws(m, 1, 10, 2048),
        of_draws(energy, 1),
        2,
    ),
    Series(
        "energy score of draws",
        "d",
        doubling(2000, 5),
        lambda d: problems.draws(10, 2, 10, d),
        of_draws(energy, 1),
        1,
    ),
    Series(
        "energy score of draws, 100 directions",
        "N",
        doubling(4000, 6),
        lambda n: problems.draws(3, 1, n, 10),
        by_directions(energy),
        1,
    ),
    Series(
        "Gaussian kernel of draws, 100 directions",
        "N",
        doubling(4000, 6),
        lambda n: problems.draws(3, 1, n, 10),
        by_directions(gaussian(5.0)),
        1,
    ),
    Series(
        "energy score of draws, 100 directions",
        "M",
        doubling(2, 6),
        lambda m: problems.draws(m, 1, 4000, 10),
        by_directions(energy),
        1,
    ),
    Series(
        "CRPS of draws",
        "N",
        doubling(25, 6),
        lambda n: problems.draws(10, 200, n),
        of_draws(crps),
        1,
    ),
    Series(
        "Gaussian kernel of scalar draws",
        "N·M",
        doubling(2000, 5),
        lambda size: problems.draws(10, 10, size // 10),
        of_draws(gaussian(1.5)),
        1,
    ),
)


def exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """The slope of log time over log size."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def measured(series: Series, longest: float, repeats: int) -> tuple[list[int], list[float]]:
    """Sizes and median CPU seconds; sizes alternate, and those that take too long are left out."""
    problems_, sizes = [], []
    for size in series.sizes:
        problem = series.build(size)
        start = time.perf_counter()
        series.solve(problem)
        problems_.append(problem)
        sizes.append(size)
        if time.perf_counter() - start > longest and len(sizes) >= 2:
            break
    times: list[list[float]] = [[] for _ in sizes]
    for _ in range(repeats):
        for problem, record in zip(problems_, times, strict=True):
            start = time.process_time()
            series.solve(problem)
            record.append(time.process_time() - start)
    return sizes, [statistics.median(record) for record in times]


def fitted(series: Series, quick: bool, repeats: int) -> dict:
    if quick:  # every other size: as wide a range in fewer calls
        series = Series(**{**vars(series), "sizes": series.sizes[::2]})
    with kuq.compiled(True):  # one route for all sizes, whatever the amount of work
        sizes, times = measured(series, QUICK_LONGEST if quick else LONGEST, repeats)
    return {
        "route": series.route,
        "variable": series.variable,
        "sizes": sizes,
        "cpu_ms": [1e3 * t for t in times],
        "exponent": exponent(sizes, times),
        "expected": series.expected,
    }
