"""What the plots have in common: colours, axes, and reading arrays of any kind."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kuq.errors import KuqError, ParameterError, ShapeError
from kuq.partition import Partition
from kuq.result import Uncertainty

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = {
    "total": "#333333",
    "aleatoric": "#0072B2",
    "epistemic": "#D55E00",
}
CYCLE = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333")
#: For maps and matrices: dark to light, and the same to colour-blind readers.
COLOUR_MAP = "cividis"
PARTS = ("total", "aleatoric", "epistemic")


def axes_or_new(ax: Axes | None, size: tuple[float, float] = (6.4, 4.0)) -> Axes:
    """The axes as given, or those of a new figure."""
    if ax is not None:
        return ax
    if importlib.util.find_spec("matplotlib") is None:
        raise KuqError('plots need matplotlib: pip install "kuq[plot]"')
    from matplotlib import pyplot

    return pyplot.subplots(figsize=size, layout="constrained")[1]


def tidy(ax: Axes, title: str | None = None) -> Axes:
    """Less ink: no frame above and to the right, a light grid, a bold title to the left."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=True, color="#000000", alpha=0.08, lw=0.8)
    ax.set_axisbelow(True)
    if title:
        ax.set_title(title, loc="left", fontweight="bold", fontsize="medium")
    return ax


def values_of(array: Any) -> np.ndarray:
    """Any array as NumPy's: of torch, jax, xarray, or a list."""
    if hasattr(array, "detach"):
        array = array.detach().cpu()
    values = np.asarray(array)
    if values.dtype.kind not in "fiub":
        raise ParameterError(f"numbers are needed, got dtype {values.dtype}")
    return values.astype(float)


def is_labelled(array: Any) -> bool:
    """Whether an array is xarray's, with names and coordinates of its own."""
    return hasattr(array, "dims") and hasattr(array, "coords")


def part_of(u: Any, name: str) -> Any:
    """One component of an Uncertainty, a Partition, a Dataset or another mapping."""
    names = ("total", *levels) if (levels := components_of(u)) else PARTS
    if name not in names:
        raise ParameterError(f"part must be one of {', '.join(names)}; got {name!r}")
    if not isinstance(u, Mapping) and not hasattr(u, "data_vars"):
        raise ParameterError(
            "an Uncertainty, or a Dataset with total, aleatoric and epistemic, is needed; got "
            f"{type(u).__name__}"
        )
    if name not in u:
        raise ParameterError(f"{name!r} is missing; it holds {', '.join(map(str, u))}")
    return u[name]


def spread_note(u: Any) -> str:
    """What the total of a result that is not split is; empty if it is split."""
    if hasattr(u, "is_split"):
        return "" if u.is_split else str(u.note)
    note = str(getattr(u, "attrs", {}).get("note", ""))
    if not note and hasattr(u, "data_vars") and "epistemic" in u:  # a mean may have lost its note
        return "spread" if np.isnan(values_of(u["epistemic"])).all() else ""
    return note


def components_of(u: Any) -> dict[str, Any]:
    """Levels of a Partition, or of a Dataset that holds one, and noise if known; else nothing."""
    if isinstance(u, Partition):
        return {name: component for name, component in u.known.items() if name != "total"}
    if not hasattr(u, "data_vars") or "noise" not in u:
        return {}
    gone = ("total", "noise") if np.isnan(values_of(u["noise"])).all() else ("total",)
    return {str(name): u[name] for name in u.data_vars if name not in gone}


def units_of(u: Any) -> str:
    """The unit of an uncertainty, where it is known."""
    if isinstance(u, (Uncertainty, Partition)):
        return u.units
    attributes = getattr(u, "attrs", {})
    if components_of(u):
        attributes = u["noise"].attrs
    return str(attributes.get("units", ""))


def label_of(coordinate: Any, name: str) -> str:
    """The name of a coordinate with its unit, as its attributes have them."""
    attributes = getattr(coordinate, "attrs", {})
    text = str(attributes.get("long_name", name))
    return f"{text} ({attributes['units']})" if "units" in attributes else text


def with_unit(text: str, unit: str) -> str:
    return f"{text} ({unit})" if unit else text


def need_axes(values: np.ndarray, count: int, name: str) -> None:
    if values.ndim != count:
        raise ShapeError(
            f"{name} must have {count} {'axis' if count == 1 else 'axes'}, got shape {values.shape}"
            "; select or average over the others"
        )
