"""Results that are kept cell by cell, and tables in pages that are made of them."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.fresh import limit_threads


def stored(path: Path) -> dict[str, Any]:
    """The cells of a file, none if there is no file yet."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def keep(cells: dict[str, Any], path: Path) -> None:
    """One line for each cell; a command that is stopped leaves the old file or the new one."""
    text = ",\n".join(f"{json.dumps(key)}: {json.dumps(cells[key])}" for key in sorted(cells))
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text("{\n" + text + "\n}\n", encoding="utf-8")
    temporary.replace(path)


def put_between(page: Path, begin: str, end: str, text: str) -> None:
    """Write a table into a page, between its marks."""
    before, rest = page.read_text(encoding="utf-8").split(begin)
    after = rest.split(end, 1)[1]
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def between(page: Path, begin: str, end: str) -> str:
    """What stands between the marks of a page."""
    return page.read_text(encoding="utf-8").split(begin)[1].split(end)[0].strip()


@dataclass(frozen=True)
class Study:
    """Results in a file and the table of a page that is made of them, with a command for both.

    ``outdated`` says of a cell whether it is to run again.
    """

    name: str
    text: str
    store: Path
    page: Path
    rendered: Callable[[dict[str, Any]], str]
    outdated: Callable[[str, Any], bool] = lambda key, result: False

    @property
    def marks(self) -> tuple[str, str]:
        return f"<!-- table: python -m benchmarks.{self.name} -->", "<!-- end of table -->"

    def stored(self) -> dict[str, Any]:
        return stored(self.store)

    def shown(self) -> str:
        """The table as the page has it."""
        return between(self.page, *self.marks)

    def run(self, asked: dict[str, Callable[[], Any]]) -> None:
        """Every cell that is not there yet or outdated, in this order."""
        for key, ask in asked.items():
            kept = self.stored()
            if key not in kept or self.outdated(key, kept[key]):
                result = ask()
                print(key, result, flush=True)
                keep(self.stored() | {key: result}, self.store)

    def command(
        self,
        asked: Callable[[argparse.Namespace], dict[str, Callable[[], Any]]],
        arguments: list[str] | None,
        **numbers: int,
    ) -> int:
        """Run what is missing and write the page; ``numbers`` are options with their defaults."""
        parser = argparse.ArgumentParser(
            prog=f"python -m benchmarks.{self.name}",
            description=self.text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for name, default in numbers.items():
            parser.add_argument(f"--{name}", type=int, default=default)
        if numbers:
            folder = os.environ.get("KUQ_DATA")
            parser.add_argument("--data-dir", default=folder, help="a folder with the tables")
        parser.add_argument("--render", action="store_true", help="write the page, run nothing")
        options = parser.parse_args(arguments)
        os.environ.update(limit_threads(1))
        if not options.render:
            self.run(asked(options))
        put_between(self.page, *self.marks, self.rendered(self.stored()))
        return 0
