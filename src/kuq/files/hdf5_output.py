"""A file for HDF5 to write to on a disk that may be full."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any


class PatientFile(io.RawIOBase):
    """A file that is written, and that keeps its first error for later.

    HDF5 cannot close a file whose last bytes have no place, and crashes when the process ends.
    After an error this one takes and forgets whatever comes, so that HDF5 can close it; ``check``
    raises the error then.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("w+b", buffering=0)
        self._error: OSError | None = None

    def check(self, *about: Any) -> None:
        """Raise the first error, if there was one."""
        if self._error is not None:
            raise OSError(self._error.errno, self._error.strerror)

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        got = self._file.readinto(view) or 0
        if self._error is not None:  # what is missing was forgotten
            view[got:] = bytes(len(view) - got)
            return len(view)
        return got

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        done = 0
        while self._error is None and done < len(view):
            try:
                done += self._file.write(view[done:])
            except OSError as error:
                self._error = error
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        if self._error is None:
            try:
                return self._file.truncate(size)
            except OSError as error:
                self._error = error
        return self.tell() if size is None else size

    def close(self) -> None:
        if not self._file.closed:
            self._file.close()
        super().close()
