"""The command ``kuq-study``: parses, calls, prints. One module per command."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from kuq.cli.program import Program
from kuq_study.cli import report, run

COMMANDS: dict[str, ModuleType] = {"report": report, "run": run}

_EXAMPLES = """\
examples:
  kuq-study run study/experiments/*.toml --preset smoke
  kuq-study report runs/smoke         tables, figures and a page from the results of a run

Help on a command: kuq-study COMMAND --help
"""
_PROGRAM = Program(
    "kuq-study",
    "The experiments of the paper that kuq implements, and experiments of one's own.",
    _EXAMPLES,
    COMMANDS,
    "kuq-study run study/experiments/*.toml --preset smoke",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 1 (cells failed) or 2 (usage, input, disk).

    Called as a command, without arguments, a signal ends the process with 128 + its number.
    """
    return _PROGRAM.main(arguments)
