"""Arrays of a cell on disk: one npz file, written at once or not at all, with a digest in it."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from kuq._digest import LENGTH, file_digest
from kuq._replacing import marked, replacing
from kuq.errors import ParameterError

#: Where the digest of the settings that made the arrays stands in the file.
_DIGEST = "settings_digest"
#: It comes first, so that a file is known as kuq's even if the rest of it is damaged.
ARRAYS = marked("a file of arrays of a run", f"{_DIGEST}.npy".encode(), within=64)


def save_arrays(path: Path, arrays: Mapping[str, Any], digest: str = "") -> str:
    """Write arrays under a temporary name, move them to ``path``, and return the checksum."""
    plain = {name: np.asarray(value) for name, value in arrays.items()}
    for name, value in plain.items():
        if value.dtype == object or name == _DIGEST:
            raise ParameterError(f"the array {name!r} cannot be kept: {value.dtype} of that name")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        with temporary.open("w+b") as file:
            _write_npz(file, {_DIGEST: np.array(digest), **plain})
            file.write(_content_digest(file))  # over the zeros at the end
        return file_digest(temporary)


def _write_npz(file: BinaryIO, arrays: Mapping[str, np.ndarray]) -> None:
    """As ``numpy.savez``, which cannot keep arrays called "file", and may write pickles."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        # A file of this format may end with a comment: the place of the digest.
        archive.comment = b"0" * LENGTH
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def _content_digest(file: BinaryIO) -> bytes:
    """The digest of all bytes but those at the end, where the file then stands."""
    left = max(0, file.seek(0, io.SEEK_END) - LENGTH)
    file.seek(0)
    digest = hashlib.sha256()
    while left:
        chunk = file.read(min(2**20, left))
        digest.update(chunk)
        left -= len(chunk)
    return digest.hexdigest().encode()


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], str]:
    """The arrays of a file that ``save_arrays`` wrote, and the digest of their settings.

    Every byte is checked first: NumPy reads as much as an array's header asks for, and does not
    see what is wrong with the header itself. Damage is a ValueError.
    """
    with path.open("rb") as file:
        if _content_digest(file) != file.read():
            raise ValueError("its bytes do not match the digest at its end, so it is damaged")
        file.seek(0)
        with np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    return arrays, str(arrays.pop(_DIGEST, ""))


def load_arrays(path: Path, digest: str = "") -> dict[str, np.ndarray] | None:
    """The arrays of a file; None where it is missing, damaged or made by other settings."""
    try:
        arrays, made_by = read_arrays(path)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return None
    return arrays if made_by == digest else None
