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
    """Medians of seconds per call, and what the first call returned."""

    cpu: float
    wall: float
    result: Any


def alternate(calls: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, Timing]:
    """Time several calls in turn. The first call of each only warms up."""
    results, loops = {}, {}
    for name, call in calls.items():
        results[name] = call()
        start = time.perf_counter()
        call()
        loops[name] = max(1, math.ceil(SHORTEST / (time.perf_counter() - start)))
    cpu: dict[str, list[float]] = {name: [] for name in calls}
    wall: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start, start_cpu = time.perf_counter(), time.process_time()
            for _ in range(loops[name]):
                call()
            cpu[name].append((time.process_time() - start_cpu) / loops[name])
            wall[name].append((time.perf_counter() - start) / loops[name])
    return {
        name: Timing(statistics.median(cpu[name]), statistics.median(wall[name]), results[name])
        for name in calls
    }


def peak_memory(call: Callable[[], Any]) -> float:
    """MiB that the process grows by while the call runs, its results included.

    On Linux the kernel's own high-water mark of the resident set, reset before the call, after
    the allocator has given back what it held free: it sees NumPy, torch and compiled code alike.
    Elsewhere a thread samples the resident set, which may miss a short peak.
    """
    gc.collect()
    return high_water(call) if os.access("/proc/self/clear_refs", os.W_OK) else sampled(call)


def high_water(call: Callable[[], Any]) -> float:
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    result = call()
    peak = status("VmHWM")
    del result
    return max(0.0, peak - before)


def status(field: str) -> float:
    """A size from /proc/self/status in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(field)


def sampled(call: Callable[[], Any]) -> float:
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
        result = call()
        peak = max(peak, process.memory_info().rss)
        del result
    finally:
        stop.set()
        watcher.join()
    return (peak - before) / MIB


def relative_error(value: Any, exact: Any) -> float:
    """The largest error, relative to the mean size of the exact values."""
    value, exact = np.asarray(value), np.asarray(exact)
    return float(np.max(np.abs(value - exact)) / np.mean(np.abs(exact)))
