"""The command ``kuq``: parses, calls, prints. One module per command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from types import ModuleType

import kuq
from kuq.cli import data, demo, kernels, report, run

#: Each has ``add(commands)``, which declares its options, and ``run(options)``, its exit code.
COMMANDS: dict[str, ModuleType] = {
    "data": data,
    "demo": demo,
    "kernels": kernels,
    "report": report,
    "run": run,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 1 (failed) or 2 (wrong usage)."""
    parser = argparse.ArgumentParser(
        prog="kuq",
        description="Uncertainty quantification in regression by kernel scores.",
        epilog="Help on a command: kuq COMMAND --help",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"kuq {kuq.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in COMMANDS.values():
        command.add(commands)
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help(sys.stderr)
        print("\nkuq: error: a command is needed, such as: kuq demo", file=sys.stderr)
        return 2
    code: int = COMMANDS[options.command].run(options)
    return code
