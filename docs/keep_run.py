"""Keep a run in docs/results, without its predictions: ``python -m docs.keep_run runs/quick``.

The folder has the tables and claims of its report, the database, packed, and the example fields, so
that ``kuq-study report`` can draw the whole report, and ``kuq-study run`` can go on from a copy.
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from kuq._replacing import Kind, replacing
from kuq_study.claims import judge
from kuq_study.estimates import Evidence
from kuq_study.rank_tables import rank_tables
from kuq_study.report import claims_csv
from kuq_study.result_tables import result_tables
from kuq_study.run_folder import read_run
from kuq_study.store import DATABASE, PACKED, Store, pack
from kuq_study.table_formats import FORMATS

ROOT = Path(__file__).parent / "results"
#: What is kept of a run.
NAMES = {"claims.csv", "fields", "tables", PACKED}
#: The formats of tables that are kept.
ENDINGS = ("csv", "md", "tex")


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
        new.mkdir()
        content = read_run(run)
        evidence = Evidence(content.records, content.fields, measured=content.measured)
        tables = [*rank_tables(evidence), *result_tables(evidence)]
        if tables:
            (new / "tables").mkdir()
        for table in tables:
            for ending in ENDINGS:
                path = new / "tables" / f"{table.name}.{ending}"
                path.write_text(FORMATS[ending](table), encoding="utf-8")
        claims = claims_csv(judge(evidence))
        (new / "claims.csv").write_text(claims, encoding="utf-8", newline="")
        shutil.copytree(run / "fields", new / "fields")
        with TemporaryDirectory() as folder:
            copy = Path(folder) / DATABASE
            with closing(sqlite3.connect(run / DATABASE)) as database:
                database.execute("VACUUM INTO ?", (str(copy),))
            pack(copy, new / PACKED)
    return kept


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(keep(Path(name)))
