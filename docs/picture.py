"""The picture of README.md, for light and for dark pages: ``python -m docs.picture``.

It shows the first part of ``kuq demo``. Each drawing has its own paper, so that it can be read
wherever it is shown.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from docs.pages import ROOT, compact
from kuq.demo import gap

FOLDER = ROOT / "docs" / "_static"
#: Paper, ink, points, members, aleatoric, epistemic: those of GitHub's pages, and Okabe and Ito's.
THEMES = {
    "light": ("#ffffff", "#1f2328", "#59636e", "#56B4E9", "#0072B2", "#D55E00"),
    "dark": ("#0d1117", "#f0f6fc", "#9198a1", "#56B4E9", "#56B4E9", "#FF9D66"),
}


#: How much of their colour the areas have: words stand on them.
OPACITY = 0.5


def name(theme: str) -> str:
    return f"uncertainty-{theme}.svg"


def draw(demo: gap.Demo, theme: str) -> Figure:
    """Above, points and members; below, how uncertain the prediction is and why."""
    paper, ink, points, members, aleatoric, epistemic = THEMES[theme]
    figure = Figure(figsize=(9.0, 4.6), layout="constrained", facecolor=paper)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1.15, 1.0))
    above.plot(demo.x, demo.y, "o", ms=2.6, color=points, alpha=0.6, mew=0)
    above.plot(demo.grid, demo.means.T, color=members, lw=1.1)
    above.set_ylabel("target")
    where = above.get_xaxis_transform()
    said = {1.75: "10 members agree", 5.0: "no data: they disagree", 8.25: "noisy data"}
    for place, words in said.items():
        above.text(place, 0.98, words, ha="center", va="top", color=ink, transform=where)
    low, high = above.get_ylim()
    above.set_ylim(low, high + 0.14 * (high - low))
    u = demo.uncertainty["CRPS"]
    first, second = np.asarray(u.aleatoric), np.asarray(u.total)
    below.fill_between(demo.grid, first, color=aleatoric, alpha=OPACITY, lw=0)
    below.fill_between(demo.grid, first, second, color=epistemic, alpha=OPACITY, lw=0)
    below.set_ylim(0, 1.22 * float(second[(demo.grid > 0) & (demo.grid < 10)].max()))
    below.set_ylabel("uncertainty")
    below.text(5.0, 0.27, "epistemic:\nmore data help", ha="center", va="center", color=ink)
    below.text(8.3, 0.13, "aleatoric:\nnoise that stays", ha="center", va="center", color=ink)
    for axis in (above, below):
        _finish(axis, paper, ink)
    below.set_xlabel("input")
    return figure


def _finish(axis: Axes, paper: str, ink: str) -> None:
    axis.set_facecolor(paper)
    axis.set_xlim(-0.3, 10.3)
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color(ink)
    axis.tick_params(colors=ink)
    axis.xaxis.label.set_color(ink)
    axis.yaxis.label.set_color(ink)


def write(folder: Path = FOLDER) -> list[Path]:
    """Write the drawings of all themes."""
    demo = gap.run()
    os.environ["SOURCE_DATE_EPOCH"] = "0"  # drawings carry no date
    paths = []
    with matplotlib.rc_context({"svg.hashsalt": "kuq", "font.size": 11}):
        for theme in THEMES:
            path = folder / name(theme)
            draw(demo, theme).savefig(path, format="svg")
            path.write_text(compact(path.read_text(encoding="utf-8")), encoding="utf-8")
            paths.append(path)
    return paths


if __name__ == "__main__":
    for path in write():
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
