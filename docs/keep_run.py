"""Keep a run in docs/results, without its predictions: ``python -m docs.keep_run runs/quick``.

The folder has the report, its tables and claims, the database and the example fields, so that
``kuq report`` can draw the report again. The figures are in the report's page.
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from kuq.bench.report import report
from kuq.bench.store import DATABASE

ROOT = Path(__file__).parent / "results"


def keep(run: Path) -> Path:
    """Write ``docs/results/NAME`` anew from the run in the folder NAME.

    What is kept there is replaced at the end, when the new one is whole.
    """
    kept = ROOT / run.resolve().name
    if kept.resolve() == run.resolve():
        raise ValueError(f"{run} is what is kept already; name the folder that kuq run has made")
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".") as folder:
        new = Path(folder) / kept.name
        report(run, new)
        shutil.rmtree(new / "figures")
        for table in (new / "tables").glob("*.html"):
            table.unlink()
        shutil.copytree(run / "fields", new / "fields")
        with closing(sqlite3.connect(run / DATABASE)) as database:
            database.execute("VACUUM INTO ?", (str(new / DATABASE),))
        shutil.rmtree(kept, ignore_errors=True)
        new.rename(kept)
    return kept


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(keep(Path(name)))
