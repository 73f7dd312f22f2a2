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
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kuq._file_lock import acquire, release
from kuq._replacing import replacing, write_text
from kuq.errors import KuqError

_LOG = logging.getLogger("kuq.datasets")
#: Bytes that are left alone at the beginning of a file, where its header is, and zeros at once.
_HEAD, _ZEROS = 4096, 2**24
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
        acquire(file.fileno())
        try:
            yield
        finally:
            release(file.fileno())


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
            with replacing(path) as unfinished:
                array = np.lib.format.open_memmap(unfinished, "w+", dtype, shape)
                _reserve(unfinished)
                fill(array)
                array.flush()
                del array
                digest = _sha256(unfinished)
            note = {"settings": json.loads(facts), "sha256": digest}
            write_text(path.with_suffix(".json"), json.dumps(note))
    stored: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return stored


def _reserve(path: Path) -> None:
    """Take the space of a file that is memory-mapped, where a full disk kills the process."""
    size = path.stat().st_size
    with open(path, "rb+") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
            return
        file.seek(_HEAD)
        for start in range(_HEAD, size, _ZEROS):
            file.write(bytes(min(_ZEROS, size - start)))


def _is_whole(path: Path, facts: str) -> bool:
    note = path.with_suffix(".json")
    if not (path.exists() and note.exists()):
        return False
    try:
        saved = json.loads(note.read_text())
        whole = bool(saved["settings"] == json.loads(facts) and saved["sha256"] == _sha256(path))
    except (json.JSONDecodeError, KeyError, TypeError):
        whole = False
    if not whole:
        _LOG.warning("%s does not match its checksum and is made again", path)
    return whole


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
