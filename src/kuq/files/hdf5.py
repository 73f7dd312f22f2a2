"""HDF5 files (NetCDF 4) that lead nowhere else: no links to and no storage in other files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kuq.errors import ParameterError
from kuq.files.claims import check_memory, check_overfull, check_stored


class Contents(NamedTuple):
    """What a file holds that is not read."""

    #: groups below the first
    groups: list[str]
    #: variables whose values are lists of different lengths, for which xarray has no place
    ragged: list[str]


def check_hdf5(path: Path) -> Contents:
    """Refuse a file that reads from others; else what in it is not read.

    External and user-defined links, external storage, and virtual datasets of other files could
    show the contents of files that the sender of this one cannot read.
    """
    import h5py

    with h5py.File(path, "r") as file:
        looked_at: set[Any] = set()
        groups: list[str] = []
        ragged: list[str] = []
        claimed = stored = 0
        waiting = [("", file.id)]
        while waiting:
            place, group = waiting.pop()
            for name in _own_names(path, place, group):
                inside = h5py.h5o.open(group, name)
                about = h5py.h5o.get_info(inside)
                if (about.fileno, about.addr) in looked_at:
                    continue
                looked_at.add((about.fileno, about.addr))
                shown = f"{place}{name.decode(errors='replace')}"
                if isinstance(inside, h5py.h5g.GroupID):
                    groups.append(shown)
                    waiting.append((f"{shown}/", inside))
                elif isinstance(inside, h5py.h5d.DatasetID):
                    _check_storage(path, shown, inside)
                    if isinstance(h5py.check_vlen_dtype(inside.dtype), np.dtype):
                        ragged.append(shown)
                    size, held = _claimed(inside), inside.get_storage_size()
                    check_overfull(path, shown, size, held)
                    claimed, stored = claimed + size, stored + held
                    if len(inside.shape or ()) == 1:  # coordinates are read as a whole
                        check_memory(path, size)
        check_stored(path, claimed, min(stored, path.stat().st_size))
    return Contents(groups, ragged)


def _own_names(path: Path, place: str, group: Any) -> list[bytes]:
    """The objects of a group; links that lead out of the file are refused.

    Symbolic links lead to objects that have names of their own, and are not followed here.
    """
    import h5py

    names: list[bytes] = []
    for name in group:
        kind = group.links.get_info(name).type
        if kind == h5py.h5l.TYPE_HARD:
            names.append(name)
        elif kind != h5py.h5l.TYPE_SOFT:
            raise ParameterError(
                f"{path}: {place}{name.decode(errors='replace')} is a link to another file, which "
                "is not followed; put everything into one file"
            )
    return names


def _claimed(dataset: Any) -> int:
    """The bytes of all chunks of a dataset, each of which is read as a whole."""
    import h5py

    shape, settings = dataset.shape or (), dataset.get_create_plist()
    if settings.get_layout() == h5py.h5d.CHUNKED:
        shape = tuple(-(-n // c) * c for n, c in zip(shape, settings.get_chunk(), strict=True))
    return math.prod(shape) * int(dataset.get_type().get_size())


def _check_storage(path: Path, name: str, dataset: Any) -> None:
    import h5py

    settings = dataset.get_create_plist()
    outside = settings.get_external_count() > 0
    if settings.get_layout() == h5py.h5d.VIRTUAL:
        sources = (settings.get_virtual_filename(k) for k in range(settings.get_virtual_count()))
        outside = outside or any(source != "." for source in sources)
    if outside:
        raise ParameterError(
            f"{path}: the numbers of {name} are stored in another file, which is not read; put "
            "everything into one file"
        )
