"""What a grid says is no value beside its fill value: what lies outside of its valid range.

The NetCDF conventions make these missing, and so does the default fill value of cells that nobody
wrote; xarray leaves both to its caller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

#: What NetCDF puts where nobody has written a floating-point number.
_NEVER_WRITTEN = 1.875 * 2.0**122
_PACKING = ("scale_factor", "add_offset")
#: Limits are stored with fewer digits than numbers have that were unpacked.
_STEP, _ROUNDING = 0.01, {2: 1e-3, 4: 1e-6}


@dataclass(frozen=True)
class ValidRange:
    """The ends between which the values of a variable lie, and a value that is none."""

    low: float = -math.inf
    high: float = math.inf
    never_written: float | None = None

    @classmethod
    def of(cls, variable: xr.Variable, netcdf: bool) -> ValidRange | None:
        """What the attributes of a decoded variable say, None where that is nothing."""
        if variable.dtype.kind not in "fiu":
            return None
        ends = _ends(variable.attrs)
        low, high = (_unpacked(end, variable) for end in ends)
        if _factor(variable) < 0 and any(_is_packed(end, variable) for end in ends):
            low, high = high, low
        fill_values = {"_FillValue", "missing_value"} & variable.encoding.keys()
        unwritten = netcdf and not fill_values and _stored(variable).kind == "f"
        if low is None and high is None and not unwritten:
            return None
        return cls(
            -math.inf if low is None else low - _room(low, variable),
            math.inf if high is None else high + _room(high, variable),
            _NEVER_WRITTEN if unwritten else None,
        )

    @property
    def is_told(self) -> bool:
        """Whether the file has ends, and not only the value that all files have."""
        return math.isfinite(self.low) or math.isfinite(self.high)

    def __str__(self) -> str:
        ends = [
            f"{word} {end:.6g}"
            for word, end in (("from", self.low), ("to", self.high))
            if math.isfinite(end)
        ]
        return " ".join(ends)

    def applied(self, values: np.ndarray) -> np.ndarray:
        """The values with NaN where they are none."""
        wrong = (values < self.low) | (values > self.high)
        if self.never_written is not None:
            wrong |= values == self.never_written
        return np.where(wrong, np.nan, values) if wrong.any() else values


def with_valid_range(variable: xr.Variable, valid: ValidRange) -> xr.Variable:
    """The same variable, which is read only when it is needed, with NaN for what is no value."""
    from xarray.backends import BackendArray
    from xarray.core import indexing

    class Masked(BackendArray):
        shape = variable.shape
        dtype = variable.dtype if variable.dtype.kind == "f" else np.dtype(np.float64)

        def __getitem__(self, key: Any) -> Any:
            support = indexing.IndexingSupport.OUTER
            return indexing.explicit_indexing_adapter(key, self.shape, support, self._read)

        def _read(self, key: Any) -> np.ndarray:
            values = np.asarray(variable[key].values, dtype=self.dtype)
            return np.asarray(valid.applied(values), dtype=self.dtype)

    masked = indexing.LazilyIndexedArray(Masked())
    return type(variable)(variable.dims, masked, variable.attrs, variable.encoding)


def _ends(attributes: dict[Any, Any]) -> tuple[np.generic | None, np.generic | None]:
    """The numbers of ``valid_range`` or of ``valid_min`` and ``valid_max``."""
    both = _numbers(attributes.get("valid_range"))
    if both.size == 2:
        return both[0], both[1]
    low, high = (_numbers(attributes.get(name)) for name in ("valid_min", "valid_max"))
    return (low[0] if low.size == 1 else None), (high[0] if high.size == 1 else None)


def _numbers(value: Any) -> np.ndarray:
    numbers = np.asarray([] if value is None else value).ravel()
    return numbers if numbers.dtype.kind in "fiu" else np.empty(0)


def _stored(variable: xr.Variable) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.dtype(variable.encoding.get("dtype", variable.dtype))
    return dtype


def _factor(variable: xr.Variable) -> float:
    return float(np.asarray(variable.encoding.get("scale_factor", 1.0)).item())


def _is_packed(end: np.generic | None, variable: xr.Variable) -> bool:
    """Whether an end is of the type of packed values, and so in their unit."""
    whole = end is not None and end.dtype.kind in "iu" and _stored(variable).kind in "iu"
    return whole and any(name in variable.encoding for name in _PACKING)


def _unpacked(end: np.generic | None, variable: xr.Variable) -> float | None:
    """An end in the unit of the values."""
    number = math.nan if end is None else float(end)
    if math.isnan(number):
        return None
    if variable.encoding.get("_Unsigned") == "true" and number < 0:
        number += 2.0 ** (8 * _stored(variable).itemsize)
    if not _is_packed(end, variable):
        return number
    offset = float(np.asarray(variable.encoding.get("add_offset", 0.0)).item())
    return number * _factor(variable) + offset


def _room(end: float, variable: xr.Variable) -> float:
    step = _STEP * abs(_factor(variable)) if _stored(variable).kind in "iu" else 0.0
    return max(step, _ROUNDING.get(variable.dtype.itemsize, 1e-12) * abs(end))
