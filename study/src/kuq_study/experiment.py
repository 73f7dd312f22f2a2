"""Experiment files: a grid of cells at the paper's size, and presets that say what they change."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from kuq._ranges import Count, Seed
from kuq.errors import KuqError, ParameterError
from kuq_study.cell import Cell
from kuq_study.entry import Entry
from kuq_study.known_names import check_learners, check_scores
from kuq_study.procedure import Procedure, find_procedure
from kuq_study.settings import from_table, refuse_odd_values, refuse_unknown

#: The preset that changes nothing: the settings of the file as they stand.
PAPER = "paper"
#: The preset that checks whether everything runs; its numbers measure nothing.
SMOKE = "smoke"
#: The preset that is taken when none is named, where the file has it.
DEFAULT = "quick"
#: Bytes of a name: a key has four of them and a seed, and two become the name of a file.
_LONGEST = 48


@final
@dataclass(frozen=True)
class Deviation:
    """One setting in which a run differs from the paper, as text that a report prints."""

    setting: str
    paper: str
    here: str
    reason: str


@final
@dataclass(frozen=True)
class Grid:
    """Data sets × representations × seeds with common settings: a table ``[grid.NAME]``.

    ``train_rows`` is the most rows that are trained on, by default all. ``data`` are options of
    the data set, ``model`` those of the model, ``model_for`` those that hold for one
    representation alone; ``evaluation`` belongs to the procedure. A grid that is ``like = "NAME"``
    takes over the settings of another one, and changes some. One with ``epochs = [1, 3, …]`` is a
    curve over training: a grid for each length, which its evaluation is told as ``training``.
    """

    datasets: tuple[str, ...]
    representations: tuple[str, ...]
    seeds: tuple[Seed, ...]
    scores: tuple[str, ...] = ()
    train_rows: Count | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    model_for: Mapping[str, Any] = field(default_factory=dict)
    evaluation: Mapping[str, Any] = field(default_factory=dict)


@final
@dataclass(frozen=True)
class _File:
    """The keys that an experiment file may have."""

    experiment: str
    procedure: str
    grid: Mapping[str, Any]
    title: str = ""
    remarks: tuple[str, ...] = ()
    datasets: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Any] = field(default_factory=dict)
    scores: Mapping[str, Any] = field(default_factory=dict)
    preset: Mapping[str, Any] = field(default_factory=dict)


@final
@dataclass(frozen=True)
class _Preset:
    """The keys of ``[preset.NAME]``: what it changes, and why, by the name of the setting."""

    grid: Mapping[str, Any] = field(default_factory=dict)
    reasons: Mapping[str, Any] = field(default_factory=dict)


@final
@dataclass(frozen=True)
class Experiment:
    """An experiment file at one preset: grids of cells, and every deviation from the paper."""

    name: str
    title: str
    preset: str
    procedure: str
    grids: Mapping[str, Grid]
    entries: Mapping[str, Entry]
    deviations: tuple[Deviation, ...]

    def cells(self) -> Iterator[Cell]:
        """The cells, grid by grid, the smallest seed first."""
        for name, grid in self.grids.items():
            for seed in grid.seeds:
                for dataset in grid.datasets:
                    for representation in grid.representations:
                        yield Cell(
                            self.name,
                            name,
                            dataset,
                            representation,
                            seed,
                            self.procedure,
                            grid.scores,
                            grid.train_rows,
                            grid.data,
                            {**grid.model, **grid.model_for.get(representation, {})},
                            grid.evaluation,
                            self.entries,
                        )


def read_experiment(path: str | Path, preset: str | None = None) -> Experiment:
    """Read an experiment file at a preset: ``"paper"``, or one that the file has a table for.

    ``None`` takes ``"quick"`` where the file has it, else the settings as they stand. Wrong keys
    and values raise a ParameterError that names the file, the table and what would be right.
    """
    path = Path(path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ParameterError(f"the experiment file cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:  # wrong TOML or UTF-8, 5000 digits, 5000 brackets
        raise ParameterError(f"{path} is not valid TOML: {error}") from error
    try:
        refuse_odd_values(table)
        return _experiment(table, path.resolve().parent, preset)
    except KuqError as error:
        raise ParameterError(f"{path}: {error}") from error


def _experiment(table: Mapping[str, Any], folder: Path, preset: str | None) -> Experiment:
    file = from_table(_File, table, "the file")
    _check_name(file.experiment, "'experiment' of the file")
    presets = {
        name: from_table(_Preset, _table(settings, f"[preset.{name}]"), f"[preset.{name}]")
        for name, settings in file.preset.items()
    }
    if preset is None:
        preset = DEFAULT if DEFAULT in presets else PAPER
    if preset != PAPER and preset not in presets:
        names = ", ".join(sorted({PAPER, *presets}))
        raise ParameterError(f"there is no preset {preset!r}; there are: {names}")
    entries = _entries(file, folder)
    procedure = find_procedure(file.procedure, entries)
    # All presets are checked, so that a mistake shows before the day when one is needed.
    grids, deviations = {}, {}
    for name, changes in {PAPER: _Preset(), **presets}.items():
        where = f"[preset.{name}.grid]"
        refuse_unknown(changes.grid, file.grid, where)
        merged = {
            grid: _merged(base, changes.grid.get(grid, {})) for grid, base in file.grid.items()
        }
        place = "" if name == PAPER else f" at the preset {name!r}"
        grids[name] = _grids(_with_curves(_with_likes(merged)), procedure, entries, place)
        deviations[name] = tuple(_differences(file.grid, merged, changes.reasons, name))
    remarks = tuple(Deviation("", "", "", text) for text in file.remarks)
    return Experiment(
        file.experiment,
        file.title or file.experiment,
        preset,
        file.procedure,
        grids[preset],
        entries,
        remarks + deviations[preset],
    )


def _check_name(name: str, where: str) -> None:
    """Names are parts of keys, of files' names and of messages."""
    if not name.isprintable() or not name.strip() or len(name.encode()) > _LONGEST:
        raise ParameterError(
            f"{where} must be a name of 1 to {_LONGEST} bytes that can be printed, got {name!r}"
        )


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ParameterError(f"{where} must be a table, got {value!r}")
    return value


def _with_likes(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Grids that are ``like`` another one have its settings, but for those of their own."""
    grids = {}
    for name, table in tables.items():
        model = table.get("like") if isinstance(table, Mapping) else None
        if model is None:
            grids[name] = table
            continue
        if (
            not isinstance(model, str)
            or not isinstance(tables.get(model), Mapping)
            or "like" in tables[model]
        ):
            raise ParameterError(
                f"[grid.{name}] is like {model!r}, which must be a grid with settings of its own"
            )
        changes = {key: value for key, value in table.items() if key != "like"}
        grids[name] = _merged(tables[model], changes)
    return grids


def _with_curves(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Grids that have ``epochs`` become one grid for each of them."""
    grids = {}
    for name, table in tables.items():
        if not isinstance(table, Mapping) or "epochs" not in table:
            grids[name] = table
            continue
        lengths = table["epochs"]
        whole = isinstance(lengths, list) and all(type(n) is int and n > 0 for n in lengths)
        if not whole or not lengths or len(set(lengths)) != len(lengths):
            raise ParameterError(
                f"'epochs' of [grid.{name}] must be a list of whole numbers ≥ 1, all different, "
                f"got {lengths!r}"
            )
        rest = {key: value for key, value in table.items() if key != "epochs"}
        for length in lengths:
            if f"{name}-{length}" in {*grids, *tables}:
                raise ParameterError(
                    f"[grid.{name}] with 'epochs' makes a grid {name}-{length}, and there is one "
                    "of that name; rename it"
                )
            point = {"model": {"max_epochs": length}, "evaluation": {"training": length}}
            grids[f"{name}-{length}"] = _merged(rest, point)
    return grids


def _grids(
    tables: Mapping[str, Any], procedure: Procedure, entries: Mapping[str, Entry], place: str
) -> dict[str, Grid]:
    """The grids of a preset, each with every key checked."""
    grids = {}
    for name, table in tables.items():
        where = f"[grid.{name}]{place}"
        _check_name(name, where)
        grid = from_table(Grid, _table(table, where), where)
        for value in (*grid.datasets, *grid.representations, *grid.scores):
            _check_name(value, f"each name in {where}")
        for values in (grid.datasets, grid.representations, grid.seeds, grid.scores):
            if len(set(values)) != len(values):
                raise ParameterError(f"{where} names something twice: {list(values)}")
        for representation, settings in grid.model_for.items():
            _table(settings, f"model_for.{representation} of {where}")
            # A preset may leave representations out, whose settings then do nothing.
            if not place and representation not in grid.representations:
                raise ParameterError(
                    f"{where} has model_for.{representation}, but no such representation"
                )
        if procedure.options is not None:
            from_table(procedure.options, grid.evaluation, f"[grid.{name}.evaluation]{place}")
            check_scores(grid.scores, entries, where)
        if procedure.learns:
            check_learners(
                grid.datasets,
                grid.representations,
                grid.model,
                grid.model_for,
                grid.data,
                entries,
                where,
            )
        grids[name] = grid
    return grids


def _entries(file: _File, folder: Path) -> dict[str, Entry]:
    """The code of the user's own, by the names that the grids use."""
    entries = {}
    for kind, named in (
        ("datasets", file.datasets),
        ("models", file.models),
        ("scores", file.scores),
    ):
        for name, text in named.items():
            where = f"{name!r} of [{kind}]"
            if name in entries:
                raise ParameterError(f"{where} is a name that is used twice; give it another")
            entries[name] = Entry.parse(str(text), folder, where)
    if ":" in file.procedure:
        entries[file.procedure] = Entry.parse(file.procedure, folder, "'procedure'")
    return entries


def _merged(base: Any, changes: Any) -> Any:
    """The base with the changes laid over it, table by table; lists are replaced as a whole."""
    if not (isinstance(base, Mapping) and isinstance(changes, Mapping)):
        return changes
    over = {
        key: _merged(base[key], value) if key in base else value for key, value in changes.items()
    }
    return {**base, **over}


def _differences(
    base: Mapping[str, Any], here: Mapping[str, Any], reasons: Mapping[str, Any], preset: str
) -> Iterator[Deviation]:
    """Every setting that a preset changed, found by comparison, so that none can be left out."""
    before, after = dict(_leaves(base)), dict(_leaves(here))
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    refuse_unknown(reasons, changed, f"[preset.{preset}.reasons], which explains changed settings,")
    for name in changed:
        reason = str(reasons.get(name, ""))
        yield Deviation(name, _text(before.get(name)), _text(after.get(name)), reason)


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{name}.")
        else:
            yield name, value


def _text(value: Any) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)
