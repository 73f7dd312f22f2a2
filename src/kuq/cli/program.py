"""A program with several commands: what parses, runs one, and turns errors into exit codes."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import final

import kuq
from kuq.cli.arguments import Commands, Parser, printable
from kuq.cli.stopping import Stopped, end, stoppable


@final
@dataclass(frozen=True)
class Program:
    """The command line of ``name``, with one module for each of its ``commands``.

    A module has ``add(commands)``, which declares its options, ``run(options)``, its exit code,
    and ``STOPPED`` if there is something to say when it was stopped. ``first`` is the command to
    start with; ``moved`` says of former commands where they are now.
    """

    name: str
    description: str
    examples: str
    commands: Mapping[str, ModuleType]
    first: str
    moved: Mapping[str, str] = field(default_factory=dict)

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Run the command line and return its exit code: 0, 1 (internal) or 2 (usage, input, disk).

        Called as a command, without arguments, a signal ends the process with 128 + its number.
        """
        given = sys.argv[1:] if arguments is None else arguments
        word = next((word for word in given if not word.startswith("-")), "")
        if word in self.moved:
            print(f"{self.name}: error: {self.moved[word]}", file=sys.stderr)
            return 2
        parser, commands = self._parser()
        options, unknown = parser.parse_known_args(given)
        if unknown:
            commands.choices.get(options.command, parser).refuse(unknown)
        if options.command is None:
            parser.print_help(sys.stderr)
            print(
                f"\n{self.name}: error: a command is needed, such as: {self.first}",
                file=sys.stderr,
            )
            return 2
        if arguments is not None:
            return self._run(options)
        line = self._stopped(options)
        try:
            with stoppable(line):
                return self._run(options)
        except Stopped as stopped:
            end(stopped.number, line)

    def _parser(self) -> tuple[Parser, Commands]:
        """What reads a command line, and what reads each command."""
        parser = Parser(
            prog=self.name,
            description=self.description,
            epilog=self.examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        version = f"{self.name} {kuq.__version__}"
        parser.add_argument("--version", action="version", version=version)
        parser.add_argument("--debug", action="store_true", help="show a traceback on errors")
        commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
        for command in self.commands.values():
            command.add(commands)
        return parser, commands

    def _stopped(self, options: argparse.Namespace) -> str:
        hint = getattr(self.commands[options.command], "STOPPED", "")
        return f"{self.name}: stopped{hint}"

    def _run(self, options: argparse.Namespace) -> int:
        """Run a command; an error becomes one line and an exit code."""
        try:
            code: int = self.commands[options.command].run(options)
        except BrokenPipeError:  # the reader, such as `head`, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except Stopped:
            raise
        except KeyboardInterrupt:
            print(self._stopped(options), file=sys.stderr)
            return 128 + signal.SIGINT
        except (kuq.KuqError, OSError) as error:
            return self._failed(options, str(error), 2)
        except MemoryError as error:
            return self._failed(options, f"there is not enough memory for this: {error}", 2)
        except Exception as error:
            hint = "" if options.debug else f" ({self.name} --debug … shows where)"
            message = f"internal error: {type(error).__name__}: {error}{hint}"
            return self._failed(options, message, 1)
        return code

    def _failed(self, options: argparse.Namespace, message: str, code: int) -> int:
        if options.debug:
            traceback.print_exc()
        line = printable(" ".join(message.split()))
        print(f"{self.name}: error: {line}", file=sys.stderr)
        return code
