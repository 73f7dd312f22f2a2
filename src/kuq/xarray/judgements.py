"""Protocols that judge uncertainties, along named dimensions and for each of the others."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import xarray as xr

import kuq
from kuq import protocols
from kuq.xarray.dimensions import check_coordinates
from kuq.xarray.layout import Numbers

_CURVES = ("risk", "oracle")
_RATIOS = ("random", "prr", "prr_full")
_DETECTION = ("auroc", "aupr", "fpr95")


def selective_prediction(
    uncertainty: xr.DataArray,
    error: xr.DataArray,
    dim: Hashable | Sequence[Hashable] | None = None,
    retention: tuple[float, float] = (0.5, 1.0),
) -> xr.Dataset:
    """Retention curves over the cases along ``dim`` (all by default), for each other coordinate.

    The Dataset has ``risk`` and ``oracle`` along ``retention``, and ``random``, ``prr`` and
    ``prr_full``, as in ``kuq.protocols.selective_prediction``. It is computed at once.

    >>> import kuq, xarray
    >>> u = xarray.DataArray([[1.0, 2.0, 3.0, 4.0]], dims=("lead", "time"))
    >>> e = xarray.DataArray([[0.0, 1.0, 5.0, 2.0]], dims=("lead", "time"))
    >>> kuq.xarray.selective_prediction(u, e, "time").prr.round(4).values.tolist()
    [0.5714]
    """
    cases = _cases(uncertainty, dim, "uncertainty")
    _cases(error, cases, "error")
    check_coordinates("uncertainty and error", uncertainty, error)
    count = int(np.prod([uncertainty.sizes[d] for d in cases]))
    kept = protocols.selective_prediction(np.arange(count), np.arange(count), retention).retention

    def judged(u: Numbers, e: Numbers) -> tuple[Any, ...]:
        curve = protocols.selective_prediction(u.reshape(-1), e.reshape(-1), retention)
        return curve.risk, curve.oracle, curve.random[0], curve.prr, curve.prr_full

    outputs = [["retention"]] * len(_CURVES) + [[]] * len(_RATIOS)
    results = _for_each(judged, [(uncertainty, cases), (error, cases)], outputs)
    result = xr.Dataset(dict(zip((*_CURVES, *_RATIOS), results, strict=True)))
    units = {"units": error.attrs["units"]} if "units" in error.attrs else {}
    for name in (*_CURVES, "random"):
        result[name].attrs.update(units)
    return result.assign_coords(retention=("retention", kept))


def ood_detection(
    inside: xr.DataArray,
    outside: xr.DataArray,
    dim: Hashable | Sequence[Hashable] | None = None,
    *,
    seed: int = 0,
    equal_sizes: bool = True,
    resamples: int = 1000,
    confidence: float = 0.95,
) -> xr.Dataset:
    """AUROC, AUPR and FPR at 95 % TPR of the cases along ``dim``, for each other coordinate.

    The two sides may have different cases, but the same other dimensions. The variables
    ``auroc_interval`` and so on have the dimension ``bound`` with "low" and "high". Options are
    those of ``kuq.protocols.ood_detection``. It is computed at once.

    >>> import kuq, xarray
    >>> low = xarray.DataArray([0.1, 0.2, 0.3, 0.4], dims="case")
    >>> high = xarray.DataArray([0.35, 0.5, 0.6, 0.7], dims="case")
    >>> float(kuq.xarray.ood_detection(low, high).auroc)
    0.9375
    """
    cases = _cases(inside, dim, "inside")
    other = _cases(
        outside, None if dim is None else [d for d in cases if d in outside.dims], "outside"
    )
    apart = {d: f"{d} outside" for d in other}
    options: dict[str, Any] = {
        "seed": seed,
        "equal_sizes": equal_sizes,
        "resamples": resamples,
        "confidence": confidence,
    }

    def judged(low: Numbers, high: Numbers) -> tuple[Any, ...]:
        detection = protocols.ood_detection(low.reshape(-1), high.reshape(-1), **options)
        values = [getattr(detection, name) for name in _DETECTION]
        bounds = [np.asarray(getattr(detection, f"{name}_interval")) for name in _DETECTION]
        return (*values, *bounds)

    outputs: list[list[Hashable]] = [[]] * 3 + [["bound"]] * 3
    renamed: list[Hashable] = [apart[d] for d in other]
    sides = [(inside, cases), (outside.rename(apart), renamed)]
    results = _for_each(judged, sides, outputs)
    names = (*_DETECTION, *(f"{name}_interval" for name in _DETECTION))
    result = xr.Dataset(dict(zip(names, results, strict=True)))
    return result.assign_coords(bound=["low", "high"])


def _cases(data: object, dim: Hashable | Sequence[Hashable] | None, name: str) -> list[Hashable]:
    """The dimensions along which cases lie."""
    if not isinstance(data, xr.DataArray):
        raise kuq.ParameterError(
            f"{name} must be a DataArray, got {type(data).__name__}; for plain arrays use "
            "kuq.protocols"
        )
    if dim is None:
        return list(data.dims)
    asked = [dim] if isinstance(dim, str) or not isinstance(dim, Sequence) else list(dim)
    if missing := [d for d in asked if d not in data.dims]:
        raise kuq.ShapeError(f"{name} has no dimensions {missing}, but {list(data.dims)}")
    return asked


def _for_each(
    judged: Callable[..., tuple[Any, ...]],
    sides: list[tuple[xr.DataArray, list[Hashable]]],
    outputs: Sequence[Sequence[Hashable]],
) -> tuple[xr.DataArray, ...]:
    results: tuple[xr.DataArray, ...] = xr.apply_ufunc(
        judged,
        *(data.compute() for data, _ in sides),
        input_core_dims=[cases for _, cases in sides],
        output_core_dims=outputs,
        vectorize=True,
        join="exact",
        keep_attrs=False,
    )
    return results
