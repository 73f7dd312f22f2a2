"""The command ``kuq``: parses, calls, prints."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

import kuq

_FIGURE = "kuq-demo.png"
_FORMATS = (".png", ".pdf", ".svg")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 1 (failed) or 2 (wrong usage)."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help(sys.stderr)
        print("\nkuq: error: a command is needed, such as: kuq demo", file=sys.stderr)
        return 2
    if options.command == "kernels":
        print(kuq.kernel_cards())
        return 0
    return _demo(options.out, options.seed)


def _demo(out: Path | None, seed: int) -> int:
    from kuq import demo  # only here, so that the other commands start at once

    result = demo.run(seed)
    print(f"{demo.DESCRIPTION}\n\n{result.table()}\n")
    if importlib.util.find_spec("matplotlib") is None:
        print(
            'no figure, since matplotlib is missing; to have it: pip install "kuq[plot]"',
            file=sys.stderr,
        )
        return 0 if out is None else 1
    path = Path(_FIGURE) if out is None else out
    try:
        result.save_figure(path)
    except OSError as error:
        print(f"kuq: error: the figure could not be saved: {error}", file=sys.stderr)
        return 1
    print(f"figure: {path}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kuq",
        description="Uncertainty quantification in regression by kernel scores.",
        epilog="Help on a command: kuq COMMAND --help",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"kuq {kuq.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    text = "decompose the uncertainty of a small ensemble under every score, and draw it"
    demo = commands.add_parser("demo", help=text, description=text, allow_abbrev=False)
    demo.add_argument(
        "--out",
        type=_figure_path,
        metavar="FILE",
        help=f"where to save the figure: {', '.join(_FORMATS)} (default: {_FIGURE})",
    )
    demo.add_argument(
        "--seed",
        type=_seed,
        default=0,
        metavar="N",
        help="seed of data and members, an integer >= 0 (default: 0)",
    )
    text = "print the facts that matter for choosing a kernel"
    commands.add_parser("kernels", help=text, description=text, allow_abbrev=False)
    return parser


def _figure_path(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() not in _FORMATS:
        raise argparse.ArgumentTypeError(
            f"the name must end in {', '.join(_FORMATS)}, got {text!r}"
        )
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"the folder {str(path.parent)!r} does not exist")
    return path


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"an integer >= 0 is needed, got {text!r}")
    return int(text)
