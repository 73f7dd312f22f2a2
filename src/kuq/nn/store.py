"""Files of arrays with a JSON header (safetensors), written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from kuq.errors import ParameterError

#: The key of the header, and the version of what it says.
_KEY = "kuq"
_FORMAT = 1


def write(
    path: str | os.PathLike[str], kind: str, arrays: Mapping[str, np.ndarray], header: Any
) -> None:
    """Write arrays and a header; a reader finds the old file or the new one, never half of it."""
    target = Path(path)
    text = json.dumps({"format": _FORMAT, "kind": kind, **header}, allow_nan=False)
    ready = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    data = save(ready, metadata={_KEY: text})
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the header of a file of this kind."""
    wrong = f"{os.fspath(path)!r} is not a {kind} file of kuq"
    if not Path(path).is_file():
        raise ParameterError(f"there is no file {os.fspath(path)!r}")
    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {}).get(_KEY, "null"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, json.JSONDecodeError, OSError) as error:
        raise ParameterError(f"{wrong}: {error}") from error
    if not isinstance(header, dict) or header.get("kind") != kind:
        raise ParameterError(f"{wrong}; it has no header of that kind")
    if header.get("format") != _FORMAT:
        raise ParameterError(
            f"{wrong} that this version can read: its format is {header.get('format')!r}, "
            f"and {_FORMAT} is needed"
        )
    return arrays, header
