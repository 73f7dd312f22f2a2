"""Files of arrays with a JSON header (safetensors), written whole or not at all."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from kuq._digest import LENGTH, bytes_digest
from kuq._replacing import Kind, replacing
from kuq.errors import ParameterError

#: The key of the header, and the version of what it says; version 1 had no digest.
_KEY = "kuq"
_FORMAT = 2
#: The key of the digest of the whole file, in which zeros stand in its own place.
_DIGEST = "sha256"
_ZEROS = b"0" * LENGTH
#: Bytes of the header that safetensors allows.
_LONGEST_HEADER = 100_000_000


def write(
    path: str | os.PathLike[str], kind: str, arrays: Mapping[str, np.ndarray], header: Any
) -> None:
    """Write arrays and a header; a reader finds the old file or the new one, never half of it."""
    text = json.dumps({"format": _FORMAT, "kind": kind, **header}, allow_nan=False)
    ready = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    data = _sealed(save(ready, metadata={_KEY: text, _DIGEST: _ZEROS.decode()}))
    with replacing(path, files_of(kind)) as unfinished:
        unfinished.write_bytes(data)


def files_of(kind: str) -> Kind:
    """The files of this kind that kuq has written, also those whose arrays are damaged."""

    def recognises(path: Path) -> bool:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size) if size <= _LONGEST_HEADER else b"{}")
        return bool(json.loads(header["__metadata__"][_KEY])["kind"] == kind)

    return Kind(f"a {kind} file", recognises)


def _sealed(data: bytes) -> bytes:
    """The file with its digest in the place of the zeros."""
    return _with_digest(data, _ZEROS, bytes_digest(data).encode())


def _with_digest(data: bytes, old: bytes, new: bytes) -> bytes:
    """The metadata come first in a file, and our text in them cannot hold this key in quotes."""
    key = f'"{_DIGEST}":"'.encode()
    return data.replace(key + old + b'"', key + new + b'"', 1)


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the header of a file of this kind, every byte of which is as written."""
    name = os.fspath(path)
    wrong = f"{name!r} is not a {kind} file of kuq"
    if not Path(path).is_file():
        raise ParameterError(f"there is no file {name!r}")
    try:
        data = Path(path).read_bytes()
        table = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        metadata = table.get("__metadata__") or {}
        digest, header = metadata.get(_DIGEST), json.loads(metadata.get(_KEY, "null"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ParameterError(f"{wrong}, or it is damaged: {error}") from error
    if not isinstance(header, dict) or header.get("kind") != kind:
        raise ParameterError(f"{wrong}; it has no header of that kind")
    _check_digest(data, digest, header.get("format"), name)
    try:
        return load(data), header
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ParameterError(f"{wrong}: {error}") from error


def _check_digest(data: bytes, digest: Any, version: Any, name: str) -> None:
    if version == 1 and digest is None:
        warnings.warn(
            f"{name!r} was written without a digest, so that damage cannot be seen; save it again",
            stacklevel=4,
        )
        return
    if version != _FORMAT:
        raise ParameterError(
            f"{name!r} has the format {version!r}, and {_FORMAT} is needed; use the version of kuq "
            "that wrote it"
        )
    blank = _with_digest(data, str(digest).encode(), _ZEROS)
    if bytes_digest(blank) != digest:
        raise ParameterError(
            f"{name!r} is damaged: its bytes do not match their digest; take a copy of it, or "
            "delete it and make it again"
        )
