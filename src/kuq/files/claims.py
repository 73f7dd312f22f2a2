"""What a file claims to hold, against the memory there is and against what it really stores."""

from __future__ import annotations

import os
from pathlib import Path

from kuq.errors import ParameterError

#: The share of the memory that numbers of a file may take; the computation needs the rest.
_SHARE = 0.5
#: From this size on, a file that claims so many times what it stores is taken for a bomb.
_BOMB, _RATIO = 2**30, 250


def check_memory(
    path: Path,
    claimed: int,
    advice: str = "split it, or store it as .nc or .zarr, which are read piece by piece",
) -> None:
    """Refuse a file whose numbers do not fit into memory, before any of them is read."""
    most = memory()
    if most is not None and claimed > _SHARE * most:
        raise ParameterError(
            f"{path} claims to hold {in_words(claimed)} of numbers, more than half of the memory "
            f"of {in_words(most)}; {advice}"
        )


def check_stored(path: Path, claimed: int, stored: int) -> None:
    """Refuse a file that claims far more than it can hold, such as a decompression bomb."""
    if claimed > _BOMB and claimed > _RATIO * max(stored, 1):
        raise ParameterError(
            f"{path} stores {in_words(stored)} that claim to be {in_words(claimed)}, as no usual "
            "file does, and is not read; if it is right, store it without compression"
        )


def check_overfull(path: Path, name: str, claimed: int, stored: int) -> None:
    """Refuse what stores far more than it claims: it would be unpacked before that shows."""
    if stored > 4 * claimed + 2**16:
        raise ParameterError(
            f"{path}: {name} stores {in_words(stored)} for {in_words(claimed)} of values, as no "
            "compression does, and is not read"
        )


def memory() -> int | None:
    """The bytes of memory of this machine or container, where it can be told."""
    try:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return physical
    return min(physical, int(limit)) if limit.isdigit() else physical


def in_words(size: int) -> str:
    """A number of bytes for people: "3.2 GiB"."""
    amount, units = float(size), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    while amount >= 1024 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    return f"{size} bytes" if units[0] == "bytes" else f"{amount:.3g} {units[0]}"
