"""A set of quantiles as a distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from kuq._array import adopt, from_numpy, require_finite, require_not_negative
from kuq.distributions.mixture import NormalMixture
from kuq.errors import ParameterError, ShapeError

Floats = NDArray[np.float64]

#: Parts into which every interval between two levels, and every tail, is cut.
_PARTS = 4


def quantiles(levels: Any, values: Any, event_ndim: int = 0) -> NormalMixture:
    """Quantile forecasts as distributions; ``values`` (batch…, event…, levels), increasing.

    Between two levels the quantile function is a straight line; below the first and above the
    last level it is that of the normal through the two outermost quantiles (no tail where a level
    is 0 or 1). This law is cut into four parts per interval and tail, and each part becomes a
    normal of its probability, mean and variance. So mean and variance are exact; entropies and
    divergences are off by less than 0.1 % of the entropy with 3 levels, 0.02 % with 9.

    >>> import kuq
    >>> p = kuq.adapters.quantiles([0.1, 0.5, 0.9], [[-1.0, 0.0, 1.0], [3.0, 5.0, 9.0]])
    >>> p
    NormalMixture(batch=(2,), K=16, event=())
    """
    u = _checked_levels(levels)
    arrays, dtype = adopt(values=values)
    values = arrays["values"]
    if values.ndim == 0 or values.shape[-1] != len(u):
        raise ShapeError(
            f"values must have one entry per level along the last axis ({len(u)}), got shape "
            f"{tuple(values.shape)}"
        )
    require_finite(values=values)
    gaps = values[..., 1:] - values[..., :-1]
    require_not_negative(
        gaps,
        "the step from one quantile to the next",
        "quantiles cross: sort them along the last axis",
    )
    weights, shift, spread = _parts(u)
    loc = values[..., :1] + gaps @ from_numpy(shift, values)
    scale = gaps @ from_numpy(spread, values)
    mixture = NormalMixture(from_numpy(weights, values), loc, scale, event_ndim)
    mixture.dtype = dtype
    return mixture


def _checked_levels(levels: Any) -> Floats:
    u = np.asarray(levels, dtype=np.float64)
    if u.ndim != 1 or len(u) < 2:
        raise ShapeError(f"levels must be a list of at least two numbers, got shape {u.shape}")
    if not (np.all(u >= 0) and np.all(u <= 1) and np.all(np.diff(u) > 0)):
        raise ParameterError(f"levels must lie in [0, 1] and increase, got {u.tolist()}")
    return u


def _parts(u: Floats) -> tuple[Floats, Floats, Floats]:
    """Probabilities of the parts, and means and deviations as matrices that act on the gaps.

    Means are relative to the first quantile. All is linear in the quantiles.
    """
    gaps = len(u) - 1
    weights, shift, spread = [], [], []
    low = _tail(u[0], ndtri(u[0]), ndtri(u[1]))
    high = _tail(1 - u[-1], ndtri(1 - u[-1]), ndtri(1 - u[-2]))  # mirrored
    for share, mean, deviation in low:
        weights.append(share)
        shift.append(-mean * np.eye(gaps)[0])
        spread.append(deviation * np.eye(gaps)[0])
    for j in range(gaps):
        for k in range(_PARTS):
            weights.append((u[j + 1] - u[j]) / _PARTS)
            shift.append((np.arange(gaps) < j) + (k + 0.5) / _PARTS * np.eye(gaps)[j])
            spread.append(np.eye(gaps)[j] / _PARTS / np.sqrt(12))
    for share, mean, deviation in reversed(high):
        weights.append(share)
        shift.append(np.ones(gaps) + mean * np.eye(gaps)[-1])
        spread.append(deviation * np.eye(gaps)[-1])
    return np.asarray(weights), np.stack(shift, axis=1), np.stack(spread, axis=1)


def _tail(mass: float, end: float, inner: float) -> list[tuple[float, float, float]]:
    """Parts of the normal below the quantile at z = ``end``: share, distance and deviation.

    In units of the gap to the next quantile, which lies at z = ``inner``.
    """
    if mass == 0:
        return []
    if not np.isfinite(inner):
        raise ParameterError("a level of 0 or 1 next to a single other level leaves no slope")
    cuts = np.linspace(0.0, mass, _PARTS + 1)
    z = ndtri(cuts)
    density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    inside = np.where(np.isfinite(z), z, 0.0)
    share = mass / _PARTS
    first = -np.diff(density) / share
    second = 1 - np.diff(inside * density) / share
    unit = inner - end
    return [
        (share, (end - m) / unit, float(np.sqrt(max(s - m * m, 0.0))) / unit)
        for m, s in zip(first, second, strict=True)
    ]
