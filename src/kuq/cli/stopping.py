"""Signals end a command soon, with one line and nothing half-written."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn, final

from kuq._replacing import abandon

#: Seconds until a command that is asked to stop is ended, whatever it does.
_GRACE = 1.0
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


@final
class Stopped(KeyboardInterrupt):
    """A signal asked the command to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def end(number: int, line: str) -> NoReturn:
    """End this process without waiting for its threads, as shells expect it after a signal."""
    abandon()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        os.write(2, f"{line}\n".encode())
    os._exit(128 + number)


@contextlib.contextmanager
def stoppable(line: str) -> Iterator[None]:
    """The first signal raises ``Stopped`` here, and ends the process if that takes too long.

    Python sees a signal only between two steps of the main thread, which may be inside of a long
    one, or wait for other threads: so another thread is told of it, too. Only for the command
    itself, since a process can have one such block.
    """
    wanted = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    wanted = [number for number in wanted if signal.getsignal(number) != signal.SIG_IGN]
    seen = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if not seen.is_set():
            seen.set()
            raise Stopped(number)

    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def watch() -> None:
        number = os.read(reader, 1)[0]
        if number in wanted:
            time.sleep(_GRACE)
            end(number, line)

    signal.set_wakeup_fd(writer)
    before = {number: signal.signal(number, handle) for number in wanted}
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        if not seen.is_set():
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(-1)
            os.write(writer, b"\0")
