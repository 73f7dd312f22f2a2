"""Progress of a run: one line per cell that ends, and a line for the whole that is kept current."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO, final

from kuq_study.cell import Cell
from kuq_study.worker import CellResult, note_file

#: Seconds between lines on the whole where there is no terminal to rewrite a line on.
_QUIET = 30.0


@final
class Progress:
    """Writes to a stream what has ended, what runs and how long it may still take."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty()
        self._start = time.monotonic()
        self._last = self._start
        self._total = self._ended = self._here = 0
        self._line = ""
        self._seen: dict[str, float] = {}

    def begin(self, total: int, ended: int) -> None:
        """``total`` cells, of which ``ended`` were done before."""
        self._start = self._last = time.monotonic()
        self._total, self._ended, self._here = total, ended, 0
        before = f", {ended} of them done before" if ended else ""
        self.say(f"{total} cells{before}")

    def cell(self, result: CellResult) -> None:
        """One cell has ended."""
        self._ended += 1
        self._here += 1
        how = f"done in {_time(result.seconds)}" if result.done else "FAILED"
        if result.done and not result.trained:
            how += ", from kept predictions"
        if not result.done:
            how += f": {result.message.strip().splitlines()[-1]}"
        self.say(f"[{self._ended}/{self._total}] {result.cell.key}: {how}")

    def running(self, cells: Iterable[Cell], run: Path) -> None:
        """Show the cells in flight, on a terminal at each call, else now and then."""
        now, cells = time.monotonic(), list(cells)
        self._seen = {cell.key: self._seen.get(cell.key, now) for cell in cells}
        if not self._live and now - self._last < _QUIET:
            return
        self._last = now
        parts = [self._state(cell, run, now) for cell in cells]
        line = f"{self._ended}/{self._total} done{self._left(now)} | " + ", ".join(parts)
        if self._live:
            self._erase()
            self._line = line[: shutil.get_terminal_size().columns - 1]  # a full line would wrap
            self._write(self._line)
        else:
            self._write(f"{line}\n")

    def _state(self, cell: Cell, run: Path, now: float) -> str:
        """Name, what the cell last said of itself, and for how long it has run."""
        name = cell.key.split("/", 1)[1]
        return f"{name} {_note(run, cell)} ({_time(now - self._seen[cell.key])})"

    def say(self, text: str) -> None:
        """A line that stays."""
        self._erase()
        self._write(f"{text}\n")

    def _left(self, now: float) -> str:
        if not self._here or self._ended >= self._total:
            return ""
        seconds = (now - self._start) / self._here * (self._total - self._ended)
        return f", about {_time(seconds)} left"

    def _erase(self) -> None:
        if self._line:
            self._write("\r" + " " * len(self._line) + "\r")
            self._line = ""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _note(run: Path, cell: Cell) -> str:
    """What the cell last said of itself."""
    try:
        note = json.loads(note_file(run, cell).read_text())
        return f"{note['stage']} {note['fraction']:.0%}"
    except (OSError, ValueError, KeyError, TypeError):
        return "waits"


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
