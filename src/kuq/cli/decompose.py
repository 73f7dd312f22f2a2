"""``kuq decompose FILE``: the uncertainty of predictions in a file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kuq.cli.arguments import (
    Commands,
    OutputPath,
    add_command,
    natural_number,
    printable,
    score_with_estimator,
)
from kuq.cli.progress import ProgressBar
from kuq.errors import KuqError, ParameterError
from kuq.kernels.names import NAMES

if TYPE_CHECKING:
    from kuq.files import DecomposedFile, Layout
    from kuq.reports.judgement import Judgement
    from kuq.result import Uncertainty

_EXAMPLES = """\
examples:
  kuq decompose predictions.npz
  kuq decompose predictions.csv --score gaussian:median --report report.html
  kuq decompose models.csv --mean 'Model {} mean' --std 'Model {} sd' --target observed
  kuq decompose forecast.nc --samples t2m --score energy --event lat,lon --area-weights
  python -c "import numpy as np; np.savez('p.npz', mean=np.random.rand(5, 9), std=np.ones((5, 9)))"
  kuq decompose p.npz --report p.html

layout:
  .npz            arrays (members, inputs..., [draws], event...): mean and std (or loc and scale,
                  mu and sigma), samples or draws, predictions for points, weights of members;
                  df, loc, scale (Student's t); mixture_weights, loc, scale with the components
                  last; loc, nu, alpha, beta without members (deep evidential regression)
  .csv .tsv       a row per input with the columns mean_0, std_0, mean_1, std_1, ..., or
  .parquet        sample_0_0, sample_0_1, ... (member, draw), or member_0, member_1, ... (points),
                  and weight_0, weight_1, ... of members; or loc, nu, alpha, beta; or a row per
                  input and member with the columns member, [sample], mean and std or value,
                  [weight], and others that tell the inputs apart (or only those of --by)
  .nc .zarr       variables with a dimension member (realization, number, ensemble, model) and, for
                  draws, sample; may be larger than memory; several variables give several results.
                  Runs of one model along number are single values: their spread, or with
                  --draws number that of one distribution
"""


def add(commands: Commands) -> None:
    """Declare the command and its options."""
    text = "decompose the uncertainty of predictions in a file"
    parser = add_command(commands, "decompose", text, _EXAMPLES)
    parser.add_argument(
        "file", type=Path, metavar="FILE", help=".npz, .csv, .tsv, .parquet, .nc, .zarr"
    )
    parser.add_argument(
        "--score",
        type=score_with_estimator,
        default="crps",
        metavar="SCORE",
        help=f"{', '.join(NAMES)}, with parameters after a colon: gaussian:0.5 (default: crps)",
    )
    parser.add_argument(
        "--estimator",
        choices=("pairwise", "bma"),
        help="epistemic: members against each other, or against their mixture, half as much; with "
        "bma the score squared is the familiar variance (default: pairwise; bma with variance)",
    )
    parser.add_argument(
        "--target",
        metavar="NAME",
        help="the column, array or variable with what happened: the predictions are judged by it",
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
    layout = parser.add_argument_group(
        "layout, where names are not the usual ones",
        "NAME is a name, or a pattern for the columns of several members, in which {}\n"
        "stands for the member: 'Model {} mean', 'RF*', or 'a,b,c'",
    )
    for option, role, what in (
        ("--mean", "loc", "means of normals"),
        ("--std", "scale", "standard deviations of normals"),
        ("--samples", "samples", "draws"),
        ("--points", "points", "point predictions"),
        ("--weights", "weights", "weights of the members"),
    ):
        names = dict.fromkeys((option, f"--{role}"))
        text = f"the array or column with the {what}"
        layout.add_argument(*names, dest=role, metavar="NAME", help=text)
    layout.add_argument("--member", metavar="DIM", help="the dimension, column or axis of members")
    layout.add_argument(
        "--by",
        metavar="COLUMN,...",
        help="the columns of a table that tell its inputs apart (default: all that are not used "
        "otherwise); others are kept in the output. '' if every row is an input",
    )
    layout.add_argument(
        "--levels",
        metavar="DIM,...",
        help="in .nc and .zarr several dimensions of members, outermost first, such as "
        "scenario,model,run: what each of them adds; each lies inside of those before it",
    )
    layout.add_argument(
        "--crossed",
        default="",
        metavar="DIM,...",
        help="levels that do not lie inside of each other: every combination is there",
    )
    layout.add_argument(
        "--fixed",
        default="",
        metavar="DIM,...",
        help="levels that are there as a whole, and no sample of more",
    )
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
        help="missing numbers (NaN): an error, no result where they are, or leave out such draws, "
        "or such members of an input of a table or array (default: propagate in .nc and .zarr, "
        "which have masks, else raise)",
    )
    layout.add_argument(
        "--area-weights",
        action="store_true",
        help="cells of a latitude-longitude grid count by their area: in the score where latitude "
        "is in --event, else in means",
    )
    many = parser.add_argument_group("very many draws of vectors")
    many.add_argument(
        "--directions",
        type=natural_number,
        metavar="N",
        help="compare draws along so many random directions in place of all pairs, such as 1000, "
        "with standard errors; --seed chooses them",
    )
    written = parser.add_argument_group("text, .csv and .tsv, where the file does not tell")
    written.add_argument("--delimiter", metavar="MARK", help="what separates fields: , ; | or tab")
    written.add_argument("--decimal", metavar="MARK", help="the decimal mark of numbers: . or ,")
    written.add_argument(
        "--thousands", metavar="MARK", help="what separates thousands of numbers: . , ' or space"
    )
    written.add_argument("--encoding", metavar="NAME", help="such as utf-8, latin-1 or cp1252")
    drawing = parser.add_argument_group("Monte Carlo, where a score has no closed form")
    drawing.add_argument("--monte-carlo", type=natural_number, metavar="N", help="draws per member")
    drawing.add_argument("--seed", type=natural_number, metavar="N", help="seed (default: 0)")


def run(options: argparse.Namespace) -> int:
    """Decompose, write, and print a summary."""
    from kuq._replacing import check_target, write_text  # only here: other commands start at once
    from kuq.files import Layout, TextForm, decompose_file
    from kuq.files.roles import Names
    from kuq.reports.judgement import judge
    from kuq.reports.page import PAGE

    names = Names(options.loc, options.scale, options.samples, options.points, options.weights)
    event = _names(options.event)
    layout = Layout(
        names,
        options.member,
        options.sample,
        event,
        options.nan,
        options.target,
        options.area_weights,
        TextForm(options.delimiter, options.decimal, options.encoding, options.thousands),
        options.by,
    )
    layout.check_format(options.file.suffix.lower())
    if options.levels is not None:
        return _levels(options, layout)
    if options.crossed or options.fixed:
        raise ParameterError("--crossed and --fixed are names of --levels; name them all")
    score, estimator = options.score
    if options.report is not None:
        check_target(options.report, PAGE, [options.file])  # before anything is computed
    progress = ProgressBar()
    with _in_words_of_the_command():
        result = decompose_file(
            options.file,
            score,
            out=options.out,
            layout=layout,
            progress=progress,
            draws=options.monte_carlo,
            seed=options.seed,
            directions=options.directions,
            estimator=options.estimator or estimator,
        )
    progress.end()
    judged = [judge(one) for one in result.variables]
    print(printable(_summary(result, judged)))
    if options.report is not None:
        from kuq.reports.decomposition import decomposition_report

        inputs = [result.source, result.out]
        write_text(options.report, decomposition_report(result, judged), PAGE, inputs)
        print(f"report: {options.report}")
    return 0


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _levels(options: argparse.Namespace, layout: Layout) -> int:
    """Decompose into levels, write, and print a summary."""
    from kuq._replacing import check_target, write_text
    from kuq.files import Levels, partition_file
    from kuq.reports.page import PAGE
    from kuq.reports.summary import table_of_parts
    from kuq.reports.words import score_in_words

    if options.directions is not None:
        raise ParameterError("--levels and --directions do not go together; leave one out")
    if options.report is not None:
        check_target(options.report, PAGE, [options.file])
    score, estimator = options.score
    progress = ProgressBar()
    with _in_words_of_the_command():
        partitioned = partition_file(
            options.file,
            score,
            Levels(_names(options.levels), _names(options.crossed), _names(options.fixed)),
            out=options.out,
            layout=layout,
            progress=progress,
            draws=options.monte_carlo,
            seed=options.seed,
            estimator=options.estimator or estimator,
        )
    progress.end()
    one = partitioned.result
    u = one.partition
    fixed = f", fixed: {', '.join(u.fixed)}" if u.fixed else ""
    lines = [
        f"{partitioned.source.name}: {one.description}",
        f"levels: {u.design}{fixed}",
        f"score: {score_in_words(u)} ({u.units}; {u.method})",
        *(f"note: {note}" for note in (*one.notes, u.note) if note),
        "",
        table_of_parts(u.known, one.input_weights),
        "",
        f"written: {partitioned.out}",
    ]
    print(printable("\n".join(lines)))
    if options.report is not None:
        from kuq.reports.levels import levels_page

        text = levels_page(partitioned.source.name, {"": one}, partitioned.out.name)
        write_text(options.report, text, PAGE, [partitioned.source, partitioned.out])
        print(f"report: {options.report}")
    return 0


@contextmanager
def _in_words_of_the_command() -> Iterator[None]:
    from kuq.files.options import in_command

    try:
        yield
    except KuqError as error:
        text = str(error).replace("draws=2000, seed=0", "--monte-carlo 2000 --seed 0")
        raise type(error)(in_command(text)) from None


def _directions(u: Uncertainty, directions: int | None) -> list[str]:
    """How far random directions leave the parts open, if these were asked for."""
    if directions is None or u.standard_error is None:
        return []
    if u.method != "sliced":
        return [f"all pairs of draws cost less than {directions} directions: no error by them", ""]
    from kuq.reports.words import largest_errors

    return [
        f"standard errors over {directions} directions, given the draws: {largest_errors(u)}",
        "",
    ]


def _summary(result: DecomposedFile, judged: list[Judgement | None]) -> str:
    from kuq.reports.judgement import summary_of_judgement
    from kuq.reports.summary import summary_table
    from kuq.reports.words import score_in_words

    lines = []
    for one, judgement in zip(result.variables, judged, strict=True):
        u = one.uncertainty
        name = result.source.name if len(result.variables) == 1 else one.name
        lines += [
            f"{name}: {one.description}",
            f"score: {score_in_words(u)} ({u.units}; {u.method})",
            *(f"note: {note}" for note in (*one.notes, *_of_split(u)) if note),
            "",
            summary_table(u, one.input_weights),
            "",
            *_directions(u, one.options.get("directions")),
            *summary_of_judgement(one, judgement),
        ]
    split = [one.uncertainty.is_split for one in result.variables]
    parts = "" if all(split) else " (total only)" if not any(split) else " (parts where split)"
    return "\n".join([*lines, f"written: {result.out}{parts}"])


def _of_split(u: Uncertainty) -> tuple[str, ...]:
    from kuq.reports.words import total_in_words

    return (u.note,) if u.is_split else (u.note, f"total is {total_in_words(u)}")
