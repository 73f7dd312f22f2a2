"""How far the long computations of a cell have come, in files of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

from kuq._replacing import sweep_folder

#: The folder of a run that has them.
STATES = "states"
_ENDING = ".state"


@final
@dataclass(frozen=True)
class States:
    """The folder of one cell with its settings; it is there while it has files."""

    folder: Path

    def file(self, name: str) -> Path:
        """The file of a name, which may not be there yet."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{name}{_ENDING}"

    def clear(self) -> None:
        """Remove the files, and the folder if nobody else has put something there."""
        if not self.folder.is_dir():
            return
        sweep_folder(self.folder)
        for path in self.folder.glob(f"*{_ENDING}"):
            path.unlink(missing_ok=True)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()


def clear_all(run: Path) -> None:
    """Remove the states of cells that were given up or have other settings now."""
    for folder in (run / STATES).glob("*"):
        if folder.is_dir():
            States(folder).clear()
