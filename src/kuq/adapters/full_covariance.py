"""Normals with a full covariance as low-rank normals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kuq.distributions.low_rank import LowRankNormal
from kuq.distributions.normal import Normal
from kuq.errors import ParameterError


def full_normal(
    loc: NDArray[np.float64], covariance: NDArray[np.float64], event_ndim: int | None
) -> LowRankNormal | Normal:
    """N(loc, S) with S = F Fᵀ + c and c the lowest eigenvalue, so that densities exist.

    With ``event_ndim=0`` every coordinate by itself.
    """
    if event_ndim == 0:
        return Normal(loc, np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1)))
    require_vectors(event_ndim)
    values, vectors = np.linalg.eigh(covariance)
    lowest = np.maximum(values[..., :1], 0.0)
    root = vectors * np.sqrt(np.maximum(values - lowest, 0.0))[..., None, :]
    return LowRankNormal(loc, root, lowest * np.ones(values.shape[-1]))


def require_vectors(event_ndim: int | None) -> None:
    if event_ndim not in (None, 1):
        raise ParameterError(
            f"the event of a multivariate normal is its last axis, got event_ndim = {event_ndim}; "
            "for more axes draw from it and pass kuq.Samples, or take every coordinate by itself: "
            "event_ndim=0"
        )
