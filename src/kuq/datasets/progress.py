"""A progress bar for what takes longer than a moment, in a terminal only."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from typing import TypeVar

Item = TypeVar("Item")


def progress(items: Iterable[Item], total: int, text: str) -> Iterable[Item]:
    """The items, with a bar on standard error if that is a terminal and tqdm is there."""
    if total < 2 or not sys.stderr.isatty() or importlib.util.find_spec("tqdm") is None:
        return items
    from tqdm import tqdm

    bar: Iterable[Item] = tqdm(items, desc=text, total=total, leave=False)
    return bar
