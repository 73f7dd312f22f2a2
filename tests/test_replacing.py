"""Outputs are there as a whole or not at all, and replace only what is recognised as kuq's."""

import errno
import os
import signal
import stat
import subprocess
import sys

import pytest

from kuq import _replacing
from kuq._replacing import (
    Kind,
    abandon,
    check_target,
    marked,
    replacing,
    sweep,
    sweep_folder,
    write_text,
)
from kuq.errors import ParameterError

TEXT = marked("a text", b"made by kuq")
STORE = Kind("a store", lambda path: (path / "mark").exists(), folder=True)
#: Starts to write a.txt and waits, or is killed.
WRITE = """
import os, signal, sys
from kuq._replacing import replacing
with replacing(sys.argv[1]) as part:
    part.write_text("half")
    print("writes", flush=True)
    {then}
"""
#: Replaces a store, and is killed when it renames for the n-th time.
SWAP = """
import os, signal, sys
from kuq import _replacing
from pathlib import Path
if sys.argv[3] == "two steps":
    _replacing._renamed = lambda *names: False
left = [int(sys.argv[2])]
def watched(function):
    def call(*args, **options):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **options)
    return call
_replacing._renamed = watched(_replacing._renamed)
os.rename = watched(os.rename)
_replacing.shutil.rmtree = watched(_replacing.shutil.rmtree)
os.mkdir = watched(os.mkdir)
store = _replacing.Kind("a store", lambda path: (path / "mark").exists(), folder=True)
with _replacing.replacing(Path(sys.argv[1]), store) as part:
    part.mkdir()
    (part / "mark").write_text("new")
"""
killing = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")


def start(script, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )


def make_store(path, text="old"):
    path.mkdir()
    (path / "mark").write_text(text)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_files_and_folders_are_replaced_as_a_whole(tmp_path):
    for text in ("made by kuq", "made by kuq again"):
        write_text(tmp_path / "a.txt", text, TEXT)
        assert (tmp_path / "a.txt").read_text() == text
        with replacing(tmp_path / "s", STORE) as part:
            make_store(part, text)
        assert (tmp_path / "s" / "mark").read_text() == text
    assert names(tmp_path) == ["a.txt", "s"]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_an_error_leaves_what_was_there(tmp_path, error):
    write_text(tmp_path / "a.txt", "old")
    make_store(tmp_path / "s")
    with pytest.raises(error), replacing(tmp_path / "a.txt") as part:  # noqa: PT012
        part.write_text("half")
        raise error
    with pytest.raises(error), replacing(tmp_path / "s", STORE) as part:  # noqa: PT012
        part.mkdir()
        raise error
    assert (tmp_path / "a.txt").read_text() == "old"
    assert (tmp_path / "s" / "mark").read_text() == "old"
    assert names(tmp_path) == ["a.txt", "s"]


@pytest.mark.parametrize("system", ["one step", "two steps"])
@pytest.mark.parametrize("kind", [None, TEXT, STORE])
def test_what_is_not_recognised_is_refused_and_named(tmp_path, kind, system, monkeypatch):
    if system == "two steps":
        monkeypatch.setattr(_replacing, "_renamed", lambda *names: False)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "precious").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").touch()
    (tmp_path / "link").symlink_to("folder")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
    before = names(tmp_path)
    refused = {"folder", "link", "pipe"} if kind is None else {*before}
    for name in sorted(refused & {*before}):
        with (
            pytest.raises(ParameterError, match=f"{name}' exists and is .*left as it is"),
            replacing(tmp_path / name, kind) as part,
        ):
            part.write_text("new")
    assert names(tmp_path) == before
    assert (tmp_path / "folder" / "precious").read_text() == "mine"
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("system", ["one step", "two steps"])
def test_what_comes_while_an_output_is_made_is_not_replaced(tmp_path, system, monkeypatch):
    if system == "two steps":
        monkeypatch.setattr(_replacing, "_renamed", lambda *names: False)
    with pytest.raises(ParameterError, match="exists"), replacing(tmp_path / "a", TEXT) as part:  # noqa: PT012
        part.write_text("made by kuq")
        (tmp_path / "a").write_text("mine")
    assert (tmp_path / "a").read_text() == "mine"
    assert names(tmp_path) == ["a"]


def test_a_link_is_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    write_text(tmp_path / "elsewhere" / "a.txt", "made by kuq", TEXT)
    (tmp_path / "link.txt").symlink_to(tmp_path / "elsewhere" / "a.txt")
    (tmp_path / "dangling.txt").symlink_to(tmp_path / "elsewhere" / "b.txt")
    for name in ("link.txt", "dangling.txt"):
        write_text(tmp_path / name, "made by kuq again", TEXT)
        assert (tmp_path / name).is_symlink()
    assert (tmp_path / "elsewhere" / "a.txt").read_text() == "made by kuq again"
    assert (tmp_path / "elsewhere" / "b.txt").read_text() == "made by kuq again"


def test_inputs_and_what_holds_them_are_no_outputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "data" / "in"
    (tmp_path / "data").mkdir()
    make_store(source)
    (tmp_path / "data" / "mark").touch()  # so that the folder would be recognised
    (tmp_path / "alias").symlink_to("data")
    (tmp_path / "file").write_text("made by kuq")
    os.link(tmp_path / "file", tmp_path / "hard")
    for name, kind, given in (
        ("data/in", STORE, source),
        ("data/../data/./in", STORE, source),
        ("alias/in", STORE, source),
        ("data/in", STORE, "alias/in"),
        ("data", STORE, source),
        ("alias", STORE, source),
        (".", STORE, source),
        ("data/in/new", STORE, source),
        ("alias/in/deep/new", STORE, source),
        ("file", TEXT, tmp_path / "file"),
        ("hard", TEXT, tmp_path / "file"),
    ):
        with pytest.raises(ParameterError, match="input"):
            check_target(name, kind, [given])
    assert check_target("data/in2", STORE, [source]) == tmp_path.resolve() / "data" / "in2"


def test_the_mode_of_a_file_is_kept(tmp_path):
    write_text(tmp_path / "a.txt", "one")
    usual = stat.S_IMODE((tmp_path / "a.txt").stat().st_mode)
    os.umask(umask := os.umask(0))
    assert usual == 0o666 & ~umask
    (tmp_path / "a.txt").chmod(0o640)
    write_text(tmp_path / "a.txt", "two")
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


def test_the_longest_names_have_parts(tmp_path):
    name = "é" * 120 + ".txt"
    write_text(tmp_path / name, "text")
    assert names(tmp_path) == [name]


@killing
def test_parts_of_the_dead_are_swept_and_those_of_the_living_stay(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    dead = start(WRITE.format(then="os.kill(os.getpid(), signal.SIGKILL)"), target)
    assert dead.wait(60) == -signal.SIGKILL
    dead.stdout.close()
    (left,) = (path for path in tmp_path.iterdir() if path != target)
    alive = start(WRITE.format(then="signal.pause()"), target)
    assert alive.stdout.readline() == "writes\n"
    (writes,) = (path for path in tmp_path.iterdir() if path != target)
    assert writes != left  # it has swept what was left
    write_text(target, "mine")
    sweep(target)
    sweep_folder(tmp_path)
    assert names(tmp_path) == [writes.name, "a.txt"]
    alive.kill()
    alive.wait(60)
    alive.stdout.close()
    sweep_folder(tmp_path)
    assert names(tmp_path) == ["a.txt"]
    assert target.read_text() == "mine"


def test_only_parts_are_swept(tmp_path):
    target = tmp_path / "a.txt"
    (tmp_path / ".a.txt.kuq-12345678.part").write_text("a file")
    for name in (".a.txt.kuq-00000000.part", ".a.txt.kuq-zzzzzzzz.part", ".b.kuq-12345678.part"):
        (tmp_path / name).mkdir()
    (tmp_path / ".a.txt.kuq-00000000.part" / "precious").write_text("mine")
    before = names(tmp_path)
    write_text(target, "text")
    assert names(tmp_path) == sorted([*before, "a.txt"])
    (tmp_path / ".a.txt.kuq-87654321.part").mkdir()  # killed before it had a lock
    write_text(target, "text")
    assert names(tmp_path) == sorted([*before, "a.txt"])


@killing
@pytest.mark.parametrize("system", ["one step", "two steps"])
def test_killed_at_any_point_of_an_exchange(tmp_path, system):
    store, codes = tmp_path / "s", []
    make_store(store)
    for step in range(1, 12):
        process = start(SWAP, store, step, system)
        codes.append(process.wait(60))
        process.stdout.close()
        sweep(store)  # as readers do that find nothing there
        expected = {"old", "new"} if codes[-1] else {"new"}
        assert (store / "mark").read_text() in expected
        assert names(store) == ["mark"]
        (store / "mark").write_text("old")
        if codes[-1] == 0:
            break
    assert codes[-1] == 0
    assert len(codes) >= 5  # two folders made, renames, removal
    assert names(tmp_path) == ["s"]


def test_a_rename_that_fails_puts_the_old_store_back(tmp_path, monkeypatch):
    monkeypatch.setattr(_replacing, "_renamed", lambda *names: False)
    make_store(tmp_path / "s")
    rename = os.rename

    def fails(source, target):
        if str(source).endswith("new"):
            raise OSError(errno.EIO, "broken")
        rename(source, target)

    monkeypatch.setattr(os, "rename", fails)
    with pytest.raises(OSError, match="broken"), replacing(tmp_path / "s", STORE) as part:
        make_store(part, "new")
    assert (tmp_path / "s" / "mark").read_text() == "old"
    assert names(tmp_path) == ["s"]


def test_a_full_disk_is_told_with_the_name_of_the_output(tmp_path):
    with pytest.raises(OSError, match=r"a\.txt") as told, replacing(tmp_path / "a.txt"):
        raise OSError(errno.ENOSPC, "full")
    assert told.value.errno == errno.ENOSPC
    with pytest.raises(FileNotFoundError, match=r"none.*a\.txt|none"):
        write_text(tmp_path / "none" / "a.txt", "text")
    assert names(tmp_path) == []


def test_giving_up_removes_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(_replacing, "_SWAPPING", _replacing.threading.Lock())
    writer = replacing(tmp_path / "a.txt")
    writer.__enter__().write_text("half")
    abandon()
    assert names(tmp_path) == []
    assert not writer.__exit__(ZeroDivisionError, ZeroDivisionError(), None)


@pytest.mark.parametrize("folder", [False, True])
def test_a_protected_output_is_left_as_it_is(tmp_path, folder):
    target = tmp_path / ("a.store" if folder else "a.txt")
    if folder:
        target.mkdir()
    mark = target / "mark" if folder else target
    mark.write_text("made by kuq: old")
    target.chmod(0o555 if folder else 0o444)
    with (
        pytest.raises(ParameterError, match="protected"),
        replacing(target, STORE if folder else TEXT) as part,
    ):
        part.write_text("made by kuq: new")
    assert mark.read_text() == "made by kuq: old"
    target.chmod(0o755 if folder else 0o644)
    assert check_target(target, STORE if folder else TEXT) == target


def test_a_file_of_a_cache_keeps_a_mode_that_forbids_writing(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    target.chmod(0o444)
    write_text(target, "new")
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o444
