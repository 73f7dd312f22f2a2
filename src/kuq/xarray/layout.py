"""How named arrays make a prediction."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

import kuq
from kuq.xarray.dimensions import AUTO, COMPONENT, MEMBER, RANK, SAMPLE, dim_of_role, needed

Numbers = NDArray[Any]
Data = xr.DataArray | xr.Dataset


@dataclass(frozen=True)
class Family:
    """A kind of law: its parameters, and which of them have an axis after the event."""

    build: Callable[..., kuq.Prediction]
    parameters: tuple[str, ...]
    #: Values at which any parameter is valid, for entries that are masked and for trials.
    neutral: tuple[float, ...]
    trailing: tuple[str, ...] = ()
    #: Usual names of the axis after the event, and what it is called.
    usual: tuple[str, ...] = ()
    role: str = ""
    second_order: bool = False


def _low_rank(loc: Numbers, factor: Numbers, diag: Numbers, event_ndim: int) -> kuq.LowRankNormal:
    if event_ndim != 1:
        raise kuq.ShapeError(
            f"a low-rank normal has one event dimension, got {event_ndim}; stack the dimensions "
            'first: data.stack(cell=("lat", "lon"))'
        )
    return kuq.LowRankNormal(loc, factor, diag)


#: The family with most parameters that a Dataset has is the one that is meant.
FAMILIES = (
    Family(
        kuq.NormalInverseGamma,
        ("loc", "nu", "alpha", "beta"),
        (0.0, 1.0, 3.0, 1.0),
        second_order=True,
    ),
    Family(
        kuq.NormalMixture,
        ("weights", "loc", "scale"),
        (1.0, 0.0, 1.0),
        trailing=("weights", "loc", "scale"),
        usual=COMPONENT,
        role="component",
    ),
    Family(
        _low_rank,
        ("loc", "factor", "diag"),
        (0.0, 0.0, 1.0),
        trailing=("factor",),
        usual=RANK,
        role="rank",
    ),
    Family(kuq.StudentT, ("df", "loc", "scale"), (9.0, 0.0, 1.0)),
    Family(kuq.Normal, ("loc", "scale"), (0.0, 1.0)),
)
POINTS = Family(kuq.Point, ("value",), (0.0,))
SAMPLES = Family(kuq.Samples, ("values",), (0.0,))
ALIASES = {"loc": "mean", "scale": "std"}


@dataclass(frozen=True)
class Dimensions:
    """What the caller says about dimensions."""

    member: Hashable | None = AUTO
    sample: Hashable | None = AUTO
    event: tuple[Hashable, ...] = ()
    component: Hashable | None = AUTO
    rank: Hashable | None = AUTO


@dataclass(frozen=True)
class Layout:
    """The family of a prediction, its dimensions, and how to build it from arrays."""

    family: Family
    member: Hashable | None
    sample: Hashable | None
    event: tuple[Hashable, ...]
    trailing: Hashable | None
    #: What NaN means: "raise", "propagate", "omit", or None for masks.
    nan_policy: str | None
    #: Weights of the members, (members,).
    weights: Numbers | None = None
    #: Which cells of the event count, (event…); None if all do.
    cells: Numbers | None = None

    @property
    def prediction_dims(self) -> tuple[Hashable, ...]:
        """The dimensions of a prediction that are none of its event."""
        return tuple(d for d in (self.member, self.sample, self.trailing) if d is not None)

    def dims_of(self, parameter: str) -> tuple[Hashable, ...]:
        """The dimensions that belong to the prediction and not to the batch, in kuq's order."""
        named = (self.member, self.sample, *self.event)
        last = (self.trailing,) if parameter in self.family.trailing else ()
        return tuple(name for name in (*named, *last) if name is not None)

    def core_dims(self, variables: Mapping[str, xr.DataArray]) -> list[list[Hashable]]:
        """Those of them that each variable has."""
        return [
            [dim for dim in self.dims_of(name) if dim in variable.dims]
            for name, variable in variables.items()
        ]

    def prediction(
        self, arrays: Mapping[str, Numbers], core: list[list[Hashable]], batch: tuple[int, ...]
    ) -> kuq.Prediction:
        """Arrays (batch…, dimensions of their own…) as a prediction with this batch."""
        full = [
            self._expanded(name, array, present, len(batch))
            for (name, array), present in zip(arrays.items(), core, strict=True)
        ]
        first = 0 if self.member is None else 1
        stop = first + len(batch)
        return self._built(
            [np.broadcast_to(a, (*a.shape[:first], *batch, *a.shape[stop:])) for a in full]
        )

    def _expanded(
        self, name: str, array: Numbers, present: list[Hashable], batch_ndim: int
    ) -> Numbers:
        """Axes (member, batch…, sample, event…, trailing), of length one where missing."""
        batch_axes = array.ndim - len(present)
        array = array.reshape((1,) * (batch_ndim - batch_axes) + array.shape)
        for place, dim in enumerate(self.dims_of(name)):
            if dim not in present:
                array = np.expand_dims(array, batch_ndim + place)
        return array if self.member is None else np.moveaxis(array, batch_ndim, 0)

    def _built(self, arrays: list[Numbers]) -> kuq.Prediction:
        event_ndim = len(self.event)
        if self.family is SAMPLES:
            policy = self.nan_policy or "raise"
            law: kuq.Prediction = kuq.Samples(arrays[0], event_ndim, nan_policy=policy)
        else:
            law = self.family.build(*arrays, event_ndim)
        if self.member is None:
            return law
        assert isinstance(law, kuq.Distribution)
        return kuq.Ensemble(law, self.weights)

    def trial(
        self, sizes: Mapping[Hashable, int], whole_event: bool, most: int = 3
    ) -> kuq.Prediction:
        """A small prediction of the same kind, with ``most`` members and draws: it tells what a
        call will return.
        """
        rng = np.random.default_rng(0)
        arrays, core = {}, []
        for name, value in zip(self.family.parameters, self.family.neutral, strict=True):
            dims = list(self.dims_of(name))
            shape = []
            for dim in dims:
                few = (
                    1 if dim == self.trailing else most if dim in (self.member, self.sample) else 2
                )
                kept = whole_event and dim in self.event
                shape.append(sizes[dim] if kept else min(few, sizes[dim]))
            varies = name in ("loc", "value", "values", "factor")
            arrays[name] = rng.normal(size=shape) if varies else np.full(shape, value)
            core.append(dims)
        return dataclasses.replace(self, weights=None).prediction(arrays, core, ())


def layout_of(
    data: Data, dims: Dimensions, nan_policy: str | None
) -> tuple[Layout, dict[str, xr.DataArray]]:
    """What a DataArray of draws or points, or a Dataset of parameters, stands for."""
    _check_policy(nan_policy)
    if isinstance(data, xr.DataArray):
        sample = dim_of_role(data.dims, dims.sample, SAMPLE, "sample")
        family = POINTS if sample is None else SAMPLES
        variables = {family.parameters[0]: data}
    elif isinstance(data, xr.Dataset):
        family, variables = _family_of(data)
        sample = None
    else:
        raise kuq.ParameterError(
            f"data must be an xarray DataArray or Dataset, got {type(data).__name__}; for plain "
            "arrays use kuq.decompose"
        )
    if nan_policy == "omit" and family is not SAMPLES:
        what = "single values" if family is POINTS else "parameters"
        raise kuq.ParameterError(
            f'nan_policy="omit" leaves missing draws out, and these are {what}; "propagate" gives '
            "a prediction with missing values no result, and cells that are missing in every "
            "prediction are left out of event_dims anyway"
        )
    member = None
    if not family.second_order:
        others = [dim for dim in data.dims if dim != sample]
        member = dim_of_role(others, dims.member, MEMBER, "member")
    trailing = None
    if family.role:
        asked = dims.component if family.role == "component" else dims.rank
        trailing = needed(data.dims, asked, family.usual, family.role)
    layout = Layout(family, member, sample, dims.event, trailing, nan_policy)
    _check_dims(layout, data)
    return layout, variables


def _check_policy(nan_policy: str | None) -> None:
    if nan_policy not in (None, "raise", "propagate", "omit"):
        raise kuq.ParameterError(
            f'nan_policy must be "raise", "propagate" or "omit", got {nan_policy!r}'
        )


def _family_of(data: xr.Dataset) -> tuple[Family, dict[str, xr.DataArray]]:
    present = {}
    for name in {name for family in FAMILIES for name in family.parameters}:
        given = [n for n in (name, ALIASES.get(name)) if n in data.data_vars]
        if len(given) > 1:
            raise kuq.ParameterError(
                f"the variables {given[0]!r} and {given[1]!r} are both the {name}; remove one"
            )
        if given:
            present[name] = data[given[0]]
    for family in FAMILIES:
        if all(name in present for name in family.parameters):
            return family, {name: present[name] for name in family.parameters}
    wanted = "; ".join(", ".join(family.parameters) for family in FAMILIES)
    raise kuq.ParameterError(
        f"a Dataset needs the parameters of a distribution as variables ({wanted}), got "
        f"{list(data.data_vars)}; for draws pass one variable: dataset[name]"
    )


def _check_dims(layout: Layout, data: Data) -> None:
    for dim in layout.event:
        if dim not in data.dims:
            raise kuq.ShapeError(
                f"event dimension {dim!r} is not a dimension of the data, which has "
                f"{list(data.dims)}"
            )
    every = [*layout.prediction_dims, *layout.event]
    if len(set(every)) < len(every):
        raise kuq.ShapeError(f"a dimension can have one role only, got {every}")
