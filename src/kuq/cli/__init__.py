"""The command ``kuq``: parses, calls, prints. One module per command."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType

import kuq
from kuq.cli import data, decompose, demo, kernels, report, run
from kuq.cli.arguments import printable
from kuq.cli.stopping import Stopped, end, stoppable

#: Each has ``add(commands)``, which declares its options, and ``run(options)``, its exit code.
COMMANDS: dict[str, ModuleType] = {
    "data": data,
    "decompose": decompose,
    "demo": demo,
    "kernels": kernels,
    "report": report,
    "run": run,
}

_EXAMPLES = """\
examples:
  kuq demo                            see it work: a figure, and a page on real predictions
  kuq kernels --need robust           which score fits a need, and why
  kuq decompose predictions.npz       total, aleatoric and epistemic uncertainty of a file
  kuq data list                       data sets that load by name
  kuq run experiments/*.toml --preset smoke
  kuq report runs/smoke               tables, figures and a page from the results of a run

Help on a command: kuq COMMAND --help
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 1 (internal) or 2 (usage, input, disk).

    Called as a command, without arguments, a signal ends the process with 128 + its number.
    """
    parser = argparse.ArgumentParser(
        prog="kuq",
        description="Uncertainty quantification in regression by kernel scores.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"kuq {kuq.__version__}")
    parser.add_argument("--debug", action="store_true", help="show a traceback on errors")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in COMMANDS.values():
        command.add(commands)
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help(sys.stderr)
        print("\nkuq: error: a command is needed, such as: kuq demo", file=sys.stderr)
        return 2
    if arguments is not None:
        return _run(options)
    line = _stopped(options)
    try:
        with stoppable(line):
            return _run(options)
    except Stopped as stopped:
        end(stopped.number, line)


def _stopped(options: argparse.Namespace) -> str:
    hint = getattr(COMMANDS[options.command], "STOPPED", "")
    return f"kuq: stopped{hint}"


def _run(options: argparse.Namespace) -> int:
    """Run a command; an error becomes one line and an exit code."""
    try:
        code: int = COMMANDS[options.command].run(options)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Stopped:
        raise
    except KeyboardInterrupt:
        print(_stopped(options), file=sys.stderr)
        return 128 + signal.SIGINT
    except (kuq.KuqError, OSError) as error:
        return _failed(options, str(error), 2)
    except MemoryError as error:
        return _failed(options, f"there is not enough memory for this: {error}", 2)
    except Exception as error:
        hint = "" if options.debug else " (kuq --debug … shows where)"
        return _failed(options, f"internal error: {type(error).__name__}: {error}{hint}", 1)
    return code


def _failed(options: argparse.Namespace, message: str, code: int) -> int:
    if options.debug:
        traceback.print_exc()
    print(f"kuq: error: {printable(' '.join(message.split()))}", file=sys.stderr)
    return code
