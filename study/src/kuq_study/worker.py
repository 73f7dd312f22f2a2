"""One cell from its settings to its records, in whatever process it runs."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from kuq._compiled import by_work_alone
from kuq._digest import file_digest, plain_digest
from kuq._replacing import Kind, write_text
from kuq.errors import ParameterError
from kuq_study.arrays import load_arrays, save_arrays
from kuq_study.cell import Cell
from kuq_study.procedure import Context, Procedure, procedure_of
from kuq_study.records import Record
from kuq_study.states import STATES, States

#: Folders of a run.
PREDICTIONS = "predictions"
PROGRESS = "progress"
_MAKER = "kuq run"  # the former command: its notes are known again
#: Seconds between two notes on one stage; more often would only wear the disk.
_INTERVAL = 0.5


@final
@dataclass(frozen=True)
class Task:
    """A cell and where it runs; ``checksums`` are those of predictions that the store knows of."""

    cell: Cell
    run: Path
    data_dir: Path | None
    checksums: Mapping[str, str]


@final
@dataclass(frozen=True)
class Predictions:
    """The file of a cell's predictions, and what it took to make them."""

    digest: str
    checksum: str
    size: int
    seconds: float
    cpu_seconds: float


@final
@dataclass(frozen=True)
class CellResult:
    """What came of a cell: records, or the message of the error that ended it."""

    cell: Cell
    records: tuple[Record, ...] = ()
    message: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    predictions: Predictions | None = None
    trained: bool = False

    @property
    def done(self) -> bool:
        """Whether the cell gave its records."""
        return not self.message


def run_cell(task: Task) -> CellResult:
    """Predict, unless intact predictions of the same settings are there, and evaluate.

    An error is part of the result, with its traceback, so that one cell cannot end the run.
    """
    start, cpu_start = time.perf_counter(), time.process_time()
    predictions, trained, message = None, False, ""
    records: tuple[Record, ...] = ()
    note = _Note(note_file(task.run, task.cell))
    context = Context(task.run, task.data_dir, note)
    try:
        note("starts", 0.0)
        procedure = procedure_of(task.cell)
        with by_work_alone():  # a run that goes on in other processes has the same bits
            arrays, predictions, trained = _predictions(procedure, task, context)
            note("evaluates", 0.0)
            records = tuple(
                _checked(r, task.cell) for r in procedure.evaluate(task.cell, arrays, context)
            )
    except Exception:
        # A name of a file that is not UTF-8 has characters that no store takes.
        message = traceback.format_exc().encode(errors="backslashreplace").decode()
        records = ()
    finally:
        note.remove()
    return CellResult(
        task.cell,
        records,
        message,
        time.perf_counter() - start,
        time.process_time() - cpu_start,
        predictions,
        trained,
    )


def _predictions(
    procedure: Procedure, task: Task, context: Context
) -> tuple[Mapping[str, Any], Predictions, bool]:
    start, cpu_start = time.perf_counter(), time.process_time()
    digest = procedure.training_digest(task.cell)
    path = task.run / PREDICTIONS / f"{digest}.npz"
    checksum = task.checksums.get(digest)
    arrays: Mapping[str, Any] | None = None
    if path.exists() and checksum in (None, file_digest(path)):
        arrays = load_arrays(path, digest)
    trained = arrays is None
    if trained:
        # Two cells that share their predictions may train at the same time: each has its own.
        name = plain_digest({"cell": task.cell.key, "training": digest})[:32]
        states = States(task.run / STATES / name)
        context = dataclasses.replace(context, states=states)
        save_arrays(path, procedure.predict(task.cell, context), digest)
        states.clear()
        # What is evaluated is what was kept, so that doing it again gives the same numbers.
        arrays = load_arrays(path, digest)
    if arrays is None:
        raise OSError(f"the predictions were written to {path}, but cannot be read back")
    kept = Predictions(
        digest,
        file_digest(path),
        path.stat().st_size,
        time.perf_counter() - start,
        time.process_time() - cpu_start,
    )
    return arrays, kept, trained


def _checked(record: Any, cell: Cell) -> Record:
    """A record of this cell with texts and floats: what the store takes for granted."""
    place = (cell.experiment, cell.dataset, cell.representation, cell.seed)
    if not isinstance(record, Record):
        raise TypeError(f"evaluate must give kuq_study.Record objects, got {record!r}")
    if (record.experiment, record.dataset, record.representation, record.seed) != place:
        raise ValueError(f"{record} belongs to another cell than {cell.key}; use cell.record")
    for text in (record.quantity, record.score, record.component):
        text.encode()
    x = None if record.x is None else float(record.x)
    return dataclasses.replace(record, value=float(record.value), x=x)


def note_file(run: Path, cell: Cell) -> Path:
    """Where a cell that runs tells of its progress."""
    # By a digest: a key may be too long for the name of a file.
    return run / PROGRESS / f"{plain_digest({'cell': cell.key})[:32]}.json"


class _Note:
    """Progress of a cell as a small file in the run's folder, where the runner reads it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stage = ""
        self._last = -_INTERVAL

    def __call__(self, stage: str, fraction: float) -> None:
        now = time.monotonic()
        if stage == self._stage and now - self._last < _INTERVAL:
            return
        self._stage, self._last = stage, now
        note = {"made_by": _MAKER, "stage": stage, "fraction": fraction}
        # A full disk, or a file of the user's, must not end a cell because of its progress.
        with contextlib.suppress(OSError, ParameterError):
            write_text(self._path, json.dumps(note), NOTE, durable=False)

    def remove(self) -> None:
        if self._path.is_file() and _is_note(self._path):
            self._path.unlink(missing_ok=True)


def clear_notes(folder: Path) -> None:
    """Remove the notes that a killed run has left."""
    for path in folder.glob("*.json"):
        if path.is_file() and _is_note(path):
            path.unlink(missing_ok=True)


def _is_note(path: Path) -> bool:
    try:
        return bool(json.loads(path.read_bytes())["made_by"] == _MAKER)
    except (OSError, ValueError, KeyError, TypeError):
        return False


NOTE = Kind("a note on the progress of a run", _is_note)
