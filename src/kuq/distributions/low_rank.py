"""Multivariate normals with a low-rank plus diagonal covariance."""

from __future__ import annotations

from typing import Any, ClassVar, final

import numpy as np

from kuq._array import (
    Array,
    adopt,
    from_numpy,
    namespace,
    require_finite,
    require_not_negative,
    safe_sqrt,
    widen,
)
from kuq.distributions.atoms import LowRanks, Normals
from kuq.distributions.base import Distribution
from kuq.distributions.laws import Law
from kuq.distributions.log_densities import low_rank_log_density
from kuq.errors import ShapeError


@final
class LowRankNormal(Distribution):
    """N(loc, factor·factorᵀ + diag): vectors whose coordinates depend on each other.

    ``loc`` (…, d) is the mean. ``factor`` (…, d, r) has one column for each of r directions.
    ``diag`` (…, d) are variances ≥ 0, added to those of the factor.

    >>> import kuq, numpy as np
    >>> kuq.LowRankNormal(np.zeros((7, 4)), np.ones((7, 4, 2)), np.ones(4))
    LowRankNormal(batch=(7,), rank=2, event=(4,))
    """

    event_ndim = 1

    parameters = ("loc", "factor", "diag")
    widths: ClassVar = {"factor": 1, "diag": 2}

    def __init__(self, loc: Any, factor: Any, diag: Any) -> None:
        arrays, self.dtype = adopt(loc=loc, factor=factor, diag=diag)
        loc, factor, diag = arrays["loc"], arrays["factor"], arrays["diag"]
        shapes = tuple(tuple(a.shape) for a in (loc, factor, diag))
        remedy = f"expected loc (…, d), factor (…, d, r), diag (…, d), got {shapes}"
        if loc.ndim < 1 or diag.ndim < 1 or factor.ndim < 2:
            raise ShapeError(f"LowRankNormal: {remedy}")
        d = max(loc.shape[-1], diag.shape[-1])
        if factor.shape[-2] != d or {loc.shape[-1], diag.shape[-1]} - {1, d} or d == 0:
            raise ShapeError(f"LowRankNormal: {remedy}")
        try:
            lead = np.broadcast_shapes(loc.shape[:-1], factor.shape[:-2], diag.shape[:-1])
        except ValueError:
            raise ShapeError(f"LowRankNormal: batch axes must broadcast; {remedy}") from None
        xp = namespace(loc)
        self.loc = xp.broadcast_to(loc, (*lead, d))
        self.diag = xp.broadcast_to(diag, (*lead, d))
        self.factor = xp.broadcast_to(factor, (*lead, d, factor.shape[-1]))
        require_finite(**arrays)
        require_not_negative(self.diag, "diag of LowRankNormal", "it holds variances")

    @property
    def is_product(self) -> bool:
        """Whether coordinates are independent: a single one, or a factor without columns."""
        return bool(self.loc.shape[-1] == 1 or self.factor.shape[-1] == 0)

    def mean(self) -> Array:
        return self.loc

    def variance(self) -> Array:
        return LowRanks(self.loc, self.factor, self.diag).variance()

    def law(self, marginal: bool, rtol: float) -> Law:
        if marginal or self.is_product:
            # Close members need the difference of these scales: no rounding to float32 here.
            wide = LowRanks(widen(self.loc), widen(self.factor), widen(self.diag))
            scale = safe_sqrt(wide.variance())
            axes = (..., None, None) if marginal else (..., None, slice(None))
            return Law(Normals(wide.loc[axes], scale[axes]))
        return Law(
            LowRanks(self.loc[..., None, :], self.factor[..., None, :, :], self.diag[..., None, :])
        )

    def log_density(self, x: Array) -> Array:
        x = self._outcomes(x)
        return low_rank_log_density(x, self.loc, self.factor, self.diag)

    def sample(self, draws: int, seed: Any = None) -> Array:
        rng = np.random.default_rng(seed)
        xp = namespace(self.loc)
        rank = self.factor.shape[-1]
        noise = self._variates(draws, rng)
        latent = from_numpy(rng.standard_normal((*self.batch_shape, draws, rank)), self.loc)
        common = xp.matmul(latent, xp.matrix_transpose(self.factor))
        return self.loc[..., None, :] + safe_sqrt(self.diag)[..., None, :] * noise + common

    def _sizes(self) -> str:
        return f", rank={self.factor.shape[-1]}"
