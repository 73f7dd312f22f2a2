"""Empirical laws: draws of any generative model."""

from __future__ import annotations

import math
from typing import Any, ClassVar, final

import numpy as np

from kuq._array import (
    Array,
    adopt,
    all_finite,
    from_numpy,
    is_traced,
    moved_axis,
    namespace,
    require,
    validating,
)
from kuq._numbers import as_whole_number, shown
from kuq.distributions.atoms import Points
from kuq.distributions.base import Distribution, checked_event_ndim, chosen, normalised
from kuq.distributions.laws import Law, draws_of
from kuq.distributions.strays import without_strays
from kuq.errors import ParameterError, ShapeError

_POLICIES = ("raise", "propagate", "omit")


@final
class Samples(Distribution):
    """Draws of any model, for every input N of them.

    ``values`` (batch…, N, event…), the draws. ``event_ndim`` is how many of the last axes form one
    outcome. ``sample_axis`` is the axis of the draws where it is another one. ``weights`` has
    shape (N,) or (batch…, N) and is normalised. ``nan_policy``: "raise", "propagate", or "omit",
    which leaves out a draw as a whole, or per coordinate under a marginal score; where fewer than
    one, or two for unbiased statistics, are left, the result is NaN.

    Draws stand for the law that they come from, and unbiased statistics correct for their number.
    With ``whole=True`` the values are the law itself, such as the training targets in a leaf of a
    tree, and are taken as they are, whatever ``unbiased`` says.

    >>> import kuq, numpy as np
    >>> kuq.Samples(np.zeros((5, 8)))
    Samples(batch=(5,), N=8, event=())
    >>> draws, law = kuq.Samples([0.0, 1.0]), kuq.Samples([0.0, 1.0], whole=True)
    >>> [float(kuq.entropy(p, "variance")) for p in (draws, law)]
    [0.5, 0.25]
    """

    parameters = ("values", "weights")
    widths: ClassVar = {}
    without_density = (
        "use a kernel score such as CRPS(), or fit a Normal or NormalMixture to the draws"
    )
    axes_before_event = 1
    settings = ("whole",)

    def __init__(
        self,
        values: Any,
        event_ndim: int = 0,
        sample_axis: int | None = None,
        weights: Any = None,
        nan_policy: str = "raise",
        whole: bool = False,
    ) -> None:
        if nan_policy not in _POLICIES:
            raise ParameterError(f"nan_policy must be one of {_POLICIES}, got {nan_policy!r}")
        given = {"values": values} if weights is None else {"values": values, "weights": weights}
        arrays, self.dtype = adopt(**given)
        values = arrays["values"]
        self.event_ndim = checked_event_ndim(tuple(values.shape), event_ndim, "Samples")
        self.values = _move_draws(values, self.event_ndim, sample_axis)
        self.nan_policy = nan_policy
        self.whole = bool(whole)
        self._method = "samples"
        self._check_values()
        self.weights = self._normalised(arrays["weights"]) if weights is not None else None

    def _check_values(self) -> None:
        xp = namespace(self.values)
        checked_event_ndim(tuple(self.values.shape), self.event_ndim, "Samples")
        if self.draw_count == 0:
            raise ShapeError(
                f"Samples needs at least one draw, got shape {tuple(self.values.shape)}"
            )
        if not is_traced(self.values) and validating() and all_finite(self.values):
            return
        if self.nan_policy == "raise":
            require(
                ~xp.isnan(self.values),
                "values of Samples",
                "free of NaN",
                self.values,
                "or choose nan_policy='omit' or 'propagate'",
            )
        require(
            ~xp.isinf(self.values),
            "values of Samples",
            "finite",
            self.values,
            "remove infinite draws, or replace them by NaN and choose nan_policy='omit'",
        )

    def _normalised(self, weights: Array) -> Array:
        xp = namespace(weights)
        full = (*self.batch_shape, self.draw_count)
        if tuple(weights.shape) not in (full, full[-1:]):
            raise ShapeError(
                f"weights of Samples must have shape {full[-1:]} or {full}, "
                f"got {tuple(weights.shape)}"
            )
        return xp.broadcast_to(normalised(weights, "weights of Samples"), full)

    def with_values(self, values: Array, event_ndim: int) -> Samples:
        """The same draws and weights with transformed values."""
        out = Samples(values, event_ndim, None, self.weights, self.nan_policy, self.whole)
        out._method = self._method
        return out

    @staticmethod
    def by_monte_carlo(values: Array, event_ndim: int) -> Samples:
        """Draws that stand for a law that is known: always treated by unbiased statistics."""
        out = Samples(values, event_ndim)
        out._method = "monte-carlo"
        return out

    @property
    def draw_count(self) -> int:
        return int(self.values.shape[self.values.ndim - self.event_ndim - 1])

    def mean(self) -> Array:
        law = without_strays(self.law(marginal=True, rtol=0.0))
        return namespace(self.values).sum(law.atom_weights() * draws_of(law)[..., 0], axis=-1)

    def variance(self) -> Array:
        law = without_strays(self.law(marginal=True, rtol=0.0))
        xp, weights = namespace(self.values), law.atom_weights()
        gap = draws_of(law)[..., 0] - self.mean()[..., None]
        gap = gap - xp.sum(weights * gap, axis=-1, keepdims=True)  # what the mean rounded off
        return xp.sum(weights * gap * gap, axis=-1)

    def law(self, marginal: bool, rtol: float) -> Law:
        xp = namespace(self.values)
        shape = self.values.shape
        axis = len(shape) - self.event_ndim - 1
        weights = self.weights
        if marginal:
            value = moved_axis(self.values, axis, -1)[..., None]
            if weights is not None:
                ones = (1,) * self.event_ndim
                spread = xp.reshape(weights, (*self.batch_shape, *ones, self.draw_count))
                weights = xp.broadcast_to(spread, tuple(value.shape[:-1]))
        else:
            value = xp.reshape(self.values, (*shape[: axis + 1], math.prod(shape[axis + 1 :])))
        if self.nan_policy == "omit":
            value, weights = _omit_nan(value, weights)
        return Law(Points(value), weights, drawn=not self.whole, method=self._method)

    def sample(self, draws: int, seed: Any = None) -> Array:
        rng = np.random.default_rng(seed)
        xp = namespace(self.values)
        law = self.law(marginal=False, rtol=0.0)
        uniform = from_numpy(rng.random((*self.batch_shape, draws)), self.values)
        places = chosen(law.atom_weights()[..., None, :], uniform)
        picked = xp.take_along_axis(draws_of(law), places[..., None], axis=-2)
        return xp.reshape(picked, (*self.batch_shape, draws, *self.event_shape))

    def _sizes(self) -> str:
        return f", N={self.draw_count}{', whole=True' if self.whole else ''}"


def _move_draws(values: Array, event_ndim: int, sample_axis: int | None) -> Array:
    """Bring the draw axis right before the event axes."""
    target = values.ndim - event_ndim - 1
    if target < 0:
        raise ShapeError(
            f"Samples with event_ndim={event_ndim} needs a draw axis before the event, "
            f"got shape {tuple(values.shape)}"
        )
    if sample_axis is None:
        return values
    axis = as_whole_number(sample_axis)
    if axis is None:
        raise ParameterError(f"sample_axis must be an integer or None, got {sample_axis!r}")
    if not -values.ndim <= axis < values.ndim:
        raise ShapeError(
            f"sample_axis={shown(sample_axis)} does not exist in an array of shape "
            f"{tuple(values.shape)}; choose one between {-values.ndim} and {values.ndim - 1}"
        )
    return moved_axis(values, axis % values.ndim, target)


def _omit_nan(value: Array, weights: Array | None) -> tuple[Array, Array]:
    """NaN draws get weight zero and the place of a valid draw, which changes no statistic."""
    xp = namespace(value)
    bad = xp.any(xp.isnan(value), axis=-1)
    low = xp.full_like(value, -math.inf)
    stand_in = xp.max(xp.where(bad[..., None], low, value), axis=-2, keepdims=True)
    stand_in = xp.where(xp.isfinite(stand_in), stand_in, xp.full_like(stand_in, math.nan))
    value = xp.where(bad[..., None], stand_in, value)
    base = xp.ones_like(value[..., 0]) if weights is None else weights
    kept = xp.where(bad, xp.zeros_like(base), base)
    total = xp.sum(kept, axis=-1, keepdims=True)
    empty = total <= 0
    kept = kept / xp.where(empty, xp.ones_like(total), total)
    return value, xp.where(empty, xp.full_like(kept, math.nan), kept)
