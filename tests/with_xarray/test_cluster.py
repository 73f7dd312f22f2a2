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
DIMS = ("member", "sample", "time", "lat")


def noted(block, folder):
    """A block that leaves a file behind and takes its time, so that there is a half-way."""
    (folder / uuid.uuid4().hex).touch()
    time.sleep(0.1)
    return block


def lazily(folder):
    folder.mkdir()
    chunks = da.from_array(VALUES, chunks=(3, 4, 1, 10))
    slow = chunks.map_blocks(functools.partial(noted, folder=folder), dtype=VALUES.dtype)
    return kuq.xarray.decompose(xr.DataArray(slow, dims=DIMS), kuq.CRPS())


def test_numbers_survive_the_death_of_a_worker(tmp_path):
    in_memory = kuq.xarray.decompose(xr.DataArray(VALUES, dims=DIMS), kuq.CRPS())
    local = lazily(tmp_path / "local").compute(scheduler="threads", num_workers=8)
    first, second = lazily(tmp_path / "first"), lazily(tmp_path / "second")
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs="CRITICAL",
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        undisturbed = client.compute(first).result(timeout=120)
        workers = client.run(os.getpid)
        assert len(workers) == 2
        disturbed = client.compute(second)
        while len(list((tmp_path / "second").iterdir())) < 8:
            time.sleep(0.02)
        assert not disturbed.done()
        os.kill(next(iter(workers.values())), signal.SIGKILL)
        survived = disturbed.result(timeout=120)
    # What the dead worker had done was done again by another.
    assert len(list((tmp_path / "second").iterdir())) > 24
    for key in in_memory:
        np.testing.assert_allclose(local[key].values, in_memory[key].values, rtol=1e-12)
        np.testing.assert_array_equal(undisturbed[key].values, local[key].values)
        np.testing.assert_array_equal(survived[key].values, local[key].values)
