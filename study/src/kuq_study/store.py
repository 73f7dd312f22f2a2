"""The results of a run in SQLite: cells, their records, and the checksums of their predictions.

Every row is covered by a seal, a digest that is written with it and checked when the store is
opened: ``about`` seals the names of experiments, an experiment its deviations and the keys of its
cells, a cell its records. So neither a changed nor a missing row goes unseen.
"""

from __future__ import annotations

import dataclasses
import json
import lzma
import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self, final

import kuq
from kuq._digest import bytes_digest
from kuq._replacing import replacing
from kuq.errors import KuqError, ParameterError
from kuq_study.cell import Cell
from kuq_study.experiment import Deviation, Experiment
from kuq_study.records import Record
from kuq_study.worker import CellResult

#: The database in the folder of a run, and its name in one that is kept: a ninth of the size.
DATABASE = "results.sqlite"
PACKED = f"{DATABASE}.xz"
_VERSION = "2"
_SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE experiments (
    name TEXT PRIMARY KEY, title TEXT NOT NULL, seal TEXT NOT NULL DEFAULT '');
CREATE TABLE deviations (
    experiment TEXT NOT NULL REFERENCES experiments, position INTEGER NOT NULL,
    setting TEXT NOT NULL, paper TEXT NOT NULL, here TEXT NOT NULL, reason TEXT NOT NULL,
    PRIMARY KEY (experiment, position));
CREATE TABLE predictions (
    digest TEXT PRIMARY KEY, checksum TEXT NOT NULL, size INTEGER NOT NULL,
    seconds REAL NOT NULL, cpu_seconds REAL NOT NULL, seal TEXT NOT NULL DEFAULT '');
CREATE TABLE cells (
    key TEXT PRIMARY KEY, experiment TEXT NOT NULL REFERENCES experiments, grid TEXT NOT NULL,
    dataset TEXT NOT NULL, representation TEXT NOT NULL, seed INTEGER NOT NULL,
    planned INTEGER NOT NULL, settings TEXT NOT NULL, settings_digest TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'done', 'failed')),
    message TEXT NOT NULL DEFAULT '', seconds REAL, cpu_seconds REAL,
    predictions TEXT REFERENCES predictions, seal TEXT NOT NULL DEFAULT '');
CREATE TABLE records (
    cell TEXT NOT NULL REFERENCES cells, position INTEGER NOT NULL, quantity TEXT NOT NULL,
    score TEXT NOT NULL, component TEXT NOT NULL, x REAL, value REAL,
    PRIMARY KEY (cell, position)) WITHOUT ROWID;
"""
#: The row of ``about`` that seals the others and the names of all experiments.
_SEAL = "seal"
#: What the seals of the tables cover, beside the rows that belong to them.
_CELL = (
    "key, experiment, grid, dataset, representation, seed, planned, settings, settings_digest, "
    "status, message, seconds, cpu_seconds, predictions"
)
_PREDICTIONS = "digest, checksum, size, seconds, cpu_seconds"
_RECORD = "position, quantity, score, component, x, value"


class StoreError(KuqError):
    """The store of a run is missing, damaged or in use."""


class WriteError(StoreError):
    """The store of a run cannot be written, for example since the disk is full."""


@final
@dataclass(frozen=True)
class CellState:
    """A cell as the store knows it; ``status`` is ``"pending"``, ``"done"`` or ``"failed"``."""

    key: str
    experiment: str
    grid: str
    dataset: str
    representation: str
    seed: int
    status: str
    message: str
    seconds: float | None
    cpu_seconds: float | None
    settings: Mapping[str, Any]
    predictions: str | None


@final
class Store:
    """The results in the folder of a run (or its database file), which must exist.

    Every change is one transaction: a process may be killed at any moment, and what was done
    before is there. Records come in the order of cells, experiment by experiment, not in the order
    in which cells ended, so that equal runs have equal lists. A packed database is read from a copy
    of its own, and unpacked by a run that goes on from it.
    """

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        self.folder = path if path.suffix != ".sqlite" else path.parent
        self.path = self.folder / DATABASE
        self._copies = ExitStack()
        with self._copies:
            if not self.path.is_file():
                self.path = self._unpacked()
            self._connection = self._open()
            self._copies = self._copies.pop_all()  # to be removed when the store is closed

    def _unpacked(self) -> Path:
        packed = self.folder / PACKED
        if not packed.is_file():
            raise StoreError(
                f"there are no results in {self.folder}: no {DATABASE}; make them by kuq-study run"
            )
        copy = Path(self._copies.enter_context(TemporaryDirectory())) / DATABASE
        _unpack(packed, copy)
        return copy

    @classmethod
    def create(cls, folder: str | Path, preset: str) -> Self:
        """The store of a run that starts or goes on; a run holds to one preset."""
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"the folder {folder} of the run cannot be made: {error}") from error
        path = folder / DATABASE
        if not path.is_file() or path.stat().st_size == 0:
            if (folder / PACKED).is_file():
                with replacing(path) as temporary:
                    _unpack(folder / PACKED, temporary)
            else:
                _make(path, preset)
        store = cls(folder)
        if store.preset != preset:
            before = store.preset
            store.close()
            raise ParameterError(
                f"the run in {folder} has the preset {before!r}, this one {preset!r}; "
                "name another folder by --out"
            )
        return store

    def _open(self) -> sqlite3.Connection:
        with _explained(self.path):
            connection = sqlite3.connect(self.path, isolation_level=None, timeout=30.0)
            try:
                connection.execute("PRAGMA foreign_keys = ON")
                connection.execute("BEGIN")  # one view of all rows, while a run may go on writing
                verdict = connection.execute("PRAGMA integrity_check").fetchall()
                if verdict != [("ok",)]:
                    raise sqlite3.DatabaseError(str(verdict[0][0]))
                rows = connection.execute("SELECT name, value FROM about").fetchall()
                about = {name: value for name, value in rows if name != _SEAL}
                if about.get("schema") != _VERSION:
                    raise StoreError(
                        f"{self.path} has the layout {about.get('schema')}, this version of kuq "
                        f"reads {_VERSION}; move it away and make the run again, or read it with "
                        f"the kuq {about.get('kuq')} that wrote it"
                    )
                _check_seals(connection)
                connection.execute("COMMIT")
            except BaseException:
                connection.close()
                raise
        self.about: Mapping[str, str] = about
        return connection

    @property
    def preset(self) -> str:
        """The size of the run: smoke, quick or paper."""
        return self.about["preset"]

    def close(self) -> None:
        """Close the database."""
        self._connection.close()
        self._copies.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with _explained(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # A full disk rolls back by itself; anything else is rolled back here.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        with _explained(self.path):
            return self._connection.execute(query).fetchall()

    def plan(self, experiment: Experiment, cells: Sequence[Cell] | None = None) -> None:
        """Take the cells of an experiment; those whose settings changed are to be done again.

        ``cells`` are those of the experiment with the digests of their data. Cells that the
        experiment no longer has are kept, but their records are not given out.
        """
        cells = list(experiment.cells()) if cells is None else cells
        with self._transaction() as to:
            to.execute(
                "INSERT INTO experiments (name, title) VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET title = excluded.title",
                (experiment.name, experiment.title),
            )
            to.execute("DELETE FROM deviations WHERE experiment = ?", (experiment.name,))
            to.executemany(
                "INSERT INTO deviations VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (experiment.name, i, d.setting, d.paper, d.here, d.reason)
                    for i, d in enumerate(experiment.deviations)
                ],
            )
            to.execute("UPDATE cells SET planned = -1 WHERE experiment = ?", (experiment.name,))
            for position, cell in enumerate(cells):
                to.execute(
                    "DELETE FROM records WHERE cell = ? AND "
                    "(SELECT settings_digest FROM cells WHERE key = ?) != ?",
                    (cell.key, cell.key, cell.settings_digest()),
                )
                to.execute(
                    "INSERT INTO cells (key, experiment, grid, dataset, representation, seed, "
                    "planned, settings, settings_digest, status) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending') "
                    "ON CONFLICT (key) DO UPDATE SET planned = excluded.planned, "
                    "settings = excluded.settings, settings_digest = excluded.settings_digest, "
                    "status = CASE WHEN settings_digest = excluded.settings_digest "
                    "THEN status ELSE 'pending' END",
                    (
                        cell.key,
                        cell.experiment,
                        cell.grid,
                        cell.dataset,
                        cell.representation,
                        cell.seed,
                        position,
                        json.dumps(cell.settings(), sort_keys=True),
                        cell.settings_digest(),
                    ),
                )
            keys = to.execute("SELECT key FROM cells WHERE experiment = ?", (experiment.name,))
            for (key,) in keys.fetchall():
                _seal_cell(to, key)
            _seal_experiment(to, experiment.name)

    def save(self, result: CellResult) -> None:
        """Keep what came of a cell, all of it or nothing."""
        with self._transaction() as to:
            kept = result.predictions
            if kept is not None:
                # Predictions that were only read again keep the time that it took to make them.
                to.execute(
                    f"INSERT INTO predictions ({_PREDICTIONS}) VALUES (?, ?, ?, ?, ?) "
                    "ON CONFLICT (digest) DO UPDATE SET checksum = excluded.checksum, "
                    "size = excluded.size, "
                    "seconds = CASE WHEN ? THEN excluded.seconds ELSE seconds END, "
                    "cpu_seconds = CASE WHEN ? THEN excluded.cpu_seconds ELSE cpu_seconds END",
                    (
                        kept.digest,
                        kept.checksum,
                        kept.size,
                        kept.seconds,
                        kept.cpu_seconds,
                        result.trained,
                        result.trained,
                    ),
                )
                _seal_predictions(to, kept.digest)
            key = result.cell.key
            to.execute("DELETE FROM records WHERE cell = ?", (key,))
            to.execute(
                "UPDATE cells SET status = ?, message = ?, seconds = ?, cpu_seconds = ?, "
                "predictions = ? WHERE key = ?",
                (
                    "done" if result.done else "failed",
                    result.message,
                    result.seconds,
                    result.cpu_seconds,
                    None if kept is None else kept.digest,
                    key,
                ),
            )
            to.executemany(
                "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    (key, i, r.quantity, r.score, r.component, r.x, r.value)
                    for i, r in enumerate(result.records)
                ],
            )
            _seal_cell(to, key)

    def records(self) -> list[Record]:
        """All records of the cells that are done."""
        rows = self._rows(
            "SELECT c.experiment, c.dataset, c.representation, c.seed, r.quantity, r.value, "
            "r.score, r.component, r.x FROM records r JOIN cells c ON c.key = r.cell "
            "WHERE c.planned >= 0 ORDER BY c.experiment, c.planned, r.position"
        )
        # SQLite keeps "not a number" as NULL.
        return [
            Record(experiment, dataset, kind, seed, name, math.nan if y is None else y, *rest)
            for experiment, dataset, kind, seed, name, y, *rest in rows
        ]

    def cells(self) -> list[CellState]:
        """The state of all cells of the experiments as they were last started."""
        rows = self._rows(
            "SELECT key, experiment, grid, dataset, representation, seed, status, message, "
            "seconds, cpu_seconds, settings, predictions FROM cells WHERE planned >= 0 "
            "ORDER BY experiment, planned"
        )
        names = [field.name for field in dataclasses.fields(CellState)]
        states = (dict(zip(names, row, strict=True)) for row in rows)
        return [CellState(**{**s, "settings": json.loads(s["settings"])}) for s in states]

    def deviations(self) -> dict[str, list[Deviation]]:
        """By experiment, what the run did otherwise than the paper."""
        rows = self._rows(
            "SELECT experiment, setting, paper, here, reason FROM deviations "
            "ORDER BY experiment, position"
        )
        deviations: dict[str, list[Deviation]] = {}
        for experiment, *values in rows:
            deviations.setdefault(experiment, []).append(Deviation(*values))
        return deviations

    def titles(self) -> dict[str, str]:
        """The titles of the experiments, by name."""
        return dict(self._rows("SELECT name, title FROM experiments ORDER BY name"))

    def checksums(self) -> dict[str, str]:
        """The checksums of kept predictions, by the digest of what they depend on."""
        return dict(self._rows("SELECT digest, checksum FROM predictions"))


def pack(database: Path, packed: Path) -> None:
    """Write a packed copy of a database that nobody writes to."""
    packed.write_bytes(lzma.compress(database.read_bytes(), preset=9))


def _unpack(packed: Path, database: Path) -> None:
    try:
        database.write_bytes(lzma.decompress(packed.read_bytes()))
    except (lzma.LZMAError, EOFError) as error:
        raise StoreError(f"{packed} is damaged ({error}); take it from its source again") from error


def _make(path: Path, preset: str) -> None:
    """Write an empty store under another name and move it: a kill leaves none or a whole one."""
    about = (("schema", _VERSION), ("preset", preset), ("kuq", kuq.__version__))
    with replacing(path) as temporary, _explained(path):
        connection = sqlite3.connect(temporary, isolation_level=None)
        try:
            connection.executescript(_SCHEMA)
            connection.executemany("INSERT INTO about VALUES (?, ?)", about)
            _seal_about(connection)
        finally:
            connection.close()


def _seal(*content: Any) -> str:
    """Rows as SQLite gives them back: numbers print so that they are read back exactly."""
    return bytes_digest(repr(content).encode("utf-8", "surrogatepass"))


def _about_seal(of: sqlite3.Connection) -> str:
    query = "SELECT name, value FROM about WHERE name != ? ORDER BY name"
    names = of.execute("SELECT name FROM experiments ORDER BY name").fetchall()
    return _seal(of.execute(query, (_SEAL,)).fetchall(), names)


def _experiment_seal(of: sqlite3.Connection, name: str) -> str:
    queries = (
        "SELECT name, title FROM experiments WHERE name = ?",
        "SELECT position, setting, paper, here, reason FROM deviations WHERE experiment = ? "
        "ORDER BY position",
        "SELECT planned, key FROM cells WHERE experiment = ? AND planned >= 0 ORDER BY planned",
    )
    return _seal(*(of.execute(query, (name,)).fetchall() for query in queries))


def _cell_seal(of: sqlite3.Connection, key: str) -> str:
    row = of.execute(f"SELECT {_CELL} FROM cells WHERE key = ?", (key,)).fetchone()
    query = f"SELECT {_RECORD} FROM records WHERE cell = ? ORDER BY position"
    return _seal(row, of.execute(query, (key,)).fetchall())


def _predictions_seal(of: sqlite3.Connection, digest: str) -> str:
    query = f"SELECT {_PREDICTIONS} FROM predictions WHERE digest = ?"
    return _seal(of.execute(query, (digest,)).fetchone())


def _seal_about(to: sqlite3.Connection) -> None:
    to.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (_SEAL, _about_seal(to)))


def _seal_experiment(to: sqlite3.Connection, name: str) -> None:
    to.execute("UPDATE experiments SET seal = ? WHERE name = ?", (_experiment_seal(to, name), name))
    _seal_about(to)


def _seal_cell(to: sqlite3.Connection, key: str) -> None:
    to.execute("UPDATE cells SET seal = ? WHERE key = ?", (_cell_seal(to, key), key))


def _seal_predictions(to: sqlite3.Connection, digest: str) -> None:
    to.execute(
        "UPDATE predictions SET seal = ? WHERE digest = ?", (_predictions_seal(to, digest), digest)
    )


def _check_seals(connection: sqlite3.Connection) -> None:
    """Raise on the first row that is not what was written."""
    layout = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.executescript(_SCHEMA)
        if connection.execute(layout).fetchall() != empty.execute(layout).fetchall():
            raise sqlite3.DatabaseError("its layout was changed")
    sealed = connection.execute("SELECT value FROM about WHERE name = ?", (_SEAL,)).fetchone()
    if sealed != (_about_seal(connection),):
        raise sqlite3.DatabaseError("what it says of the run does not match its digest")
    for what, query, seal in (
        ("experiment", "SELECT name, seal FROM experiments", _experiment_seal),
        ("cell", "SELECT key, seal FROM cells", _cell_seal),
        ("entry on predictions", "SELECT digest, seal FROM predictions", _predictions_seal),
    ):
        for key, sealed in connection.execute(query).fetchall():
            if sealed != seal(connection, key):
                raise sqlite3.DatabaseError(f"the {what} {key} does not match its digest")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn the database's errors into one that says what happened and what to do."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter of a damaged message
        reason = " ".join(str(error).split())[:200]  # which may quote a whole column
        code = str(getattr(error, "sqlite_errorname", ""))
        if code.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
            raise WriteError(
                f"{path} could not be written ({reason}); what was stored before is kept. Free "
                "space on the disk and start the same command again"
            ) from error
        if code.startswith(
            ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")
        ):
            raise StoreError(
                f"{path} cannot be used ({reason}); close other programs that have it open and "
                "look at the rights of file and folder"
            ) from error
        raise StoreError(
            f"{path} is damaged ({reason}) and was not changed; move it away and start the same "
            "command again: predictions that are intact are used without training"
        ) from error
