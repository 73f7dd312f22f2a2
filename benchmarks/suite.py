"""Run everything once, into one dictionary that can be stored as JSON."""

from __future__ import annotations

import datetime
import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

import kuq
from benchmarks import fresh, gradients, growth, matrix, problems, training
from benchmarks.measure import MIB, alternate, peak_memory, relative_error
from benchmarks.workloads import WORKLOADS, Workload, of_normals

#: kuq.compiled takes these.
FORMS = {"generic": False, "default": None}


def in_form(form: str, call: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        with kuq.compiled(FORMS[form]):
            return call()

    return run


def run_workload(workload: Workload, quick: bool, repeats: int) -> dict:
    """All contestants of one workload; costs of peers are scaled to all rows."""
    rows = workload.quick_rows if quick else workload.rows
    problem = workload.build(rows)
    calls, share = {}, {}
    for form in FORMS:
        calls[form] = in_form(form, lambda: workload.solve(problem))
        share[form] = rows
    for name, peer in workload.peers.items():
        if not peer.is_there or (quick and peer.quick_rows == 0):
            continue
        share[name] = min(rows, peer.quick_rows if quick else peer.rows)
        fewer = problems.first_rows(problem, share[name])
        calls[name] = lambda solve=peer.solve, fewer=fewer: solve(fewer)
    timings = alternate(calls, repeats)
    exact = workload.exact(problems.sliced(problem, workload.probe))
    contestants = {}
    for name, timing in timings.items():
        errors = [
            error_at(workload.probe, value, truth)
            for value, truth in zip(timing.result, exact, strict=True)
        ]
        contestants[name] = timing.costs(rows / share[name]) | {
            "error_au": errors[0],
            "error_eu": errors[1],
            "rows": share[name],
        }
    return {
        "key": workload.key,
        "title": workload.title,
        "rows": rows,
        "contestants": contestants,
    }


def error_at(probe: tuple[slice, ...], value: Any, truth: np.ndarray) -> float:
    """A peer may have run on fewer rows than there are exact values."""
    there = np.asarray(value)[probe]
    return relative_error(there, truth[: len(there)])


def run_gradient(case: gradients.GradientCase, quick: bool, repeats: int) -> dict:
    rows = case.quick_rows if quick else case.rows
    leaves = case.build(rows)
    losses = {"default": case.ours, **case.peers}
    calls = {
        name: lambda loss=loss: gradients.value_and_gradient(loss, leaves)
        for name, loss in losses.items()
    }
    timings = alternate(calls, repeats)
    ours = timings["default"].result
    difference = max(
        relative_error(a, b)
        for name in case.peers
        for a, b in zip(ours, timings[name].result, strict=True)
    )
    contestants = {name: timing.costs() | {"rows": rows} for name, timing in timings.items()}
    row = {"key": case.key, "title": case.title, "rows": rows, "difference": difference}
    return {**row, "contestants": contestants}


def run_large(quick: bool) -> dict[str, float]:
    """CRPS of very many outcomes, and of very many members: time and memory of one call."""
    costs = {}
    cases = {"million outcomes": (10, 1_000_000), "1000 × 1000": (1000, 1000)}
    for name, (members, outcomes) in cases.items():
        problem = problems.normals(members, outcomes // 10 if quick else outcomes)
        solve = in_form("default", lambda problem=problem: of_normals(kuq.CRPS())(problem))
        peak, lasted = peak_memory(solve)
        outputs = 3 * problem["loc"][0].nbytes / MIB
        costs[f"{name}, time"] = lasted * (10 if quick else 1)
        costs[f"{name}, memory"] = max(0.0, peak - outputs)
    return costs


def run_directions(quick: bool) -> dict[str, float]:
    """One entropy of very many draws: time, memory above inputs, and how sure it is."""
    draws = problems.draws(1, 1, 10_000 if quick else 100_000, 10)["values"][0, 0]
    law = kuq.Samples(draws * np.linspace(1, 2, 10), 1)  # of one size in all directions: no error
    estimates: list[kuq.Estimate] = []

    def solve() -> None:
        estimates[:] = [kuq.entropy(law, kuq.Energy(), directions=1000)]

    solve()  # compiled code is there
    peak, lasted = peak_memory(in_form("default", solve))
    name = "100 000 draws by 1000 directions"
    return {
        f"{name}, time": lasted * (10 if quick else 1),
        f"{name}, memory": peak,
        f"{name}, error": 100 * float(estimates[0].standard_error / estimates[0].value),
    }


def machine() -> dict[str, str | int | None]:
    """What may matter for the times; nothing that names the machine."""
    info = Path("/proc/cpuinfo")
    names = [
        line.split(":", 1)[1].strip()
        for line in (info.read_text().splitlines() if info.exists() else [])
        if line.startswith("model name")
    ]
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def versions() -> dict[str, str]:
    names = ("numpy", "scipy", "numba", "torch", "scoringrules")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def run(quick: bool, only: str = "", say: Callable[[str], None] = print) -> dict:
    """Run the suite; ``only`` chooses workloads by a part of their key, and nothing else."""
    torch.set_num_threads(1)
    repeats = 3 if quick else 5
    start = time.perf_counter()
    results: dict[str, Any] = {
        "kuq": kuq.__version__,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "quick": quick,
        "repeats": repeats,
        "machine": machine(),
        "versions": versions(),
        "workloads": [],
        "gradients": [],
        "losses": [],
        "training": [],
        "matrix": [],
        "limits": {},
        "threads": [],
        "growth": [],
    }

    def log(text: str) -> None:
        say(f"[{time.perf_counter() - start:5.0f} s] {text}")

    for workload in WORKLOADS:
        if only in workload.key and not (quick and workload.quick_rows == 0):
            log(f"{workload.key}: {workload.title}")
            results["workloads"].append(run_workload(workload, quick, repeats))
    for kind, cases in (("gradients", gradients.CASES), ("losses", gradients.LOSSES)):
        for case in cases:
            if only in case.key:
                log(f"{case.key}: {case.title}")
                results[kind].append(run_gradient(case, quick, repeats))
    for case in training.CASES:
        if only in case.key:
            log(f"{case.key}: {case.title}")
            results["training"].append(training.run_training(case, quick, repeats))
    for cell in matrix.CELLS:
        if only in f"matrix {cell.key}":
            log(cell.title)
            results["matrix"].append(matrix.run_cell(cell, quick, repeats))
    if not only:
        log("a million outcomes, a thousand members")
        results["limits"] |= run_large(quick)
        results["limits"] |= run_directions(quick)
        log("start-up in fresh processes")
        results["limits"] |= fresh.start_up(1 if quick else 3)
        log("one and two threads in fresh processes")
        results["threads"] = fresh.two_threads(quick, repeats)
        for series in growth.SERIES:
            log(f"growth of {series.route} in {series.variable}")
            results["growth"].append(growth.fitted(series, quick, 1 if quick else 3))
    results["seconds"] = round(time.perf_counter() - start)
    return results
