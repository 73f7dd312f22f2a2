"""Figures as files, with a mark by which a later call knows what it may replace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kuq._replacing import Kind, marked, replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: By the endings of names: the field of matplotlib's metadata, and how it stands in the file.
_FIELDS = {
    ".png": ("Software", "Software\0{}"),
    ".pdf": ("Creator", "/Creator ({})"),
    ".svg": ("Creator", "<dc:title>{}</dc:title>"),
}
#: The metadata of a PDF stand at its end.
_WITHIN = 2**26


def figure_kind(maker: str, ending: str) -> Kind:
    """The figures that a command has saved."""
    mark = _FIELDS[ending][1].format(maker)
    return marked(f"a figure of {maker}", mark.encode(), _WITHIN)


def save_figure(figure: Figure, path: Path, maker: str) -> None:
    """Save a figure as .png, .pdf or .svg; replaces one of the same maker only."""
    ending = path.suffix.lower()
    with replacing(path, figure_kind(maker, ending)) as unfinished:
        figure.savefig(unfinished, format=ending[1:], metadata={_FIELDS[ending][0]: maker})
