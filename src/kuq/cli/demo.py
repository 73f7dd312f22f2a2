"""``kuq demo``: a small ensemble under every score, as a table and a figure."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

from kuq.cli.arguments import Commands, OutputPath, add_command, natural_number
from kuq.errors import KuqError

_FIGURE = "kuq-demo.png"
_FORMATS = (".png", ".pdf", ".svg")
_EXAMPLES = """\
examples:
  kuq demo                           the table, and the figure kuq-demo.png
  kuq demo --out figure.svg --seed 3
"""


def add(commands: Commands) -> None:
    """Declare the command and its options."""
    text = "decompose the uncertainty of a small ensemble under every score, and draw it"
    parser = add_command(commands, "demo", text, _EXAMPLES)
    parser.add_argument(
        "--out",
        type=OutputPath(*_FORMATS),
        metavar="FILE",
        help=f"where to save the figure: {', '.join(_FORMATS)} (default: {_FIGURE})",
    )
    parser.add_argument(
        "--seed",
        type=natural_number,
        default=0,
        metavar="N",
        help="seed of data and members, an integer >= 0 (default: 0)",
    )


def run(options: argparse.Namespace) -> int:
    """Print the table, save the figure, and say where."""
    from kuq import demo  # only here, so that the other commands start at once

    result = demo.run(options.seed)
    print(f"{demo.DESCRIPTION}\n\n{result.table()}\n")
    if importlib.util.find_spec("matplotlib") is None:
        print(
            'no figure, since matplotlib is missing; to have it: pip install "kuq[plot]"',
            file=sys.stderr,
        )
        return 0 if options.out is None else 1
    path = Path(_FIGURE) if options.out is None else options.out
    try:
        result.save_figure(path)
    except (KuqError, OSError) as error:
        print(f"kuq: error: the figure could not be saved: {error}", file=sys.stderr)
        return 2
    print(f"figure: {path}")
    return 0
