"""Mixtures of normals, one mixture per coordinate."""

from __future__ import annotations

from typing import Any, ClassVar, final

import numpy as np

from kuq._array import (
    Array,
    adopt,
    broadcast,
    epsilon,
    from_numpy,
    is_array,
    namespace,
    require,
    require_finite,
    require_not_negative,
    require_scale,
)
from kuq.distributions.atoms import Products
from kuq.distributions.base import Distribution, checked_event_ndim, chosen
from kuq.distributions.laws import Law, event_to_atom
from kuq.distributions.log_densities import mixture_log_density, of_coordinates
from kuq.distributions.strays import without_strays
from kuq.errors import ShapeError


def check_simplex(weights: Array, name: str, given: Any) -> None:
    """Check probabilities, which are rounded to the dtype that they were given in."""
    xp = namespace(weights)
    require_not_negative(weights, name, "they are probabilities, not logits")
    total = xp.sum(weights, axis=-1)
    tolerance = 1e-3 if epsilon(weights) > 1e-10 else 1e-6
    if is_array(given) and "16" in str(given.dtype):
        tolerance = 2 * epsilon(given)
    require(
        xp.abs(total - 1) <= tolerance,
        f"the sum of {name}",
        "one",
        total,
        "normalise them, or apply a softmax to logits",
    )


@final
class NormalMixture(Distribution):
    """Mixtures of normals: the component axis is the LAST axis of every parameter.

    Coordinates of an event are independent, each with its own mixture. ``weights`` are
    probabilities that sum to one. ``loc`` and ``scale`` are means and standard deviations.
    ``event_ndim`` counts the axes of one outcome, without that of the components.

    >>> import kuq
    >>> kuq.NormalMixture([[0.5, 0.5]], [[-1.0, 1.0]], 1.0)
    NormalMixture(batch=(1,), K=2, event=())
    """

    parameters = ("loc", "scale", "weights")
    widths: ClassVar = {"scale": 1}
    axes_after_event = 1

    def __init__(self, weights: Any, loc: Any, scale: Any, event_ndim: int = 0) -> None:
        arrays, self.dtype = adopt(weights=weights, loc=loc, scale=scale)
        self.weights, self.loc, self.scale = broadcast(**arrays)
        if self.loc.ndim == 0 or self.loc.shape[-1] == 0:
            raise ShapeError(
                "NormalMixture needs a component axis as the last axis of its parameters, "
                f"got shape {tuple(self.loc.shape)}"
            )
        self.event_ndim = checked_event_ndim(
            tuple(self.loc.shape[:-1]), event_ndim, "NormalMixture"
        )
        require_finite(weights=arrays["weights"], loc=arrays["loc"])
        require_scale(arrays["scale"], self.scale, "NormalMixture")
        check_simplex(self.weights, "weights of NormalMixture", weights)
        xp = namespace(self.weights)
        self.weights = self.weights / xp.sum(self.weights, axis=-1, keepdims=True)

    def mean(self) -> Array:
        return Products(self.loc, self.scale, self.weights).mean()

    def variance(self) -> Array:
        return without_strays(self.law(marginal=True, rtol=0.0)).atoms.variance()[..., 0, 0]

    def law(self, marginal: bool, rtol: float) -> Law:
        def atom(x: Array) -> Array:
            return event_to_atom(x, self.event_ndim, marginal, trailing=1)

        return Law(Products(atom(self.loc), atom(self.scale), atom(self.weights)))

    def log_density(self, x: Array) -> Array:
        x = self._outcomes(x)
        values = mixture_log_density(x, self.weights, self.loc, self.scale)
        return of_coordinates(values, self.event_ndim)

    def sample(self, draws: int, seed: Any = None) -> Array:
        rng = np.random.default_rng(seed)
        xp = namespace(self.loc)
        shape = (*self.batch_shape, draws, *self.event_shape)
        uniform = from_numpy(rng.random(shape), self.loc)
        axis = self.loc.ndim - 1 - self.event_ndim
        weights, *others = (
            xp.expand_dims(a, axis=axis) for a in (self.weights, self.loc, self.scale)
        )
        component = chosen(weights, uniform)[..., None]
        loc, scale = (xp.take_along_axis(a, component, axis=-1)[..., 0] for a in others)
        return loc + scale * self._variates(draws, rng)

    def _sizes(self) -> str:
        return f", K={self.loc.shape[-1]}"
