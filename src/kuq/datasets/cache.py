"""Where data lie on disk, and how they get there: whole or not at all, once for all processes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kuq.errors import KuqError

_LOG = logging.getLogger("kuq.datasets")
Fill: TypeAlias = Callable[[NDArray[Any]], None]


class DataError(KuqError):
    """Data are missing, damaged or not what they should be; the message says what to do."""


def data_folder(data_dir: Path | None) -> Path | None:
    """The folder with the user's own files: ``data_dir``, else ``KUQ_DATA``, else None."""
    named = data_dir if data_dir is not None else os.environ.get("KUQ_DATA") or None
    if named is None:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        whose = "KUQ_DATA" if data_dir is None else "data_dir"
        raise DataError(f"{whose} names {str(folder)!r}, which is not a folder; create it")
    return folder


def cache_folder() -> Path:
    """The folder for what kuq downloads or simulates: ``KUQ_CACHE``, else the user's cache."""
    named = os.environ.get("KUQ_CACHE")
    if named:
        folder = Path(named).expanduser()
    elif sys.platform == "win32":
        folder = Path(os.environ.get("LOCALAPPDATA", Path.home())) / "kuq" / "cache"
    elif sys.platform == "darwin":
        folder = Path.home() / "Library" / "Caches" / "kuq"
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kuq"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"the cache {str(folder)!r} cannot be created ({error.strerror}); "
            "set KUQ_CACHE to a folder that can be written"
        ) from error
    return folder


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold ``path``.lock: one process or thread at a time; it ends with the process that has it."""
    with open(path.with_name(path.name + ".lock"), "ab") as file:
        _acquire(file)
        try:
            yield
        finally:
            _release(file)


if sys.platform == "win32":
    import msvcrt
    import time

    def _acquire(file: BinaryIO) -> None:
        while True:
            try:
                file.seek(0)
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            except OSError:
                time.sleep(0.1)
            else:
                return

    def _release(file: BinaryIO) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _acquire(file: BinaryIO) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)

    def _release(file: BinaryIO) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside ``path``, which takes its place if the block ends well.

    Call it while holding the lock: then what is left of a process that was killed can be removed.
    """
    for leftover in path.parent.glob(f".{path.name}.*.part"):
        leftover.unlink()
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def cached_array(
    name: str,
    settings: Mapping[str, Any],
    shape: tuple[int, ...],
    fill: Fill,
    dtype: type[np.floating[Any]] = np.float64,
) -> NDArray[Any]:
    """An array that ``fill`` writes once and that is read from disk, memory-mapped, ever after.

    ``settings`` are all that decides its values. It is stored as ``.npy`` with a ``.json`` beside
    it that has the settings and a SHA-256, which is checked on every reading; an array that fails
    the check is made again.
    """
    facts = json.dumps({"name": name, "shape": shape, **settings}, sort_keys=True)
    key = hashlib.sha256(facts.encode()).hexdigest()[:16]
    path = cache_folder() / f"{name}-{key}.npy"
    with lock(path):
        if not _is_whole(path, facts):
            with replacing(path) as part:
                array = np.lib.format.open_memmap(part, "w+", dtype, shape)
                fill(array)
                array.flush()
                del array
                digest = _sha256(part)
            note = path.with_suffix(".json")
            with replacing(note) as part:
                part.write_text(json.dumps({"settings": json.loads(facts), "sha256": digest}))
    stored: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return stored


def _is_whole(path: Path, facts: str) -> bool:
    note = path.with_suffix(".json")
    if not (path.exists() and note.exists()):
        return False
    try:
        known = json.loads(note.read_text())
        whole = bool(known["settings"] == json.loads(facts) and known["sha256"] == _sha256(path))
    except (json.JSONDecodeError, KeyError, TypeError):
        whole = False
    if not whole:
        _LOG.warning("%s does not match its checksum and is made again", path)
    return whole


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
