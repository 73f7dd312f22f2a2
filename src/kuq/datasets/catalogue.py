"""All data sets by name: one row each, with what a user wants to know before fetching it."""

from __future__ import annotations

import inspect
import textwrap
import typing
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, final

from kuq.datasets import uci
from kuq.datasets.base import Dataset
from kuq.datasets.depth import depth_digest, load_depth
from kuq.datasets.diabetes import load_diabetes
from kuq.datasets.reanalysis import load_reanalysis
from kuq.datasets.rollouts import Rollouts, burgers_rollouts, kuramoto_sivashinsky_rollouts
from kuq.datasets.simulations import (
    burgers_digest,
    load_burgers,
    load_kuramoto_sivashinsky,
)
from kuq.datasets.temperature import load_temperature, temperature_digest
from kuq.datasets.uci import load_uci, uci_digest
from kuq.errors import ParameterError

Task: TypeAlias = Literal["table", "function", "image"]


@final
@dataclass(frozen=True)
class Entry:
    """A data set that can be loaded by name, and the facts about it.

    ``load(data_dir, seed, **options)`` makes the data; ``task`` says what one row is: a row of a
    table, a function on a grid, or an image. ``size`` is what is stored on disk, in words.
    ``rollouts`` gives whole trajectories for the figure, where there are such;
    ``digest(data_dir, **options)`` stands for the files that the numbers come from, where there
    are such and their numbers may differ.
    """

    name: str
    load: Callable[..., Dataset]
    title: str
    task: Task
    size: str
    licence: str
    source: str
    synthetic: bool = False
    rollouts: Callable[[], Rollouts] | None = None
    digest: Callable[..., str] | None = None

    @property
    def label(self) -> str:
        """The name, and that it is synthetic if it is."""
        return f"{self.name} (synthetic)" if self.synthetic else self.name


#: To add a data set to kuq, write one file with its loader and one row here.
ENTRIES: tuple[Entry, ...] = (
    Entry(
        "diabetes",
        load_diabetes,
        "progression of diabetes, 442 × 10",
        "table",
        "none",
        "BSD 3-Clause",
        "part of scikit-learn, no download",
    ),
    *(
        Entry(
            table.name,
            partial(load_uci, table),
            f"{table.target}, {table.rows} × {table.features}",
            "table",
            table.size,
            table.licence,
            f"downloaded from {table.origin}",
            digest=partial(uci_digest, table),
        )
        for table in uci.TABLES
    ),
    Entry(
        "kuramoto-sivashinsky",
        load_kuramoto_sivashinsky,
        "chaotic waves, next increment; L = 64, shifted L = 80",
        "function",
        "108 MiB",
        "MIT (kuq)",
        "simulated on first use; trajectories=10_000 as in the paper takes 1.1 GiB",
        rollouts=kuramoto_sivashinsky_rollouts,
    ),
    Entry(
        "kuramoto-sivashinsky-small",
        partial(load_kuramoto_sivashinsky, trajectories=100, points=64),
        "the same with 100 trajectories on 64 points",
        "function",
        "2.7 MiB",
        "MIT (kuq)",
        "simulated on first use, in seconds",
        rollouts=kuramoto_sivashinsky_rollouts,
    ),
    Entry(
        "burgers",
        load_burgers,
        "waves and shocks, next increment; ν = 0.1, shifted ν = 0.01",
        "function",
        "88 MiB",
        "MIT (kuq)",
        "simulated on first use, or read from PDEBench's files (CC BY 4.0, 8 GB each)",
        rollouts=burgers_rollouts,
        digest=burgers_digest,
    ),
    Entry(
        "reanalysis",
        load_reanalysis,
        "monthly temperature 1948-2026, next month: Europe, shifted North America",
        "image",
        "1.2 MiB",
        "free with acknowledgement",
        "NCEP-NCAR Reanalysis 1 by the NOAA PSL, comes with kuq",
    ),
    Entry(
        "depth",
        load_depth,
        "depth from a picture: NYU Depth v2 (rooms), shifted ApolloScape (streets)",
        "image",
        "2.8 GB",
        "terms of their authors",
        "files that you have: the caches of deep evidential regression, or the labelled NYU set",
        digest=depth_digest,
    ),
    Entry(
        "temperature",
        load_temperature,
        "surface temperature in 6 hours: ERA5 over Europe, shifted North America",
        "image",
        "by use",
        "Copernicus, CC BY 4.0",
        "WeatherBench2, read as it is used",
        digest=temperature_digest,
    ),
)


def catalogue() -> Mapping[str, Entry]:
    """All data sets by name, in the order in which they are listed."""
    _import_registering_modules()
    return MappingProxyType(_entries())


def register(*entries: Entry) -> None:
    """Add data sets of your own or of another package: they load by name, and are listed.

    That holds for this process. An installed package names the module that calls this under the
    entry points of the group ``kuq.datasets``; it is then imported where all names are wanted.
    """
    for added in entries:
        if not isinstance(added, Entry):
            raise ParameterError(f"a data set is registered by a kuq.datasets.Entry, got {added!r}")
        if _entries().get(added.name, added) != added:
            raise ParameterError(
                f"there is a data set {added.name!r} already; register it under another name"
            )
        _ADDED[added.name] = added


#: What ``register`` has added.
_ADDED: dict[str, Entry] = {}


def _entries() -> dict[str, Entry]:
    return {entry.name: entry for entry in ENTRIES} | _ADDED


@cache
def _import_registering_modules() -> None:
    for point in entry_points(group="kuq.datasets"):
        try:
            point.load()
        except Exception as error:  # of code that is not kuq's, whatever it does
            package = point.dist.name if point.dist else point.name
            warnings.warn(
                f"the data sets of the package {package} are missing, since {point.value} cannot "
                f"be imported: {type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=4,
            )


def entry(name: str) -> Entry:
    """The data set of this name; the error lists all names."""
    entries = _entries()
    if name not in entries:  # only then, since other packages take time to import
        entries = dict(catalogue())
    if name not in entries:
        raise ParameterError(
            f"there is no data set {name!r}; the names are {', '.join(entries)} (kuq data list)"
        )
    return entries[name]


def table() -> str:
    """All data sets with task, size and licence in columns, and under each what it is."""
    head = ("name", "task", "size", "licence")
    entries = catalogue().values()
    rows = [(entry.label, entry.task, entry.size, entry.licence) for entry in entries]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [_columns(head, widths)]
    for entry, row in zip(entries, rows, strict=True):
        lines.append(_columns(row, widths))
        lines += textwrap.wrap(
            f"{entry.title}; {entry.source}", 92, initial_indent="    ", subsequent_indent="    "
        )
    return "\n".join(lines)


def _columns(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip()


def load(name: str, data_dir: str | Path | None = None, seed: int = 0, **options: Any) -> Dataset:
    """The data set of this name: training, validation, test and shifted rows.

    ``data_dir`` is a folder with the user's own files; without it, the environment variable
    ``KUQ_DATA`` names one. What is neither there nor cached (in ``KUQ_CACHE``, or the user's
    cache) is downloaded or simulated on first use. ``seed`` chooses the splits; the same call
    gives the same numbers every time. ``options`` are those of the loader.

    >>> load("diabetes").train
    Split(x=(358, 10), y=(358,))
    """
    chosen, types = entry(name), option_types(name)
    for option in options:
        if option not in types:
            raise ParameterError(f"{name} has no option {option!r}; it has {', '.join(types)}")
    folder = None if data_dir is None else Path(data_dir)
    data = chosen.load(folder, seed, **options)
    return data if data.name == name else replace(data, name=name)


def option_types(name: str) -> dict[str, Any]:
    """The options of a data set by name, with their types and the ranges declared with them."""
    loader = entry(name).load
    hints = typing.get_type_hints(
        loader.func if isinstance(loader, partial) else loader, include_extras=True
    )
    return {
        parameter.name: hints[parameter.name]
        for parameter in inspect.signature(loader).parameters.values()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }


def source_digest(name: str, data_dir: Path | None, options: Mapping[str, Any]) -> str:
    """What stands for the files that ``load`` reads; empty where kuq makes the numbers itself."""
    chosen = entry(name)
    return "" if chosen.digest is None else chosen.digest(data_dir, **options)
