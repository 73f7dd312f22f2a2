"""Keep a run in docs/results, without its predictions: ``python -m docs.keep_run runs/quick``.

The folder has the report, its tables and claims, the database and the example fields, so that
``kuq-study report`` can draw the report again. The figures are in the report's page.
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from kuq._replacing import Kind, replacing
from kuq_study.own_files import LIST
from kuq_study.report import report
from kuq_study.store import DATABASE, Store

ROOT = Path(__file__).parent / "results"
#: What is kept of a run.
NAMES = {"claims.csv", "fields", "report.html", "tables", DATABASE}


def _is_kept(path: Path) -> bool:
    if not {entry.name for entry in path.iterdir()} <= NAMES:
        return False
    with Store(path):
        return True


KEPT = Kind("a kept run", _is_kept, folder=True)


def keep(run: Path) -> Path:
    """Write ``docs/results/NAME`` anew from the run in the folder NAME.

    What is kept there is replaced at the end, when the new one is whole.
    """
    kept = ROOT / run.resolve().name
    if kept.resolve() == run.resolve():
        raise ValueError(
            f"{run} is what is kept already; name the folder that kuq-study run has made"
        )
    with replacing(kept, KEPT, [run]) as new:
        report(run, new)
        (new / LIST).unlink()
        shutil.rmtree(new / "figures")
        for table in (new / "tables").glob("*.html"):
            table.unlink()
        shutil.copytree(run / "fields", new / "fields")
        with closing(sqlite3.connect(run / DATABASE)) as database:
            database.execute("VACUUM INTO ?", (str(new / DATABASE),))
    return kept


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(keep(Path(name)))
