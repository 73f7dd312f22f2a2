"""Killed at any moment and started again, a run ends with the numbers of one that was not."""

import contextlib
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest
from tiny_procedure import write_experiment

from kuq_study import Store, read_experiment, run

KILLS = 5
JOBS = 2
CELLS = 24
LIMIT = 120  # seconds after which something hangs, however busy the machine


def start(path, out):
    command = [sys.executable, "-m", "kuq_study", "run", str(path), "--out", str(out)]
    return subprocess.Popen(
        [*command, "--jobs", str(JOBS)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def cells_done(out):
    """Counted on a copy: to open the original could finish what a killed run left half-done."""
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(out.glob("results.sqlite*")):
            with contextlib.suppress(FileNotFoundError):  # a journal whose work is done
                shutil.copy(path, folder)
        connection = sqlite3.connect(Path(folder) / "results.sqlite")
        with contextlib.closing(connection), contextlib.suppress(sqlite3.DatabaseError):
            query = "SELECT count(*) FROM cells WHERE status = 'done'"
            return connection.execute(query).fetchone()[0]
    return 0  # no table yet, or it was being written


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_five_kills_change_no_number(tmp_path):
    rng = random.Random(20261)
    log, limit, out = tmp_path / "log", tmp_path / "limit", tmp_path / "killed"
    log.touch()
    settings = {"log": log, "limit": limit, "sleep": 0.03}
    path = write_experiment(
        tmp_path, datasets=("a", "bb", "ccc"), seeds=range(CELLS // 3), **settings
    )
    # The first kill comes while the run starts, the others while cells are in flight.
    targets = [0, *sorted(rng.sample(range(1, CELLS - 3), KILLS - 1))]
    for target in targets:
        # Cells beyond the target are in flight when the kill comes, however slow this process is.
        begun = len(log.read_text().splitlines())
        limit.write_text(str(begun + target - cells_done(out) + JOBS + 1))
        process = start(path, out)
        deadline = time.monotonic() + LIMIT
        while cells_done(out) < target and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.005)
        time.sleep(rng.uniform(0.0, 0.1))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert target <= cells_done(out) < CELLS
    limit.write_text(str(10 * CELLS))
    assert start(path, out).wait(LIMIT) == 0

    run([read_experiment(path)], tmp_path / "whole", jobs=0)
    with Store(out) as killed, Store(tmp_path / "whole") as whole:
        assert killed.records() == whole.records()
        assert len(whole.records()) == CELLS * 20
        assert [(c.key, c.status) for c in killed.cells()] == [
            (c.key, "done") for c in whole.cells()
        ]
    trained = Counter(log.read_text().splitlines())
    assert len(trained) == CELLS
    repeated = sum(trained.values()) - 2 * CELLS  # the uninterrupted run trained each once, too
    assert 0 <= repeated <= KILLS * JOBS
    assert sorted(Path(out / "predictions").glob(".*")) == []


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_workers_end_with_a_killed_run(tmp_path):
    psutil = pytest.importorskip("psutil")
    path = write_experiment(tmp_path, sleep=20.0, log=tmp_path / "log")
    (tmp_path / "log").touch()
    process = start(path, tmp_path / "run")
    deadline = time.monotonic() + LIMIT
    while not (tmp_path / "log").read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert workers
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(workers, timeout=LIMIT)
    assert alive == []
