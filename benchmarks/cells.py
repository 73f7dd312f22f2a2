"""Results that are kept cell by cell, and tables in pages that are made of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def stored(path: Path) -> dict[str, Any]:
    """The cells of a file, none if there is no file yet."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def keep(cells: dict[str, Any], path: Path) -> None:
    """One line for each cell; a command that is stopped leaves the old file or the new one."""
    text = ",\n".join(f"{json.dumps(key)}: {json.dumps(cells[key])}" for key in sorted(cells))
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text("{\n" + text + "\n}\n", encoding="utf-8")
    part.replace(path)


def put_between(page: Path, begin: str, end: str, text: str) -> None:
    """Write a table into a page, between its marks."""
    before, rest = page.read_text(encoding="utf-8").split(begin)
    after = rest.split(end)[1]
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def between(page: Path, begin: str, end: str) -> str:
    """What stands between the marks of a page."""
    return page.read_text(encoding="utf-8").split(begin)[1].split(end)[0].strip()
