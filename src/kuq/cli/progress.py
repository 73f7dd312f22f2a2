"""A line on the terminal that tells how far a command is."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

_LONGEST_BAR = 30


class ProgressBar:
    """Shows itself for work that takes more than ``wait`` seconds; silent without a terminal."""

    def __init__(self, stream: TextIO | None = None, wait: float = 1.0) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._start = time.monotonic()
        self._wait = wait
        self._length = 0

    def __call__(self, done: int, total: int) -> None:
        seconds = time.monotonic() - self._start
        if seconds < self._wait or not self._stream.isatty() or total == 0:
            return
        share = done / total
        left = seconds * (1 - share) / max(share, 1e-9)
        text = f"{100 * share:3.0f} %, {left:.0f} s left"
        columns = shutil.get_terminal_size().columns - 1  # a full line would wrap
        room = min(_LONGEST_BAR, columns - len(text) - 3)
        if room >= 5:
            filled = int(room * share)
            text = f"[{'#' * filled}{'.' * (room - filled)}] {text}"
        self._show(text[:columns])

    def end(self) -> None:
        """Take the line away."""
        if self._length:
            self._show("")
            self._stream.write("\r")
            self._stream.flush()

    def _show(self, text: str) -> None:
        self._stream.write("\r" + text.ljust(self._length))
        self._stream.flush()
        self._length = len(text)
