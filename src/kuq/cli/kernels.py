"""``kuq kernels``: the facts that matter for choosing a kernel."""

from __future__ import annotations

import argparse

import kuq
from kuq.cli.arguments import Commands, add_command


def add(commands: Commands) -> None:
    """Declare the command."""
    add_command(commands, "kernels", "print the facts that matter for choosing a kernel")


def run(options: argparse.Namespace) -> int:
    """Print the cards of all kernels."""
    print(kuq.kernel_cards())
    return 0
