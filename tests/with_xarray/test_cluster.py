"""A cluster gives the same numbers, also when one of its workers dies half-way."""

import functools
import os
import signal
import time
import uuid

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import kuq

distributed = pytest.importorskip("distributed")

VALUES = np.random.default_rng(8).normal(size=(3, 4, 24, 10))
#: Seconds after which something hangs, however busy the machine.
LIMIT = 120
DIMS = ("member", "sample", "time", "lat")


def noted(block, folder):
    """A block that leaves a file behind; once there are ten of them it waits for the gate."""
    (folder / f"{os.getpid()}-{uuid.uuid4().hex}").touch()
    deadline = time.monotonic() + LIMIT
    while len(list(folder.iterdir())) >= 10 and not gate(folder).exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return block


def gate(folder):
    return folder.with_suffix(".open")


def lazily(folder):
    folder.mkdir()
    chunks = da.from_array(VALUES, chunks=(3, 4, 1, 10))
    held = chunks.map_blocks(functools.partial(noted, folder=folder), dtype=VALUES.dtype)
    return kuq.xarray.decompose(xr.DataArray(held, dims=DIMS), kuq.CRPS())


def test_numbers_survive_the_death_of_a_worker(tmp_path):
    in_memory = kuq.xarray.decompose(xr.DataArray(VALUES, dims=DIMS), kuq.CRPS())
    for name in ("local", "first"):
        gate(tmp_path / name).touch()
    local = lazily(tmp_path / "local").compute(scheduler="threads", num_workers=8)
    first, second = lazily(tmp_path / "first"), lazily(tmp_path / "second")
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs="CRITICAL",
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        undisturbed = client.compute(first).result(timeout=LIMIT)
        workers = client.run(os.getpid)
        assert len(workers) == 2
        disturbed = client.compute(second)
        deadline = time.monotonic() + LIMIT
        begun = []
        while len(begun) < 10 or len({name.split("-")[0] for name in begun}) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.02)
            begun = os.listdir(tmp_path / "second")
        assert not disturbed.done()
        os.kill(next(iter(workers.values())), signal.SIGKILL)
        gate(tmp_path / "second").touch()
        survived = disturbed.result(timeout=LIMIT)
    # What the dead worker had done was done again by another.
    assert len(list((tmp_path / "second").iterdir())) > 24
    for key in in_memory:
        np.testing.assert_allclose(local[key].values, in_memory[key].values, rtol=1e-12)
        np.testing.assert_array_equal(undisturbed[key].values, local[key].values)
        np.testing.assert_array_equal(survived[key].values, local[key].values)
