"""What the commands' arguments have in common: declaring a command, and reading values."""

from __future__ import annotations

import argparse
import difflib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, TypeAlias

from kuq.errors import KuqError
from kuq.kernels.base import Score
from kuq.kernels.names import parse_score, usual_estimator


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with an argument, without the list of all of them."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {printable(message)}; see {self.prog} --help\n")

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Arguments that it does not have, with the ones that were probably meant."""
        names = [word.partition("=")[0] for word in unknown if word.startswith("-")]
        accepted = [option for action in self._actions for option in action.option_strings]
        closest = (difflib.get_close_matches(name, accepted, n=1, cutoff=0.8) for name in names)
        meant = [option for matches in closest for option in matches]
        hint = f" (is it {', '.join(meant)}?)" if meant else ""
        self.error(f"unknown arguments: {' '.join(unknown)}{hint}")


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def add_command(commands: Commands, name: str, text: str, examples: str = "") -> Parser:
    """Declare a command with its one-line description and examples, and return its parser."""
    return commands.add_parser(
        name,
        help=text,
        description=text,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def printable(text: str) -> str:
    """Text of a file for a terminal: nothing in it moves the cursor or changes its settings."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


class OutputPath:
    """Reads the name of a file to write: a known ending, in a folder that exists."""

    def __init__(self, *formats: str) -> None:
        self._formats = formats

    def __call__(self, text: str) -> Path:
        path = Path(text)
        if path.suffix.lower() not in self._formats:
            raise argparse.ArgumentTypeError(
                f"the name must end in {', '.join(self._formats)}, got {text!r}"
            )
        if not path.parent.is_dir():
            raise argparse.ArgumentTypeError(f"the folder {str(path.parent)!r} does not exist")
        return path


def natural_number(text: str) -> int:
    """Reads an integer >= 0, such as a seed."""
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"an integer >= 0 is needed, got {text!r}")
    return int(text)


def positive_number(text: str) -> float:
    """Reads a finite number > 0, such as seconds."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"a number > 0 is needed, got {text!r}")
    return number


def score_with_estimator(text: str) -> tuple[Score, str]:
    """Reads a score by its name, such as gaussian:0.5, and the estimator it asks for."""
    try:
        return parse_score(text), usual_estimator(text)
    except KuqError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
