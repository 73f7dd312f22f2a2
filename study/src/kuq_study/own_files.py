"""Many files in a folder that may hold others: a list tells later which of them are kuq's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path

from kuq._replacing import Kind, check_target, is_ours, write_text

#: The list: digests by name, more than one while files are being replaced.
LIST = "made-by-kuq.json"
#: The former command, whose lists are known again.
_MAKER = "kuq report"


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write text files by their names below ``folder``.

    Files that were written by an earlier call, and not changed since, are replaced; others of that
    name are refused before anything is written.
    """
    listed = folder / LIST
    digests = _read_list(listed)
    kinds = {name: _listed(digests.get(name, ())) for name in files}
    for name, kind in kinds.items():
        check_target(folder / name, kind)
    check_target(listed, _LIST)
    new = {name: [_digest(text.encode())] for name, text in files.items()}
    both = {name: [*new.get(name, ()), *digests.get(name, ())] for name in {**digests, **new}}
    for parent in {folder, *((folder / name).parent for name in files)}:
        parent.mkdir(parents=True, exist_ok=True)
    _write_list(listed, both)  # a process that is killed leaves old and new files
    for name, text in files.items():
        write_text(folder / name, text, kinds[name])
    _write_list(listed, {**digests, **new})


def _write_list(path: Path, digests: Mapping[str, list[str]]) -> None:
    content = {"made_by": _MAKER, "files": {name: digests[name] for name in sorted(digests)}}
    write_text(path, json.dumps(content, indent=1) + "\n", _LIST)


def _read_list(path: Path) -> dict[str, list[str]]:
    if not is_ours(path, _LIST):
        return {}
    files: dict[str, list[str]] = json.loads(path.read_bytes())["files"]
    return files


def _is_list(path: Path) -> bool:
    content = json.loads(path.read_bytes())
    digests = content["files"].values()
    return content["made_by"] == _MAKER and all(isinstance(d, list) for d in digests)


_LIST = Kind("the list of a report's files", _is_list)


def _listed(digests: Collection[str]) -> Kind:
    return Kind("a file of a report", lambda path: _digest(path.read_bytes()) in digests)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
