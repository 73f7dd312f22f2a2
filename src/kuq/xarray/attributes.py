"""Units and attributes of results."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import xarray as xr

import kuq
from kuq.xarray.units import located


def units_of(score: kuq.Score, variables: Mapping[str, xr.DataArray]) -> str:
    """The unit of a measure in terms of the unit of the outcome, where that is known."""
    if score.units == "dimensionless":
        return "1"
    location = located(variables)
    unit = None if location is None else location.attrs.get("units")
    if unit is None or "target units" not in score.units:
        return score.units
    shown = str(unit)
    if "target units^" in score.units and not shown.isalnum():
        shown = f"({shown})"
    return score.units.replace("target units", shown)


def described(result: xr.DataArray, name: str, units: str) -> xr.DataArray:
    return result.rename(name).assign_attrs(long_name=name.replace("_", " "), units=units)


def provenance(score: kuq.Score, method: str | None, **options: Any) -> dict[str, str]:
    """How a result was computed, as text that every file format can hold."""
    facts = {"score": repr(score), **{name: str(value) for name, value in options.items()}}
    return facts if method is None else {**facts, "method": method}


def kept_attributes(data: xr.DataArray | xr.Dataset) -> dict[Hashable, Any]:
    """Attributes of the data that still hold: not those that name or describe the quantity."""
    of_quantity = ("units", "long_name", "standard_name", "valid_range", "valid_min", "valid_max")
    gone = () if isinstance(data, xr.Dataset) else of_quantity
    return {name: value for name, value in data.attrs.items() if name not in gone}
