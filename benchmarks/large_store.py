"""python -m benchmarks.large_store [--gib 4] [--workers 2]: a store larger than memory may be.

Writes a Zarr store of draws, sends it through kuq.xarray.decompose into another store in a process
of its own, and again on a local cluster, one worker of which is killed half-way. Prints time and
peak memory of each run, and whether all numbers are the same.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

MEMBERS, DRAWS, LAT, LON = 8, 16, 128, 128
VARIABLE = "t2m"


def write_store(path: Path, gib: float) -> int:
    """Draws of a noisy wave, one time at a time; the number of bytes."""
    import numpy as np
    import zarr

    each = MEMBERS * DRAWS * LAT * LON * 8
    times = max(2, round(gib * 2**30 / each))
    root = zarr.open_group(path, mode="w")
    dims = ("member", "sample", "time", "lat", "lon")
    array = root.create_array(
        VARIABLE,
        shape=(MEMBERS, DRAWS, times, LAT, LON),
        chunks=(MEMBERS, DRAWS, 1, LAT, LON),
        dtype="float64",
        compressors=None,
        dimension_names=dims,
        attributes={"units": "K"},
    )
    for k in range(times):
        rng = np.random.default_rng(k)
        wave = np.sin(np.linspace(0, 6, LON) + k / 5)
        noise = rng.normal(size=(MEMBERS, DRAWS, LAT, LON)) * (1 + wave**2)
        array[:, :, k] = wave + noise + rng.normal(size=(MEMBERS, 1, 1, 1))
    return times * each


def decompose_store(source: Path, target: Path) -> None:
    import xarray as xr

    import kuq

    data = xr.open_zarr(source, consolidated=False)[VARIABLE]
    result = kuq.xarray.decompose(data, kuq.CRPS())
    result.to_zarr(target, mode="w", consolidated=False)


def run(source: Path, target: Path, workers: int, kill: bool) -> None:
    """One run in this process, with its time and the peak of memory at the end."""
    started = time.perf_counter()
    if workers:
        from distributed import Client, LocalCluster

        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50
            ) as cluster,
            Client(cluster) as client,
        ):
            if kill:
                pids = client.run(os.getpid)
                chunks = target / "total" / "c"
                threading.Thread(
                    target=_kill_half_way, args=(source, chunks, next(iter(pids.values())))
                ).start()
            decompose_store(source, target)
    else:
        decompose_store(source, target)
    who = resource.RUSAGE_CHILDREN if workers else resource.RUSAGE_SELF
    peak = resource.getrusage(who).ru_maxrss / 2**10
    print(f"{time.perf_counter() - started:.1f} s, peak {peak:.0f} MiB per process", flush=True)


def _kill_half_way(source: Path, chunks: Path, pid: int) -> None:
    total = len(list((source / VARIABLE / "c").rglob("*")))
    while sum(1 for entry in chunks.rglob("*") if entry.is_file()) < total / 12:
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    print("killed a worker: ", end="", flush=True)


def same(first: Path, second: Path) -> bool:
    import numpy as np
    import zarr

    one, other = zarr.open_group(first, mode="r"), zarr.open_group(second, mode="r")
    return all(
        np.array_equal(one[key][:], other[key][:]) for key in ("total", "aleatoric", "epistemic")
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_store", description=__doc__)
    parser.add_argument("--gib", type=float, default=4.0, help="size of the store")
    parser.add_argument("--workers", type=int, default=2, help="workers of the cluster; 0: none")
    parser.add_argument("--folder", type=Path, default=None, help="where the stores are written")
    parser.add_argument("--run", nargs=4, metavar="ARG", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        source, target, workers, kill = options.run
        run(Path(source), Path(target), int(workers), kill == "kill")
        return 0
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        source = Path(folder) / "draws.zarr"
        size = write_store(source, options.gib)
        print(f"store of {size / 2**30:.2f} GiB")
        runs = [("threads", 0, "")]
        if options.workers:
            runs += [("cluster", options.workers, ""), ("killed", options.workers, "kill")]
        for name, workers, kill in runs:
            print(f"{name}: ", end="", flush=True)
            target = Path(folder) / f"{name}.zarr"
            arguments = ["--run", str(source), str(target), str(workers), kill]
            subprocess.run([sys.executable, "-m", "benchmarks.large_store", *arguments], check=True)
        alike = [same(Path(folder) / "threads.zarr", Path(folder) / f"{n}.zarr") for n, *_ in runs]
        print("all numbers are the same" if all(alike) else "NUMBERS DIFFER")
    return 0 if all(alike) else 1


if __name__ == "__main__":
    sys.exit(main())
