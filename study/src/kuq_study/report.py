"""From a run to its report: the page, and tables, figures and claims as files beside it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

from kuq_study.claims import Judgement, judge
from kuq_study.estimates import Evidence
from kuq_study.figures import Figure, all_figures
from kuq_study.figures.drawing import standalone
from kuq_study.own_files import write_files
from kuq_study.page import page
from kuq_study.rank_tables import rank_tables
from kuq_study.result_tables import result_tables
from kuq_study.run_folder import Run, read_run
from kuq_study.table import Table
from kuq_study.table_formats import FORMATS


@final
@dataclass(frozen=True)
class Report:
    """Everything that a report shows."""

    run: Run
    judgements: tuple[Judgement, ...]
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]

    def html(self) -> str:
        """The self-contained page."""
        return page(self.run, list(self.judgements), list(self.tables), list(self.figures))

    def write(self, folder: str | Path) -> Path:
        """Write page, tables (HTML, Markdown, CSV, LaTeX), figures (SVG) and claims (CSV)."""
        folder = Path(folder)
        write_files(folder, dict(self._files()))
        return folder / "report.html"

    def _files(self) -> Iterator[tuple[str, str]]:
        for table in self.tables:
            for ending, form in FORMATS.items():
                yield f"tables/{table.name}.{ending}", form(table)
        for figure in self.figures:
            for panel in figure.panels:
                name = "".join(c if c.isalnum() or c in "-_" else "-" for c in panel.name)
                yield f"figures/{name}.svg", standalone(panel)
        yield "claims.csv", claims_csv(self.judgements)
        yield "report.html", self.html()


def make_report(run: Run) -> Report:
    """Judge the claims, fill the tables and draw the figures of a run."""
    evidence = Evidence(run.records, run.fields, measured=run.measured)
    return Report(
        run,
        tuple(judge(evidence)),
        tuple(rank_tables(evidence) + result_tables(evidence)),
        tuple(all_figures(evidence)),
    )


def report(run: str | Path, out: str | Path | None = None) -> tuple[Report, Path]:
    """Make the report of the run in a folder and write it, by default to RUN/report.

    Returns the report and the path of its page.
    """
    made = make_report(read_run(run))
    return made, made.write(Path(run) / "report" if out is None else out)


def claims_csv(judgements: Iterable[Judgement]) -> str:
    """The claims ledger as CSV, one line per claim."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    head = ["claim", "kind", "statement", "source", "ours", "reason", "numbers", "paper"]
    writer.writerow(head)
    for j in judgements:
        paper = "" if j.paper is None else j.paper.status.value
        ours = (j.ours.status.value, j.ours.reason, j.ours.numbers)
        writer.writerow(
            [j.claim.key, j.claim.kind, j.claim.statement, j.claim.source, *ours, paper]
        )
    return buffer.getvalue()
