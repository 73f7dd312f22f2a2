"""Several levels of members with named dimensions: noise, what each level adds, and the total."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

import kuq
from kuq._array import summable
from kuq.distributions.nesting import even_weights, numbered, paths_of_axes
from kuq.result import OF_LEVELS_OF_POINTS
from kuq.scores.levels import Design
from kuq.xarray.attributes import described, kept_attributes, provenance, units_of
from kuq.xarray.call import Settings, of_these_members, prepared
from kuq.xarray.dimensions import MEMBER
from kuq.xarray.layout import POINTS, Data, Dimensions, Numbers, layout_of
from kuq.xarray.missing import label

#: The dimension along which members of all levels lie while they are computed.
_ALL = "members of all levels"


@dataclass(frozen=True)
class Asked:
    """What a caller says about levels."""

    dims: tuple[Hashable, ...]
    crossed: bool | Sequence[str] | None
    fixed: str | Sequence[str]

    def design(self) -> Design:
        names = [str(dim) for dim in self.dims]
        return Design.checked(names, self.crossed, self.fixed, len(names))


def partition(
    data: Data,
    score: kuq.Score | str,
    asked: Asked,
    dims: Dimensions,
    weights: xr.DataArray | str | None,
    estimator: str,
    settings: Settings,
) -> tuple[xr.Dataset, kuq.Score]:
    """Total, noise and what each level adds, and the score with its bandwidth."""
    design = asked.design()
    _check_dims(data, asked.dims, dims)
    members, settings = _members(data, asked.dims, dims, settings)
    flat = data.stack({_ALL: asked.dims}, create_index=False).isel({_ALL: members.kept})
    dims = dataclasses.replace(dims, member=_ALL)
    if layout_of(flat, dims, "raise")[0].family.second_order:
        raise kuq.ParameterError("levels need members, not second-order parameters")
    settings = Settings(**{**settings, "member_weights": members.weights})
    call = prepared([flat], score, dims, weights, settings)
    unbiased = call.options["unbiased"]
    used = design if unbiased in (True, "members") else design.taken_as_it_is()
    labels = tuple(_labels(data, dim) for dim in asked.dims)
    # Raises at once what blocks would raise.
    dataclasses.replace(used, labels=labels).groups(members.paths, members.weights)
    as_it_is = {**call.options, "unbiased": "samples" if unbiased in (True, "samples") else False}
    trial = kuq.decompose(call.trials()[0], call.score, **as_it_is)
    options = {**call.options, "estimator": estimator, "levels": design.levels}
    options |= {"crossed": asked.crossed, "fixed": asked.fixed}
    names = ["total", "noise", *design.parts]
    measure = partial(_of_groups, members.paths, call.score, options)
    components = call.measured(measure, [call.outputs(trial.total)] * len(names))
    if clash := [name for name in names if name in {*components[0].dims, *components[0].coords}]:
        raise kuq.ParameterError(
            f"the data have a dimension or coordinate {clash[0]!r}, as a part of the result is "
            "called; rename it"
        )
    units = units_of(call.score, call.operands[0].variables)
    history = provenance(call.score, trial.method, estimator=estimator, unbiased=unbiased)
    history["design"] = design.text
    if design.fixed:
        history["fixed"] = ", ".join(design.levels[k] for k in sorted(design.fixed))
    parts = {
        name: described(component, _in_words(name), units).rename(name)
        for name, component in zip(names, components, strict=True)
    }
    if call.layout.family is POINTS:
        history["note"] = OF_LEVELS_OF_POINTS
        missing = xr.full_like(parts["noise"], np.nan)
        parts["noise"] = missing.assign_attrs(long_name="noise of the members, unknown")
    return xr.Dataset(parts, attrs={**kept_attributes(data), **history, **call.told}), call.score


def _labels(data: Data, dim: Hashable) -> tuple[str, ...]:
    values = data[dim].values if dim in data.coords else range(data.sizes[dim])
    return tuple(map(label, values))


def _of_groups(
    paths: Numbers, score: kuq.Score, options: dict[str, Any], prediction: kuq.Ensemble
) -> tuple[Numbers, ...]:
    return tuple(kuq.decompose(prediction.in_groups(paths), score, **options).values())


@dataclass(frozen=True)
class _Members:
    """The members that are there: their positions, groups and weights."""

    kept: Numbers
    paths: Numbers
    weights: Numbers


def _members(
    data: Data, level_dims: tuple[Hashable, ...], dims: Dimensions, settings: Settings
) -> tuple[_Members, Settings]:
    """The members with weight and, where NaN is omitted, with numbers; and what NaN means then."""
    shape = tuple(data.sizes[dim] for dim in level_dims)
    paths = paths_of_axes(shape)
    weights, along = _joint_weights(data, level_dims, shape, settings.get("member_weights"))
    kept = weights > 0
    if settings.get("nan_policy") == "omit":
        kept &= _with_numbers(data, level_dims).reshape(-1)
        parameters = dataclasses.replace(dims, member=None)
        if layout_of(data, parameters, "raise")[0].sample is None:
            settings = Settings(**{**settings, "nan_policy": "propagate"})
    elif settings.get("nan_policy") != "propagate" and not _is_lazy(data):
        _refuse_missing(data, level_dims, kept)
    if not kept.any():
        raise kuq.ShapeError(f"no member along {list(level_dims)} has numbers and weight")
    paths, weights = paths[kept], weights[kept]
    # Weights of some levels say what those count; inside of them all count the same.
    share = even_weights(paths)
    group = numbered(paths[:, along])
    weights = weights * share / np.bincount(group, share)[group]
    return _Members(np.flatnonzero(kept), paths, weights / weights.sum()), settings


def _joint_weights(
    data: Data, level_dims: tuple[Hashable, ...], shape: tuple[int, ...], given: Any
) -> tuple[Numbers, list[int]]:
    """A weight for every member, and the levels that the weights tell apart."""
    if given is None:
        return np.ones(math.prod(shape)), []
    if not isinstance(given, xr.DataArray):
        given = np.asarray(given, dtype=np.float64)
        if given.shape != shape:
            raise kuq.ShapeError(
                f"member_weights have the shape {shape} of {list(level_dims)}, or are a DataArray "
                f"along some of them; got shape {given.shape}"
            )
        given = xr.DataArray(given, dims=level_dims)
    if unknown := [dim for dim in given.dims if dim not in level_dims]:
        raise kuq.ShapeError(
            f"member_weights lie along some of {list(level_dims)}, got the dimensions {unknown}"
        )
    for dim in given.dims:
        given = of_these_members(given, data, dim)
    frame = xr.DataArray(np.ones(shape), dims=level_dims)
    full = (frame * given.drop_vars(list(given.coords))).transpose(*level_dims)
    weights = np.asarray(full.values, dtype=np.float64).reshape(-1)
    usable = np.all(np.isfinite(weights) & (weights >= 0)) and weights.any()
    if weights.size != math.prod(shape) or not usable:
        raise kuq.ParameterError("member_weights must be finite numbers ≥ 0, not all zero")
    return summable(weights), [k for k, dim in enumerate(level_dims) if dim in given.dims]


def check_whole(data: Data, level_dims: tuple[Hashable, ...], settings: Settings) -> None:
    """Refuse members that are missing throughout, which reads all data."""
    shape = tuple(data.sizes[dim] for dim in level_dims)
    weights, _ = _joint_weights(data, level_dims, shape, settings.get("member_weights"))
    _refuse_missing(data, level_dims, weights > 0)


def _refuse_missing(data: Data, level_dims: tuple[Hashable, ...], kept: Numbers) -> None:
    """Refuse members that count and are missing throughout, beside others that are not."""
    with_numbers = _with_numbers(data, level_dims)
    gone = ~with_numbers & kept.reshape(with_numbers.shape)
    if gone.any() and with_numbers.any():
        index = np.unravel_index(int(np.argmax(gone)), gone.shape)
        place = ", ".join(
            f"{dim} {data[dim].values[at] if dim in data.coords else at}"
            for dim, at in zip(level_dims, index, strict=True)
        )
        count = int(gone.sum())
        more = f", nor have {count - 1} more" if count > 1 else ""
        raise kuq.ParameterError(
            f'{place} has no numbers (NaN throughout){more}; nan_policy="omit" leaves such members '
            "out"
        )


def _is_lazy(data: Data) -> bool:
    return any(variable.chunks is not None for variable in _variables(data))


def _variables(data: Data) -> list[xr.DataArray]:
    return [data] if isinstance(data, xr.DataArray) else list(data.data_vars.values())


def _with_numbers(data: Data, level_dims: tuple[Hashable, ...]) -> Numbers:
    """Which members have any number, in all variables that tell them apart."""
    there = xr.DataArray(True)
    for variable in _variables(data):
        apart = [dim for dim in level_dims if dim in variable.dims]
        if apart:
            there = there & variable.notnull().any([d for d in variable.dims if d not in apart])
    return np.asarray(there.transpose(*level_dims).values)


def _check_dims(data: Data, level_dims: tuple[Hashable, ...], dims: Dimensions) -> None:
    if not isinstance(data, (xr.DataArray, xr.Dataset)):
        raise kuq.ParameterError(
            f"data must be an xarray DataArray or Dataset, got {type(data).__name__}; for plain "
            "arrays use kuq.decompose"
        )
    if missing := [dim for dim in level_dims if dim not in data.dims]:
        raise kuq.ShapeError(
            f"level_dims {missing} are no dimensions of the data, which has {list(data.dims)}"
        )
    if twice := [dim for dim in level_dims if dim in (dims.sample, *dims.event)]:
        raise kuq.ShapeError(f"a dimension can have one role only, got {twice} as levels as well")
    left = [d for d in data.dims if d not in (*level_dims, dims.sample, *dims.event)]
    if runs := [dim for dim in left if str(dim).lower() in MEMBER]:
        raise kuq.ShapeError(
            f"{runs[0]!r} looks like a dimension of members, too: name it in level_dims, or as "
            f"draws_dim={runs[0]!r} if it holds draws of each member, or select one"
        )


def _in_words(name: str) -> str:
    if name in ("total", "noise"):
        return {"total": "total uncertainty", "noise": "noise (aleatoric uncertainty)"}[name]
    return f"uncertainty by {name.replace(':', ' and ') + (' together' if ':' in name else '')}"
