"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name beside ``path`` to write to; it takes the place of ``path`` if nothing goes wrong.

    What is written may be a file or a folder, such as a Zarr store. On an error it is removed, and
    what stood at ``path`` before stays as it was.
    """
    part = path.with_name(f".{path.stem}-{uuid.uuid4().hex[:8]}{path.suffix}")
    try:
        yield part
        if path.is_dir() and not path.is_symlink():  # a folder cannot be replaced in one step
            old = path.with_name(f".{path.stem}-{uuid.uuid4().hex[:8]}-old{path.suffix}")
            os.replace(path, old)
            os.replace(part, path)
            shutil.rmtree(old)
        else:
            os.replace(part, path)
    finally:
        if part.is_dir():
            shutil.rmtree(part)
        else:
            part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file as a whole."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")
