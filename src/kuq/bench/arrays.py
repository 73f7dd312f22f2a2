"""Arrays of a cell on disk: one npz file, written at once or not at all, with a checksum."""

from __future__ import annotations

import hashlib
import os
import secrets
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from kuq.errors import ParameterError

#: Where the digest of the settings that made the arrays stands in the file.
_DIGEST = "settings_digest"


def save_arrays(path: Path, arrays: Mapping[str, Any], digest: str = "") -> str:
    """Write arrays under a temporary name, move them to ``path``, and return the checksum."""
    plain = {name: np.asarray(value) for name, value in arrays.items()}
    for name, value in plain.items():
        if value.dtype == object or name == _DIGEST:
            raise ParameterError(f"the array {name!r} cannot be kept: {value.dtype} of that name")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("wb") as file:
            _write_npz(file, {_DIGEST: np.array(digest), **plain})
            file.flush()
            os.fsync(file.fileno())
        checksum = file_checksum(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return checksum


def _write_npz(file: BinaryIO, arrays: Mapping[str, np.ndarray]) -> None:
    """As ``numpy.savez``, which cannot keep arrays called "file", and may write pickles."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as part:
                np.lib.format.write_array(part, array, allow_pickle=False)


def load_arrays(path: Path, digest: str = "") -> dict[str, Any] | None:
    """The arrays of a file; None where it is missing, damaged or made by other settings.

    Every byte is read, so that the checksums inside of the file tell damage of any part.
    """
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
        return None
    return arrays if str(arrays.pop(_DIGEST, "")) == digest else None


def file_checksum(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
