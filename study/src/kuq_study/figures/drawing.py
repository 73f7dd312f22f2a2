"""How figures look, and how they become SVG that can stand inside a page."""

from __future__ import annotations

import io
import math
import re
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from kuq.errors import KuqError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Text and axes are drawn in this colour, which becomes the colour of the page's text.
INK = "#1b2a3a"
#: Okabe and Ito's palette: told apart with any colour vision; dashes and marks tell them apart too.
COLOURS = {
    "log": "#E69F00",
    "squared": "#D55E00",
    "crps": "#0072B2",
    "energy": "#56B4E9",
    "gaussian": "#009E73",
    "random": "#888888",
}
MARKS = {"log": "v", "squared": "s", "crps": "o", "energy": "D", "gaussian": "^", "random": "x"}
_SPARE_COLOURS = ("#CC79A7", "#9C8A00", "#7A68A6", "#4B8B8B")
_SPARE_MARKS = ("P", "X", "*", "<")
_STYLE = {
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "grid.alpha": 0.18,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.0,
    "axes.formatter.limits": (-2, 4),
    "svg.fonttype": "none",
    "svg.hashsalt": "kuq",
    "text.parse_math": False,
    **dict.fromkeys(
        (
            "text.color",
            "axes.labelcolor",
            "axes.edgecolor",
            "axes.titlecolor",
            "xtick.color",
            "ytick.color",
            "grid.color",
        ),
        INK,
    ),
}


@final
@dataclass(frozen=True)
class Panel:
    """One drawing: a name for files, and its SVG with ``currentColor`` as ink."""

    name: str
    svg: str


@final
@dataclass(frozen=True)
class Figure:
    """Drawings that belong together, with the keys of scores that a legend has to explain."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    legend: tuple[tuple[str, str, str], ...] = ()


def colour(score: str) -> str:
    """The colour of a score; a user's own get further ones, always the same for a name."""
    return COLOURS.get(score) or _SPARE_COLOURS[_place(score)]


def mark(score: str) -> str:
    """The marker of a score."""
    return MARKS.get(score) or _SPARE_MARKS[_place(score)]


def _place(score: str) -> int:
    return sum(score.encode()) % len(_SPARE_COLOURS)


@contextmanager
def drawing(
    name: str,
    into: list[Panel],
    size: tuple[float, float] = (3.7, 2.8),
    *,
    with_bar: bool = False,
) -> Iterator[Axes]:
    """Axes to draw on; afterwards the drawing is added to a list of panels.

    Margins are fixed, which takes half the time, unless room for a colour bar has to be found.
    """
    try:
        import matplotlib
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure as Canvas
    except ModuleNotFoundError as error:
        raise KuqError(
            'the figures of a report need matplotlib: pip install "kuq[plot]"'
        ) from error
    style: Any = {"backend": "svg", **_STYLE}
    with matplotlib.rc_context(style), warnings.catch_warnings():
        # Names may have letters that the measuring font lacks; the page shows them all the same.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        canvas = Canvas(figsize=size, layout="constrained" if with_bar else None)
        FigureCanvasSVG(canvas)
        axes = canvas.add_subplot()
        if not with_bar:
            canvas.subplots_adjust(left=0.2, right=0.975, bottom=0.17, top=0.9)
        yield axes
        _plain_powers(axes)
        buffer = io.StringIO()
        canvas.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    into.append(Panel(name, _embedded(buffer.getvalue(), name)))


def _embedded(svg: str, name: str) -> str:
    """SVG for a page: small, with ids of its own, ink in the colour of the text around it."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    used = dict.fromkeys(re.findall(r'(?:url\(|href=")#([^")]+)', svg))
    prefix = f"d{zlib.crc32(name.encode()):x}"
    ids = {old: f"{prefix}-{place}" for place, old in enumerate(used)}
    svg = re.sub(r' id="([^"]+)"', lambda m: f' id="{ids[m[1]]}"' if m[1] in ids else "", svg)
    svg = re.sub(r'(url\(#|href="#)([^")]+)', lambda m: m[1] + ids[m[2]], svg)
    svg = re.sub(r"font-family: [^;\"]*;? ?", "", svg)
    svg = re.sub(r' transform="rotate\(-0 [^"]*"', "", svg)
    # Hundredths of a point are enough.
    svg = re.sub(r' (d|x|y)="[^"]*"', lambda m: re.sub(r"(\.\d\d)\d+", r"\1", m[0]), svg)
    svg = re.sub(r"\s*\n\s*", " ", svg)
    head, body = svg.split(">", 1)
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    head += ' role="img" font-family="system-ui, sans-serif">'
    return (head + body).replace(INK, "currentColor").strip()


def standalone(panel: Panel) -> str:
    """The SVG of a panel as a file of its own, in dark ink on white."""
    head, body = panel.svg.split(">", 1)
    white = '<rect width="100%" height="100%" fill="white"/>'
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n{head}>{white}{body}'.replace("currentColor", INK)
        + "\n"
    )


def thinned(points: list[tuple[float, float]], most: int = 60) -> list[tuple[float, float]]:
    """A curve with at most ``most`` points, both ends among them."""
    if len(points) <= most:
        return points
    step = (len(points) - 1) / (most - 1)
    return [points[round(i * step)] for i in range(most)]


def printable(text: str) -> str:
    """Text without control characters, which neither SVG nor HTML may hold."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _plain_powers(axes: Axes) -> None:
    """Logarithmic axes with labels as plain text: 1, 2, 5 over few decades, powers over many."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

    for axis, ends in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        scale = axis.get_scale()
        if scale not in ("log", "symlog"):
            continue
        decades = math.log10(ends[1] / ends[0]) if scale == "log" else math.inf
        few = decades < 2
        if few:
            ticks = LogLocator(subs=(1.0, 2.0, 5.0)) if decades > 0.8 else MaxNLocator(4)
            axis.set_major_locator(ticks)
        axis.set_major_formatter(FuncFormatter(_short if few else _power))
        axis.set_minor_formatter(NullFormatter())
        if decades > 3:
            axis.set_minor_locator(NullLocator())


def _short(value: float, place: object = None) -> str:
    return f"{value:g}"


def _power(value: float, place: object = None) -> str:
    """10³ for 1000, −10³ for −1000."""
    if value == 0:
        return "0"
    exponent = math.log10(abs(value))
    if abs(exponent - round(exponent)) > 1e-6:
        return f"{value:g}"
    digits = str(round(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return ("−" if value < 0 else "") + "10" + digits
