"""Outputs that are there as a whole or not at all, and that replace only what kuq has made.

What is written lies in a folder beside its target until it is whole: ``.NAME.kuq-XXXXXXXX.part``.
A lock in that folder ends with the process that holds it, however it dies. So the next call for the
same target can tell what a killed process has left from what a living one writes, and removes it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import hashlib
import os
import re
import secrets
import shutil
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

from kuq._file_lock import acquire
from kuq.errors import ParameterError

_LOCK, _NEW, _OLD = "lock", "new", "old"
_PART = re.compile(r"\..+\.kuq-[0-9a-f]{8}\.part", re.DOTALL)
#: Bytes of a name that leave room for the rest of a part's name.
_LONGEST_NAME = 200
_NOREPLACE, _EXCHANGE = 1, 2
#: What the mode of an output has unless somebody took it away to keep the output.
_WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
#: Errors that only writing has.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

#: The parts that this process writes, with the handles of their locks.
_LIVE: dict[Path, int] = {}
#: Held while names change, so that giving up cannot come between two renames.
_SWAPPING = threading.Lock()


@final
@dataclass(frozen=True)
class Kind:
    """A kind of output: what it is called, and how kuq recognises one that it has written.

    ``recognises`` gets the path of a file (or, with ``folder``, of a folder); an error that it
    raises means no.
    """

    name: str
    recognises: Callable[[Path], bool]
    folder: bool = False


def marked(name: str, mark: bytes, within: int = 4096) -> Kind:
    """Files that hold ``mark`` in their first bytes."""

    def recognises(path: Path) -> bool:
        with path.open("rb") as file:
            return mark in file.read(within)

    return Kind(name, recognises)


def check_target(
    path: str | os.PathLike[str],
    kind: Kind | None,
    inputs: Iterable[str | os.PathLike[str]] = (),
) -> Path:
    """The place that ``path`` stands for, links followed, if an output may be written there.

    It may where nothing is, or an output of the same ``kind`` that nobody has protected from
    writing. None is for files in places that belong to kuq, such as its cache. An input, what lies
    inside of it and what it lies in are refused.
    """
    path = Path(path)
    target = Path(os.path.realpath(path))
    for given in inputs:
        source = Path(os.path.realpath(given))
        if _same(target, source):
            raise ParameterError(
                f"the output {str(path)!r} would replace the input {str(given)!r}; choose another "
                "name"
            )
        if any(_same(folder, source) for folder in target.parents):
            raise ParameterError(
                f"the output {str(path)!r} lies inside of the input {str(given)!r}; choose another "
                "place"
            )
        if any(_same(folder, target) for folder in source.parents):
            raise ParameterError(
                f"the input {str(given)!r} lies inside of {str(path)!r}, which the output would "
                "replace; choose another name"
            )
    if os.path.lexists(target) and not is_ours(target, kind):
        wanted = "a file" if kind is None else f"{kind.name} that kuq has written"
        raise ParameterError(
            f"{str(path)!r} exists and is {_what_is_there(path, target)}, not {wanted}; it is left "
            "as it is. Choose another name, or move it away"
        )
    if kind is not None and os.path.lexists(target) and not target.stat().st_mode & _WRITABLE:
        raise ParameterError(
            f"{str(path)!r} is protected: nobody may write to it; it is left as it is. Choose "
            "another name, or allow writing (chmod u+w)"
        )
    return target


def _same(one: Path, other: Path) -> bool:
    return one == other or (one.exists() and other.exists() and one.samefile(other))


def is_ours(target: Path, kind: Kind | None) -> bool:
    """Whether something is there that kuq has written as an output of this kind."""
    if kind is None:
        return target.is_file()
    if not (target.is_dir() if kind.folder else target.is_file()):
        return False
    try:
        return kind.recognises(target)
    except Exception:  # libraries have errors of many kinds for files that are not theirs
        return False


def _what_is_there(path: Path, target: Path) -> str:
    if target.is_dir():
        what = f"a folder with {len(os.listdir(target))} entries"
    elif target.is_file():
        what = f"a file of {target.stat().st_size} bytes"
    else:
        what = "neither a file nor a folder"
    return f"a link to {str(target)!r}, {what}" if path.is_symlink() else what


@contextlib.contextmanager
def replacing(
    path: str | os.PathLike[str],
    kind: Kind | None = None,
    inputs: Iterable[str | os.PathLike[str]] = (),
    *,
    durable: bool = True,
) -> Iterator[Path]:
    """A name to write to, which takes the place of ``path`` if the block ends well.

    What is written is a file or a folder. On an error what was there stays as it was. A process
    that is killed leaves the old or the new, and perhaps a part, which the next call removes.
    ``kind`` and ``inputs`` are those of ``check_target``, which looks before the block and after
    it. ``durable`` waits until the disk has it.
    """
    inputs = tuple(inputs)
    target = check_target(path, kind, inputs)
    sweep(target)
    part_folder = _new_part(target)
    new = part_folder / f"{_NEW}{target.suffix}"
    try:
        yield new
        if durable:
            _flush(new)
        if target.is_file():  # after the flush, which needs the right to write
            os.chmod(new, stat.S_IMODE(target.stat().st_mode))
        check_target(path, kind, inputs)
        with _SWAPPING:
            _put(new, target, part_folder / _OLD)
        if durable:
            _flush_folder(target.parent)
    except OSError as error:
        if error.errno in _FULL:  # which says no name, or that of the part
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
        raise
    finally:
        _discard(part_folder, target)


def write_text(
    path: str | os.PathLike[str],
    text: str,
    kind: Kind | None = None,
    inputs: Iterable[str | os.PathLike[str]] = (),
    *,
    durable: bool = True,
) -> None:
    """Write a text file as a whole, as UTF-8 with the line ends that it has."""
    with replacing(path, kind, inputs, durable=durable) as new:
        new.write_text(text, encoding="utf-8", newline="")


def sweep(target: Path) -> None:
    """Remove the parts of this target that killed processes have left.

    Where one was killed between the two renames that replace a folder on systems without an atomic
    exchange, the second is done first.
    """
    for part_folder in _dead_parts(target.parent, _prefix(target.name)):
        _finish(part_folder, target)
        _remove(part_folder)


def sweep_folder(folder: Path) -> None:
    """Remove the parts of all files in a folder that killed processes have left."""
    for part_folder in _dead_parts(folder, "."):
        if not (part_folder / _OLD).exists():
            _remove(part_folder)


def abandon() -> None:
    """Remove the parts of this process, which is about to end while threads of it may still write.

    No output is put in its place after this.
    """
    _SWAPPING.acquire(timeout=0.5)  # never given back
    for part_folder in [path for path in list(_LIVE) if not (path / _OLD).exists()]:
        for _ in range(100):
            _remove(part_folder)
            if not part_folder.exists():
                break


def _prefix(name: str) -> str:
    encoded = os.fsencode(name)
    short = name if len(encoded) <= _LONGEST_NAME else hashlib.sha256(encoded).hexdigest()
    return f".{short}.kuq-"


def _new_part(target: Path) -> Path:
    while True:
        part_folder = target.with_name(f"{_prefix(target.name)}{secrets.token_hex(4)}.part")
        try:
            part_folder.mkdir(mode=0o700)
        except OSError as error:  # the user has not named the part
            raise OSError(error.errno, error.strerror, str(target)) from error
        lock = _locked(part_folder, wait=True)
        if lock is not None:  # else it was swept before the lock was there
            _LIVE[part_folder] = lock
            return part_folder


def _locked(part_folder: Path, wait: bool) -> int | None:
    """The handle of a part's lock; None if a living process has it, or if the part is gone."""
    try:
        handle = os.open(part_folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except FileNotFoundError:
        return None
    try:
        have = acquire(handle, wait)
    except OSError:  # a disk without locks: written without one, and never swept
        have = wait
    try:
        if have and os.path.samestat(os.fstat(handle), os.stat(part_folder / _LOCK)):
            return handle
    except FileNotFoundError:
        pass
    os.close(handle)
    return None


def _dead_parts(folder: Path, prefix: str) -> Iterator[Path]:
    """Parts that no living process writes, each with its lock held."""
    with os.scandir(folder) as entries:
        candidates = [
            Path(entry.path)
            for entry in entries
            if entry.name.startswith(prefix)
            and _PART.fullmatch(entry.name)
            and entry.is_dir(follow_symlinks=False)
        ]
    for part_folder in candidates:
        with contextlib.suppress(FileNotFoundError, PermissionError):
            names = os.listdir(part_folder)
            if not all(name in (_LOCK, _OLD) or name.startswith(_NEW) for name in names):
                continue
            lock = _locked(part_folder, wait=False)
            if lock is not None:
                try:
                    yield part_folder
                finally:
                    os.close(lock)


def _put(new: Path, target: Path, old: Path) -> None:
    """Put what is new in its place in one step, or in two that the next call can complete."""
    if not os.path.lexists(target):
        if not _renamed(new, target, _NOREPLACE):
            os.rename(new, target)
    elif not new.is_dir():
        os.replace(new, target)
    elif not _renamed(new, target, _EXCHANGE):
        os.rename(target, old)
        try:
            os.rename(new, target)
        except OSError:
            os.rename(old, target)
            raise


def _finish(part_folder: Path, target: Path) -> None:
    """Do the second of two renames, if it was not done."""
    old = part_folder / _OLD
    if old.exists() and not os.path.lexists(target):
        new = part_folder / f"{_NEW}{target.suffix}"
        os.rename(new if new.exists() else old, target)


def _renamed(source: Path, target: Path, flag: int) -> bool:
    """Rename under the conditions of Linux's renameat2; False where the system has none."""
    function = _renameat2()
    if function is None:
        return False
    here = -100  # AT_FDCWD
    if function(here, os.fsencode(source), here, os.fsencode(target), flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number), str(target))


@functools.cache
def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    if sys.platform != "linux":
        return None
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return None
    text, number = ctypes.c_char_p, ctypes.c_int
    function.argtypes = (number, text, number, text, ctypes.c_uint)
    function.restype = number
    rename: Callable[[int, bytes, int, bytes, int], int] = function
    return rename


def _flush(path: Path) -> None:
    """Wait until the disk has a file, or a folder with all that is in it."""
    if not path.is_dir():
        with path.open("rb+") as file:
            os.fsync(file.fileno())
        return
    for folder, _, names in os.walk(path):
        for name in names:
            _flush(Path(folder, name))
        _flush_folder(Path(folder))


def _flush_folder(path: Path) -> None:
    if sys.platform == "win32":
        return  # which cannot
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some disks cannot
            raise
    finally:
        os.close(handle)


def _discard(part_folder: Path, target: Path) -> None:
    _finish(part_folder, target)
    if sys.platform == "win32":  # cannot remove what is open
        os.close(_LIVE[part_folder])
        _remove(part_folder)
    else:
        _remove(part_folder)
        os.close(_LIVE[part_folder])
    del _LIVE[part_folder]


def _remove(part_folder: Path) -> None:
    shutil.rmtree(part_folder, ignore_errors=True)
