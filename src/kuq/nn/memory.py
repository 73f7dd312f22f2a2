"""Whether the weights of an ensemble fit into memory, asked before they are made."""

from __future__ import annotations

import os
from pathlib import Path

from kuq.errors import ParameterError

#: Weights, gradients, two moments, averages and the best weights, four bytes each.
_BYTES = 6 * 4


def available() -> float | None:
    """Bytes of memory that this machine can still give, None where that cannot be known."""
    info = Path("/proc/meminfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return float(line.split()[1]) * 1024
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    return None


def require_room(n_members: int, weights: int) -> None:
    """Raise ParameterError if training this many members cannot fit."""
    needed, there = float(n_members) * weights * _BYTES, available()
    if there is not None and needed > there:
        raise ParameterError(
            f"n_members={n_members} networks of {weights} weights need {needed / 2**30:.1f} GiB "
            f"to train, and {there / 2**30:.1f} GiB are free; take at most "
            f"{int(there / weights / _BYTES)} members or a smaller backbone"
        )
