"""Student-t laws with independent coordinates."""

from __future__ import annotations

import math
from typing import Any, ClassVar, final

import numpy as np

from kuq._array import (
    Array,
    adopt,
    broadcast,
    detach,
    from_numpy,
    is_traced,
    namespace,
    require,
    require_finite,
    require_not_negative,
    widen,
)
from kuq._special import half_step
from kuq.distributions.atoms import Products
from kuq.distributions.base import Distribution, checked_event_ndim
from kuq.distributions.gamma_grid import TRACED_DF, node_count, scale_mixture
from kuq.distributions.laws import Law, event_to_atom
from kuq.distributions.log_densities import of_coordinates, student_log_density
from kuq.distributions.marginals import Components

#: The heaviest tail that is resolved for vectors: the square of t^(−df/2) over all of its scales
#: leaves 1e-7 under Energy(0.4), and nothing under larger powers.
_VECTORS = 0.7


@final
class StudentT(Distribution):
    """Student-t laws with independent coordinates, a mixture of normals over scales inside.

    Measures come by quadrature; variances, the entropy of scalars under the energy kernel and the
    log score are exact. Moments that do not exist are inf: the energy kernel needs df > beta, the
    squared error df > 2. Where values cannot be read (``jax.jit``), df is taken to be at least 0.3,
    and for vectors at least beta + 0.3; closer to the pole than 0.3, divergences then have relative
    errors of 1e-6 under the CRPS, and larger ones for beta < 1. ``df`` are degrees of freedom > 0.
    ``loc`` is the centre. ``scale`` multiplies the standard law, and is no standard deviation.
    ``event_ndim`` is how many of the last axes form one outcome.

    >>> import kuq
    >>> kuq.StudentT(5.0, [0.0, 1.0], 2.0)
    StudentT(batch=(2,), event=())
    """

    expansion = 1024
    parameters = ("loc", "df", "scale")
    widths: ClassVar = {"scale": 1}

    def __init__(self, df: Any, loc: Any, scale: Any, event_ndim: int = 0) -> None:
        arrays, self.dtype = adopt(df=df, loc=loc, scale=scale)
        self.df, self.loc, self.scale = broadcast(**arrays)
        self.event_ndim = checked_event_ndim(tuple(self.loc.shape), event_ndim, "StudentT")
        require_finite(**arrays)
        require(self.df > 0, "df of StudentT", "positive", self.df)
        require_not_negative(self.scale, "scale of StudentT")

    def mean(self) -> Array:
        return self.loc

    def variance(self) -> Array:
        return student_variance(self.df, self.scale)

    def law(self, marginal: bool, rtol: float) -> Law:
        df, loc, scale = widen(self.df), widen(self.loc), widen(self.scale)
        # Where df cannot be read, tails that are heavier than most do not make all others slow;
        # vectors pay for the square of the number of nodes.
        heaviest = self._lowest_df()
        resolved = math.inf if is_traced(self.df) else heaviest
        if self.event_ndim and not marginal:
            resolved = max(resolved, _VECTORS)
        weights, factors = scale_mixture(df, node_count(rtol, resolved))

        def atom(x: Array) -> Array:
            return event_to_atom(x, self.event_ndim, marginal, trailing=1)

        xp = namespace(loc)
        largest = float(xp.finfo(factors.dtype).max)
        require(
            scale < largest / detach(factors[..., -1]),
            "scale of StudentT",
            "small enough for its tails to stay in the range of floats",
            scale,
            "divide outcomes and predictions by their size",
        )
        loc = xp.broadcast_to(loc[..., None], weights.shape)
        products = Products(atom(loc), atom(scale[..., None] * factors), atom(weights), heaviest)
        tail = event_to_atom(df, self.event_ndim, marginal)[..., 0, :]
        return Law(products, method="quadrature", tail=tail)

    def _lowest_df(self) -> float:
        if is_traced(self.df):
            return TRACED_DF
        df = detach(self.df)
        return math.inf if math.prod(df.shape) == 0 else float(namespace(df).min(df))

    def _own_components(self) -> tuple[Components, ...]:
        return (Components.of_student(self.df, self.loc, self.scale),)

    def log_density(self, x: Array) -> Array:
        x = self._outcomes(x)
        values = student_log_density(x, self.df, self.loc, self.scale)
        return of_coordinates(values, self.event_ndim)

    def differential_entropy(self) -> Array:
        df, scale = widen(self.df), widen(self.scale)
        half = df / 2
        xp = namespace(half)
        step, slope = half_step(half)
        shape = (half + 0.5) * slope - step + xp.log(df * math.pi) / 2
        point = scale == 0
        log_scale = xp.log(xp.where(point, xp.ones_like(half), scale))
        values = xp.where(point, xp.full_like(half, -math.inf), shape + log_scale)
        axes = tuple(range(values.ndim - self.event_ndim, values.ndim))
        return xp.sum(values, axis=axes) if axes else values

    def sample(self, draws: int, seed: Any = None) -> Array:
        """Draws by Bailey's polar method: two of these coordinates lie at a radius R, with
        (1 + R²/df)^(−df/2) uniform, and an angle that is uniform, too. Nothing is rejected."""
        rng = np.random.default_rng(seed)
        shape = (*self.batch_shape, draws, *self.event_shape)
        below, turn = (from_numpy(1 - rng.random(shape), self.loc) for _ in range(2))
        xp = namespace(self.loc)
        df = self._before_event(self.df)
        radius = xp.sqrt(df * xp.expm1(-2 * xp.log(below) / df))
        variates = radius * xp.cos(2 * math.pi * turn)
        return self._before_event(self.loc) + self._before_event(self.scale) * variates


def student_variance(df: Array, scale: Array) -> Array:
    """Infinite where df ≤ 2."""
    xp = namespace(df)
    exists = df > 2
    safe = xp.where(exists, df, xp.full_like(df, 3.0))
    return xp.where(exists, scale * scale * (safe / (safe - 2)), xp.full_like(df, math.inf))
