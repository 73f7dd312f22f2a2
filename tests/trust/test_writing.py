"""Kills, signals and full disks while outputs are written; files that are not kuq's."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from kuq.cli import main

pytest.importorskip("xarray")
pytest.importorskip("pyarrow")
pytest.importorskip("h5netcdf")
pytest.importorskip("torch")
pytest.importorskip("matplotlib")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and signals")

WRITERS = Path(__file__).with_name("writers.py")
REPLACED = ("zarr", "nc", "npz", "csv", "parquet", "html", "model", "state", "report")
COMMANDS = ("nc", "cache", "zarr", "npz", "csv", "parquet", "html", "png")


def tried(plans, folder, size):
    folder.mkdir(exist_ok=True)
    command = [sys.executable, str(WRITERS), json.dumps(plans), str(folder), str(size)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    results = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(results) == len(plans)
    return results


def is_new_and_alone(again, found):
    """The next call for the same output: it is there, and nothing else."""
    assert again["code"] == 0
    assert again["found"] == found["new"]
    assert again["left"] == []


def test_killed_at_any_point_there_is_the_old_output_or_the_new(tmp_path, trials):
    plans = []
    for i in range(trials(90)):
        kind = REPLACED[i % len(REPLACED)]
        plans.append({"kind": kind, "kill": random.Random(i).random()})
    results = tried(plans, tmp_path / "kills", 40)
    for found in results:
        assert found["code"] == -signal.SIGKILL, found["words"]
        if found["kind"] != "report":  # which is many files
            assert found["found"] in (found["old"], found["new"]), found
        is_new_and_alone(found["again"], found)


def test_full_disks_are_told_and_the_old_output_stays(tmp_path, trials):
    plans = []
    for i in range(trials(30)):
        kind = COMMANDS[i % len(COMMANDS)]
        plans.append({"kind": kind, "limit": random.Random(i).uniform(0.0, 0.9)})
    for found in tried(plans, tmp_path / "limits", 3000):
        told(found)


def told(found):
    assert found["code"] == 2, found
    words = found["words"].splitlines()
    assert len(words) == 1, found
    assert words[0].startswith("kuq: error: "), found
    assert "File too large" in words[0] or "No space left" in words[0], found
    assert found["left"] == [], found
    if found["kind"] != "cache":
        assert found["found"] == found["old"], found
        is_new_and_alone(found["again"], found)


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 64 MiB; only where one may be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    command = [str(mount), "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)]
    if not mount or not unmount or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no disk may be mounted here")
    yield place
    subprocess.run([str(unmount), "-l", str(place)], check=True)


def test_disks_that_are_full_indeed(small_disk, trials):
    plans = []
    for i in range(trials(20)):
        kind = COMMANDS[i % len(COMMANDS)]
        plans.append({"kind": kind, "disk": random.Random(i).uniform(0.1, 0.8)})
    for found in tried(plans, small_disk / "trials", 1000):
        told(found)


SIGNALS = (signal.SIGTERM, signal.SIGINT)
SLOW = ("nc", "zarr", "npz")


@pytest.fixture(autouse=True)
def signals_are_heard():
    """A shell starts what runs behind it with the interrupt ignored, and children inherit that."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        if handler == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def slow_inputs(tmp_path_factory):
    """Predictions that take hours under a kernel without a closed form, on any machine."""
    import xarray as xr

    folder = tmp_path_factory.mktemp("slow")
    draws = np.random.default_rng(0).normal(size=(6, 3000, 300))
    np.savez(folder / "in.npz", samples=draws)
    grid = xr.DataArray(draws, dims=("member", "x", "sample"), name="t")
    grid.to_netcdf(folder / "in.nc", engine="h5netcdf")
    grid.to_dataset().to_zarr(folder / "in.zarr", consolidated=False)
    return folder


def test_signals_end_soon_and_leave_nothing(slow_inputs, trials):
    for i in range(trials(10)):
        rng = random.Random(i)
        kind, number = SLOW[i % len(SLOW)], SIGNALS[i // 2 % len(SIGNALS)]
        before = sorted(slow_inputs.iterdir())
        command = [sys.executable, "-m", "kuq", "decompose", f"in.{kind}"]
        command += ["--score", "matern:1:0.7", "--out", f"out.{kind}"]
        with running(command, cwd=slow_inputs) as process:
            deadline = time.monotonic() + 60
            while kind != "npz" and sorted(slow_inputs.iterdir()) == before:  # until it writes
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.01)
            time.sleep(rng.uniform(0.0, 2.0) + (4.0 if kind == "npz" else 0.0))
            assert process.poll() is None
            start = time.monotonic()
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            # The promise is two seconds; a busy machine may take longer to end a process.
            assert time.monotonic() - start < 6.0
            assert process.returncode == 128 + number
            assert (out, err) == ("", "kuq: stopped\n")
        assert sorted(slow_inputs.iterdir()) == before


@contextmanager
def running(command, **options):
    """A command at work, ended in any case."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


#: Places that hold something of the user's: a command, and what it must not touch.
FOREIGN = {
    "folder.npz": ["decompose", "in.npz", "--out", "folder.npz"],
    "folder.csv": ["decompose", "in.csv", "--out", "folder.csv"],
    "folder.nc": ["decompose", "in.nc", "--out", "folder.nc"],
    "folder.zarr": ["decompose", "in.zarr", "--out", "folder.zarr"],
    "folder.html": ["decompose", "in.npz", "--report", "folder.html"],
    "data.zarr": ["decompose", "data.zarr/in.zarr", "--out", "data.zarr"],
    "mine.npz": ["decompose", "in.npz", "--out", "mine.npz"],
    "mine.csv": ["decompose", "in.csv", "--out", "mine.csv"],
    "mine.parquet": ["decompose", "in.parquet", "--out", "mine.parquet"],
    "mine.nc": ["decompose", "in.nc", "--out", "mine.nc"],
    "in.zarr": ["decompose", "in.zarr", "--out", "in.zarr/out.zarr"],
    "mine.html": ["decompose", "in.npz", "--report", "mine.html"],
    "kuq-demo.png": ["demo"],
    "kuq-demo.html": ["demo", "patients"],
    "figure.svg": ["demo", "--out", "figure.svg"],
    "kuq-data-diabetes.png": ["data", "show", "diabetes"],
}


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    import pandas as pd
    import xarray as xr

    sys.path.insert(0, str(WRITERS.parent))
    try:
        from writers import digest, make_inputs
    finally:
        sys.path.remove(str(WRITERS.parent))
    tmp_path = tmp_path_factory.mktemp("foreign")
    make_inputs(tmp_path, 0)
    for name in FOREIGN:
        if name.startswith("folder"):
            (tmp_path / name / "deep").mkdir(parents=True)
            (tmp_path / name / "deep" / "precious").write_text("mine")
    shutil.copytree(tmp_path / "in.zarr", tmp_path / "data.zarr" / "in.zarr")
    shutil.copy(tmp_path / "data.zarr" / "in.zarr" / "zarr.json", tmp_path / "data.zarr")
    table = pd.DataFrame({"total": [2.0], "aleatoric": [1.0], "epistemic": [1.0]})
    table.to_csv(tmp_path / "mine.csv", index=False)
    table.to_parquet(tmp_path / "mine.parquet")
    np.savez(tmp_path / "mine.npz", **{name: table[name] for name in table})
    xr.Dataset.from_dataframe(table).to_netcdf(tmp_path / "mine.nc", engine="h5netcdf")
    for name in ("mine.html", "kuq-demo.html"):
        (tmp_path / name).write_text("<!doctype html><title>kuq decompose</title>")
    from matplotlib.figure import Figure

    for name in ("kuq-demo.png", "figure.svg", "kuq-data-diabetes.png"):
        Figure().savefig(tmp_path / name)
    return tmp_path, digest


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_not_kuqs_survives(name, foreign, capsys, monkeypatch):
    folder, digest = foreign
    monkeypatch.chdir(folder)
    before, there = digest(Path(name)), sorted(Path().iterdir())
    assert main(FOREIGN[name]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert name in err
    assert digest(Path(name)) == before
    assert [path for path in sorted(Path().iterdir()) if path not in there] == []
