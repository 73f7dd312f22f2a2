"""Small figures as SVG, drawn with the colours of the page, so that they are right in the dark too.

Every figure is drawn at the width at which it is shown on a telephone; on wide screens several
stand side by side.
"""

from __future__ import annotations

import base64
import struct
import zlib
from html import escape

import numpy as np

#: The width of a figure in its own units, about pixels.
WIDTH = 360
#: Points along cividis, dark to light, the same to colour-blind readers.
_CIVIDIS = np.array(
    [
        (0, 34, 78), (18, 53, 112), (59, 73, 108), (87, 93, 109), (112, 113, 115),
        (138, 134, 120), (165, 156, 116), (195, 179, 105), (225, 204, 85), (254, 232, 56),
    ],
    dtype=float,
)  # fmt: skip


def shown(value: float) -> str:
    """A number with three digits."""
    if not np.isfinite(value):
        return "∞" if value > 0 else ("−∞" if value < 0 else "none")
    text = f"{value:.3g}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        return f"{mantissa}·10<tspan class='up' dy='-4'>{int(exponent)}</tspan>"
    return text.replace("-", "−")


def plain(value: float) -> str:
    """The same for text outside of figures."""
    if not np.isfinite(value):
        return "∞" if value > 0 else ("−∞" if value < 0 else "none")
    return f"{value:.3g}".replace("-", "−")


def _svg(height: int, title: str, body: list[str]) -> str:
    return (
        f"<svg viewBox='0 0 {WIDTH} {height}' role='img' aria-label='{escape(title, quote=True)}'>"
        f"<title>{escape(title)}</title>{''.join(body)}</svg>"
    )


def _text(x: float, y: float, text: str, anchor: str = "middle", kind: str = "tick") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' class='{kind}'>{text}</text>"


def round_limits(low: float, high: float) -> np.ndarray:
    """Round numbers around an interval, evenly spaced, for the ticks of an axis."""
    rough = (high - low) / 4
    power = 10.0 ** np.floor(np.log10(rough))
    step = power * next(f for f in (1.0, 2.0, 2.5, 5.0, 10.0) if f * power >= rough * 0.999)
    first, last = np.floor(low / step + 1e-9), np.ceil(high / step - 1e-9)
    return np.asarray(step * np.arange(first, last + 1))


def histogram(values: np.ndarray, part: str, low: float, ticks: np.ndarray, unit: str) -> str:
    """The distribution of one component, on an axis from ``low`` to the last tick."""
    finite = values[np.isfinite(values)]
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
                f"<rect class='{part}' x='{across(start) + 0.4:.2f}' y='{base - bar:.2f}' "
                f"width='{max(across(stop) - across(start) - 0.8, 0.5):.2f}' height='{bar:.2f}'>"
                f"<title>{tip}</title></rect>"
            )
    if finite.size:
        middle = across(float(np.clip(np.median(finite), low, high)))
        body.append(
            f"<line class='median' x1='{middle:.1f}' x2='{middle:.1f}' y1='{top}' y2='{base}'/>"
        )
    for tick in ticks[ticks >= low]:
        body.append(_text(across(float(tick)), base + 17, shown(float(tick))))
    body.append(_text(left + width / 2, height - 6, escape(unit), kind="label"))
    return _svg(height, f"distribution of {part} uncertainty", body)


def matrix(values: np.ndarray, marked: int | None) -> str:
    """Divergences between members; a member that stands apart is framed."""
    count = len(values)
    left, top, side = 34, 8, WIDTH - 34 - 12
    cell = side / count
    height = int(top + side + 38)
    colours = _colours(values)
    texts = [[f"{v:.2g}" for v in row] for row in values]
    readable = count <= 8 and max(len(text) for row in texts for text in row) <= 6
    body = []
    for i in range(count):
        for j in range(count):
            tip = f"members {i} and {j}: {plain(values[i, j])}"
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
    for k in range(0, count, -(-count // 12)):
        body.append(_text(left + (k + 0.5) * cell, top + side + 15, str(k)))
        body.append(_text(left - 6, top + (k + 0.5) * cell + 4, str(k), "end"))
    if marked is not None:
        start = marked * cell
        frames = ((left, top + start, side, cell), (left + start, top, cell, side))
        for x, y, w, h in frames:
            body.append(
                f"<rect class='mark' x='{x:.2f}' y='{y:.2f}' width='{w:.2f}' height='{h:.2f}'/>"
            )
    body.append(_text(left + side / 2, height - 6, "member", kind="label"))
    return _svg(height, "divergences between members", body)


def grid_map(values: np.ndarray, title: str, unit: str) -> str:
    """A field over a grid as a picture, with a scale."""
    rows, columns = values.shape
    left, top = 6, 6
    width = WIDTH - 2 * left
    tall = float(np.clip(width * rows / columns, 90, 340))
    height = int(top + tall + 50)
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    picture = _png(_colours(values))
    ramp = _png(_colours(np.linspace(0, 1, 64)[None, :]))
    scale = top + tall + 12
    body = [
        f"<image x='{left}' y='{top}' width='{width}' height='{tall:.1f}' "
        f"preserveAspectRatio='none' class='pixels' href='{picture}'/>",
        f"<rect class='frame' x='{left}' y='{top}' width='{width}' height='{tall:.1f}'/>",
        f"<image x='{left}' y='{scale:.1f}' width='{width}' height='9' "
        f"preserveAspectRatio='none' href='{ramp}'/>",
        _text(left, scale + 25, shown(low), "start"),
        _text(WIDTH / 2, scale + 25, escape(unit), kind="label"),
        _text(WIDTH - left, scale + 25, shown(high), "end"),
    ]
    return _svg(height, title, body)


def _colours(values: np.ndarray) -> np.ndarray:
    """Numbers as bytes (…, 3); what is not finite is grey, or lightest for infinity."""
    finite = np.isfinite(values)
    low, high = (values[finite].min(), values[finite].max()) if finite.any() else (0.0, 0.0)
    share = np.where(finite, values, low) - low
    share = share / (high - low) if high > low else np.zeros_like(share)
    share = np.where(values == np.inf, 1.0, share)
    places = np.linspace(0, 1, len(_CIVIDIS))
    rgb = np.stack([np.interp(share, places, _CIVIDIS[:, c]) for c in range(3)], axis=-1)
    rgb[np.isnan(values)] = 128
    return np.asarray(np.rint(rgb), dtype=np.uint8)


def _png(rgb: np.ndarray) -> str:
    """Bytes (rows, columns, 3) as a PNG inside an address."""
    rows, columns = rgb.shape[:2]

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    lines = np.concatenate([np.zeros((rows, 1), np.uint8), rgb.reshape(rows, -1)], axis=1)
    head = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    data = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
    whole = b"\x89PNG\r\n\x1a\n" + data + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(whole).decode("ascii")
