"""``kuq decompose`` on a store that is larger than the memory it may use.

    python -m benchmarks.large_file [--gib 4] [--folder FOLDER]

writes a Zarr store of draws, of at least so many GiB as arrays, piece by piece; runs the command in
a process of its own; and checks that it used less than 1 GiB, and that the numbers at some cells
are those of the library. Takes minutes, and is no part of the default tests.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import numpy as np
import xarray as xr
import zarr

import kuq

MEMBERS, DRAWS, LAT, LON = 8, 16, 91, 180
LIMIT_GIB = 1.0
_CHUNK = (MEMBERS, 1, DRAWS, LAT, LON)


@cache
def _block() -> np.ndarray:
    """Draws of members that disagree, (members, draws, lat, lon)."""
    rng = np.random.default_rng(0)
    centre = rng.normal(size=(MEMBERS, 1, LAT, LON))
    # Few digits, so that the store on the disk is smaller than the arrays.
    return (0.3 * centre + rng.normal(size=(MEMBERS, DRAWS, LAT, LON))).round(1).astype(np.float32)


def values(time_step: int) -> np.ndarray:
    """Draws at one time: those of the first time, further east and with more spread."""
    return np.roll(_block(), time_step, axis=-1) * np.float32(1 + time_step % 7)


def write_store(path: Path, steps: int) -> int:
    """A store of so many times, written one after the other; its size as arrays in bytes."""
    group = zarr.open_group(path, mode="w", zarr_format=2)
    dims = ["member", "time", "sample", "lat", "lon"]
    shape = (MEMBERS, steps, DRAWS, LAT, LON)
    draws = group.create_array(
        "t2m", shape=shape, chunks=_CHUNK, dtype="float32", fill_value=np.nan
    )
    draws.attrs["_ARRAY_DIMENSIONS"] = dims
    draws.attrs["units"] = "K"
    for name, places in (("lat", np.linspace(-90, 90, LAT)), ("lon", np.arange(0.0, 360, 2))):
        axis = group.create_array(name, shape=places.shape, dtype="float64")
        axis[:] = places
        axis.attrs["_ARRAY_DIMENSIONS"] = [name]
    for step in range(steps):
        draws[:, step] = values(step)
    return int(np.prod(shape)) * 4


def run(folder: Path, gib: float) -> None:
    """Write, decompose, check, and print what it took."""
    store, out = folder / "draws.zarr", folder / "uncertainty.zarr"
    per_step = MEMBERS * DRAWS * LAT * LON * 4
    steps = int(np.ceil(gib * 2**30 / per_step))
    start = time.perf_counter()
    size = write_store(store, steps)
    written = time.perf_counter() - start
    command = [sys.executable, "-m", "kuq", "decompose", str(store), "--out", str(out)]
    start = time.perf_counter()
    subprocess.run(command, check=True)
    taken = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 2**30
    stored = xr.open_zarr(out, chunks=None, consolidated=False)
    for step in (0, steps // 2, steps - 1):
        draws = np.moveaxis(values(step), 1, -1)
        expected = kuq.decompose(kuq.Ensemble(kuq.Samples(draws)), kuq.CRPS())
        for name in expected:
            np.testing.assert_allclose(stored[name][step], expected[name], rtol=1e-4, atol=1e-6)
    print(f"\n{size / 2**30:.2f} GiB of draws, written in {written:.0f} s")
    print(f"decomposed in {taken:.0f} s")
    print(f"largest memory of the command: {peak:.2f} GiB (limit {LIMIT_GIB:g} GiB)")
    if peak >= LIMIT_GIB:
        raise SystemExit("too much memory")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", type=float, default=4.0, help="size of the store as arrays")
    parser.add_argument("--folder", type=Path, help="where to write (default: a temporary folder)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        run(Path(folder), options.gib)


if __name__ == "__main__":
    main()
