"""CPU time, wall time, peak memory and error of calls.

Contestants alternate in one process, so that noise of the machine meets all of them; medians of
several repetitions. Ratios of CPU time are what counts: absolute times depend on the machine.
"""

from __future__ import annotations

import ctypes
import gc
import math
import os
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

MIB = 2**20
#: A repetition lasts at least this long; shorter calls are made several times in it.
SHORTEST = 0.02


@dataclass(frozen=True)
class Timing:
    """Medians of seconds per call, the peak memory in MiB, and what the first call returned."""

    cpu: float
    wall: float
    peak: float
    result: Any

    def costs(self, factor: float = 1.0) -> dict[str, float]:
        """What is stored of it, scaled to more rows by a factor."""
        return {
            "cpu_ms": 1e3 * self.cpu * factor,
            "wall_ms": 1e3 * self.wall * factor,
            "peak_mib": self.peak * factor,
        }


def alternate(calls: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, Timing]:
    """Time several calls in turn. The first call of each warms up, the second shows its memory."""
    results, peaks, loops = {}, {}, {}
    for name, call in calls.items():
        results[name] = call()
        peaks[name], lasted = peak_memory(call)
        loops[name] = enough(call, lasted)
    cpu: dict[str, list[float]] = {name: [] for name in calls}
    wall: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start, start_cpu = time.perf_counter(), time.process_time()
            for _ in range(loops[name]):
                call()
            cpu[name].append((time.process_time() - start_cpu) / loops[name])
            wall[name].append((time.perf_counter() - start) / loops[name])
    median = statistics.median
    return {
        name: Timing(median(cpu[name]), median(wall[name]), peaks[name], results[name])
        for name in calls
    }


def enough(call: Callable[[], Any], lasted: float) -> int:
    """How many calls make a repetition; the first one ``lasted`` so long.

    It had to find its memory, and short calls take much less once they are warm.
    """
    count = 1
    while lasted < SHORTEST:
        count = math.ceil(count * min(10.0, 1.2 * SHORTEST / max(lasted, 1e-6)))
        start = time.process_time()
        for _ in range(count):
            call()
        lasted = time.process_time() - start
    return count


def peak_memory(call: Callable[[], Any]) -> tuple[float, float]:
    """MiB that the process grows by during a call, its results included, and its CPU seconds.

    On Linux the kernel's own high-water mark of the resident set, reset before the call, after
    the allocator has given back what it held free: it sees NumPy, torch and compiled code alike.
    Elsewhere a thread samples the resident set, which may miss a short peak.
    """
    gc.collect()
    return high_water(call) if os.access("/proc/self/clear_refs", os.W_OK) else sampled(call)


def high_water(call: Callable[[], Any]) -> tuple[float, float]:
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    lasted, result = cpu_seconds(call)
    peak = status("VmHWM")
    del result  # only now: it is part of the peak
    return max(0.0, peak - before), lasted


def cpu_seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def status(field: str) -> float:
    """A size from /proc/self/status in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(field)


def sampled(call: Callable[[], Any]) -> tuple[float, float]:
    import psutil

    process = psutil.Process()
    before = process.memory_info().rss
    peak, stop = before, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not stop.wait(0.001):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        lasted, result = cpu_seconds(call)
        peak = max(peak, process.memory_info().rss)
        del result
    finally:
        stop.set()
        watcher.join()
    return (peak - before) / MIB, lasted


def relative_error(value: Any, exact: Any) -> float:
    """The largest error, relative to the mean size of the exact values."""
    value, exact = np.asarray(value), np.asarray(exact)
    return float(np.max(np.abs(value - exact)) / np.mean(np.abs(exact)))
