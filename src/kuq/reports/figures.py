"""Small figures as SVG, drawn with the colours of the page, so that they are right in the dark too.

Every figure is drawn at the width at which it is shown on a telephone; on wide screens several
stand side by side.
"""

from __future__ import annotations

import base64
import re
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from kuq.reports.quantiles import quantiles

#: The width of a figure in its own units, about pixels.
WIDTH = 360
_LONGEST_NAME = 14
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
#: Numbers of which most differ by more are drawn over logarithmic axes.
_VERY_DIFFERENT = 50
#: Points along cividis, dark to light, the same to colour-blind readers.
_CIVIDIS = np.array(
    [
        (0, 34, 78), (18, 53, 112), (59, 73, 108), (87, 93, 109), (112, 113, 115),
        (138, 134, 120), (165, 156, 116), (195, 179, 105), (225, 204, 85), (254, 232, 56),
    ],
    dtype=float,
)  # fmt: skip


def _three_digits(value: float) -> str:
    """Three digits, or all before the point: a year is 2050, and a rent 1364."""
    return f"{value:.0f}" if 999.5 <= abs(value) < 999_999.5 else f"{value:.3g}"


def shown(value: float) -> str:
    """A number in a figure."""
    return _number(value, _power_of_ten)


def plain(value: float) -> str:
    """The same for text outside of figures."""
    return _number(value, lambda exponent: f"10{str(exponent).translate(_RAISED)}")


def _number(value: float, power_of_ten: Callable[[int], str]) -> str:
    if not np.isfinite(value):
        return "∞" if value > 0 else ("−∞" if value < 0 else "none")
    mantissa, _, exponent = _three_digits(value).partition("e")
    text = mantissa.replace("-", "−")
    return f"{text}·{power_of_ten(int(exponent))}" if exponent else text


def _power_of_ten(exponent: int) -> str:
    return f"10<tspan class='up' dy='-4'>{str(exponent).replace('-', '−')}</tspan>"


def _two_digits(value: float) -> str:
    """A number for a small cell."""
    if not np.isfinite(value):
        return ""
    return f"{value:.0f}" if 99.5 <= abs(value) < 99999.5 else f"{value:.2g}"


def _svg(height: int, title: str, body: list[str]) -> str:
    return (
        f"<svg viewBox='0 0 {WIDTH} {height}' role='img' aria-label='{escape(title, quote=True)}'>"
        f"<title>{escape(title)}</title>{''.join(body)}</svg>"
    )


def _text(x: float, y: float, text: str, anchor: str = "middle", kind: str = "tick") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' class='{kind}'>{text}</text>"


def _across(x: float, y: float, text: str) -> str:
    """A label below an axis, which does not leave the figure."""
    half = 3.5 * len(_bare(text))
    if x + half > WIDTH:
        return _text(WIDTH - 1, y, text, "end")
    return _text(1, y, text, "start") if x - half < 0 else _text(x, y, text)


def round_limits(low: float, high: float) -> np.ndarray:
    """Round numbers around an interval, evenly spaced, for the ticks of an axis."""
    rough = (high - low) / 4
    power = 10.0 ** np.floor(np.log10(rough))
    step = power * next(f for f in (1.0, 2.0, 2.5, 5.0, 10.0) if f * power >= rough * 0.999)
    first, last = np.floor(low / step + 1e-9), np.ceil(high / step - 1e-9)
    return np.asarray(step * np.arange(first, last + 1))


def histogram(
    values: np.ndarray,
    component: str,
    low: float,
    ticks: np.ndarray,
    unit: str,
    weights: np.ndarray | None = None,
) -> str:
    """The distribution of one component, on an axis from ``low`` to the last tick.

    The median is that of inputs with ``weights``, as in the table of the command line.
    """
    there = np.isfinite(values)
    finite = values[there]
    height, left, right, top, base = 190, 46, 14, 12, 146
    high = float(ticks[-1])
    counts, edges = np.histogram(np.clip(finite, low, high), bins=36, range=(low, high))
    most = max(int(counts.max()) if counts.size else 1, 1)
    width = WIDTH - left - right

    def across(value: float) -> float:
        return left + width * (value - low) / (high - low)

    body = []
    for share in (0.0, 0.5, 1.0):
        y = base - share * (base - top)
        body.append(f"<line class='grid' x1='{left}' x2='{WIDTH - right}' y1='{y}' y2='{y}'/>")
        percent = 100 * share * most / max(finite.size, 1)
        label = f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"
        body.append(_text(left - 5, y + 4, label, "end"))
    for count, start, stop in zip(counts, edges[:-1], edges[1:], strict=True):
        if count:
            bar = (base - top) * count / most
            tip = f"{plain(start)} to {plain(stop)}: {count} of {finite.size}"
            body.append(
                f"<rect class='{component}' x='{across(start) + 0.4:.2f}' y='{base - bar:.2f}' "
                f"width='{max(across(stop) - across(start) - 0.8, 0.5):.2f}' height='{bar:.2f}'>"
                f"<title>{tip}</title></rect>"
            )
    if finite.size:
        (median,) = quantiles(finite, [0.5], None if weights is None else weights[there])
        middle = across(float(np.clip(median, low, high)))
        ends = f"x1='{middle:.1f}' x2='{middle:.1f}' y1='{top}' y2='{base}'"
        body.append(f"<line class='behind' {ends}/>")  # so that bars do not hide it
        body.append(f"<line class='median' {ends}><title>median {plain(median)}</title></line>")
    for tick in ticks[ticks >= low]:
        body.append(_across(across(float(tick)), base + 17, shown(float(tick))))
    body.append(_text(left + width / 2, height - 6, escape(unit), kind="label"))
    return _svg(height, f"distribution of {component} uncertainty", body)


def matrix(values: np.ndarray, marked: int | None, names: Sequence[str]) -> str:
    """Divergences between members; a member that stands apart is framed."""
    count = len(values)
    shown_names = [_shortened(name) for name in names]
    left = 12 + 7 * max(len(name) for name in shown_names)
    tilted = max(len(name) for name in shown_names) > max(2, 40 / count)
    top, side = 8, WIDTH - left - 12
    below = 12 + (5 * max(len(name) for name in shown_names) if tilted else 8)
    cell = side / count
    height = int(top + side + below + 22)
    colours = _colours(values, *_limits(values))[..., :3]
    texts = [[_two_digits(v) for v in row] for row in values]
    readable = count <= 8 and max(len(text) for row in texts for text in row) <= 6
    body = []
    for i in range(count):
        for j in range(count):
            tip = escape(f"{names[i]} and {names[j]}: {plain(values[i, j])}")
            body.append(
                f"<rect x='{left + j * cell:.2f}' y='{top + i * cell:.2f}' width='{cell:.2f}' "
                f"height='{cell:.2f}' fill='rgb({','.join(map(str, colours[i, j]))})'>"
                f"<title>{tip}</title></rect>"
            )
            if readable:
                light = colours[i, j] @ (0.299, 0.587, 0.114) > 130
                kind = "on-light" if light else "on-dark"
                place = left + (j + 0.5) * cell, top + (i + 0.5) * cell + 4
                body.append(_text(*place, texts[i][j], kind=kind))
    for k in range(0, count, -(-count // 13)):
        name, at = escape(shown_names[k]), left + (k + 0.5) * cell
        body.append(_text(left - 6, top + (k + 0.5) * cell + 4, name, "end"))
        if tilted:
            y = float(top + side + 12)
            body.append(
                f"<text x='{at:.1f}' y='{y:.1f}' text-anchor='end' class='tick' "
                f"transform='rotate(-45 {at:.1f} {y:.1f})'>{name}</text>"
            )
        else:
            body.append(_text(at, top + side + 15, name))
    if marked is not None:
        start = marked * cell
        frames = ((left, top + start, side, cell), (left + start, top, cell, side))
        for x, y, w, h in frames:
            body.append(
                f"<rect class='mark' x='{x:.2f}' y='{y:.2f}' width='{w:.2f}' height='{h:.2f}'/>"
            )
    body.append(_text(left + side / 2, height - 6, "member", kind="label"))
    return _svg(height, "divergences between members", body)


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


@dataclass(frozen=True, eq=False)
class Axis:
    """One side of a map: the name of its dimension and the places of its cells."""

    name: str
    #: Numbers or texts, one for each cell, in the order in which they are drawn.
    places: np.ndarray

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Positions from 0 to 1 and their labels: round numbers, or some of the texts."""
        count = len(self.places)
        if self.places.dtype.kind in "fiu" and count > 1 and _even(self.places):
            first, last = float(self.places[0]), float(self.places[-1])
            low, high = min(first, last), max(first, last)
            round_ones = round_limits(low, high)
            inside = round_ones[(round_ones >= low - 1e-9) & (round_ones <= high + 1e-9)]
            while len(inside) > most:
                inside = inside[::2]
            at = (0.5 + (count - 1) * (inside - first) / (last - first)) / count
            return [(float(a), shown(float(v))) for a, v in zip(at, inside, strict=True)]
        every = -(-count // most)
        texts = [_shortened(place_text(place)) for place in self.places]
        return [((k + 0.5) / count, escape(texts[k])) for k in range(0, count, every)]


def place_text(value: object) -> str:
    """A coordinate as text."""
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)


def _even(places: np.ndarray) -> bool:
    steps = np.diff(places.astype(float))
    return bool(np.all(np.abs(steps - steps.mean()) <= 0.05 * abs(steps.mean())) and steps.any())


def grid_map(
    values: np.ndarray,
    title: str,
    unit: str,
    limits: tuple[float, float],
    rows: Axis,
    columns: Axis,
) -> str:
    """A field over a grid as a picture, with coordinates and a scale that maps may share."""
    across = columns.ticks(5)
    down = rows.ticks(6)
    left = 14 + 7 * max([len(_bare(text)) for _, text in down], default=1)
    left, top, right = min(left, 96) + 14, 6, 12
    width = WIDTH - left - right
    tall = float(np.clip(width * values.shape[0] / values.shape[1], 90, 340))
    height = int(top + tall + 92)
    low, high = limits
    picture = _png(_colours(values, low, high))
    ramp = _png(_colours(np.linspace(low, high, 64)[None, :], low, high))
    scale = top + tall + 50
    body = [
        f"<image x='{left}' y='{top}' width='{width}' height='{tall:.1f}' "
        f"preserveAspectRatio='none' class='pixels' href='{picture}'/>",
        f"<rect class='frame' x='{left}' y='{top}' width='{width}' height='{tall:.1f}'/>",
    ]
    for at, text in down:
        y = top + tall * at
        body.append(f"<line class='frame' x1='{left - 4}' x2='{left}' y1='{y:.1f}' y2='{y:.1f}'/>")
        body.append(_text(left - 6, y + 4, text, "end"))
    for at, text in across:
        x, y = left + width * at, top + tall
        body.append(f"<line class='frame' x1='{x:.1f}' x2='{x:.1f}' y1='{y}' y2='{y + 4}'/>")
        body.append(_across(x, y + 17, text))
    middle = top + tall / 2
    body += [
        _text(left + width / 2, top + tall + 33, escape(columns.name), kind="label"),
        f"<text x='11' y='{middle:.1f}' text-anchor='middle' class='label' "
        f"transform='rotate(-90 11 {middle:.1f})'>{escape(rows.name)}</text>",
        f"<image x='{left}' y='{scale:.1f}' width='{width}' height='9' "
        f"preserveAspectRatio='none' href='{ramp}'/>",
        _text(left, scale + 25, shown(low), "start"),
        _text(left + width / 2, scale + 25, escape(unit), kind="label"),
        _text(WIDTH - right, scale + 25, shown(high), "end"),
    ]
    return _svg(height, title, body)


def _bare(text: str) -> str:
    return re.sub("<[^>]*>", "", text)


@dataclass(frozen=True, eq=False)
class Curve:
    """A line of a figure, or points; the class decides about its colour."""

    x: np.ndarray
    y: np.ndarray
    kind: str


def curves(
    lines: Sequence[Curve],
    title: str,
    across: str,
    up: str,
    limits: tuple[tuple[float, float], tuple[float, float]],
    marks: Sequence[float] = (0, 25, 50, 75, 100),
) -> str:
    """Lines over two axes within limits, the first of which is marked at some places."""
    (x_low, x_high), (y_low, y_high) = limits
    y_ticks = round_limits(y_low, y_high)
    y_low, y_high = float(min(y_ticks[0], y_low)), float(y_ticks[-1])
    up_ticks = [(float(t), shown(float(t))) for t in y_ticks]
    frame = _Frame(x_low, x_high, y_low, y_high, _margin(up_ticks))
    body = frame.drawn([(float(t), shown(float(t))) for t in marks], up_ticks, across, up)
    for line in lines:
        places = zip(frame.x(line.x), frame.y(line.y), strict=True)
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places if np.isfinite(y))
        body.append(f"<polyline class='line {line.kind}' points='{points}'/>")
    return _svg(frame.height, title, body)


@dataclass(frozen=True)
class _Frame:
    """A plane with axes: where numbers lie in it."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float
    left: float
    right: float = 14
    top: float = 12
    base: float = 212
    height: int = 258

    def x(self, values: np.ndarray) -> np.ndarray:
        share = (np.asarray(values) - self.x_low) / (self.x_high - self.x_low)
        return self.left + (WIDTH - self.left - self.right) * share

    def y(self, values: np.ndarray) -> np.ndarray:
        share = (np.asarray(values) - self.y_low) / (self.y_high - self.y_low)
        return self.base - (self.base - self.top) * share

    def drawn(
        self,
        across: list[tuple[float, str]],
        up: list[tuple[float, str]],
        x_name: str,
        y_name: str,
    ) -> list[str]:
        body = []
        for value, text in up:
            y = float(self.y(np.array(value)))
            body.append(
                f"<line class='grid' x1='{self.left}' x2='{WIDTH - self.right}' y1='{y:.1f}' "
                f"y2='{y:.1f}'/>"
            )
            body.append(_text(self.left - 5, y + 4, text, "end"))
        for value, text in across:
            x = float(self.x(np.array(value)))
            body.append(
                f"<line class='grid' x1='{x:.1f}' x2='{x:.1f}' y1='{self.base}' "
                f"y2='{self.base + 4}'/>"
            )
            body.append(_across(x, self.base + 17, text))
        middle = (self.top + self.base) / 2
        body.append(
            _text(
                (self.left + WIDTH - self.right) / 2, self.height - 8, escape(x_name), kind="label"
            )
        )
        body.append(
            f"<text x='11' y='{middle}' text-anchor='middle' class='label' "
            f"transform='rotate(-90 11 {middle})'>{escape(y_name)}</text>"
        )
        return body


def _margin(ticks: list[tuple[float, str]]) -> float:
    """Room for the labels of an axis and its name."""
    return 26 + 6.8 * max(len(_bare(text)) for _, text in ticks)


def bars(
    heights: np.ndarray,
    expected: float,
    chance: tuple[float, float],
    title: str,
    across: str,
    up: str,
) -> str:
    """Bars over 0 to 1 with the height that all would have, as a line, and what chance makes."""
    ticks = round_limits(0.0, float(max(heights.max(), chance[1])))
    up_ticks = [(float(t), f"{100 * t:.3g} %") for t in ticks]
    frame = _Frame(0.0, 1.0, 0.0, float(ticks[-1]), _margin(up_ticks))
    body = frame.drawn([(t, shown(t)) for t in (0.0, 0.25, 0.5, 0.75, 1.0)], up_ticks, across, up)
    edges = frame.x(np.linspace(0, 1, len(heights) + 1))
    for start, stop, value in zip(edges[:-1], edges[1:], heights, strict=True):
        y = float(frame.y(np.array(value)))
        body.append(
            f"<rect class='total' x='{start + 0.5:.2f}' y='{y:.2f}' "
            f"width='{stop - start - 1:.2f}' height='{frame.base - y:.2f}'>"
            f"<title>{100 * value:.1f} %</title></rect>"
        )
    high, low = (float(y) for y in frame.y(np.array(chance[::-1])))
    body.append(
        f"<rect class='chance' x='{frame.left:.1f}' y='{high:.1f}' "
        f"width='{WIDTH - frame.right - frame.left:.1f}' height='{low - high:.1f}'/>"
    )
    y = float(frame.y(np.array(expected)))
    body.append(
        f"<line class='median' x1='{frame.left}' x2='{WIDTH - frame.right}' y1='{y:.1f}' "
        f"y2='{y:.1f}'/>"
    )
    return _svg(frame.height, title, body)


def scatter(
    x: np.ndarray, y: np.ndarray, marked: np.ndarray, equal: bool, title: str, across: str, up: str
) -> str:
    """Points over two axes, logarithmic where numbers are positive and of very different size.

    With ``equal`` a line shows where both numbers are the same.
    """
    log = min(x.min(), y.min()) > 0 and max(_ratio(x), _ratio(y)) > _VERY_DIFFERENT
    if log:
        x, y = np.log10(x), np.log10(y)
    frame_limits, ticks = [], []
    for values in (x, y):
        low, high = float(values.min()), float(values.max())
        if log:
            first, last = np.floor(low), max(np.ceil(high), np.floor(low) + 1)
            every = max(1, int(-(-(last - first) // 4)))
            at = np.arange(first, last + 1, every)
            ticks.append([(float(t), _power(int(t))) for t in at])
            frame_limits.append((float(first), float(last)))
        else:
            low, high = min(low, 0.0), high if high > min(low, 0.0) else min(low, 0.0) + 1.0
            at = round_limits(low, high)
            ticks.append([(float(t), shown(float(t))) for t in at])
            frame_limits.append((float(at[0]), float(at[-1])))
    frame = _Frame(*frame_limits[0], *frame_limits[1], _margin(ticks[1]))
    body = frame.drawn(ticks[0], ticks[1], across, up)
    low = max(frame.x_low, frame.y_low)
    high = min(frame.x_high, frame.y_high)
    if equal and high > low:
        ends = np.array([low, high])
        (x1, x2), (y1, y2) = frame.x(ends), frame.y(ends)
        body.append(
            f"<line class='median' x1='{x1:.1f}' x2='{x2:.1f}' y1='{y1:.1f}' y2='{y2:.1f}'/>"
        )
    for px, py, big in sorted(zip(frame.x(x), frame.y(y), marked, strict=True), key=lambda p: p[2]):
        kind = "dot big" if big else "dot"
        body.append(f"<circle class='{kind}' cx='{px:.1f}' cy='{py:.1f}' r='2.2'/>")
    return _svg(frame.height, title, body)


def _ratio(values: np.ndarray) -> float:
    return float(np.quantile(values, 0.98) / np.quantile(values, 0.02))


def _power(exponent: int) -> str:
    return shown(10.0**exponent) if -2 <= exponent <= 3 else _power_of_ten(exponent)


def _limits(values: np.ndarray) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)


def _colours(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Numbers as bytes (…, 4); what is missing is transparent, infinity lightest."""
    finite = np.isfinite(values)
    share = np.where(finite, values, low) - low
    share = share / (high - low) if high > low else np.zeros_like(share)
    share = np.clip(np.where(values == np.inf, 1.0, share), 0.0, 1.0)
    places = np.linspace(0, 1, len(_CIVIDIS))
    rgb = np.stack([np.interp(share, places, _CIVIDIS[:, c]) for c in range(3)], axis=-1)
    seen = np.where(np.isnan(values), 0.0, 255.0)[..., None]
    return np.asarray(np.rint(np.concatenate([rgb, seen], axis=-1)), dtype=np.uint8)


def _png(rgba: np.ndarray) -> str:
    """Bytes (rows, columns, 4) as a PNG inside an address."""
    rows, columns = rgba.shape[:2]

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    lines = np.concatenate([np.zeros((rows, 1), np.uint8), rgba.reshape(rows, -1)], axis=1)
    head = struct.pack(">IIBBBBB", columns, rows, 8, 6, 0, 0, 0)
    data = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
    whole = b"\x89PNG\r\n\x1a\n" + data + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(whole).decode("ascii")
