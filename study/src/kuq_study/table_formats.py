"""Tables as HTML, Markdown, CSV and LaTeX, all from one object."""

from __future__ import annotations

import csv
import io
from html import escape

from kuq_study.latex import latex_text
from kuq_study.table import Entry, Table

#: Lines of a narrow column break between value, interval and the paper's value, not inside them.
_HARD_SPACE = "\u00a0"


def to_html(table: Table) -> str:
    """A ``<table>`` in a scrollable frame: our value, its interval, and the paper's value."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in table.row_heads)
    head += "".join(f'<th scope="col" class="n">{escape(c.text)}</th>' for c in table.columns)
    body = []
    previous: tuple[str, ...] = ()
    for labels, entries in table.rows:
        cells = []
        for place, label in enumerate(labels):
            repeated = previous[: place + 1] == labels[: place + 1]
            kind = ' class="again"' if repeated else ""
            cells.append(f'<th scope="row"{kind}>{escape(label)}</th>')
        cells += [_html_entry(table, entry) for entry in entries]
        start = ' class="first"' if previous[:1] != labels[:1] else ""
        body.append(f"<tr{start}>{''.join(cells)}</tr>")
        previous = labels
    notes = "".join(f"<p class='note'>{escape(note)}</p>" for note in table.notes)
    return (
        f'<figure class="table" id="table-{escape(table.name, quote=True)}">'
        f"<figcaption><b>{escape(table.title)}.</b> {escape(table.caption)}</figcaption>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}">'
        f"<table><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>{notes}</figure>"
    )


def _html_entry(table: Table, entry: Entry) -> str:
    if entry.empty:
        return '<td class="n none">–</td>'
    parts = []
    if entry.ours is not None:
        value = escape(table.number(entry.ours.mean))
        parts.append(f"<b>{value}</b>" if entry.best else f"<span>{value}</span>")
        interval = table.interval(entry.ours)
        if interval:
            parts.append(f'<small class="interval">{escape(interval)}</small>')
    else:
        parts.append('<span class="none">–</span>')
    if entry.paper is not None:
        parts.append(f'<small class="paper">{escape(table.number(entry.paper))}</small>')
    return f'<td class="n">{"".join(parts)}</td>'


def to_markdown(table: Table) -> str:
    """A pipe table: ``value [low to high] (paper value)``, the best value in bold."""
    head = [*table.row_heads, *(c.text for c in table.columns)]
    lines = [
        f"**{_markdown(table.title)}.** {_markdown(table.caption)}",
        "",
        "| " + " | ".join(_markdown(text) for text in head) + " |",
        "|" + "---|" * len(table.row_heads) + "---:|" * len(table.columns),
    ]
    for labels, entries in table.rows:
        cells = [_markdown(label) for label in labels]
        cells += [_markdown_entry(table, entry) for entry in entries]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [f"\n{_markdown(note)}" for note in table.notes]
    return "\n".join(lines) + "\n"


def _markdown(text: str) -> str:
    for sign in "\\`*_[]<>|":
        text = text.replace(sign, "\\" + sign)
    return " ".join(text.split())


def _markdown_entry(table: Table, entry: Entry) -> str:
    if entry.empty:
        return "–"
    parts = ["–"]
    if entry.ours is not None:
        value = table.number(entry.ours.mean)
        parts = [f"**{value}**" if entry.best else value]
        interval = table.interval(entry.ours)
        if interval:
            parts.append(f"[{interval}]".replace(" ", _HARD_SPACE))
    if entry.paper is not None:
        parts.append(f"({table.number(entry.paper)})")
    return " ".join(parts)


def to_csv(table: Table) -> str:
    """One line per entry, with full precision: labels, column, value, interval, seeds, paper."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    head = [text.lower() or "row" for text in table.row_heads]
    writer.writerow([*head, "column", "value", "low", "high", "seeds", "paper"])
    for labels, entries in table.rows:
        for column, entry in zip(table.columns, entries, strict=True):
            if entry.empty:
                continue
            ours: list[object] = ["", "", "", ""]
            if entry.ours is not None:
                bounds = ["" if v != v else v for v in (entry.ours.low, entry.ours.high)]
                ours = [entry.ours.mean, *bounds, entry.ours.seeds]
            paper = "" if entry.paper is None else entry.paper
            writer.writerow([*(_csv(label) for label in labels), column.text, *ours, paper])
    return buffer.getvalue()


def _csv(label: str) -> str:
    """Labels that a spreadsheet would take for a formula are marked as text."""
    return f"'{label}" if label[:1] in ("=", "+", "-", "@", "\t", "\r") else label


def to_latex(table: Table) -> str:
    """A ``table`` for booktabs and makecell: our value with interval, the paper's in brackets."""
    spec = "l" * len(table.row_heads) + "r" * len(table.columns)
    head = [latex_text(text) for text in table.row_heads] + [c.latex for c in table.columns]
    lines = [
        r"\begin{table}[ht]",
        r"  \centering\footnotesize",
        rf"  \caption{{{latex_text(table.title)}. {latex_text(table.caption)}}}",
        rf"  \label{{tab:{table.name}}}",
        rf"  \begin{{tabular}}{{{spec}}}",
        r"    \toprule",
        "    " + " & ".join(head) + r" \\",
    ]
    previous = ""
    for labels, entries in table.rows:
        if labels[0] != previous:
            lines.append(r"    \midrule")
        shown = ["" if labels[0] == previous else latex_text(labels[0])]
        shown += [latex_text(label) for label in labels[1:]]
        shown += [_latex_entry(table, entry) for entry in entries]
        lines.append("    " + " & ".join(shown) + r" \\")
        previous = labels[0]
    lines += [r"    \bottomrule", r"  \end{tabular}"]
    lines += [rf"  \par {latex_text(note)}" for note in table.notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _latex_entry(table: Table, entry: Entry) -> str:
    if entry.empty:
        return "--"
    parts = ["--"]
    if entry.ours is not None:
        value = latex_text(table.number(entry.ours.mean))
        parts = [rf"\textbf{{{value}}}" if entry.best else value]
        interval = table.interval(entry.ours)
        if interval:
            parts.append(rf"{{\scriptsize {latex_text(interval)}}}")
    if entry.paper is not None:
        parts.append(rf"({latex_text(table.number(entry.paper))})")
    return parts[0] if len(parts) == 1 else r"\makecell[r]{" + r" \\ ".join(parts) + "}"


FORMATS = {"html": to_html, "md": to_markdown, "csv": to_csv, "tex": to_latex}
