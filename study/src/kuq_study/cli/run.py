"""``kuq-study run``: the cells of experiment files, in local processes or on a Dask cluster."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kuq.cli.arguments import Commands, add_command, natural_number, positive_number
from kuq.errors import KuqError

#: What is said of a run that was stopped.
STOPPED = "; the same command goes on from here"
_EXAMPLES = """\
examples:
  kuq-study run study/experiments/approximation.toml --preset smoke
  kuq-study run study/experiments/*.toml --preset quick --jobs 2
"""


def add(commands: Commands) -> None:
    """Declare the command and its options."""
    text = "run experiments cell by cell; started again, it goes on where it was stopped"
    parser = add_command(commands, "run", text, _EXAMPLES)
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="experiment files, such as those in study/experiments/",
    )
    parser.add_argument(
        "--preset",
        metavar="NAME",
        help="smoke (a minute), quick (two hours for all files) or paper (the paper's sizes); "
        "by default quick, or the file's own settings where it has no presets",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="DATASET",
        help="run the cells of this data set, and leave the others for later; may be repeated",
    )
    parser.add_argument(
        "--jobs",
        type=natural_number,
        metavar="N",
        help="local processes, one thread each (default: one per core; 0: in this process)",
    )
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="run on the Dask cluster of this scheduler, such as tcp://host:8786",
    )
    parser.add_argument(
        "--worker-timeout",
        type=positive_number,
        default=120.0,
        metavar="SECONDS",
        help="with --scheduler: stop when there was no worker for so long (default: 120)",
    )
    parser.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="folder of data sets that are not built in"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="RUN",
        help="folder of the results (default: runs/PRESET, shared by all experiments)",
    )


def run(options: argparse.Namespace) -> int:
    """Run, and tell how it ended: 0 all done, 1 cells failed or no workers are left."""
    import kuq_study  # only here, so that help starts at once
    from kuq_study.pools import PoolError

    try:
        experiments = [kuq_study.read_experiment(path, options.preset) for path in options.files]
        out = options.out or Path("runs") / experiments[0].preset
        summary = kuq_study.run(
            experiments,
            out,
            jobs=options.jobs,
            scheduler=options.scheduler,
            data_dir=options.data_dir,
            worker_timeout=options.worker_timeout,
            only=options.only,
        )
    except KuqError as error:
        print(f"kuq-study: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1 if isinstance(error, PoolError) else 2
    except OSError as error:
        print(f"kuq-study: error: {error}{STOPPED}", file=sys.stderr)
        return 2
    for key, message in summary.failed.items():
        print(f"\n{key} failed:\n{message.rstrip()}", file=sys.stderr)
    print(
        f"{summary.before + summary.done} cells done ({summary.before} before), "
        f"{len(summary.failed)} failed; results: {out}"
    )
    return 1 if summary.failed else 0
