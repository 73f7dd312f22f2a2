"""decompose, entropy, divergence and score of predictions with named dimensions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any, Unpack

import numpy as np
import xarray as xr

import kuq
from kuq.kernels.names import usual_estimator
from kuq.result import OF_ONE_MODEL, OF_POINTS, spread_in_words
from kuq.xarray.applied import Measure
from kuq.xarray.attributes import described, kept_attributes, provenance, units_of
from kuq.xarray.call import Call, Settings, is_of_one_model, prepared, with_draws, with_members
from kuq.xarray.dimensions import AUTO, check_coordinates, check_names, listed
from kuq.xarray.hints import crossing, unused_levels
from kuq.xarray.layout import POINTS, Data, Dimensions, Numbers
from kuq.xarray.partition import Asked, partition
from kuq.xarray.units import check_units
from kuq.xarray.variables import for_each_variable

_PARTS = ("total", "aleatoric", "epistemic")


@for_each_variable
def decompose(
    data: Data,
    score: kuq.Score | str,
    member_dim: Hashable = AUTO,
    sample_dim: Hashable | None = AUTO,
    event_dims: Sequence[Hashable] = (),
    *,
    draws_dim: Hashable | None = None,
    level_dims: Sequence[Hashable] | None = None,
    crossed: bool | Sequence[str] | None = None,
    fixed: str | Sequence[str] = (),
    weights: xr.DataArray | str | None = None,
    estimator: str | None = None,
    directions: int | None = None,
    **settings: Unpack[Settings],
) -> xr.Dataset:
    """Total, aleatoric and epistemic uncertainty of predictions with named dimensions.

    ``data`` is a DataArray of draws, or of point predictions where it has no sample dimension, or
    a Dataset with the parameters of a distribution: ``loc`` and ``scale`` (or ``mean``, ``std``),
    ``df``, ``weights``, ``factor`` and ``diag``, or ``nu``, ``alpha`` and ``beta``. A Dataset may
    also hold several predictions, as variables along members or as ``t2m_mean`` and ``t2m_std``:
    then there are ``t2m_total`` and its like for each, and all other measures have a variable for
    each. Dimensions of usual names are found: member, realization, number, ensemble, model; sample,
    draw.
    ``event_dims`` form one outcome, all others are kept. ``weights`` over the event: a DataArray,
    or "area" for grid cells. Dask arrays stay lazy, and go chunk by chunk through ``to_zarr`` or
    ``compute``. Further options: those of ``kuq.decompose``, ``member_weights``, ``nan_policy``.

    Runs of one model are single values, whose own noise is unknown: a result of them has a
    ``note`` and a ``total``, and the parts of it are missing (NaN). ``draws_dim="number"`` says
    that they are draws: of every model where there are several, and else of one, of which there is
    a ``total`` only, too. ``directions`` are for very many draws of ``event_dims``: random
    directions in place of all pairs, with ``total_standard_error`` and its like in the result.

    ``level_dims=("scenario", "model", "run")`` are dimensions of members, outermost first: the
    result has ``total``, ``noise`` and what each level adds. Each lies inside of those before it,
    unless ``crossed`` names it; ``fixed`` names levels that are there as a whole. Then
    ``member_weights`` is a DataArray along some of them, and ``nan_policy="omit"`` leaves out
    members without a number, so that groups may have different sizes. A result has a ``hint`` where
    inputs are called like levels, or levels look as if they were crossed.

    >>> import kuq, numpy as np, xarray
    >>> loc = xarray.DataArray([[0.0, 1.0], [2.0, 1.0]], dims=("member", "time"))
    >>> data = xarray.Dataset({"loc": loc.assign_attrs(units="K"), "scale": 0 * loc + 1.0})
    >>> u = kuq.xarray.decompose(data, kuq.SquaredError())
    >>> u.epistemic.values.tolist(), u.epistemic.attrs["units"]
    ([4.0, 0.0], 'K^2')
    >>> runs = xarray.DataArray([[0.0, 2.0], [6.0, 8.0]], dims=("model", "run"))
    >>> u = kuq.xarray.decompose(runs, "variance", level_dims=("model", "run"), unbiased=False)
    >>> float(u.model), float(u.run), u.attrs["design"]
    (9.0, 1.0, 'model / run')
    """
    sample_dim = with_draws(sample_dim, draws_dim)
    asked = Dimensions(member_dim, sample_dim, listed(event_dims))
    if level_dims is not None:
        if member_dim != AUTO:
            raise kuq.ParameterError("level_dims name all dimensions of members; omit member_dim")
        if directions is not None:
            raise kuq.ParameterError("level_dims and directions do not go together; omit one")
        levels = Asked(tuple(level_dims), crossed, fixed)
        chosen = estimator or usual_estimator(score)
        u = partition(data, score, levels, asked, weights, chosen, settings)[0]
        omitted = settings.get("nan_policy") == "omit"  # then groups are of their own
        return _hinted(u, "" if omitted else crossing(data, levels.dims, crossed))
    if crossed is not None or fixed != ():
        raise kuq.ParameterError("crossed and fixed are names of levels: level_dims=(...)")
    if is_of_one_model(data, asked, draws_dim):
        if directions is not None:
            raise kuq.ParameterError(
                "directions are for draws of several members, and these are of one model; omit "
                "directions, or use kuq.xarray.entropy(…, member_dim=None, directions=…)"
            )
        one = dataclasses.replace(asked, member=None)
        call = prepared([data], score, one, weights, settings)
        return _hinted(of_one_model(data, call), unused_levels(data, call.layout))
    call = prepared([data], score, with_members(data, asked), weights, settings)
    u = of_members(data, call, estimator or usual_estimator(score), directions)
    return _hinted(u, unused_levels(data, call.layout))


def _hinted(u: xr.Dataset, hint: str) -> xr.Dataset:
    return u.assign_attrs(hint=hint) if hint else u


def of_members(data: Data, call: Call, estimator: str, directions: int | None = None) -> xr.Dataset:
    """The three parts of a call that is prepared."""
    options = {**call.options, "estimator": estimator}
    trial = _trial(call, options, directions)
    names = {name: f"{name} uncertainty" for name in _PARTS}
    if directions is not None:
        options["directions"] = directions
        names |= {
            f"{name}_standard_error": f"standard error of {names[name]} over directions, given the "
            "draws"
            for name in _PARTS
        }
    outputs = [call.outputs(trial.total)] * len(names)
    components = call.measured(partial(_components, call.score, options), outputs)
    units = units_of(call.score, call.operands[0].variables)
    named = {
        name: described(component, words, units).rename(name)
        for (name, words), component in zip(names.items(), components, strict=True)
    }
    history = provenance(
        call.score, trial.method, estimator=estimator, unbiased=options["unbiased"]
    )
    if call.layout.family is POINTS:
        history["note"] = OF_POINTS
        spread = _spread("members", call.score, estimator)
        named["total"] = named["total"].assign_attrs(spread)
        named |= {name: _unknown(named[name]) for name in named if not name.startswith("total")}
    return xr.Dataset(named, attrs={**kept_attributes(data), **history, **call.told})


def _unknown(component: xr.DataArray) -> xr.DataArray:
    """What nobody can tell is missing, as it is in files and tables."""
    missing: xr.DataArray = xr.full_like(component, np.nan)
    return missing.assign_attrs(long_name=f"{component.attrs['long_name']}, unknown")


def _trial(call: Call, options: dict[str, Any], directions: int | None) -> kuq.Uncertainty:
    """What a small prediction gives, by directions if the draws of the data are enough for them."""
    layout, sizes = call.layout, call.operands[0].sizes
    atoms = math.prod(sizes[dim] for dim in (layout.member, layout.sample) if dim is not None)
    if directions is None or layout.sample is None or atoms <= 2 * directions:
        return kuq.decompose(call.trials()[0], call.score, **options, directions=directions)
    fewest = 20
    trial = call.trials(2 * fewest + 1)[0]
    return kuq.decompose(trial, call.score, **options, directions=min(directions, fewest))


def _spread(of: str, score: kuq.Score, estimator: str) -> dict[str, str]:
    """What a total that is not split is called, and what it is."""
    text = spread_in_words(score, estimator, of_one_model=of == "draws")
    return {"long_name": f"spread of the {of}", "comment": text}


def of_one_model(data: Data, call: Call) -> xr.Dataset:
    """The spread of draws: what the model does not know is not in them."""
    units = units_of(call.score, call.operands[0].variables)
    (spread,) = call.measured(*_entropy(call))
    total = described(spread, "total", units)
    parts = {"total": total.assign_attrs(_spread("draws", call.score, "pairwise"))}
    for name in _PARTS[1:]:
        parts[name] = _unknown(described(spread, f"{name} uncertainty", units).rename(name))
    how = provenance(call.score, "samples", unbiased=call.options["unbiased"])
    how |= {"note": OF_ONE_MODEL, **call.told}
    return xr.Dataset(parts, attrs={**kept_attributes(data), **how})


@for_each_variable
def entropy(
    data: Data,
    score: kuq.Score | str,
    member_dim: Hashable | None = AUTO,
    sample_dim: Hashable | None = AUTO,
    event_dims: Sequence[Hashable] = (),
    *,
    draws_dim: Hashable | None = None,
    weights: xr.DataArray | str | None = None,
    directions: int | None = None,
    **settings: Unpack[Settings],
) -> xr.DataArray | xr.Dataset:
    """H(P) of predictions with named dimensions; members are mixed, unless ``member_dim=None``.

    ``draws_dim`` is another name of ``sample_dim``, as in :func:`decompose`. With ``directions``,
    for very many draws of ``event_dims``, the result is a Dataset of ``entropy`` and
    ``entropy_standard_error``.

    >>> import kuq, xarray
    >>> draws = xarray.DataArray([[0.0, 1.0], [0.0, 4.0]], dims=("time", "sample"))
    >>> kuq.xarray.entropy(draws, kuq.CRPS(), unbiased=False).values.tolist()
    [0.25, 1.0]
    """
    dims = Dimensions(member_dim, with_draws(sample_dim, draws_dim), listed(event_dims))
    call = prepared([data], score, dims, weights, settings)
    if directions is None:
        return _described(call.measured(*_entropy(call))[0], "entropy", call)
    options = {**call.options, "directions": directions}
    outputs = call.outputs(kuq.entropy(call.trials()[0], call.score, **options).value)
    estimates = call.measured(partial(_estimated, call.score, options), [outputs] * 2)
    names = ("entropy", "entropy_standard_error")
    named = {name: _described(one, name, call) for name, one in zip(names, estimates, strict=True)}
    named[names[1]].attrs["long_name"] = (
        "standard error of entropy over directions, given the draws"
    )
    return xr.Dataset(named)


def _entropy(call: Call) -> tuple[Measure, list[list[Hashable]]]:
    """The entropy as a measure, and what its result has beside the batch."""
    trial = kuq.entropy(call.trials()[0], call.score, **call.options)
    return partial(_single, kuq.entropy, call.score, call.options), [call.outputs(trial)]


@for_each_variable
def divergence(
    p: Data,
    q: Data,
    score: kuq.Score | str,
    member_dim: Hashable | None = AUTO,
    sample_dim: Hashable | None = AUTO,
    event_dims: Sequence[Hashable] = (),
    *,
    draws_dim: Hashable | None = None,
    weights: xr.DataArray | str | None = None,
    **settings: Unpack[Settings],
) -> xr.DataArray:
    """D(P, Q) of two predictions with named dimensions; members of each are mixed.

    They may have different distributions, members and draws; coordinates of shared dimensions
    must be equal.

    >>> import kuq, xarray
    >>> p = xarray.DataArray([0.0, 1.0], dims="time")
    >>> kuq.xarray.divergence(p, p + 3.0, kuq.Energy()).values.tolist()
    [3.0, 3.0]
    """
    dims = Dimensions(member_dim, with_draws(sample_dim, draws_dim), listed(event_dims))
    if "member_weights" in settings:
        raise kuq.ParameterError("member_weights of which prediction? divergence takes none")
    call = prepared([p, q], score, dims, weights, settings)
    check_coordinates("the predictions", *(v for o in call.operands for v in o.variables.values()))
    check_names("the predictions", *(operand.inputs for operand in call.operands))
    first, second = (operand.variables for operand in call.operands)
    check_units("the prediction", first, "the other", second)
    left, right = call.trials()
    outputs = call.outputs(kuq.divergence(left, right, call.score, **call.options))
    measure = partial(_single, kuq.divergence, call.score, call.options)
    return _described(call.measured(measure, [outputs])[0], "divergence", call)


@for_each_variable
def score(
    data: Data,
    outcome: xr.DataArray,
    score: kuq.Score | str,
    member_dim: Hashable | None = AUTO,
    sample_dim: Hashable | None = AUTO,
    event_dims: Sequence[Hashable] = (),
    *,
    draws_dim: Hashable | None = None,
    weights: xr.DataArray | str | None = None,
    **settings: Unpack[Settings],
) -> xr.DataArray:
    """S(P, y), a loss: how well predictions fit outcomes with the same named dimensions.

    Members are mixed, unless ``member_dim=None`` keeps the loss of each. An ensemble of single
    forecasts as a sample of one distribution: ``sample_dim="number", member_dim=None``.

    >>> import kuq, xarray
    >>> p = xarray.DataArray([[0.0, 2.0]], dims=("time", "number"))
    >>> y = xarray.DataArray([1.0], dims="time")
    >>> kuq.xarray.score(p, y, kuq.CRPS()).values.tolist()
    [0.5]
    """
    if not isinstance(outcome, xr.DataArray):
        raise kuq.ParameterError(f"outcome must be a DataArray, got {type(outcome).__name__}")
    dims = Dimensions(member_dim, with_draws(sample_dim, draws_dim), listed(event_dims))
    if missing := [dim for dim in dims.event if dim not in outcome.dims]:
        raise kuq.ShapeError(f"the outcome lacks the event dimensions {missing}")
    check_coordinates("the prediction and the outcome", data, outcome)
    call = prepared([data], score, dims, weights, settings, outcome)
    if clash := [dim for dim in outcome.dims if dim in call.layout.prediction_dims]:
        raise kuq.ShapeError(f"the outcome must not have the dimensions {clash} of the prediction")
    inputs = [dim for dim in outcome.dims if dim not in dims.event]
    check_names("the prediction and the outcome", call.operands[0].inputs, inputs)
    check_units("the prediction", call.operands[0].variables, "the outcome", outcome)
    (trial,) = call.trials()
    zero = np.zeros(trial.event_shape)
    outputs = call.outputs(kuq.score(trial, zero, call.score, **call.options))
    measure = partial(_single, kuq.score, call.score, call.options)
    return _described(call.measured(measure, [outputs], outcome)[0], "score", call)


@for_each_variable
def member_divergences(
    data: Data,
    score: kuq.Score | str,
    member_dim: Hashable = AUTO,
    sample_dim: Hashable | None = AUTO,
    event_dims: Sequence[Hashable] = (),
    *,
    draws_dim: Hashable | None = None,
    weights: xr.DataArray | str | None = None,
    **settings: Unpack[Settings],
) -> xr.DataArray:
    """D(P_i, P_j) of all members: two dimensions, the second with the name ``other_…``.

    >>> import kuq, xarray
    >>> points = xarray.DataArray([0.0, 1.0, 3.0], dims="number")
    >>> kuq.xarray.member_divergences(points, kuq.Energy()).sel(number=0).values.tolist()
    [0.0, 1.0, 3.0]
    """
    dims = with_members(
        data, Dimensions(member_dim, with_draws(sample_dim, draws_dim), listed(event_dims))
    )
    call = prepared([data], score, dims, weights, settings)
    member = call.layout.member
    if member is None:
        raise kuq.ParameterError("member_divergences needs members, not second-order parameters")
    other = f"other_{member}"
    (trial,) = call.trials()
    assert isinstance(trial, kuq.Ensemble)
    map_dims = call.outputs(kuq.member_divergences(trial, call.score, **call.options)[0, 0])
    (divergences,) = call.measured(
        partial(_matrix, call.score, call.options),
        [[*map_dims, member, other]],
        sizes={other: data.sizes[member]},
    )
    if member in data.coords:
        divergences = divergences.assign_coords({other: (other, data[member].values)})
    return _described(divergences.transpose(member, other, ...), "divergence", call)


def _components(
    score: kuq.Score, options: dict[str, Any], prediction: kuq.Prediction
) -> tuple[Numbers, ...]:
    u = kuq.decompose(prediction, score, **options)
    return u.total, u.aleatoric, u.epistemic, *(u.standard_error or ())


def _single(
    function: Any, score: kuq.Score, options: dict[str, Any], *given: Any
) -> tuple[Numbers, ...]:
    """A function of kuq with one array as its result."""
    return (function(*given, score, **options),)


def _estimated(
    score: kuq.Score, options: dict[str, Any], prediction: kuq.Prediction
) -> tuple[Numbers, ...]:
    """The entropy by random directions, with its standard error."""
    estimate = kuq.entropy(prediction, score, **options)
    return estimate.value, estimate.standard_error


def _matrix(
    score: kuq.Score, options: dict[str, Any], prediction: kuq.Ensemble
) -> tuple[Numbers, ...]:
    matrix = kuq.member_divergences(prediction, score, **options)
    return (np.moveaxis(matrix, (0, 1), (-2, -1)),)


def _described(result: xr.DataArray, name: str, call: Call) -> xr.DataArray:
    units = units_of(call.score, call.operands[0].variables)
    history = provenance(call.score, None, unbiased=call.options["unbiased"])
    return described(result, name, units).assign_attrs(history | call.told)
