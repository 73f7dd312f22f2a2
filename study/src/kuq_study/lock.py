"""One run at a time in a folder: a lock that the system takes back when its process dies."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kuq_study.store import StoreError

_LOCK = "lock.sqlite"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder of a run; another process that has it is an error.

    The lock is an open transaction on a database of its own: SQLite brings locks that work on
    every system, and unlike a file with a process number it cannot outlive a killed process.
    """
    try:
        connection = sqlite3.connect(folder / _LOCK, isolation_level=None, timeout=0.0)
    except sqlite3.Error as error:
        raise StoreError(f"{folder} cannot be written: {error}") from error
    try:
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            if "locked" not in str(error):
                raise StoreError(f"{folder} cannot be written: {error}") from error
            raise StoreError(
                f"another kuq-study run works in {folder}; wait for it, or name another folder "
                "by --out"
            ) from error
        yield
    finally:
        connection.close()
