"""``kuq kernels``: the facts that matter for choosing a kernel, and which one fits a need."""

from __future__ import annotations

import argparse

import kuq
from kuq.cli.arguments import Commands, add_command
from kuq.kernels.needs import NEEDS

_EXAMPLE = """\
examples:
  kuq kernels                      the facts of every score
  kuq kernels --need robust,shape  which scores are robust and see shape, and why

needs:
"""


def add(commands: Commands) -> None:
    """Declare the command."""
    width = max(len(need.name) for need in NEEDS)
    needs = "\n".join(f"  {need.name.ljust(width)}  {need.question}" for need in NEEDS)
    text = "print the facts that matter for choosing a kernel"
    parser = add_command(commands, "kernels", text, _EXAMPLE + needs)
    parser.add_argument(
        "--need",
        metavar="NEED,...",
        help="only the scores that meet all of these needs, and why",
    )


def run(options: argparse.Namespace) -> int:
    """Print the cards of all kernels, or of those that fit."""
    print(kuq.kernel_cards(need=options.need))
    return 0
