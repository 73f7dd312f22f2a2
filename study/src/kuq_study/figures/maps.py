"""Predicted fields with their uncertainties, from the arrays that a run keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kuq_study.estimates import Evidence
from kuq_study.figures.drawing import INK, Figure, Panel, drawing
from kuq_study.vocabulary import DATASETS, REPRESENTATIONS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Arrays: TypeAlias = Mapping[str, NDArray[np.float64]]

_PARTS = ("truth", "prediction", "aleatoric", "epistemic")
#: Pixels along an edge beyond which maps are thinned: a page has to stay small.
_MOST = 160


def maps(evidence: Evidence) -> list[Figure]:
    """One figure per stored field: truth and prediction, AU and EU, as maps or as curves."""
    figures = []
    for name, arrays in sorted(evidence.fields.items()):
        shapes = {np.asarray(arrays[p]).shape for p in _PARTS if p in arrays}
        panels: list[Panel] = []
        if any(len(shape) == 2 for shape in shapes):
            limits = _limits(arrays)
            for what in _PARTS:
                if what in arrays and arrays[what].ndim == 2:
                    with drawing(
                        f"field-{name}-{what}", panels, size=(3.5, 2.8), with_bar=True
                    ) as axes:
                        _map(axes, arrays[what], what, limits if what in _PARTS[:2] else None)
        elif any(len(shape) == 1 for shape in shapes):
            _profiles(name, arrays, panels)
        if panels:
            synthetic = " Synthetic data, made here." if "synthetic" in name else ""
            figures.append(
                Figure(
                    f"field-{name}",
                    _title(name),
                    "One prediction with its aleatoric and epistemic uncertainty, pointwise."
                    + synthetic,
                    tuple(panels),
                )
            )
    return figures


def _title(name: str) -> str:
    """Files are named DATASET-REPRESENTATION, with -shifted for data out of distribution."""
    plain, shifted = name.removesuffix("-shifted"), name.endswith("-shifted")
    for dataset in sorted(DATASETS, key=len, reverse=True):
        method = plain.removeprefix(f"{dataset}-")
        if method in REPRESENTATIONS and plain != method:
            plain = f"{DATASETS[dataset].text}, {REPRESENTATIONS[method].text}"
            break
    return f"{plain}, out of distribution" if shifted else plain


def _limits(arrays: Arrays) -> tuple[float, float]:
    both = [np.asarray(array) for what, array in arrays.items() if what in _PARTS[:2]]
    finite = np.concatenate([a[np.isfinite(a)].ravel() for a in both]) if both else np.zeros(1)
    if finite.size == 0:
        return 0.0, 1.0
    low, high = np.quantile(finite, [0.005, 0.995])
    return float(low), float(high)


def _map(
    axes: Axes, values: NDArray[np.float64], title: str, limits: tuple[float, float] | None
) -> None:
    step = max(1, -(-max(values.shape) // _MOST))
    low, high = limits if limits is not None else (None, None)
    image = axes.imshow(
        values[::step, ::step],
        aspect="auto",
        cmap="cividis" if limits is not None else "viridis",
        vmin=low,
        vmax=high,
        interpolation="nearest",
        extent=(0, values.shape[1], values.shape[0], 0),
    )
    axes.grid(False)
    axes.set_title(title)
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.9)
    bar.outline.set_visible(False)


def _profiles(name: str, arrays: Arrays, panels: list[Panel]) -> None:
    first = next(arrays[p] for p in _PARTS if p in arrays)
    place = arrays.get("coordinate")
    fits = place is not None and place.shape == first.shape
    x = place if place is not None and fits else np.arange(first.size, dtype=np.float64)
    with drawing(f"field-{name}-mean", panels) as axes:
        if "truth" in arrays:
            axes.plot(x, arrays["truth"], color=INK, lw=1.2, ls="--", label="truth")
        if "prediction" in arrays:
            axes.plot(x, arrays["prediction"], color="#0072B2", label="prediction")
        axes.legend(frameon=False)
        axes.set(title="truth and prediction", xlabel="place")
    with drawing(f"field-{name}-parts", panels) as axes:
        for component, ink, dash in (("aleatoric", "#E69F00", "-"), ("epistemic", "#009E73", "-.")):
            if component in arrays:
                axes.plot(x, arrays[component], color=ink, ls=dash, label=component)
        axes.legend(frameon=False)
        axes.set(title="uncertainty", xlabel="place")
