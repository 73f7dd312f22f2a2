"""``kuq decompose FILE``: the uncertainty of predictions in a file."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kuq.cli.arguments import (
    Commands,
    OutputPath,
    add_command,
    natural_number,
    printable,
    score,
)
from kuq.errors import NoClosedFormError
from kuq.kernels.names import NAMES

if TYPE_CHECKING:
    from kuq.files import DecomposedFile

_EXAMPLES = """\
examples:
  kuq decompose predictions.npz
  kuq decompose predictions.csv --score gaussian:median --report report.html
  kuq decompose forecast.nc --samples t2m --score energy --event lat,lon
  python -c "import numpy as np; np.savez('p.npz', mean=np.random.rand(5, 9), std=np.ones((5, 9)))"
  kuq decompose p.npz --report p.html

layout:
  .npz            arrays (members, inputs..., [draws], event...): mean and std (or loc and scale,
                  mu and sigma), samples or draws, predictions for points, weights of members;
                  df, loc, scale (Student's t); mixture_weights, loc, scale with the components
                  last; loc, nu, alpha, beta without members (deep evidential regression)
  .csv .parquet   a row per input with the columns mean_0, std_0, mean_1, std_1, ..., or
                  sample_0_0, sample_0_1, ... (member, draw), or member_0, member_1, ... (points),
                  and weight_0, weight_1, ... of members; or loc, nu, alpha, beta; or a row per
                  input and member with the columns member, [sample], mean and std or value,
                  [weight], and others that tell the inputs apart
  .nc .zarr       variables with a dimension member (realization, number, ensemble, model) and, for
                  draws, sample; may be larger than memory. Runs of one model along number are
                  single values: their spread, or with --draws number that of one distribution
"""


def add(commands: Commands) -> None:
    """Declare the command and its options."""
    text = "decompose the uncertainty of predictions in a file"
    parser = add_command(commands, "decompose", text, _EXAMPLES)
    parser.add_argument("file", type=Path, metavar="FILE", help=".npz, .csv, .parquet, .nc, .zarr")
    parser.add_argument(
        "--score",
        type=score,
        default="crps",
        metavar="SCORE",
        help=f"{', '.join(NAMES)}, with parameters after a colon: gaussian:0.5 (default: crps)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="where to write (default: NAME-uncertainty.*); replaces own output only",
    )
    parser.add_argument(
        "--report", type=OutputPath(".html"), metavar="FILE", help="also write a page, .html"
    )
    layout = parser.add_argument_group("layout, where names are not the usual ones")
    for name, what in (
        ("loc", "means of normals"),
        ("scale", "standard deviations of normals"),
        ("samples", "draws"),
        ("points", "point predictions"),
        ("weights", "weights of the members"),
    ):
        layout.add_argument(
            f"--{name}", metavar="NAME", help=f"the array or column with the {what}"
        )
    layout.add_argument("--member", metavar="DIM", help="the dimension, column or axis of members")
    layout.add_argument(
        "--draws",
        "--sample",
        dest="sample",
        metavar="DIM",
        help="the dimension, column or axis of draws; in .nc and .zarr without members those of "
        "one model, whose spread is not split",
    )
    layout.add_argument(
        "--event",
        default="",
        metavar="DIM,...",
        help="dimensions that form one outcome; for .npz how many last axes do",
    )
    layout.add_argument(
        "--nan",
        choices=("raise", "propagate", "omit"),
        default="raise",
        help="what to do with draws that are NaN (default: raise an error)",
    )
    drawing = parser.add_argument_group("Monte Carlo, where a score has no closed form")
    drawing.add_argument("--monte-carlo", type=natural_number, metavar="N", help="draws per member")
    drawing.add_argument("--seed", type=natural_number, metavar="N", help="seed (default: 0)")


def run(options: argparse.Namespace) -> int:
    """Decompose, write, and print a summary."""
    from kuq._replacing import check_target, write_text  # only here: other commands start at once
    from kuq.files import Layout, decompose_file
    from kuq.files.roles import Names
    from kuq.reports.page import PAGE

    names = Names(options.loc, options.scale, options.samples, options.points, options.weights)
    event = tuple(part.strip() for part in options.event.split(",") if part.strip())
    layout = Layout(names, options.member, options.sample, event, options.nan)
    if options.report is not None:
        check_target(options.report, PAGE, [options.file])  # before anything is computed
    progress = _Progress()
    try:
        result = decompose_file(
            options.file,
            options.score,
            out=options.out,
            layout=layout,
            progress=progress,
            draws=options.monte_carlo,
            seed=options.seed,
        )
    except NoClosedFormError as error:  # in words of the command line
        text = str(error).replace("draws=2000, seed=0", "--monte-carlo 2000 --seed 0")
        raise NoClosedFormError(text) from None
    progress.end()
    print(printable(_summary(result)))
    if options.report is not None:
        from kuq.reports.decomposition import decomposition_report

        inputs = [result.source, result.out]
        write_text(options.report, decomposition_report(result), PAGE, inputs)
        print(f"report: {options.report}")
    return 0


def _summary(result: DecomposedFile) -> str:
    from kuq.reports.summary import summary_table

    u = result.uncertainty
    lines = [
        f"{result.source.name}: {result.description}",
        f"score: {u.score!r} ({u.units}; {u.method})",
        *(f"note: {note}" for note in (*result.notes, u.note) if note),
        "",
        summary_table(u),
        "",
        f"written: {result.out}",
    ]
    return "\n".join(lines)


class _Progress:
    """A line on the terminal for work that takes more than a second; silent elsewhere."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        seconds = time.monotonic() - self._start
        if seconds < 1 or not sys.stderr.isatty() or total == 0:
            return
        share = done / total
        filled = int(30 * share)
        left = seconds * (1 - share) / max(share, 1e-9)
        bar = "#" * filled + "." * (30 - filled)
        sys.stderr.write(f"\r[{bar}] {100 * share:3.0f} %, {left:.0f} s left ")
        sys.stderr.flush()
        self._shown = True

    def end(self) -> None:
        if self._shown:
            sys.stderr.write("\r" + " " * 60 + "\r")
            sys.stderr.flush()
