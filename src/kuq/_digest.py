"""Digests (SHA-256) that tell whether what is read is what was written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

#: Hexadecimal digits of a digest.
LENGTH = 64


def plain_digest(data: Any) -> str:
    """Of plain data (tables, lists, texts, numbers), whatever the order of keys."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def bytes_digest(content: bytes | memoryview) -> str:
    """Of bytes as they are."""
    return hashlib.sha256(content).hexdigest()


def file_digest(path: Path) -> str:
    """Of all bytes of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_digest(paths: Iterable[Path], folder: Path) -> str:
    """Of the names in the folder and the contents of files, whatever their order."""
    return plain_digest({path.relative_to(folder).as_posix(): file_digest(path) for path in paths})


def folder_digest(folder: Path) -> str:
    """Of all files in a folder and in those below it."""
    return files_digest((path for path in folder.rglob("*") if path.is_file()), folder)
