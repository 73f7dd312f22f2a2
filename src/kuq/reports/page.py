"""The frame of a page: one file, no script, nothing from elsewhere, light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import kuq
from kuq._replacing import marked

#: What the page says of its maker, by which a later call knows what it may replace.
_GENERATOR = "<meta name='generator' content='kuq decompose'>"
PAGE = marked("a page of kuq decompose", _GENERATOR.encode())

#: The page may load nothing at all but the pictures inside it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

_STYLE = """
:root { color-scheme: light dark; --paper: #fbfbfa; --card: #ffffff; --ink: #1d2329;
  --soft: #5b6570; --line: #dfe3e7; --aleatoric: #0072b2; --epistemic: #d55e00; --total: #4d5761;
  --note: #fff6ec; --note-line: #e8a76a; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181c; --card: #1c2228; --ink: #e8ecef;
  --soft: #a3adb7; --line: #323b44; --aleatoric: #56b4e9; --epistemic: #f0894a; --total: #aab4bd;
  --note: #2c241b; --note-line: #8a5a2b; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
header { border-bottom: 1px solid var(--line); padding-bottom: 1.25rem; margin-bottom: 1.5rem; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .4rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .4rem; }
h3 { font-size: .95rem; margin: 0 0 .5rem; font-weight: 600; overflow-wrap: anywhere; }
p { margin: .4rem 0; max-width: 75ch; overflow-wrap: anywhere; }
.soft { color: var(--soft); }
.name { overflow-wrap: anywhere; }
.cards, .figures { display: grid; gap: 1rem; margin: 1rem 0; }
.cards { grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); }
.figures { grid-template-columns: repeat(auto-fill, minmax(min(100%, 310px), 1fr)); }
.figures.one { grid-template-columns: minmax(0, 480px); }
.card, figure { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: .9rem 1rem; margin: 0; }
.card b { display: block; font-size: 1.5rem; line-height: 1.25; font-weight: 650;
  font-variant-numeric: tabular-nums; }
.card span { color: var(--soft); font-size: .85rem; }
.card.aleatoric b { color: var(--aleatoric); } .card.epistemic b { color: var(--epistemic); }
svg { display: block; width: 100%; height: auto; }
.tick { font-size: 12px; fill: var(--soft); } .label { font-size: 12.5px; fill: var(--soft); }
.up { font-size: 9px; }
.on-dark { font-size: 11px; fill: #ffffff; } .on-light { font-size: 11px; fill: #14181c; }
.grid { stroke: var(--line); } .frame { fill: none; stroke: var(--line); }
.median { stroke: var(--ink); stroke-dasharray: 4 3; stroke-width: 1.3; }
.behind { stroke: var(--card); stroke-width: 3.6; }
.mark { fill: none; stroke: var(--epistemic); stroke-width: 3; }
.line { fill: none; stroke-width: 2; } .line.bound { stroke: var(--soft); stroke-width: 1.4; }
.line.oracle { stroke: var(--soft); stroke-width: 1.4; stroke-dasharray: 5 3; }
.s0 { --own: #d55e00; } .s1 { --own: #0072b2; } .s2 { --own: #009e73; } .s3 { --own: #b8609a; }
.s4 { --own: #c78500; } .s5 { --own: #6a5acd; } .s6 { --own: #7a8a2a; } .s7 { --own: #8a6d5a; }
.bar .s0, .bar .s2, .bar .s3, .bar .s4, .bar .s5, .bar .s6, .bar .s7 { background: var(--own); }
.bar.whole { height: 1.4rem; margin: 1rem 0 .4rem; }
.line.s0, .line.s1, .line.s2, .line.s3, .line.s4 { stroke: var(--own); }
.key.s0, .key.s1, .key.s2, .key.s3, .key.s4, .key.s5, .key.s6, .key.s7 {
  background: var(--own); }
.key.bound, .key.oracle { background: none; height: 0; width: 1.5rem; border-radius: 0;
  vertical-align: 4px; border-top: 2px solid var(--soft); }
.key.oracle { border-top-style: dashed; }
.chance { fill: var(--soft); fill-opacity: .25; } .key.chance { background: var(--soft);
  opacity: .35; }
.dot { fill: var(--aleatoric); fill-opacity: .45; }
.dot.big { fill: var(--epistemic); fill-opacity: .85; }
.key.dot { background: var(--aleatoric); border-radius: 50%; }
.key.dot.big { background: var(--epistemic); border-radius: 50%; }
.legend { font-size: .85rem; color: var(--soft); margin: .5rem 0 0; }
.legend span { white-space: nowrap; } .legend .key:first-child { margin-left: 0; }
nav { margin: .6rem 0 0; } nav a { margin-right: 1rem; color: var(--aleatoric); }
section { border-top: 1px solid var(--line); margin-top: 2.5rem; }
header + section { border-top: 0; margin-top: 0; }
section > h2 { font-size: 1.45rem; margin-top: 1.4rem; } section h3.part { font-size: 1.15rem;
  margin: 2rem 0 .4rem; }
rect.total { fill: var(--total); } rect.aleatoric { fill: var(--aleatoric); }
rect.epistemic { fill: var(--epistemic); }
.pixels { image-rendering: pixelated; }
.note { background: var(--note); border-left: 4px solid var(--note-line); padding: .7rem 1rem;
  border-radius: 4px; margin: 1rem 0; max-width: 75ch; overflow-wrap: anywhere; }
.table { overflow-x: auto; background: var(--card); border: 1px solid var(--line);
  border-radius: 10px; margin: 1rem 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .45rem .8rem; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
tr:last-child td { border-bottom: 0; }
th { font-size: .8rem; color: var(--soft); font-weight: 600; }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 7rem;
  max-width: 22rem; overflow-wrap: anywhere; }
@media (min-width: 521px) { td.short:first-child { white-space: nowrap; } }
.bar { display: flex; height: .8rem; min-width: 110px; width: 100%; }
.bar i { display: block; height: 100%; }
.bar .aleatoric { background: var(--aleatoric); } .bar .epistemic { background: var(--epistemic); }
td.wide { width: 34%; }
.key { display: inline-block; width: .75rem; height: .75rem; border-radius: 2px;
  margin: 0 .3rem 0 .8rem; vertical-align: -1px; }
.keys { white-space: nowrap; }
.key.aleatoric { background: var(--aleatoric); } .key.epistemic { background: var(--epistemic); }
dl { max-width: 85ch; } dt { font-weight: 600; margin-top: .7rem; } dd { margin: 0; }
dd { overflow-wrap: anywhere; }
footer { margin-top: 3rem; color: var(--soft); font-size: .85rem; }
@media (max-width: 1000px) { th, td { padding: .45rem .5rem; } .sum { display: none; }
  td.words { white-space: normal; } }
@media (max-width: 520px) { main { padding: 1.25rem .85rem 3rem; } h1 { font-size: 1.4rem; }
  th, td { padding: .4rem .45rem; } td.wide, th.wide, .keys, .roomy { display: none; }
  th:first-child, td:first-child { min-width: 4.5rem; } }
"""


def page(title: str, body: Iterable[str]) -> str:
    """A whole page; the body is HTML, the title is text."""
    return (
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        f"{_GENERATOR}\n"
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


@dataclass(frozen=True)
class Section:
    """What a page says about one thing: its head, and what follows, as HTML."""

    name: str
    head: Sequence[str]
    body: Sequence[str]


def page_of(name: str, sections: Sequence[Section], meaning: Iterable[str]) -> str:
    """A whole page about the uncertainty of something, and what its numbers mean."""
    several = len(sections) > 1
    body = ["<header>"]
    body.append(f"<h1>Uncertainty of <span class='name'>{escape(name)}</span></h1>")
    if several:
        body.append(paragraph(f"{len(sections)} variables, each in a section of its own.", "soft"))
        links = (
            f"<a href='#v{place}'>{escape(one.name)}</a>" for place, one in enumerate(sections)
        )
        body.append(f"<nav>{''.join(links)}</nav>")
    else:
        body += sections[0].head
    body.append("</header>")
    for place, one in enumerate(sections):
        if several:
            body.append(f"<section id='v{place}'><h2>{escape(one.name)}</h2>")
            body += one.head
        body += one.body
        if several:
            body.append("</section>")
    if several:
        body.append("<section>")
    body += meaning
    if several:
        body.append("</section>")
    body.append(
        f"<footer>Made by kuq {escape(kuq.__version__)}. This page loads nothing and runs no "
        "script.</footer>"
    )
    return page(f"Uncertainty of {name}", body)


def heading(text: str, several: bool) -> str:
    """The heading of a part, one step lower where there are several sections."""
    return f"<h3 class='part'>{escape(text)}</h3>" if several else f"<h2>{escape(text)}</h2>"


def paragraph(text: str, kind: str = "") -> str:
    """Text as a paragraph, with nothing in it read as HTML."""
    return f"<p class='{kind}'>{escape(text)}</p>" if kind else f"<p>{escape(text)}</p>"


def card(number: str, label: str, kind: str = "") -> str:
    """One number with what it is."""
    return f"<div class='card {kind}'><b>{escape(number)}</b><span>{escape(label)}</span></div>"


def figure(svg: str, heading: str, legend: str = "") -> str:
    """A figure with a heading, which is text."""
    return f"<figure><h3>{escape(heading)}</h3>{svg}{legend}</figure>"


def keys(entries: Iterable[tuple[str, str]]) -> str:
    """What the colours of a figure mean: class and text of each."""
    shown = (f"<span><i class='key {kind}'></i>{escape(text)}</span>" for kind, text in entries)
    return f"<p class='legend'>{' '.join(shown)}</p>"


def definitions(entries: Iterable[tuple[str, str]]) -> str:
    """A list of terms and what they mean, as text."""
    rows = (f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in entries)
    return f"<dl>{''.join(rows)}</dl>"
