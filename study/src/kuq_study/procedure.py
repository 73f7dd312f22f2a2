"""What a cell does: predict once, then evaluate every score from the predictions that were kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from kuq._replacing import check_target
from kuq.errors import ParameterError
from kuq_study.arrays import ARRAYS, save_arrays
from kuq_study.cell import Cell, digest
from kuq_study.records import Record
from kuq_study.states import States


@final
@dataclass(frozen=True)
class Context:
    """Where a cell runs: the folder of the run, that of the data, and whom to tell of progress.

    ``report(stage, fraction)`` may be called as often as one likes. ``states`` is a folder for
    the state of what takes long, None where nothing is to be kept.
    """

    run: Path
    data_dir: Path | None
    report: Callable[[str, float], None]
    states: States | None = None

    def state_file(self, name: str) -> Path | None:
        """A file for the state of a long computation, to go on from when the run was killed.

        It belongs to this cell with these settings, and is removed when its predictions are kept.
        """
        return None if self.states is None else self.states.file(name)

    def save_field(self, name: str, **arrays: Any) -> None:
        """Keep arrays of one example for the pictures of a report, as ``RUN/fields/NAME.npz``."""
        path = self.run / "fields" / f"{name}.npz"
        check_target(path, ARRAYS)
        save_arrays(path, arrays)


@final
@dataclass(frozen=True)
class Procedure:
    """Two pure functions of a cell's settings, run one after the other in a process of their own.

    ``predict(cell, context)`` does what takes long and returns arrays, which are kept;
    ``evaluate(cell, arrays, context)`` returns records, and never trains. ``depends_on(cell)``
    names what the predictions depend on, by default all settings: cells that agree in it, also
    those of different experiments, share their predictions. ``options`` is a frozen dataclass of
    the keys that ``[grid.NAME.evaluation]`` may have, or None to leave them unchecked. Where
    ``learns``, cells load data sets and train models by name, and a file's names are checked.
    """

    predict: Callable[[Cell, Context], Mapping[str, Any]]
    evaluate: Callable[[Cell, Mapping[str, Any], Context], Iterable[Record]]
    depends_on: Callable[[Cell], Mapping[str, Any]] = Cell.settings
    options: type[Any] | None = None
    learns: bool = False

    def training_digest(self, cell: Cell) -> str:
        """Equal for cells that share their predictions."""
        return digest(self.depends_on(cell))


def procedure_of(cell: Cell) -> Procedure:
    """The procedure that a cell names: one of kuq's, or the user's own."""
    return find_procedure(cell.procedure, cell.entries)


def find_procedure(name: str, entries: Mapping[str, Any]) -> Procedure:
    """One of kuq's procedures by its name, or that of the user's own entry."""
    from kuq_study.procedures import PROCEDURES  # here, since these are built from this file

    if name in PROCEDURES:
        return PROCEDURES[name]()
    if name not in entries:
        raise ParameterError(
            f"there is no procedure {name!r}; there are {', '.join(PROCEDURES)}, and your own as "
            "'file.py:name'"
        )
    procedure = entries[name].load()
    if not isinstance(procedure, Procedure):
        raise ParameterError(
            f"{name!r} must be a kuq_study.Procedure(predict, evaluate), got {procedure!r}"
        )
    return procedure
