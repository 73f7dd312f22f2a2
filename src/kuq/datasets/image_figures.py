"""Samples of data sets of images: inputs above targets, in and out of distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kuq.datasets.base import Dataset, Split
from kuq.datasets.summary import evenly_spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Samples of each domain.
_SAMPLES = 4


def draw_images(figure: Figure, data: Dataset) -> None:
    """Four samples in distribution and four of the twin, in the same colours for both.

    Inputs of three channels are shown as colours. Of others one is shown as a map: the first, or
    ``provenance["shown"]``, with the outline of ``provenance["outline"]``, both names of channels.
    Rows that have a time are named by it, and grids of latitudes and longitudes drawn as maps.
    """
    groups = [(data.test, "in distribution")]
    if data.shifted is not None:
        groups.append((data.shifted, "out of distribution"))
    samples = [(_few(split.x), _few(split.y)) for split, _ in groups]
    places = [(_extent(split), _names(split)) for split, _ in groups]
    shown, outline = _channel(data, "shown"), _channel(data, "outline")
    colours = len(samples[0][0][0]) == 3
    maps = None if colours else _limits([x[:, shown or 0] for x, _ in samples])
    targets = _limits([y for _, y in samples])
    figure.set_size_inches(2.0 * _SAMPLES * len(groups), 4.8)
    parts = np.ravel(np.asarray(figure.subfigures(1, len(groups)), dtype=object))
    for panel, (x, y), (extent, names), (_, name) in zip(
        parts, samples, places, groups, strict=True
    ):
        panel.suptitle(name, fontsize="medium")
        axes = panel.subplots(2, len(x), squeeze=False, sharex=bool(extent), sharey=bool(extent))
        for column in range(len(x)):
            _draw_input(axes[0, column], x[column], shown or 0, maps, extent)
            picture = axes[1, column].imshow(y[column], **targets, **extent)
            axes[1, column].set_title(names[column], fontsize="small")
            if outline is not None:
                for axis in axes[:, column]:
                    axis.contour(x[column, outline], levels=[0.0], colors="black", linewidths=0.6)
        for axis in np.ravel(axes):
            if extent:
                axis.xaxis.set_major_formatter(_degrees("E", "W"))
                axis.yaxis.set_major_formatter(_degrees("N", "S"))
                axis.tick_params(labelsize="x-small")
            else:
                axis.set_xticks([])
                axis.set_yticks([])
        axes[0, 0].set_ylabel("input" if shown is None else f"input: {data.provenance['shown']}")
        axes[1, 0].set_ylabel("target")
        panel.colorbar(picture, ax=list(axes[1]), location="bottom", shrink=0.8, label=data.units)


def _few(values: Any) -> NDArray[np.float64]:
    return np.asarray(evenly_spread(values, _SAMPLES)[:_SAMPLES], np.float64)


def _names(split: Split) -> list[str]:
    """The times of the samples that are shown, where rows have one."""
    time = split.rows.get("time")
    if time is None:
        return [""] * _SAMPLES
    return [str(moment) for moment in evenly_spread(time, _SAMPLES)[:_SAMPLES]]


def _extent(split: Split) -> dict[str, Any]:
    """Edges of the cells in degrees and the shape of a degree, where the grid is one of degrees."""
    if set(split.grid) != {"latitude", "longitude"}:
        return {}
    latitude, longitude = split.grid["latitude"], split.grid["longitude"]
    high, wide = (abs(places[1] - places[0]) / 2 for places in (latitude, longitude))
    edges = (
        longitude[0] - wide,
        longitude[-1] + wide,
        latitude[-1] - high,
        latitude[0] + high,
    )
    return {"extent": edges, "aspect": 1 / np.cos(np.deg2rad(latitude.mean()))}


def _degrees(positive: str, negative: str) -> Any:
    def text(value: float, _: int) -> str:
        return f"{abs(value):g}°{positive if value > 0 else negative if value < 0 else ''}"

    return text


def _channel(data: Dataset, role: str) -> int | None:
    """The number of the channel that the provenance names for this role."""
    name = data.provenance.get(role)
    return None if name is None else list(data.provenance["channels"]).index(name)


def _limits(values: list[NDArray[np.float64]]) -> dict[str, Any]:
    """Colours for all maps of a kind: around zero where they have both signs."""
    finite = np.concatenate([np.ravel(value) for value in values])
    finite = finite[np.isfinite(finite)]
    low, high = np.percentile(finite, [1, 99]) if len(finite) else (0.0, 1.0)
    if low < 0 < high:
        size = max(-low, high)
        return {"cmap": "RdBu_r", "vmin": -size, "vmax": size}
    return {"cmap": "viridis", "vmin": low, "vmax": high}


def _draw_input(
    axis: Axes,
    channels: NDArray[np.float64],
    shown: int,
    maps: dict[str, Any] | None,
    extent: dict[str, Any],
) -> None:
    if maps is None:
        low, high = np.nanmin(channels), np.nanmax(channels)
        axis.imshow(np.moveaxis((channels - low) / (high - low if high > low else 1.0), 0, -1))
    else:
        axis.imshow(channels[shown], **maps, **extent)
