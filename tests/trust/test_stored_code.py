"""Compiled code that is kept between processes: stale, damaged or without room, never wrong."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kuq

pytest.importorskip("numba")

#: A score that goes through compiled code which inlines functions of another file.
PROGRAM = """
import sys
LIMIT = int(sys.argv[1])
import resource
if LIMIT >= 0:  # bytes that a file may have: a write beyond fails as it does on a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))
import numpy as np
import kuq
rng = np.random.default_rng(0)
members = kuq.Normal(rng.normal(size=(5, 40)), rng.uniform(0.5, 2.0, size=(5, 40)))
with kuq.compiled(True):
    print(float(kuq.decompose(kuq.Ensemble(members), kuq.CRPS()).total.sum()).hex())
"""

#: Changes what kernels inline, in a file that is not theirs.
EDIT = """

_before = erf_and_fall


@inlined
def erf_and_fall(x: Any) -> Any:
    first, second = _before(x)
    return 2.0 * first, second
"""


def number(cache, package=None, limit=-1):
    """What the program prints, in a process of its own with its cache in a folder."""
    source = package or Path(kuq.__file__).parent
    environment = os.environ | {
        "PYTHONPATH": str(source.parent),
        "NUMBA_CACHE_DIR": str(cache),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(limit)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return float.fromhex(ended.stdout)


def expected():
    rng = np.random.default_rng(0)
    members = kuq.Normal(rng.normal(size=(5, 40)), rng.uniform(0.5, 2.0, size=(5, 40)))
    with kuq.compiled(False):
        return float(kuq.decompose(kuq.Ensemble(members), kuq.CRPS()).total.sum())


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A folder with one kernel that was compiled and kept, and its file."""
    folder = tmp_path_factory.mktemp("cache")
    assert number(folder) == pytest.approx(expected(), rel=1e-12)
    (file,) = (folder / "kuq").iterdir()
    return folder, file


def test_kept_code_is_used(stored):
    folder, file = stored
    before = file.stat().st_mtime_ns
    assert number(folder, limit=0) == pytest.approx(expected(), rel=1e-12)  # nothing to write
    assert file.stat().st_mtime_ns == before


def test_an_edit_of_what_is_inlined_takes_effect(tmp_path):
    package = tmp_path / "source" / "kuq"
    shutil.copytree(
        Path(kuq.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    old = number(tmp_path / "cache", package)
    mathematics = package / "_numba" / "mathematics.py"
    mathematics.write_text(mathematics.read_text() + EDIT)
    edited = number(tmp_path / "cache", package)
    assert edited == number(tmp_path / "none", package)  # what an empty cache gives
    assert abs(edited - old) > 0.01 * old
    assert len(list((tmp_path / "cache" / "kuq").iterdir())) == 1  # the old one was replaced


def damaged(content, trial):
    """Content with a flipped bit, cut, extended, emptied or with a page of zeros."""
    rng = np.random.default_rng(trial)
    place = int(rng.integers(len(content)))
    kind = trial % 8
    if kind == 0:
        return content[:place]
    if kind == 1:
        return content + bytes(int(rng.integers(1, 100)))
    if kind == 2:
        stop = min(place + 4096, len(content))
        zeros = content[:place] + bytes(stop - place) + content[stop:]
        return zeros if zeros != content else b""
    bit = 1 << int(rng.integers(8))
    return content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :]


def test_damage_is_seen(stored, tmp_path, trials):
    """No byte of a damaged file reaches the loader; the whole one does."""
    from kuq._numba.stored_code import _read, _sealed

    content = stored[1].read_bytes()
    payload, origin = content[32:], b"where it came from"
    file = tmp_path / "kernel"
    whole = _sealed(origin, payload)
    file.write_bytes(whole)
    assert _read(file, origin) == payload
    assert _read(file, b"another origin") is None
    for trial in range(trials(1000)):
        file.write_bytes(damaged(whole, trial))
        assert _read(file, origin) is None, trial


def test_damaged_code_is_compiled_again(stored, tmp_path, trials):
    content = stored[1].read_bytes()
    for trial in range(trials(10)):
        file = tmp_path / str(trial) / "kuq" / stored[1].name
        file.parent.mkdir(parents=True)
        file.write_bytes(damaged(content, trial))
        assert number(tmp_path / str(trial)) == pytest.approx(expected(), rel=1e-12)
        assert number(tmp_path / str(trial), limit=0) == pytest.approx(expected(), rel=1e-12)
        assert file.stat().st_size == pytest.approx(len(content), rel=0.1)  # whole again
        assert len(list(file.parent.iterdir())) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="limits of files are POSIX")
def test_no_room_for_compiled_code(tmp_path):
    assert number(tmp_path, limit=4096) == pytest.approx(expected(), rel=1e-12)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_folder_that_cannot_be_made(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"not a folder")
    assert number(file / "cache") == pytest.approx(expected(), rel=1e-12)
    assert file.read_bytes() == b"not a folder"
