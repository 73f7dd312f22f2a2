"""``kuq demo``: a curve with a gap as a figure, and real predictions as a page."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

from kuq.cli.arguments import Commands, OutputPath, add_command, natural_number

_FIGURE = "kuq-demo.png"
_FORMATS = (".png", ".pdf", ".svg")
_PARTS = ("gap", "patients")
_EXAMPLES = f"""\
examples:
  kuq demo                           the figure {_FIGURE} and the page kuq-demo.html
  kuq demo gap --scores              the figure, and a table of every score
  kuq demo --out figure.svg --seed 3 figure.svg and figure.html
"""


def add(commands: Commands) -> None:
    """Declare the command and its options."""
    text = "see it work: where a curve has no data, and what networks know about 442 patients"
    parser = add_command(commands, "demo", text, _EXAMPLES)
    parser.add_argument(
        "part", nargs="?", choices=_PARTS, metavar="PART", help="gap or patients (default: both)"
    )
    parser.add_argument(
        "--scores", action="store_true", help="tell the curve's uncertainty under every score"
    )
    parser.add_argument(
        "--out",
        type=OutputPath(*_FORMATS),
        metavar="FILE",
        help=f"where to save the figure: {', '.join(_FORMATS)} (default: {_FIGURE}); the page has "
        "the same name, and ends in .html",
    )
    parser.add_argument(
        "--seed",
        type=natural_number,
        default=0,
        metavar="N",
        help="seed of data and members, an integer >= 0 (default: 0)",
    )


def run(options: argparse.Namespace) -> int:
    """Show the parts, save figure and page, and say where."""
    from kuq._replacing import check_target  # here, so that the other commands start at once
    from kuq.demo import gap, patients
    from kuq.plot.saving import figure_kind
    from kuq.reports.page import PAGE

    figure = Path(_FIGURE) if options.out is None else options.out
    page = figure.with_suffix(".html")
    shown = _PARTS if options.part is None else (options.part,)
    if "gap" in shown:
        check_target(figure, figure_kind(gap.MAKER, figure.suffix.lower()))
    if "patients" in shown:
        check_target(page, PAGE)
    made = []
    if "gap" in shown:
        print(_GAP.format(members=gap.MEMBERS))
        curve = gap.run(options.seed)
        print(f"\n{curve.table(gap.SCORES if options.scores else ('CRPS',))}\n\n{_GAP_SEEN}\n")
        if _has(("matplotlib",), "figure", "plot"):
            curve.save_figure(figure)
            made.append(f"figure: {figure}")
    if "patients" in shown and _has(patients.LIBRARIES, "page", patients.EXTRA):
        print(_PATIENTS.format(members=patients.MEMBERS, folds=patients.FOLDS), flush=True)
        study = patients.run(options.seed)
        study.write_report(page)
        print(f"\n{study.summary()}\n")
        made.append(f"page:   {page} (open it in a browser)")
    for line in made:
        print(line)
    # Without a library, what was asked for by name is missing, and the rest was shown all the same.
    return 0 if options.out is None or len(made) == len(shown) else 1


def _has(libraries: tuple[str, ...], what: str, extra: str) -> bool:
    """Whether libraries are there; where not, says what is missing for it."""
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        print(
            f"no {what}, since {' and '.join(missing)} {verb} missing; to have it: "
            f'pip install "kuq[{extra}]"',
            file=sys.stderr,
        )
    return not missing


_GAP = """\
A curve with a gap in its data, and with more noise on the right. {members} members
are fitted to the points, each a normal distribution. Their mean uncertainty:"""
_GAP_SEEN = """\
In the gap the members disagree: epistemic uncertainty, which more data reduce.
On the right each reports noise: aleatoric uncertainty, which more data do not."""
_PATIENTS = """\
442 patients (diabetes data, part of scikit-learn). {members} networks are trained
{folds} times without a part of the patients, and predict how far the disease of
these progresses in a year. That takes some seconds ..."""
