"""Selective prediction: what is gained by answering only where the uncertainty is low."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from kuq.errors import InsufficientDataError, ParameterError, ShapeError
from kuq.protocols.vectors import Vector, one_per_case


@final
@dataclass(frozen=True, eq=False)
class SelectivePrediction:
    """A retention curve and how close it comes to the best possible one.

    ``risk[i]`` is the mean error over the share ``retention[i]`` of cases with the lowest
    uncertainty, ``oracle`` the same with cases in the order of their errors, ``random`` the mean
    error of all. Areas are over ``retention``. ``prr`` is the paper's prediction-rejection ratio:
    0 for the oracle, 1 for random rejection, above 1 for worse than random, NaN if all errors are
    equal. ``prr_full`` is the same over retentions from 0 to 1.
    """

    retention: Vector
    risk: Vector
    oracle: Vector
    random: Vector
    area: float
    oracle_area: float
    random_area: float
    prr: float
    prr_full: float

    @property
    def prr_positive(self) -> float:
        """1 − ``prr``, the orientation that is common elsewhere: 1 oracle, 0 random."""
        return 1.0 - self.prr

    @property
    def prr_full_positive(self) -> float:
        """1 − ``prr_full``."""
        return 1.0 - self.prr_full


def selective_prediction(
    uncertainty: Any, error: Any, retention: tuple[float, float] = (0.5, 1.0)
) -> SelectivePrediction:
    """Reject the most uncertain cases first: retention curve and prediction-rejection ratio.

    ``uncertainty`` and ``error`` (such as squared errors) have one number per case. The curve is
    R(r) = mean error of the ceil(r·n) least uncertain, at r = k/n within ``retention``, and
    PRR = (A − A_oracle) / (A_random − A_oracle) by trapezoid areas. Cases of equal uncertainty
    count as being in random order: the expectation over all orders is exact.

    >>> import kuq
    >>> r = kuq.protocols.selective_prediction([1, 2, 3, 4], [0.0, 1.0, 5.0, 2.0])
    >>> r.risk.tolist(), r.oracle.tolist(), round(r.prr, 4)
    ([0.5, 2.0, 2.0], [0.5, 1.0, 2.0], 0.5714)
    """
    u = one_per_case(uncertainty, "uncertainty", infinite=True)
    e = one_per_case(error, "error")
    if u.shape != e.shape:
        raise ShapeError(
            f"uncertainty and error need one number for each case, got {u.size} and {e.size}"
        )
    low, high = retention
    if not 0 <= low < high <= 1:
        raise ParameterError(f"retention must be 0 ≤ low < high ≤ 1, got {retention!r}")
    if u.size < 2:
        raise InsufficientDataError("selective prediction needs at least two cases, got one")
    risk, oracle = _risks(u, e), _risks(e, e)
    inside = _within(u.size, low, high)
    shares = np.arange(1, u.size + 1)[inside] / u.size
    random = np.full(shares.size, e.mean())
    area, best, chance = (
        float(np.trapezoid(curve, shares)) for curve in (risk[inside], oracle[inside], random)
    )
    return SelectivePrediction(
        retention=shares,
        risk=risk[inside],
        oracle=oracle[inside],
        random=random,
        area=area,
        oracle_area=best,
        random_area=chance,
        prr=_ratio(area, best, chance, e),
        prr_full=_full_ratio(risk, oracle, e),
    )


def _risks(order: Vector, error: Vector) -> Vector:
    """Mean error of the k least uncertain for k = 1…n, in expectation over orders of ties."""
    _, group, count = np.unique(order, return_inverse=True, return_counts=True)
    # Cases of one group are exchangeable: each place in it has the group's mean error.
    mean = np.bincount(group, weights=error) / count
    return np.asarray(np.cumsum(np.repeat(mean, count)) / np.arange(1, error.size + 1))


def _within(n: int, low: float, high: float) -> slice:
    # The guard keeps 0.7·10 = 7.000000000000001 from skipping a case.
    first = max(1, math.ceil(low * n - 1e-9))
    last = math.floor(high * n + 1e-9)
    if last - first < 1:
        raise InsufficientDataError(
            f"between retention {low} and {high} lie fewer than two of {n} cases; "
            "widen the range or bring more cases"
        )
    return slice(first - 1, last)


def _ratio(area: float, best: float, chance: float, error: Vector) -> float:
    gap = chance - best
    # Below rounding of the sums there is nothing to gain, and no ratio.
    if gap <= 8 * np.finfo(np.float64).eps * float(np.abs(error).max()):
        return math.nan
    return (area - best) / gap


def _full_ratio(risk: Vector, oracle: Vector, error: Vector) -> float:
    shares = np.arange(1, error.size + 1) / error.size
    area, best = (float(np.trapezoid(curve, shares)) for curve in (risk, oracle))
    return _ratio(area, best, float(error.mean() * (shares[-1] - shares[0])), error)
