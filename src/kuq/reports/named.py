"""A report of a prediction with named dimensions that is in memory: that of its file."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kuq.errors import KuqError, ParameterError
from kuq.files.decompose import Layout, decompose_file
from kuq.files.levels import Levels, partition_file
from kuq.files.options import in_python
from kuq.files.roles import Names
from kuq.kernels.base import Score
from kuq.kernels.marginal import CRPS
from kuq.kernels.names import as_score, usual_estimator
from kuq.reports.decomposition import report_page
from kuq.reports.judgement import check_outcomes
from kuq.reports.levels import levels_page

if TYPE_CHECKING:
    import xarray as xr


def as_named(prediction: Any) -> xr.DataArray | xr.Dataset | None:
    """A DataArray, a Dataset or a dict of DataArrays as data with named dimensions, else None.

    xarray is not imported for the question.
    """
    xarray: Any = sys.modules.get("xarray")
    if xarray is None:
        return None
    if isinstance(prediction, dict) and prediction:
        if not all(isinstance(one, xarray.DataArray) for one in prediction.values()):
            return None
        from kuq.xarray.dimensions import check_coordinates

        check_coordinates("the predictions", *prediction.values())
        prediction = xarray.Dataset(prediction)
    named = isinstance(prediction, (xarray.DataArray, xarray.Dataset))
    return prediction if named else None


def named_page(
    data: xr.DataArray | xr.Dataset,
    score: Score | str | None = None,
    *,
    y: Any = None,
    title: str = "predictions",
    member_dim: Hashable | None = None,
    sample_dim: Hashable | None = None,
    draws_dim: Hashable | None = None,
    event_dims: Sequence[Hashable] = (),
    level_dims: Sequence[Hashable] | None = None,
    crossed: bool | Sequence[str] | None = None,
    fixed: str | Sequence[str] = (),
    weights: str | None = None,
    estimator: str | None = None,
    nan_policy: str | None = None,
    **options: Any,
) -> str:
    """The page of a DataArray or Dataset, with the options of ``kuq.xarray.decompose``.

    It is written into a file for the time being, and the page is that of the file.
    """
    if unknown := set(options) - {"draws", "seed", "directions"}:
        raise ParameterError(
            f"a report of named dimensions has no options {sorted(unknown)}; it has those of "
            "kuq.xarray.decompose, such as member_dim, event_dims, level_dims and nan_policy"
        )
    if weights is not None and not (isinstance(weights, str) and weights == "area"):
        raise ParameterError(f'weights of a report must be "area", got {type(weights).__name__}')
    score = CRPS() if score is None else score
    along = _draws(sample_dim, draws_dim)
    if along is None and level_dims is None:
        data = _without_chains(data)
        along = _draws_alone(data, member_dim)
    dataset, names, target = _stored(data, y)
    layout = Layout(
        names,
        None if member_dim is None else str(member_dim),
        along,
        _names(event_dims),
        nan_policy,
        target,
        weights is not None,
    )
    shared: dict[str, Any] = {"layout": layout, "estimator": estimator or usual_estimator(score)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.nc"
        _write(dataset, path)
        try:
            if level_dims is None:
                result = decompose_file(path, as_score(score), **shared, **options)
                check_outcomes([one.name for one in result.variables], y)
                told = [
                    replace(one, notes=tuple(map(in_python, one.notes))) for one in result.variables
                ]
                return report_page(title, told)
            every = _names(level_dims)
            apart = every if crossed is True else _names(crossed or ())
            levels = Levels(every, apart, _names(fixed))
            parts = partition_file(path, as_score(score), levels, **shared, **options).result
            return levels_page(
                title, {"": replace(parts, notes=tuple(map(in_python, parts.notes)))}
            )
        except KuqError as error:
            raise type(error)(in_python(str(error).replace(str(path), "the data"))) from None


def _names(dims: Sequence[Hashable]) -> tuple[str, ...]:
    from kuq.xarray.dimensions import listed

    return tuple(map(str, listed(dims)))


def _draws(sample_dim: Hashable | None, draws_dim: Hashable | None) -> str | None:
    if sample_dim is not None and draws_dim is not None:
        raise ParameterError("draws_dim and sample_dim both say where draws are; give one of them")
    named = sample_dim if draws_dim is None else draws_dim
    return None if named is None else str(named)


def _without_chains(data: xr.DataArray | xr.Dataset) -> xr.DataArray | xr.Dataset:
    """Draws of ArviZ, whose chains are all of the same law."""
    if not {"chain", "draw"} <= set(data.dims):
        return data
    stacked = data.stack(draws=("chain", "draw"), create_index=False)
    return stacked.drop_vars(["chain", "draw"], errors="ignore")


def _draws_alone(data: xr.DataArray | xr.Dataset, member_dim: Hashable | None) -> str | None:
    """The dimension of draws where there are no members: those of one model."""
    from kuq.xarray.dimensions import AUTO, MEMBER, SAMPLE, dim_of_role

    members = member_dim or dim_of_role(data.dims, AUTO, MEMBER, "member")
    draws = dim_of_role(data.dims, AUTO, SAMPLE, "sample")
    return None if draws is None or members is not None else str(draws)


def _stored(data: xr.DataArray | xr.Dataset, y: Any) -> tuple[xr.Dataset, Names, str | None]:
    """All in one Dataset, which variable is the prediction, and which is what happened."""
    import xarray as xr

    names = Names()
    if isinstance(data, xr.DataArray):
        name = str(data.name or "prediction")
        name = f"{name}_predicted" if name in data.coords or name in data.dims else name
        data, names = data.to_dataset(name=name), Names(points=name)
    if y is None:
        return data, names, None
    if isinstance(y, str):
        return data, names, y
    if isinstance(y, xr.DataArray):
        target = str(y.name or "y")
        while target in data.variables or target in data.dims:
            target = f"{target} (outcome)"
        return _beside(data, {target: y}), names, target
    if not isinstance(y, (xr.Dataset, Mapping)):
        raise ParameterError(
            f"y of a prediction with named dimensions must be a DataArray, got {type(y).__name__}; "
            "for several variables a Dataset, or a dict by their names"
        )
    outcomes = {f"{name} (outcome)": one for name, one in y.items()}
    if strange := [name for name, one in y.items() if not isinstance(one, xr.DataArray)]:
        kind = type(y[strange[0]]).__name__
        raise ParameterError(f"y[{strange[0]!r}] must be a DataArray, got {kind}")
    return _beside(data, outcomes), names, _OUTCOMES


#: The names of outcomes of several variables.
_OUTCOMES = "{} (outcome)"


def _beside(data: xr.Dataset, outcomes: Mapping[str, xr.DataArray]) -> xr.Dataset:
    from kuq.xarray.dimensions import check_coordinates

    check_coordinates("y and the prediction", data, *outcomes.values())
    plain = {
        name: one.drop_attrs().assign_attrs({k: one.attrs[k] for k in ("units",) if k in one.attrs})
        for name, one in outcomes.items()
    }
    return data.assign(plain)


def _write(dataset: xr.Dataset, path: Path) -> None:
    """The data in a file, without attributes that no file can hold."""
    kept = dataset.drop_encoding()
    every: list[Any] = [kept, *kept.variables.values()]
    for one in every:
        one.attrs = {str(k): v for k, v in one.attrs.items() if isinstance(v, (str, int, float))}
    try:
        kept.to_netcdf(path, engine="h5netcdf")
    except (TypeError, ValueError, NotImplementedError) as error:
        text = str(error).splitlines()[0]
        raise ParameterError(
            f"the data cannot be written as NetCDF, from which the page is made: {text}"
        ) from None
