"""Default threads against one, beside a process that keeps every core busy.

``python -m benchmarks.busy_machine`` prints, for calls through several routes, how much longer
they take with as many threads as there are cores than with one. Threads that wait for each other
show here: on an idle machine they help, on a busy one they must not harm. The goal is 1.5.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.fresh import limit_threads

GOAL = 1.5
#: One thread and default threads in turns, as the load of a machine changes; the best counts.
_ROUNDS = 3
#: Ends with the process that started it, however that ends.
_BUSY = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"


def _calls() -> dict[str, Callable[[], Any]]:
    import numpy as np

    import kuq

    rng = np.random.default_rng(0)
    fields = rng.normal(size=(10, 4, 20, 1024))
    loc, scale = rng.normal(size=(10, 8, 512)), rng.uniform(0.5, 1.5, size=(10, 8, 512))
    draws = kuq.Ensemble(kuq.Samples(fields, event_ndim=1))
    normals = kuq.Ensemble(kuq.Normal(loc, scale, event_ndim=1))
    low = kuq.Ensemble(
        kuq.LowRankNormal(loc[:5, :4], rng.normal(size=(5, 4, 512, 5)), scale[:5, :4])
    )
    evidential = kuq.NormalInverseGamma(rng.normal(size=(200, 4)), 1.0, 3.0, 1.0, event_ndim=1)
    scalars = kuq.Ensemble(kuq.Samples(rng.normal(size=(10, 200, 200))))
    calls: dict[str, Callable[[], Any]] = {
        "draws of fields, energy": lambda: kuq.decompose(draws, kuq.Energy()),
        "draws of fields, Gaussian": lambda: kuq.decompose(draws, kuq.Gaussian(40.0)),
        "draws of fields, matrix": lambda: kuq.member_divergences(draws, kuq.Energy()),
        "draws of fields, score": lambda: kuq.score(draws, fields[0, :, 0], kuq.Energy()),
        "normal fields, energy": lambda: kuq.decompose(normals, kuq.Energy()),
        "normal fields, Gaussian": lambda: kuq.decompose(normals, kuq.Gaussian(30.0)),
        "low-rank fields, Gaussian": lambda: kuq.decompose(low, kuq.Gaussian(30.0)),
        "low-rank fields, energy": lambda: kuq.decompose(low, kuq.Energy()),
        "low-rank fields, log": lambda: kuq.decompose(low, kuq.LogScore()),
        "evidential vectors, Gaussian": lambda: kuq.decompose(evidential, kuq.Gaussian(2.0)),
        "scalar draws, Gaussian": lambda: kuq.decompose(scalars, kuq.Gaussian(1.0)),
        "scalar draws, CRPS": lambda: kuq.decompose(scalars, kuq.CRPS()),
    }
    try:
        import torch
    except ImportError:
        return calls
    tensors = kuq.Ensemble(kuq.Samples(torch.asarray(fields), event_ndim=1))
    torch_normals = kuq.Ensemble(kuq.Normal(torch.asarray(loc), torch.asarray(scale), event_ndim=1))
    calls["torch: draws of fields, energy"] = lambda: kuq.decompose(tensors, kuq.Energy())
    calls["torch: normal fields, CRPS"] = lambda: kuq.decompose(torch_normals, kuq.CRPS())
    return calls


def _measure(repetitions: int, seconds: float) -> dict[str, float]:
    """The median time of each call, in seconds."""
    times = {}
    for name, call in _calls().items():
        call()  # loads and compiles
        taken: list[float] = []
        begin = time.perf_counter()
        while len(taken) < 3 or (
            len(taken) < repetitions and time.perf_counter() - begin < seconds
        ):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
        times[name] = sorted(taken)[len(taken) // 2]
    return times


def ratios(repetitions: int = 9, seconds: float = 2.0) -> dict[str, tuple[float, float]]:
    """Of every call: its median time with one thread, and that with default threads, while busy."""
    neighbours = [
        subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(os.cpu_count() or 1)
    ]
    try:
        one_thread = limit_threads(1)
        environment = {k: v for k, v in os.environ.items() if k not in one_thread}
        limited = environment | one_thread
        best: list[dict[str, float]] = [{}, {}]
        for _ in range(_ROUNDS):
            for times, chosen in zip(best, (limited, environment), strict=True):
                for name, seconds_taken in _in_process(chosen, repetitions, seconds).items():
                    times[name] = min(seconds_taken, times.get(name, seconds_taken))
    finally:
        for neighbour in neighbours:
            neighbour.kill()
            neighbour.wait()
    one, default = best
    return {name: (one[name], default[name]) for name in one}


def _in_process(environment: dict[str, str], repetitions: int, seconds: float) -> dict[str, float]:
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.busy_machine", str(repetitions), str(seconds)],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    times: dict[str, float] = json.loads(ended.stdout)
    return times


def main() -> int:
    if len(sys.argv) > 1:
        print(json.dumps(_measure(int(sys.argv[1]), float(sys.argv[2]))))
        return 0
    worst = 0.0
    print(f"{'call':<34} {'one thread':>10} {'default':>10} {'ratio':>7}")
    for name, (one, default) in ratios().items():
        worst = max(worst, default / one)
        print(f"{name:<34} {one * 1e3:>7.1f} ms {default * 1e3:>7.1f} ms {default / one:>7.2f}")
    print(f"the worst ratio is {worst:.2f}, the goal {GOAL}")
    return 0 if worst <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
