"""A cell of the grid: one data set, one representation, one seed, and all settings for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import kuq
from kuq._digest import plain_digest
from kuq_study.entry import Entry
from kuq_study.records import Record


@final
@dataclass(frozen=True)
class Cell:
    """What one unit of work depends on, and nothing else: it is trained and evaluated once.

    ``data``, ``model`` and ``evaluation`` are the tables of the experiment file that hold for
    this cell; ``train_rows`` is the most rows that are trained on; ``entries`` is the code of
    the user's own, by the names used in the file; ``data_digest`` stands for the data that the
    cell reads, empty where its settings say all of it.
    """

    experiment: str
    grid: str
    dataset: str
    representation: str
    seed: int
    procedure: str
    scores: tuple[str, ...] = ()
    train_rows: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    entries: Mapping[str, Entry] = field(default_factory=dict)
    data_digest: str = ""

    @property
    def key(self) -> str:
        """The cell's name in store and messages: no two cells of a run share one."""
        names = (self.experiment, self.grid, self.dataset, self.representation)
        return "/".join((*map(one_part, names), str(self.seed)))

    def settings(self) -> dict[str, Any]:
        """All that the numbers of the cell depend on, as plain data."""
        return {
            "kuq": kuq.__version__,
            "dataset": self.dataset,
            "representation": self.representation,
            "seed": self.seed,
            "procedure": self.procedure,
            "scores": list(self.scores),
            "train_rows": self.train_rows,
            "data": dict(self.data),
            "model": dict(self.model),
            "evaluation": dict(self.evaluation),
            "entries": {name: entry.identity for name, entry in sorted(self.entries.items())},
            **self.data_settings(),
        }

    def data_settings(self) -> dict[str, str]:
        """What ``settings`` says of the data beside their name and options."""
        return {"data_digest": self.data_digest} if self.data_digest else {}

    def settings_digest(self) -> str:
        """Equal for equal settings: a cell is done again when it changes."""
        return digest(self.settings())

    def record(
        self,
        quantity: str,
        value: float,
        *,
        score: str = "",
        component: str = "",
        x: float | None = None,
    ) -> Record:
        """A record of this cell."""
        return Record(
            self.experiment,
            self.dataset,
            self.representation,
            self.seed,
            quantity,
            float(value),
            score,
            component,
            None if x is None else float(x),
        )


def one_part(name: str) -> str:
    """A name as one part of a path, different for different names.

    >>> one_part("a/b")
    'a%2Fb'
    """
    return name.replace("%", "%25").replace("/", "%2F")


def digest(settings: Mapping[str, Any]) -> str:
    """32 hexadecimal digits that stand for plain data, whatever the order of its keys."""
    return plain_digest(settings)[:32]
