"""Compiled code kept between processes: used only if it is whole, and of the sources in memory.

Numba's own cache looks at the file of a kernel alone, not at what the kernel inlines from other
files, and trusts the bytes that it finds. Here a stored kernel names the digest of all sources of
compiled code, and the digest of its own bytes: what does not fit is compiled again. A folder that
cannot be read or written costs time, never an error.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite  # type: ignore[import-untyped]
import numba
import numpy as np
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.misc.appdirs import AppDirs

_HERE = Path(__file__).parent


def digest_of_sources() -> bytes:
    """Of every source that a kernel may inline; empty where there are no sources to read."""
    digest = hashlib.sha256()
    twins = (_HERE.parent / folder for folder in ("expectations", "forms"))
    files = sorted(_HERE.glob("*.py"))
    files += [file for folder in twins for file in sorted(folder.glob("*_compiled.py"))]
    try:
        for file in files:
            digest.update(hashlib.sha256(file.name.encode() + b"\0" + file.read_bytes()).digest())
    except OSError:
        return b""
    return digest.digest() if files else b""


#: What is in memory: taken when this package is imported, before its kernels are.
SOURCES = digest_of_sources()


class StoredCode(NullCache):
    """The compiled code of one kernel, for numba's dispatcher."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._name = f"{function.__module__}.{name or function.__qualname__}"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kernel as it was stored, or None."""
        target_context.refresh()
        made_by = _made_by(sig, target_context.codegen())
        for folder in _folders():
            payload = _read(folder / self._file(made_by), SOURCES + made_by)
            if payload is not None:
                rebuild: Any = CompileResult._rebuild
                return rebuild(target_context, *pickle.loads(payload))
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a kernel in the first folder that takes it, if there is one."""
        keeps = not data.library.has_dynamic_globals and all(x.can_cache for x in data.lifted)
        # Sources that changed while this process ran are not those that were compiled.
        if not SOURCES or not keeps or digest_of_sources() != SOURCES:
            return
        made_by = _made_by(sig, data.codegen)
        pickled: Any = dumps
        content = _sealed(SOURCES + made_by, pickled(data._reduce()))
        for folder in _folders():
            if _written(folder / self._file(made_by), content):
                return

    def _file(self, made_by: bytes) -> str:
        """One file for each kind of machine; other sources replace it."""
        return f"{self._name}-{made_by.hex()[:16]}.kuqc"


def _made_by(sig: Any, codegen: Any) -> bytes:
    """A digest of all that compiled code depends on beside its sources."""
    versions = (sys.version, numba.__version__, llvmlite.__version__, np.__version__)
    return hashlib.sha256(repr((versions, str(sig), codegen.magic_tuple())).encode()).digest()


def _folders() -> Iterator[Path]:
    """Where numba keeps compiled code: a folder of the user's choice, or beside the sources."""
    chosen = os.environ.get("NUMBA_CACHE_DIR", "")
    if chosen:
        yield Path(chosen) / "kuq"
        return
    yield _HERE / "__pycache__"
    user_folders: Any = AppDirs
    yield Path(user_folders(appname="kuq", appauthor=False).user_cache_dir) / "compiled"


def _sealed(origin: bytes, payload: bytes) -> bytes:
    return hashlib.sha256(origin + payload).digest() + payload


def _read(path: Path, origin: bytes) -> bytes | None:
    """The payload of a file, if it is whole and of this origin."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    payload = content[hashlib.sha256().digest_size :]
    return payload if SOURCES and content == _sealed(origin, payload) else None


def _written(path: Path, content: bytes) -> bool:
    """Write a file as a whole, or not at all."""
    name = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).replace(path)
    except OSError:
        if name is not None:
            with contextlib.suppress(OSError):
                Path(name).unlink()
        return False
    return True
