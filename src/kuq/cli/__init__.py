"""The command ``kuq``: parses, calls, prints. One module per command."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from kuq.cli import data, decompose, demo, kernels
from kuq.cli.program import Program

COMMANDS: dict[str, ModuleType] = {
    "data": data,
    "decompose": decompose,
    "demo": demo,
    "kernels": kernels,
}

_EXAMPLES = """\
examples:
  kuq demo                            see it work: a figure, and a page on real predictions
  kuq kernels --need robust           which score fits a need, and why
  kuq decompose predictions.npz       total, aleatoric and epistemic uncertainty of a file
  kuq data list                       data sets that load by name

Help on a command: kuq COMMAND --help
"""
_STUDY = (
    "'kuq {0}' is now 'kuq-study {0}', the command of the package kuq-study, which is in the "
    "folder study of kuq's repository: pip install . ./study"
)
_PROGRAM = Program(
    "kuq",
    "Uncertainty quantification in regression by kernel scores.",
    _EXAMPLES,
    COMMANDS,
    "kuq demo",
    {name: _STUDY.format(name) for name in ("run", "report")},
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 1 (internal) or 2 (usage, input, disk).

    Called as a command, without arguments, a signal ends the process with 128 + its number.
    """
    return _PROGRAM.main(arguments)
