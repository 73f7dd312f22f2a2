"""Several predictions in one Dataset: variables along members, or pairs of mean and spread."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Mapping
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
import xarray as xr

import kuq
from kuq.adapters.parameter_names import is_spread, pairs, role_of
from kuq.xarray.dimensions import AUTO, MEMBER, SAMPLE, listed
from kuq.xarray.layout import Data

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result", bound=Data)
#: The attribute of results which names variables that are no part of a prediction.
NOT_USED = "not_used"
#: Roles that names have by themselves, so that all variables are parameters of one law.
_PARAMETERS = ("loc", "scale", "variance", "df", "nu", "alpha", "beta", "mixture")
_ALONG = ("member_dim", "sample_dim", "draws_dim", "level_dims")


def predicted(data: Any, along: Mapping[str, Any] | None = None) -> dict[str, Data]:
    """What a Dataset predicts, by name; else the data as they are, without a name.

    ``along`` are dimensions of members or draws that are not called as usual.
    """
    names = [str(name) for name in getattr(data, "data_vars", ())]
    roles = [role_of(name) for name in names]
    if not names or any(role in _PARAMETERS for role in roles):
        return {"": data}
    if "weights" in roles:
        name = names[roles.index("weights")]
        raise kuq.ParameterError(
            f"{name!r} would not be used; weights of members are an option: "
            f"data.drop_vars({name!r}) with member_weights=data[{name!r}]"
        )
    normals: dict[str, Data] = {
        thing: _normal(data, thing, roles) for thing, roles in pairs(names).items()
    }
    if normals or any(map(is_spread, names)):
        return normals or {"": data}
    given = {name: listed(value) for name, value in (along or {}).items() if value}
    levels = set(given.pop("level_dims", ()))
    named = {dim for dims in given.values() for dim in dims} - {AUTO}

    def has_members(dims: tuple[Hashable, ...]) -> bool:
        if levels:
            return levels <= set(dims)
        return any(dim in named or str(dim).lower() in (*MEMBER, *SAMPLE) for dim in dims)

    return {name: data[name] for name in names if has_members(data[name].dims)} or {"": data}


def _normal(data: xr.Dataset, thing: str, roles: Mapping[str, list[str]]) -> xr.Dataset:
    for role, names in roles.items():
        if len(names) > 1:
            raise kuq.ParameterError(
                f"{names[0]!r} and {names[1]!r} may each be the {role} of {thing!r}; remove one"
            )
    loc, scale = (data[roles[role][0]] for role in ("loc", "scale"))
    if role_of(str(scale.name).rpartition("_")[2]) == "variance":
        scale = xr.apply_ufunc(np.sqrt, scale, dask="allowed", keep_attrs=True)
    return xr.Dataset({"loc": loc, "scale": scale}, attrs=data.attrs)


def for_each_variable(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Let a measure take Datasets of several predictions, and give a result for each.

    A second operand, another prediction or what happened, has variables of the same names.
    """
    signature = inspect.signature(function)
    first = next(iter(signature.parameters))
    beside = next((name for name in ("q", "outcome") if name in signature.parameters), "")
    measure: Callable[..., Any] = function

    @functools.wraps(function)
    def call(*args: Arguments.args, **settings: Arguments.kwargs) -> Result:
        given = signature.bind(*args, **settings).arguments
        data: Any = given[first]
        variables = predicted(data, {name: given.get(name) for name in _ALONG})
        if list(variables) == [""]:
            return function(*args, **settings)
        options = {**given.pop("settings", {}), **given}
        del options[first]
        used = [*variables, *(name for name in map(str, data.data_vars) if _is_of(name, variables))]
        unused = [name for name in map(str, data.data_vars) if name not in used]
        results = {}
        for name, one in variables.items():
            if beside:
                options[beside] = _of_same_name(given[beside], name, beside, len(variables) == 1)
            results[name] = measure(one, **options)
        told = {NOT_USED: ", ".join(unused)} if unused else {}
        if len(results) == 1:
            return cast(Result, next(iter(results.values())).assign_attrs(told))
        return cast(Result, _beside_each_other(results, {**data.attrs, **told}))

    return call


def _is_of(name: str, variables: Mapping[str, Data]) -> bool:
    thing, _, last = name.rpartition("_")
    return isinstance(variables.get(thing), xr.Dataset) and role_of(last) in _PARAMETERS


def _of_same_name(other: Any, name: str, what: str, alone: bool) -> Data:
    """The variable of another operand that belongs to a prediction."""
    if isinstance(other, xr.DataArray) and alone:
        return other
    if not isinstance(other, (xr.Dataset, Mapping)):
        raise kuq.ParameterError(
            f"{what} of several variables is a Dataset with variables of the same names, or a dict "
            f"by their names, got {type(other).__name__}; or pass one variable: data[{name!r}]"
        )
    others = predicted(other) if what == "q" and isinstance(other, xr.Dataset) else other
    if name not in others:
        raise kuq.ParameterError(
            f"{what} has no {name!r}, which is predicted, but {[str(key) for key in others]}; pass "
            "the variables that both have: data[[…]]"
        )
    variable: Data = others[name]
    return variable


def _beside_each_other(results: Mapping[str, Data], attrs: Mapping[Any, Any]) -> xr.Dataset:
    """Results of several variables in one Dataset; each says by itself how it came about."""
    every: dict[str, xr.DataArray] = {}
    for name, result in results.items():
        if isinstance(result, xr.DataArray):
            every[name] = result.rename(name)
            continue
        attributes = {key: value for key, value in result.attrs.items() if key not in attrs}
        for component, values in result.data_vars.items():
            every[f"{name}_{component}"] = values.assign_attrs({**attributes, **values.attrs})
    return xr.Dataset(every, attrs=dict(attrs))
