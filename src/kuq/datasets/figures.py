"""A figure of a data set: samples in and out of distribution. Needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kuq.datasets.base import Dataset, Split
from kuq.datasets.cache import DataError
from kuq.datasets.catalogue import Entry
from kuq.datasets.image_figures import draw_images
from kuq.datasets.rollouts import Rollouts
from kuq.datasets.summary import some_rows, title
from kuq.plot.saving import save_figure as save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers can tell apart.
_BLUE, _VERMILLION, _GREEN, _GREY = "#0072B2", "#D55E00", "#009E73", "#999999"
_INSIDE, _OUTSIDE = "in distribution", "out of distribution"
_ROWS = 2000
#: Pairs of a trajectory are in the order of time: these are of neither end.
_SHOWN_PAIRS = (5, 15)


def save_figure(entry: Entry, data: Dataset, path: Path) -> None:
    """Draw what belongs to the task of the data set, and write it to ``path``."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise DataError('figures need matplotlib: pip install "kuq[plot]"') from error
    figure = Figure(dpi=130, layout="constrained")
    figure.suptitle(title(data), fontweight="bold")
    if entry.task == "table":
        _draw_table(figure, data)
    elif entry.task == "function":
        _draw_functions(figure, data, None if entry.rollouts is None else entry.rollouts())
    else:
        draw_images(figure, data)
    save(figure, path, "kuq data show")


def _draw_table(figure: Figure, data: Dataset) -> None:
    """The target's distribution, and the target over the three features it depends on most."""
    figure.set_size_inches(11, 3.2)
    x, y = some_rows(data.train.x, _ROWS), some_rows(data.train.y, _ROWS)
    first, *others = figure.subplots(1, 1 + min(3, x.shape[1]))
    edges = np.histogram_bin_edges(y, 30)
    for split, color, name in (
        (data.train, _BLUE, "train"),
        (data.validation, _GREEN, "validation"),
        (data.test, _VERMILLION, "test"),
    ):
        values = some_rows(split.y, _ROWS)
        first.hist(values, edges, density=True, histtype="step", lw=1.6, color=color, label=name)
    _finish(first, "target y", "density")
    first.legend(frameon=False, fontsize="small")
    strength = _dependence(x, y)
    for axis, feature in zip(others, np.argsort(-strength), strict=False):
        axis.plot(x[:, feature], y, ".", ms=3, alpha=0.4, color=_BLUE, mew=0)
        _finish(axis, f"feature x{feature}", "target y")


def _dependence(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """The size of the correlation of each feature with the target; zero for constant features."""
    x, y = x - x.mean(axis=0), y - y.mean()
    size = np.sqrt((x**2).sum(axis=0) * (y**2).sum())
    flat = size <= 1e-9
    return np.asarray(np.where(flat, 0.0, np.abs(x.T @ y) / np.where(flat, 1.0, size)))


def _draw_functions(figure: Figure, data: Dataset, rollouts: Rollouts | None) -> None:
    """Rollouts as maps over time and space, and pairs: two states and the increment after them."""
    columns = 2 if rollouts is None else 1 + len(rollouts.inside)
    figure.set_size_inches(3.1 * columns, 6.4)
    axes = figure.subplots(2, columns, squeeze=False)
    if rollouts is not None:
        _draw_rollouts(figure, axes[:, :-1], rollouts)
    for row, (split, name) in enumerate(((data.test, _INSIDE), (data.shifted, _OUTSIDE))):
        shown = axes[row, 0 if rollouts is None else columns - 1 :]
        for axis, index in zip(np.ravel(shown), _SHOWN_PAIRS, strict=False):
            _draw_pair(axis, split, index, name)
    lines = axes[0, -1].get_legend_handles_labels()
    figure.legend(*lines, loc="outside lower right", ncols=len(lines[0]), frameon=False)


def _draw_rollouts(figure: Figure, axes: NDArray[np.object_], rollouts: Rollouts) -> None:
    limit = max(np.abs(rollouts.inside[:, 1:]).max(), np.abs(rollouts.outside[:, 1:]).max())
    both = ((rollouts.inside, _INSIDE), (rollouts.outside, _OUTSIDE))
    for row, (values, name) in enumerate(both):
        for column, trajectory in enumerate(values):
            axis = axes[row, column]
            picture = axis.imshow(
                trajectory.T,
                extent=(0, rollouts.final_time, 0, rollouts.lengths[row]),
                aspect="auto",
                origin="lower",
                cmap="RdBu_r",
                vmin=-limit,
                vmax=limit,
                interpolation="nearest",
            )
            if column == 0:
                axis.set_ylabel("space x")
                axis.set_title(f"{name}: {rollouts.labels[row]}", loc="left", fontsize="medium")
            axis.set_xlabel("time t")
    figure.colorbar(picture, ax=list(np.ravel(axes)), location="right", label="u", shrink=0.6)


def _draw_pair(axis: Axes, split: Split | None, index: int, name: str) -> None:
    if split is None:
        axis.set_axis_off()
        return
    index = min(index, len(split) - 1)
    x, y = np.asarray(split.x[index]), np.asarray(split.y[index])
    axis.plot(x[0], color=_GREY, lw=1.2, label="u(s−2)")
    axis.plot(x[1], color=_BLUE, lw=1.4, label="u(s−1)")
    axis.plot(y, color=_VERMILLION, lw=1.4, label="y = u(s) − u(s−1)")
    _finish(axis, "point", "")
    axis.set_title(f"a pair, {name}", loc="left", fontsize="medium")


def _finish(axis: Axes, x: str, y: str) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_xlabel(x)
    axis.set_ylabel(y)
