"""The digest of the data that a cell reads: part of what its numbers depend on."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import final

from kuq._digest import folder_digest
from kuq.errors import ParameterError
from kuq_study.cell import Cell, digest
from kuq_study.learners import load_own_data
from kuq_study.procedure import procedure_of


@final
class DataDigests:
    """Finds digests for the cells of a run, each file read once.

    Of a data set of kuq it is that of the files it comes from, none where kuq makes it; of the
    user's own, that of the rows its function gives; of a procedure of the user's own that trains
    no models by name, that of all files in ``data_dir``, since nothing else is known of it.
    """

    def __init__(self, data_dir: Path | None) -> None:
        self._data_dir = data_dir
        self._digests: dict[str, str | Exception] = {}

    def filled(self, cell: Cell, before: str) -> tuple[Cell, str]:
        """The cell with its digest, and why it could not be found, empty where it could.

        Without the data the digest is ``before``, that of what the store has.
        """
        outcome = self._of(cell)
        if isinstance(outcome, str):
            return dataclasses.replace(cell, data_digest=outcome), ""
        return dataclasses.replace(cell, data_digest=before), f"{type(outcome).__name__}: {outcome}"

    def _of(self, cell: Cell) -> str | Exception:
        if not procedure_of(cell).learns:
            if self._data_dir is None or cell.procedure not in cell.entries:
                return ""
            key = "folder"
        else:
            of_the_user = cell.dataset in cell.entries
            seed = cell.seed if of_the_user else None  # which chooses among rows of the same files
            key = digest({"name": cell.dataset, "seed": seed, "options": dict(cell.data)})
        if key not in self._digests:
            try:
                self._digests[key] = self._read(cell)
            except Exception as error:  # code of the user's own may raise anything
                self._digests[key] = error
        return self._digests[key]

    def _read(self, cell: Cell) -> str:
        if not procedure_of(cell).learns:
            assert self._data_dir is not None
            if not self._data_dir.is_dir():
                raise ParameterError(f"data_dir names {str(self._data_dir)!r}, which is no folder")
            return folder_digest(self._data_dir)
        if cell.dataset in cell.entries:
            return load_own_data(cell, self._data_dir).digest()
        from kuq.datasets.catalogue import source_digest

        return source_digest(cell.dataset, self._data_dir, cell.data)
