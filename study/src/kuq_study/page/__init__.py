"""One self-contained HTML page: no script, no request to any network, all drawings inside."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from html import escape
from importlib.resources import files

import kuq
from kuq_study.claims import Judgement, Status
from kuq_study.claims.ledger import count
from kuq_study.figures import Figure
from kuq_study.run_folder import Run
from kuq_study.table import Table
from kuq_study.table_formats import FORMATS, to_html
from kuq_study.vocabulary import data_name, ordered

_CLASS = {Status.HOLDS: "holds", Status.FAILS: "fails", Status.UNDECIDED: "open"}
_TILES = {
    Status.HOLDS: "claims hold",
    Status.FAILS: "claims do not hold",
    Status.UNDECIDED: "claims cannot be decided here",
}
#: Of a run that measures nothing: only propositions, which are computed, are judged.
_TILES_COMPUTED = {
    Status.HOLDS: "propositions hold",
    Status.FAILS: "propositions do not hold",
    Status.UNDECIDED: "claims about experiments are not judged by this run",
}
_SIGN = {Status.HOLDS: "✓", Status.FAILS: "✗", Status.UNDECIDED: "?"}
_TYPES = {"csv": "text/csv", "md": "text/markdown", "tex": "text/x-tex"}
_LINES = {"-": "", "--": "6 4", "-.": "7 3 1.5 3", ":": "1.5 3"}
_SHAPES = {
    "o": '<circle cx="18" cy="7" r="4"/>',
    "s": '<rect x="14" y="3" width="8" height="8"/>',
    "D": '<path d="M18 2l5 5-5 5-5-5z"/>',
    "^": '<path d="M18 2l5 9h-10z"/>',
    "v": '<path d="M18 12l5-9h-10z"/>',
    "x": '<path d="M14 3l8 8m0-8l-8 8" stroke-width="2"/>',
}
_SYNTHETIC = (
    "Data sets marked synthetic were made here to stand in for data that must be downloaded; their "
    "numbers do not confirm or refute what the paper found on the real data."
)


def page(run: Run, judgements: list[Judgement], tables: list[Table], figures: list[Figure]) -> str:
    """The whole report as HTML text."""
    title = f"kuq-study: {run.name}"
    css = (files("kuq_study") / "page" / "style.css").read_text(encoding="utf-8")
    sections = (
        ("claims", "Claims of the paper", _claims(run, judgements)),
        ("tables", "Tables", _tables(tables)),
        ("figures", "Figures", "".join(_figure(figure) for figure in figures)),
        ("deviations", "What this run did otherwise", _deviations(run)),
        ("problems", "What is missing", _problems(run)),
    )
    shown = [(key, head, body) for key, head, body in sections if body]
    links = "".join(f'<a href="#{key}">{escape(head)}</a>' for key, head, _ in shown)
    bodies = "".join(
        f'<section id="{key}"><h2>{escape(head)}</h2>{body}</section>' for key, head, body in shown
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; img-src data:\">"
        '<link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{css}</style></head><body>"
        f'<header class="top"><h1>{escape(title)}</h1>{_head(run, judgements)}</header>'
        f'<nav aria-label="Sections"><div>{links}</div></nav><main>{bodies}</main>'
        f"<footer>Made by kuq {escape(kuq.__version__)}. {escape(_SYNTHETIC)}</footer>"
        "</body></html>\n"
    )


def _head(run: Run, judgements: list[Judgement]) -> str:
    counts = count(judgements)
    words = _TILES if run.measured else _TILES_COMPUTED
    tiles = "".join(
        f'<li class="{_CLASS[status]}"><b>{number}</b><span>{words[status]}</span></li>'
        for status, number in counts.items()
    )
    datasets = ordered({r.dataset for r in run.records}, ())
    facts = {
        "Preset": run.about.get("preset", ""),
        "Experiments": ", ".join(sorted({r.experiment.replace("_", " ") for r in run.records})),
        "Data sets": ", ".join(data_name(d).text for d in datasets),
        "Seeds": str(len({r.seed for r in run.records})),
        "Numbers": f"{len(run.records)} records",
        "Version of the run": f"kuq {run.about['kuq']}" if "kuq" in run.about else "",
    }
    rows = "".join(
        f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in facts.items() if value
    )
    told = "what it claims and what came of it here, our numbers beside the paper's."
    told = told if run.measured else "every step of it, at the smallest size."
    return (
        f'{_banner(run)}<p class="lead">'
        "The study of “Uncertainty Quantification for Regression: A Unified "
        "Framework based on Kernel Scores” (Bülte, Sale, Kutyniok, Hüllermeier), done again by "
        f"kuq: {told}</p>"
        f'<ul class="tiles">{tiles}</ul><dl class="facts">{rows}</dl>'
    )


_ON_THE_RUN = (
    "on this run, and beside it on the numbers that the paper prints (rounded, so that close ranks "
    "there may tie). A statement about ranks is decided only if 80 % of redrawn collections of "
    "data sets agree, and no statement where half of the data or more are synthetic stand-ins."
)
_ON_THE_PAPER = (
    "only on the numbers that the paper prints (rounded, so that close ranks there may tie), and "
    "not on this run."
)


def _banner(run: Run) -> str:
    """What a run that measures nothing has to say first, with its size."""
    if run.measured:
        return ""
    size = ", ".join(
        f"{number} {word if number == 1 else words}"
        for number, word, words in (
            (len({r.experiment for r in run.records}), "experiment", "experiments"),
            (len({r.dataset for r in run.records if r.dataset}), "data set", "data sets"),
            (len({r.seed for r in run.records}), "seed", "seeds"),
            (len(run.records), "number", "numbers"),
        )
    )
    return (
        '<aside class="banner"><p><b>A smoke run: it shows that everything works, and measures '
        f"nothing.</b> Its size: {size}, from few and small models, on few rows, trained for a "
        "moment. So no claim of the paper about experiments is judged by it, and no value of the "
        "paper stands beside its numbers. A study is <code>kuq-study run study/experiments/*.toml "
        "--preset quick</code> (two hours on two cores) or <code>--preset paper</code>.</p>"
        "</aside>"
    )


def _badge(status: Status, text: str, small: bool = False) -> str:
    size = " small" if small else ""
    return f'<span class="badge {_CLASS[status]}{size}">{_SIGN[status]} {escape(text)}</span>'


def _claims(run: Run, judgements: list[Judgement]) -> str:
    parts = [
        "<p>Each statement has a test that can fail. Propositions are tested by computing with "
        f"kuq; statements about experiments {_ON_THE_RUN if run.measured else _ON_THE_PAPER}</p>"
    ]
    failed = [j.claim for j in judgements if j.ours.status is Status.FAILS]
    if failed:
        links = "".join(
            f'<li><a href="#claim-{escape(c.key, quote=True)}">{escape(c.statement)}</a></li>'
            for c in failed
        )
        parts.append(f"<h3>What does not hold here</h3><ul>{links}</ul>")
    for kind, head in (("proposition", "Propositions"), ("experiment", "Experiments")):
        rows = "".join(_claim(j) for j in judgements if j.claim.kind == kind)
        parts.append(f'<h3>{head}</h3><ol class="claims">{rows}</ol>')
    return "".join(parts)


def _claim(judgement: Judgement) -> str:
    claim, ours, paper = judgement.claim, judgement.ours, judgement.paper
    badges = _badge(ours.status, ours.status.value)
    if paper is not None:
        told = paper.status.value.removesuffix(" here")
        badges += _badge(paper.status, f"the paper's numbers: {told}", small=True)
    why = f"{ours.reason[0].upper()}{ours.reason[1:]}: " if ours.reason else ""
    details = f'<p class="numbers">{escape(why + ours.numbers)}</p>'
    if paper is not None and paper.numbers != ours.numbers:
        details += f'<p class="numbers">Paper: {escape(paper.numbers)}</p>'
    return (
        f'<li class="{_CLASS[ours.status]}" id="claim-{escape(claim.key, quote=True)}">'
        f'<div class="row">{badges}</div><p class="statement">{escape(claim.statement)}</p>'
        f'{details}<p class="source">In the paper: {escape(claim.source)}</p></li>'
    )


def _tables(tables: list[Table]) -> str:
    if not tables:
        return ""
    beside = ", and the paper's value" if any(table.has_paper for table in tables) else ""
    text = (
        "<p>In every cell: our value (mean over seeds), below it the 95 % interval"
        f"{beside}. Bold: the best of ours in its row.</p>"
    )
    return text + "".join(to_html(table) + _downloads(table) for table in tables)


def _downloads(table: Table) -> str:
    """Links that hold the files themselves, so that the page needs nothing beside it."""
    links = []
    for ending, kind in _TYPES.items():
        data = base64.b64encode(FORMATS[ending](table).encode()).decode("ascii")
        name = escape(f"{table.name}.{ending}", quote=True)
        links.append(
            f'<a download="{name}" href="data:{kind};charset=utf-8;base64,{data}">{name}</a>'
        )
    return f'<p class="files">{"".join(links)}</p>'


def _figure(figure: Figure) -> str:
    few = {1: " few", 2: " few", 4: " four"}.get(len(figure.panels), "")
    panels = "".join(f"<div>{panel.svg}</div>" for panel in figure.panels)
    return (
        f'<figure id="figure-{escape(figure.name, quote=True)}">'
        f"<figcaption><b>{escape(figure.title)}.</b> {escape(figure.caption)}</figcaption>"
        f'{_legend(figure.legend)}<div class="panels{few}">{panels}</div></figure>'
    )


def _legend(entries: Iterable[tuple[str, str, str]]) -> str:
    rows = []
    for text, colour, sign in entries:
        dash = _LINES.get(sign, "")
        line = f'<path d="M0 7h36" stroke-width="2.5" stroke-dasharray="{dash}"/>'
        shape = _SHAPES.get(sign, "" if sign in _LINES else '<circle cx="18" cy="7" r="4"/>')
        rows.append(
            f'<li><svg viewBox="0 0 36 14" aria-hidden="true" fill="{colour}" stroke="{colour}">'
            f"{line}{shape}</svg>{escape(text)}</li>"
        )
    return f'<ul class="legend">{"".join(rows)}</ul>' if rows else ""


def _deviations(run: Run) -> str:
    parts = []
    for experiment, rows in run.deviations.items():
        if not rows:
            continue
        # A row without a setting is a remark on the whole experiment.
        remarks = "".join(f"<p>{escape(row[3])}</p>" for row in rows if not row[0])
        body = "".join(
            "<tr class='first'>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>"
            for row in rows
            if row[0]
        )
        head = "".join(f"<th>{text}</th>" for text in ("Setting", "Paper", "Here", "Reason"))
        label = escape(experiment.replace("_", " "))
        table = (
            f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table><thead>'
            f"<tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )
        parts.append(f"<h3>{label}</h3>{remarks}{table if body else ''}")
    return "".join(parts)


def _problems(run: Run) -> str:
    if not run.problems:
        return ""
    rows = "".join(f"<li>{escape(problem)}</li>" for problem in run.problems)
    return f'<ul class="problems">{rows}</ul>'
