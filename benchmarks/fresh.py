"""What has to be measured in a fresh process: start-up, and more than one thread.

Numbers of threads are read when the libraries start, so each number needs its own process.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)

IMPORT = """
import sys, time
start = time.process_time()
import numpy
of_numpy = time.process_time() - start
import kuq
modules = sum(name.split(".")[0] == "numba" for name in sys.modules)
print(time.process_time() - start, of_numpy, modules)
"""

#: One call that is large enough for compiled code by default.
FIRST_CALL = """
import time
import numpy as np
import kuq
loc = np.linspace(-1.0, 1.0, 10 * 20_000).reshape(10, 20_000)
ensemble = kuq.Ensemble(kuq.Normal(loc, 1.0 + loc**2))
start = time.process_time()
kuq.decompose(ensemble, kuq.CRPS())
first = time.process_time() - start
start = time.process_time()
kuq.decompose(ensemble, kuq.CRPS())
print(first, time.process_time() - start)
"""

#: Prints the median wall time of one workload.
THREADED = """
import statistics, time
import kuq
from benchmarks import problems
problem = {problem}
prediction = kuq.Ensemble({law})
times = []
for _ in range({repeats} + 1):
    start = time.perf_counter()
    kuq.decompose(prediction, {score})
    times.append(time.perf_counter() - start)
print(statistics.median(times[1:]))
"""

#: key -> title, problem by rows, members, score, rows, rows of a quick run (0: left out).
THREADED_WORKLOADS = {
    "W1": (
        "CRPS maps of normals, M=10, d=4070",
        "problems.normals(10, {rows}, 4070)",
        'kuq.Normal(problem["loc"], problem["scale"])',
        "kuq.CRPS()",
        40,
        10,
    ),
    "W3": (
        "energy score of draws, M=10, N=10, d=4070",
        "problems.draws(10, {rows}, 10, 4070)",
        'kuq.Samples(problem["values"], event_ndim=1)',
        "kuq.Energy()",
        10,
        0,
    ),
}


#: The first eager call with arrays of JAX, the same again, for three kernels.
JAX_CALLS = """
import time
import jax
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import kuq
loc = jnp.linspace(-1.0, 1.0, 500).reshape(5, 100)
prediction = kuq.Ensemble(kuq.Normal(loc, 1.0 + loc**2))
first, again = [], []
for score in (kuq.CRPS(), kuq.Laplace(0.5), kuq.Energy(0.5)):
    start = time.process_time()
    kuq.decompose(prediction, score)
    first.append(time.process_time() - start)
    start = time.process_time()
    for _ in range(5):
        kuq.decompose(prediction, score)
    again.append((time.process_time() - start) / 5)
print(max(first), 1e3 * max(again))
"""


def limit_threads(count: int) -> dict[str, str]:
    return {name: str(count) for name in THREAD_VARIABLES}


def run(code: str, threads: int = 1) -> list[float]:
    """The numbers that a program prints."""
    environment = {**os.environ, **limit_threads(threads)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(word) for word in done.stdout.split()]


def start_up(repeats: int) -> dict[str, float]:
    """CPU seconds; the first process of each kind fills the caches of files."""
    run(IMPORT)
    imports = [run(IMPORT) for _ in range(repeats)]
    run(FIRST_CALL)
    calls = [run(FIRST_CALL) for _ in range(repeats)]
    eager = [run(JAX_CALLS) for _ in range(repeats)]
    return {
        "first eager call with JAX": statistics.median(t for t, _ in eager),
        "the same again, ms": statistics.median(t for _, t in eager),
        "import kuq": statistics.median(row[0] for row in imports),
        "import numpy, a part of it": statistics.median(row[1] for row in imports),
        "modules of numba after import kuq": max(row[2] for row in imports),
        "first compiled call, warm cache": statistics.median(t for t, _ in calls),
        "the same call again": statistics.median(t for _, t in calls),
    }


def two_threads(quick: bool, repeats: int) -> list[dict]:
    """Wall time with one and with two threads, in processes that alternate."""
    measured = []
    for key, (title, problem, law, score, rows, quick_rows) in THREADED_WORKLOADS.items():
        size = quick_rows if quick else rows
        if size == 0:
            continue
        code = THREADED.format(
            problem=problem.format(rows=size), law=law, score=score, repeats=repeats
        )
        walls: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(1 if quick else 2):
            for count in walls:
                walls[count] += run(code, count)
        one, two = (statistics.median(walls[count]) for count in (1, 2))
        row = {"key": key, "title": title, "rows": size, "one_ms": 1e3 * one, "two_ms": 1e3 * two}
        measured.append({**row, "ratio": one / two})
    return measured
