"""Normals and point masses with independent coordinates."""

from __future__ import annotations

from typing import Any, ClassVar, final

import numpy as np

from kuq._array import Array, adopt, broadcast, namespace, require_finite, require_scale
from kuq.distributions.atoms import Normals, Points
from kuq.distributions.base import Distribution, checked_event_ndim
from kuq.distributions.laws import Law, event_to_atom
from kuq.distributions.log_densities import (
    mixture_log_density,
    of_coordinates,
    point_log_density,
)


@final
class Normal(Distribution):
    """Normal laws with independent coordinates.

    ``loc`` is the mean. ``scale`` is the standard deviation, zero allowed. Both are numbers or
    arrays that broadcast. ``event_ndim`` is how many of the last axes form one outcome.

    >>> import kuq, numpy as np
    >>> kuq.Normal(np.zeros((5, 3)), 1.0, event_ndim=1)
    Normal(batch=(5,), event=(3,))
    """

    parameters = ("loc", "scale")
    widths: ClassVar = {"scale": 1}

    def __init__(self, loc: Any, scale: Any, event_ndim: int = 0) -> None:
        arrays, self.dtype = adopt(loc=loc, scale=scale)
        self.loc, self.scale = broadcast(**arrays)
        self.event_ndim = checked_event_ndim(tuple(self.loc.shape), event_ndim, "Normal")
        require_finite(loc=arrays["loc"])
        require_scale(arrays["scale"], self.scale, "Normal")

    def mean(self) -> Array:
        return self.loc

    def variance(self) -> Array:
        return self.scale * self.scale

    def law(self, marginal: bool, rtol: float) -> Law:
        def atom(x: Array) -> Array:
            return event_to_atom(x, self.event_ndim, marginal)

        return Law(Normals(atom(self.loc), atom(self.scale)))

    def log_density(self, x: Array) -> Array:
        x = self._outcomes(x)
        one = namespace(self.loc).ones_like(self.loc)[..., None]
        values = mixture_log_density(x, one, self.loc[..., None], self.scale[..., None])
        return of_coordinates(values, self.event_ndim)

    def sample(self, draws: int, seed: Any = None) -> Array:
        rng = np.random.default_rng(seed)
        noise = self._variates(draws, rng)
        return self._before_event(self.loc) + self._before_event(self.scale) * noise


@final
class Point(Distribution):
    """A deterministic prediction: the same as a Normal of scale zero.

    >>> import kuq
    >>> float(kuq.score(kuq.Point(1.0), 3.0, kuq.CRPS()))  # the absolute error
    2.0
    """

    parameters = ("value",)
    widths: ClassVar = {}

    def __init__(self, value: Any, event_ndim: int = 0) -> None:
        arrays, self.dtype = adopt(value=value)
        self.value = arrays["value"]
        self.event_ndim = checked_event_ndim(tuple(self.value.shape), event_ndim, "Point")
        require_finite(value=self.value)

    @staticmethod
    def at(outcome: Array, event_ndim: int) -> Point:
        """The point mass at an outcome that has been checked."""
        point = object.__new__(Point)
        point.value, point.event_ndim, point.dtype = outcome, event_ndim, outcome.dtype
        return point

    def mean(self) -> Array:
        return self.value

    def variance(self) -> Array:
        return namespace(self.value).zeros_like(self.value)

    def law(self, marginal: bool, rtol: float) -> Law:
        return Law(Points(event_to_atom(self.value, self.event_ndim, marginal)))

    def log_density(self, x: Array) -> Array:
        x = self._outcomes(x)
        return of_coordinates(point_log_density(x, self.value), self.event_ndim)

    def sample(self, draws: int, seed: Any = None) -> Array:
        shape = (*self.batch_shape, draws, *self.event_shape)
        return namespace(self.value).broadcast_to(self._before_event(self.value), shape)
