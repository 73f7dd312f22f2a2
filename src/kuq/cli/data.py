"""``kuq data``: list data sets, fetch one, or show one as a summary and a figure."""

from __future__ import annotations

import argparse
import ast
from pathlib import Path
from typing import Any

from kuq.cli.arguments import Commands, OutputPath, add_command, natural_number

_FORMATS = (".png", ".pdf", ".svg")
_EXAMPLES = """\
examples:
  kuq data list
  kuq data show diabetes
  kuq data fetch kuramoto-sivashinsky-small
"""


def add(commands: Commands) -> None:
    """Declare the command and its three actions."""
    parser = add_command(commands, "data", "list data sets, fetch one, or show one", _EXAMPLES)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add_command(actions, "list", "print names, sizes, licences and sources of all data sets")
    fetch = add_command(actions, "fetch", "download or simulate a data set into the cache")
    show = add_command(actions, "show", "print a summary of a data set, and draw some samples")
    for action in (fetch, show):
        action.add_argument("name", metavar="NAME", help="a name from: kuq data list")
        action.add_argument(
            "--data-dir",
            type=Path,
            metavar="FOLDER",
            help="a folder with files that you have (default: KUQ_DATA)",
        )
        action.add_argument(
            "--seed",
            type=natural_number,
            default=0,
            metavar="N",
            help="seed of splits (default: 0)",
        )
        action.add_argument(
            "--set",
            type=_option,
            action="append",
            default=[],
            dest="settings",
            metavar="OPTION=VALUE",
            help="an option of the data set, such as trajectories=10000; may be repeated",
        )
    show.add_argument(
        "--out",
        type=OutputPath(*_FORMATS),
        metavar="FILE",
        help=f"where to save the figure: {', '.join(_FORMATS)} (default: kuq-data-NAME.png)",
    )


def run(options: argparse.Namespace) -> int:
    """List, fetch or show."""
    # Only here, so that the other commands start at once.
    from kuq._replacing import check_target
    from kuq.datasets.catalogue import entry, load, table
    from kuq.datasets.figures import save_figure
    from kuq.datasets.summary import summary
    from kuq.plot.saving import figure_kind

    if options.action == "list":
        print(table())
        return 0
    path = Path(f"kuq-data-{options.name}.png")
    if options.action == "show":
        path = options.out or path
        check_target(path, figure_kind("kuq data show", path.suffix.lower()))
    data = load(options.name, options.data_dir, options.seed, **dict(options.settings))
    print(summary(data))
    if options.action == "show":
        save_figure(entry(options.name), data, path)
        print(f"\nfigure: {path}")
    return 0


def _option(text: str) -> tuple[str, Any]:
    """Reads ``name=value``: a number, True or False, or a word."""
    name, separator, value = text.partition("=")
    if not (name.isidentifier() and separator and value):
        raise argparse.ArgumentTypeError(f"OPTION=VALUE is needed, got {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
