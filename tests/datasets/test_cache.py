"""The cache: whole files or none, once for all processes, checked when read."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from kuq.datasets.cache import DataError, cache_folder, cached_array, data_folder, lock, replacing

SHAPE = (3, 4)
#: Writes a line to a file each time it has to make the array, slowly.
MAKE = """
import sys, time, os, signal
import numpy as np
from kuq.datasets.cache import cached_array
def fill(array):
    with open(sys.argv[1], "a") as log:
        log.write("made\\n")
    array[:1] = 1.0
    {middle}
    array[:] = np.arange(12.0).reshape(3, 4)
print(float(cached_array("numbers", {{"a": 1}}, (3, 4), fill).sum()), flush=True)
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("KUQ_CACHE", str(folder))
    return folder


def fill(array):
    array[:] = np.arange(12.0).reshape(SHAPE)


def never(array):
    raise AssertionError("it was made again")


def numbers(fill=fill, **settings):
    return cached_array("numbers", {"a": 1, **settings}, SHAPE, fill)


def start(log, middle):
    command = [sys.executable, "-c", MAKE.format(middle=middle), str(log)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_made_once_and_read_ever_after(cache):
    fresh = numbers()
    cached = numbers(never)
    np.testing.assert_array_equal(cached, fresh)
    assert not cached.flags.writeable
    names = sorted(p.suffix for p in cache.iterdir())
    assert names == [".json", ".lock", ".npy"] or names == [".json", ".lock", ".lock", ".npy"]


def test_settings_and_shape_decide():
    numbers()
    with pytest.raises(AssertionError, match="made again"):
        numbers(never, b=2)
    with pytest.raises(AssertionError, match="made again"):
        cached_array("numbers", {"a": 1}, (4, 3), never)


def test_an_error_while_making_leaves_nothing(cache):
    def half(array):
        array[0] = 1.0
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        numbers(half)
    assert not [p for p in cache.iterdir() if p.suffix != ".lock"]
    np.testing.assert_array_equal(numbers()[2], [8, 9, 10, 11])


def test_killed_half_way_leaves_nothing_that_is_taken_for_whole(cache, tmp_path):
    process = start(tmp_path / "log", "os.kill(os.getpid(), signal.SIGKILL)")
    assert process.wait(60) == -signal.SIGKILL
    process.stdout.close()
    assert not list(cache.glob("numbers*.npy"))
    assert len(list(cache.glob(".*.part"))) == 1  # what was written
    np.testing.assert_array_equal(numbers()[0], [0, 1, 2, 3])
    assert not list(cache.glob(".*.part"))


def test_two_processes_at_once_both_get_it_and_one_makes_it(tmp_path):
    log = tmp_path / "log"
    processes = [start(log, "time.sleep(0.5)") for _ in range(2)]
    printed = [process.communicate(timeout=60)[0] for process in processes]
    assert printed == ["66.0\n"] * 2
    assert log.read_text() == "made\n"


@pytest.mark.parametrize("harm", ["truncated", "changed", "no note", "broken note", "other note"])
def test_damaged_files_are_made_again_with_a_word(cache, caplog, harm):
    numbers()
    (path,) = cache.glob("*.npy")
    note = path.with_suffix(".json")
    content = path.read_bytes()
    if harm == "truncated":
        path.write_bytes(content[:-9])
    elif harm == "changed":
        path.write_bytes(content[:-1] + b"\x01")
    elif harm == "no note":
        note.unlink()
    elif harm == "broken note":
        note.write_text("{")
    else:
        note.write_text(json.dumps({"settings": {}, "sha256": ""}))
    with caplog.at_level(logging.WARNING):
        np.testing.assert_array_equal(numbers(), np.arange(12.0).reshape(SHAPE))
    told = "does not match its checksum and is made again" in caplog.text
    assert told == (harm != "no note")
    numbers(never)


def test_lock_is_exclusive(tmp_path):
    order = []
    entered = threading.Event()

    def second():
        entered.wait()
        with lock(tmp_path / "a"):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with lock(tmp_path / "a"):
        entered.set()
        thread.join(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_replacing_keeps_the_old_file_on_error(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(RuntimeError), replacing(path) as part:  # noqa: PT012
        part.write_text("ne")
        raise RuntimeError
    assert path.read_text() == "old"
    assert set(os.listdir(tmp_path)) <= {"a", "cache"}
    with replacing(path) as part:
        part.write_text("new")
    assert path.read_text() == "new"


def test_folders(tmp_path, monkeypatch):
    monkeypatch.delenv("KUQ_DATA", raising=False)
    assert data_folder(None) is None
    assert data_folder(tmp_path) == tmp_path
    monkeypatch.setenv("KUQ_DATA", str(tmp_path))
    assert data_folder(None) == tmp_path
    with pytest.raises(DataError, match=r"data_dir names .*nowhere"):
        data_folder(tmp_path / "nowhere")
    monkeypatch.setenv("KUQ_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="KUQ_DATA names"):
        data_folder(None)
    monkeypatch.delenv("KUQ_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "x"))
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert tmp_path in cache_folder().parents
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("KUQ_CACHE", str(blocked / "cache"))
    with pytest.raises(DataError, match="set KUQ_CACHE to a folder that can be written"):
        cache_folder()
