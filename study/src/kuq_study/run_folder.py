"""What a report reads from the folder of a run: records, fields, deviations and failures."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np

from kuq_study.arrays import read_arrays
from kuq_study.estimates import Fields
from kuq_study.experiment import SMOKE
from kuq_study.records import Record
from kuq_study.store import Store


@final
@dataclass(frozen=True)
class Run:
    """A run, as a report shows it.

    ``deviations`` have (setting, paper, here, reason) by experiment; ``problems`` tell which
    cells failed and which files could not be read.
    """

    name: str
    records: tuple[Record, ...]
    fields: Fields = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)
    deviations: Mapping[str, tuple[tuple[str, str, str, str], ...]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def measured(self) -> bool:
        """Whether its numbers speak for anything: those of the preset "smoke" do not."""
        return self.about.get("preset") != SMOKE


def read_run(folder: str | Path) -> Run:
    """Read the store and the fields of a run."""
    folder = Path(folder)
    with Store(folder) as kept:
        records = tuple(kept.records())
        about = dict(kept.about)
        deviations = {
            name: tuple((d.setting, d.paper, d.here, d.reason) for d in rows)
            for name, rows in kept.deviations().items()
        }
        problems = [
            f"{cell.key}: {cell.status}{_last_line(cell.message)}"
            for cell in kept.cells()
            if cell.status != "done"
        ]
    fields, unread = read_fields(folder / "fields")
    return Run(
        name=folder.resolve().name,
        records=records,
        fields=fields,
        about=about,
        deviations=deviations,
        problems=(*problems, *unread),
    )


def _last_line(message: str) -> str:
    lines = message.strip().splitlines()
    return f" ({lines[-1]})" if lines else ""


def read_fields(folder: Path) -> tuple[Fields, tuple[str, ...]]:
    """The numbers in every ``NAME.npz`` of a folder, and what could not be read."""
    fields: dict[str, dict[str, Any]] = {}
    problems = []
    for path in sorted(folder.glob("*.npz")):
        try:
            arrays, _ = read_arrays(path)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            problems.append(f"{path.name} could not be read: {error}")
            continue
        fields[path.stem] = {
            name: array.astype(np.float64)
            for name, array in arrays.items()
            if array.size and array.dtype.kind in "fiub"
        }
    return fields, tuple(problems)
