"""The code of README.md and of the documentation: collected, run, compared with what pages say.

A page is one program in a folder of its own. Its ``python`` blocks share their names; the ``kuq``
and ``kuq-study`` commands of its ``sh`` blocks run in between; a ``text`` block right after a block
is what that one prints. ``python -m docs.pages --update [PAGE …]`` writes these texts and
the drawings anew.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
#: The commands, with the modules of their command lines.
PROGRAMS = {"kuq": "kuq.cli", "kuq-study": "kuq_study.cli"}
KINDS = ("python", "sh", "text", "toml")
#: Commands that take long, or need data or results of other commands: read, and not run.
LONG = ("--preset", "--scheduler", "--data-dir", "experiments/*", "runs/quick", "data fetch")


@dataclass(frozen=True)
class Block:
    """A block of code and what the page says it prints, None if the page does not say."""

    kind: str
    code: str
    output: str | None
    line: int

    def commands(self) -> list[list[str]]:
        """The commands of a shell block that are kuq's, as lists of words."""
        lines = self.code.replace("\\\n", " ").splitlines()
        words = (shlex.split(line, comments=True) for line in lines)
        return [line for line in words if line and line[0] in PROGRAMS]


def pages() -> list[Path]:
    """Every page with code, README.md first."""
    documents = sorted((ROOT / "docs").rglob("*.md"))
    return [page for page in (ROOT / "README.md", *documents) if blocks(page)]


def blocks(page: Path) -> list[Block]:
    """The blocks of code of a page, in order."""
    text = page.read_text(encoding="utf-8")
    fences = list(FENCE.finditer(text))
    code_blocks = []
    for fence, follower in itertools.zip_longest(fences, fences[1:]):
        kind, code = fence.groups()
        said = None
        if follower and follower[1] == "text" and not text[fence.end() : follower.start()].strip():
            said = follower[2]
        if kind != "text":
            code_blocks.append(Block(kind, code, said, text[: fence.start()].count("\n") + 1))
    return code_blocks


def run(page: Path) -> Iterator[tuple[Block, str]]:
    """Run a page in the current folder; yields every block with what it printed."""
    Path("study").mkdir()
    Path("study/experiments").symlink_to(ROOT / "study" / "experiments")
    Path("docs").mkdir()
    Path("docs", "data").symlink_to(ROOT / "docs" / "data")
    names: dict[str, object] = {"__name__": "page"}
    os.environ.setdefault("MPLBACKEND", "agg")
    for block in blocks(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            if block.kind == "python":
                # Empty lines before the code make line numbers in tracebacks those of the page.
                code = "\n" * block.line + block.code
                exec(compile(code, str(page), "exec", dont_inherit=True), names)
            for command in block.commands() if block.kind == "sh" else ():
                execute(command)
        yield block, printed.getvalue()


def execute(words: list[str]) -> None:
    """Run a command of the page in this process, or only read it if it takes long."""
    cli, line = import_module(PROGRAMS[words[0]]), shlex.join(words)
    if any(word in line for word in LONG):
        with unused_commands(cli):
            code = cli.main(words[1:])
    else:
        try:
            code = cli.main(words[1:])
        except SystemExit as stop:  # --help and --version
            code = int(stop.code or 0)
    if code:
        raise RuntimeError(f"exit code {code}: {line}")


@contextlib.contextmanager
def unused_commands(cli: ModuleType) -> Iterator[None]:
    """Inside, the command line reads its options and does nothing."""
    originals = {name: module.run for name, module in cli.COMMANDS.items()}
    for module in cli.COMMANDS.values():
        module.run = lambda options: 0  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for name, module in cli.COMMANDS.items():
            module.run = originals[name]  # type: ignore[attr-defined]


def update(page: Path) -> None:
    """Write what the page's code prints and draws into the documentation."""
    here = os.getcwd()
    os.environ["SOURCE_DATE_EPOCH"] = "0"  # drawings carry no date
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            results = list(run(page))
            for drawing in Path(folder).glob("*.svg"):
                (ROOT / "docs" / "figures" / drawing.name).write_text(compact(drawing.read_text()))
        finally:
            os.chdir(here)
    text = page.read_text(encoding="utf-8")
    for block, printed in results:
        if block.output is not None and block.output != printed:
            old = f"{block.code}```\n\n```text\n{block.output}```"
            assert text.count(old) == 1, f"{page}: line {block.line} is not unique"
            text = text.replace(old, f"{block.code}```\n\n```text\n{printed}```")
    page.write_text(text, encoding="utf-8")


def compact(svg: str) -> str:
    """A drawing without metadata, its curves in hundredths of a point."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    return re.sub(r"(?<=[ML] )-?\d+\.\d+ -?\d+\.\d+", _rounded, svg)


def _rounded(point: re.Match[str]) -> str:
    return " ".join(f"{float(number):.2f}" for number in point[0].split())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m docs.pages", description=__doc__)
    parser.add_argument("--update", action="store_true", required=True)
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE")
    options = parser.parse_args(arguments)
    for page in [path.resolve() for path in options.pages] or pages():
        print(page.relative_to(ROOT))
        update(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
