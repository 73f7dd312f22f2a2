"""All data sets by name: one row each, with what a user wants to know before fetching it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, final

from kuq.datasets import uci
from kuq.datasets.base import Dataset
from kuq.datasets.diabetes import load_diabetes
from kuq.datasets.simulations import load_burgers, load_kuramoto_sivashinsky
from kuq.datasets.uci import load_uci
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


_SIMULATED = "none: simulated on first use"

#: To add a data set, write one file with its loader and one row here.
ENTRIES: tuple[Entry, ...] = (
    Entry(
        "diabetes",
        load_diabetes,
        "progression of diabetes, 442 × 10; no download",
        "table",
        "0 (part of scikit-learn)",
        "BSD 3-Clause",
        "scikit-learn",
    ),
    *(
        Entry(
            table.name,
            partial(load_uci, table),
            f"{table.target}, {table.rows} × {table.features}",
            "table",
            table.size,
            uci.LICENCE,
            "UCI Machine Learning Repository or OpenML",
        )
        for table in uci.TABLES
    ),
    Entry(
        "kuramoto-sivashinsky",
        load_kuramoto_sivashinsky,
        "chaotic waves, next increment; L = 64, shifted L = 80",
        "function",
        "108 MiB simulated, 1 GiB with trajectories=10_000",
        _SIMULATED,
        "kuq, after the paper",
    ),
    Entry(
        "kuramoto-sivashinsky-small",
        partial(load_kuramoto_sivashinsky, trajectories=100, points=64),
        "the same with 100 trajectories on 64 points; no download",
        "function",
        "2.7 MiB simulated, in two seconds",
        _SIMULATED,
        "kuq, after the paper",
    ),
    Entry(
        "burgers",
        load_burgers,
        "waves and shocks, next increment; ν = 0.1, shifted ν = 0.01",
        "function",
        "88 MiB simulated; PDEBench's files are read if there, 8 GB each",
        "none: simulated on first use; PDEBench CC BY 4.0",
        "kuq, after PDEBench",
    ),
)


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

    ``data_dir`` is a folder with the user's own files; without it, the environment variable
    ``KUQ_DATA`` names one. What is neither there nor cached (in ``KUQ_CACHE``, or the user's
    cache) is downloaded or simulated on first use. ``seed`` chooses the splits; the same call
    gives the same numbers every time. ``options`` are those of the loader.

    >>> load("diabetes").train
    Split(x=(358, 10), y=(358,))
    """
    folder = None if data_dir is None else Path(data_dir)
    return entry(name).load(folder, seed, **options)
