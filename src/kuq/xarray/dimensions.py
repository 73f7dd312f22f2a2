"""The dimensions of a prediction by their usual names."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

import numpy as np
import xarray as xr

import kuq

#: Ask for a dimension by its usual names.
AUTO: Final = "auto"
MODEL = ("model", "models")
MEMBER = (
    *("member", "members", "realization", "number", "ensemble", "ens", "ensemble_member"),
    *MODEL,
)
SAMPLE = ("sample", "samples", "draw", "draws")
COMPONENT = ("component", "components", "mixture")
RANK = ("rank", "factor_rank")


def dim_of_role(
    dims: Iterable[Hashable], asked: Hashable | None, usual: tuple[str, ...], role: str
) -> Hashable | None:
    """The dimension that was asked for, or the only one with a usual name; None if there is none.

    Which of two usual names is meant has to be said.
    """
    present = list(dims)
    if asked is None:
        return None
    if asked != AUTO:
        if asked not in present:
            raise kuq.ShapeError(
                f"{role}_dim={asked!r} is not a dimension of the data, which has {present}"
            )
        return asked
    candidates = [name for name in present if str(name).lower() in usual]
    if len(candidates) > 1:
        raise kuq.ShapeError(
            f"{candidates} may all be the {role} dimension; name it: {role}_dim=..."
            f"{_models_and_runs(candidates)}"
        )
    return candidates[0] if candidates else None


def _models_and_runs(candidates: list[Hashable]) -> str:
    """What several runs of several models can be."""
    models = [name for name in candidates if str(name).lower() in MODEL]
    runs = [name for name in candidates if name not in models]
    if not (models and runs):
        return ""
    return (
        f". If {runs[0]!r} holds runs of each model, they are its draws: "
        f"member_dim={models[0]!r}, draws_dim={runs[0]!r}; member_dim={runs[0]!r} looks at the "
        "runs of every model by itself"
    )


def check_coordinates(what: str, *objects: xr.DataArray | xr.Dataset) -> None:
    """Refuse data whose coordinates along shared dimensions are not the same, in the same order."""
    try:
        xr.align(*objects, join="exact", copy=False)
    except ValueError as error:
        raise kuq.ShapeError(
            f"{what} have different coordinates: {error}; {_turned(objects)}one.reindex_like(other)"
            ' has the same, and NaN where there is nothing (method="nearest", tolerance=… where '
            "they differ by rounding)"
        ) from None


def _turned(objects: Sequence[xr.DataArray | xr.Dataset]) -> str:
    """What to do about longitudes that are the same and count from other places."""
    first, *others = objects
    for dim, values in first.indexes.items():
        for other in others:
            if dim not in other.indexes:
                continue
            ours, their = (np.asarray(index) for index in (values, other.indexes[dim]))
            if ours.shape != their.shape or not {ours.dtype.kind, their.dtype.kind} <= set("fiu"):
                continue
            one, two = (np.sort(np.mod(places, 360.0)) for places in (ours, their))
            if np.allclose(one, two) and not np.allclose(np.sort(ours), np.sort(their)):
                same = f"{dim} % 360" if ours.min() >= 0 else f"({dim} + 180) % 360 - 180"
                return (
                    f"{str(dim)!r} is the same up to turns of 360: "
                    f"other.assign_coords({dim}={same.replace(str(dim), f'other.{dim}')}) first; "
                )
    return ""


def listed(dims: Sequence[Hashable]) -> tuple[Hashable, ...]:
    """Names of dimensions, of which one may stand alone."""
    return (dims,) if isinstance(dims, str) else tuple(dims)


def check_names(what: str, first: Sequence[Hashable], second: Sequence[Hashable]) -> None:
    """Refuse dimensions that each side has alone: all of one would meet all of the other."""
    here = [dim for dim in first if dim not in second]
    there = [dim for dim in second if dim not in first]
    if here and there:
        renamed = ", ".join(f"{b!r}: {a!r}" for a, b in zip(here, there, strict=False))
        raise kuq.ShapeError(
            f"{what} have different dimensions: {here} and {there}; if these are the same, "
            f"other.rename({{{renamed}}}) names them so"
        )


def needed(
    dims: Iterable[Hashable], asked: Hashable | None, usual: tuple[str, ...], role: str
) -> Hashable:
    """The same, where there has to be one."""
    present = list(dims)
    name = dim_of_role(present, asked, usual, role)
    if name is None:
        raise kuq.ShapeError(
            f"no {role} dimension among {present} (usual names: {', '.join(usual)}); "
            f"name it: {role}_dim=..."
        )
    return name
