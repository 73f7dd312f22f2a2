"""All data sets by name: one row each, with what a user wants to know before fetching it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, final

from kuq.datasets.base import Dataset
from kuq.errors import ParameterError

Task: TypeAlias = Literal["table", "function", "image"]


@final
@dataclass(frozen=True)
class Entry:
    """A data set that can be loaded by name, and the facts about it.

    ``load(data_dir, seed, **options)`` makes the data; ``task`` says what one row is: a row of a
    table, a function on a grid, or an image. ``size`` is what is stored on disk, in words.
    """

    name: str
    load: Callable[..., Dataset]
    title: str
    task: Task
    size: str
    licence: str
    source: str
    synthetic: bool = False


#: To add a data set, write one file with its loader and one row here.
ENTRIES: tuple[Entry, ...] = ()


def catalogue() -> Mapping[str, Entry]:
    """All data sets by name, in the order in which they are listed."""
    return MappingProxyType({entry.name: entry for entry in ENTRIES})


def entry(name: str) -> Entry:
    """The data set of this name; the error lists all names."""
    known = catalogue()
    if name not in known:
        raise ParameterError(
            f"there is no data set {name!r}; the names are {', '.join(known)} (kuq data list)"
        )
    return known[name]


def load(name: str, data_dir: str | Path | None = None, seed: int = 0, **options: Any) -> Dataset:
    """The data set of this name: training, validation, test and shifted rows.

    ``data_dir`` is a folder with files that are already there; without it, the environment
    variable ``KUQ_DATA`` names one. What is neither there nor cached is downloaded or simulated
    on first use. ``seed`` chooses the splits and seeds simulations; the same call gives the same
    numbers every time. ``options`` are those of the loader.
    """
    folder = None if data_dir is None else Path(data_dir)
    return entry(name).load(folder, seed, **options)
