"""Locks on open files, which the system takes back when a process dies."""

from __future__ import annotations

import sys
import time

if sys.platform == "win32":
    import msvcrt
    import os

    def acquire(handle: int, wait: bool = True) -> bool:
        """Lock an open file; False if another handle has it and ``wait`` is not set."""
        while True:
            try:
                os.lseek(handle, 0, os.SEEK_SET)
                msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            except OSError:
                if not wait:
                    return False
                time.sleep(0.1)
            else:
                return True

    def release(handle: int) -> None:
        """Give the lock back."""
        os.lseek(handle, 0, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def acquire(handle: int, wait: bool = True) -> bool:
        """Lock an open file; False if another handle has it and ``wait`` is not set."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(handle: int) -> None:
        """Give the lock back."""
        fcntl.flock(handle, fcntl.LOCK_UN)
