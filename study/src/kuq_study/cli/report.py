"""``kuq-study report``: tables, figures and claims of a run, as one page and as files."""

from __future__ import annotations

import argparse
from pathlib import Path

from kuq.cli.arguments import Commands, add_command

_EXAMPLES = """\
examples:
  kuq-study run study/experiments/approximation.toml --preset smoke
  kuq-study report runs/smoke
"""


def add(commands: Commands) -> None:
    """Declare the command and its options."""
    text = "write the report of a run: the paper's tables, figures and claims beside our numbers"
    parser = add_command(commands, "report", text, _EXAMPLES)
    parser.add_argument(
        "run", type=Path, metavar="RUN", help="folder of the results of kuq-study run"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder to write to (default: RUN/report)"
    )


def run(options: argparse.Namespace) -> int:
    """Write the report, and say where and what came of the claims."""
    from kuq_study.claims.ledger import count  # only here, so that help starts at once
    from kuq_study.report import report

    made, path = report(options.run, options.out)
    counts = count(list(made.judgements))
    claims = ", ".join(f"{number} {status.value}" for status, number in counts.items())
    if not made.run.measured:
        print(
            "a smoke run shows that everything works, and measures nothing: the paper's "
            "propositions are computed, its experiments are not judged"
        )
    print(f"{len(made.tables)} tables, {len(made.figures)} figures; claims: {claims}")
    print(f"report: {path}")
    return 0
