"""Normals of high effective dimension: affinities at all scales from a few power sums.

Where no coordinate dominates, φ(t) = E exp(−t‖X−Y‖²) has died out before t times the largest
variance reaches one. So logarithms of affinities are short power series in t, whose coefficients
are sums over the coordinates that are taken once, and not at every scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kuq._array import Array, any_true, detach, namespace, safe_ratio
from kuq.distributions.atoms import Normals
from kuq.expectations.overlap import Overlap

#: More terms cost as much as the sums over coordinates at every scale.
_MOST_TERMS = 12
#: Below it the overhead is not worth it.
_FEWEST_COORDINATES = 32


def terms(rtol: float, *laws: Normals) -> int | None:
    """How many terms of the series give a relative accuracy of rtol/100, None if too many."""
    xp = namespace(laws[0].scale)
    if laws[0].scale.shape[-1] < _FEWEST_COORDINATES:
        return None
    share = xp.max(xp.stack([xp.max(_largest_share(law)) for law in laws]))
    if not any_true(share * _extent(rtol) < 0.5):
        return None
    # At 4tΣσ² = F the error is that of the first term left out, (F·share)^(k−1), times
    # φ ≈ exp(−F/2.2); the product is largest at F = 2.2(k−1).
    for k in range(3, _MOST_TERMS + 1):
        if (0.81 * (k - 1) * float(share)) ** (k - 1) < rtol / 100:
            return k
    return None


def _largest_share(law: Normals) -> Array:
    """The variance of the widest coordinate in units of the sum, (lead…)."""
    xp = namespace(law.scale)
    variance = detach(law.scale * law.scale)
    return safe_ratio(xp.max(variance, axis=-1), xp.sum(variance, axis=-1))


def _extent(rtol: float) -> float:
    """4tΣσ² at which φ is below rtol·1e−4, if 4tσ² is below one half for all coordinates."""
    return 2.6 * math.log(1e4 / rtol)


@dataclass(frozen=True, eq=False)
class LogAffinity:
    """−½ Σ log(1 + ta) as a series in t, with the scale at which it ends."""

    sums: list[Array]
    end: Array

    @staticmethod
    def of(sums: list[Array], rtol: float) -> LogAffinity:
        xp = namespace(sums[0])
        total = detach(sums[0])
        point = total <= 0
        end = _extent(rtol) / xp.where(point, xp.ones_like(total), total)
        return LogAffinity(sums, xp.where(point, xp.full_like(end, math.inf), end))

    def at(self, t: Array) -> Array:
        return _logarithm(self.sums, _before(t, self.end)) / -2


def self_sums(p: Normals, count: int) -> list[Array]:
    """Σ a^k for k = 1, …, count, (lead…) each."""
    xp = namespace(p.scale)
    a = 4 * (p.scale * p.scale)
    power, sums = a, [xp.sum(a, axis=-1)]
    for _ in range(count - 1):
        power = power * a
        sums.append(xp.sum(power, axis=-1))
    return sums


def pair_sums(p: Normals, q: Normals, count: int) -> list[list[Array]]:
    """The same for c^k, even, odd and δ²c^(k−1), where a = 4σ², b = 4τ² and c = (a+b)/2.

    even = (a^k + b^k)/2 − c^k ≥ 0 and odd = (a^k − b^k)/2 follow from k−1 without a
    cancellation.
    """
    xp = namespace(p.scale)
    u = 2 * ((p.scale - q.scale) * (p.scale + q.scale))
    c = 2 * (p.scale * p.scale) + 2 * (q.scale * q.scale)
    delta = p.loc - q.loc
    distance, power, odd, even = delta * delta, c, u, xp.zeros_like(u)
    rows = [[xp.sum(x, axis=-1) for x in (power, even, odd, distance)]]
    for _ in range(count - 1):
        odd, even = c * odd + u * (power + even), c * even + u * odd
        power = c * power
        distance = c * distance
        rows.append([xp.sum(x, axis=-1) for x in (power, even, odd, distance)])
    return [list(column) for column in zip(*rows, strict=True)]


@dataclass(frozen=True, eq=False)
class Expansion:
    """The overlap of two laws as series in t."""

    p: LogAffinity
    q: LogAffinity
    cross: LogAffinity
    gap: list[Array]
    tilt: list[Array]
    shift: list[Array]

    def overlap(self, t: Array) -> Overlap:
        xp = namespace(t)
        both = _before(t, xp.minimum(self.p.end, self.q.end))
        crossed = _before(t, self.cross.end)
        return Overlap(
            log_p=self.p.at(t),
            log_q=self.q.at(t),
            log_c=self.cross.at(t),
            shift=crossed * _alternating(self.shift, crossed, [1.0] * len(self.shift)),
            gap=_logarithm(self.gap, both) / -2,
            tilt=_logarithm(self.tilt, both) / 2,
        )


def _before(t: Array, end: Array) -> Array:
    """Scales at which the series holds; beyond, φ is negligible and may stay as it is."""
    xp = namespace(t)
    return xp.where(t < end, t, end + xp.zeros_like(t))


def _logarithm(sums: list[Array], t: Array) -> Array:
    """Σ_k (−1)^(k+1) S_k t^k / k."""
    return t * _alternating(sums, t, [1 / (k + 1) for k in range(len(sums))])


def _alternating(sums: list[Array], t: Array, factors: list[float]) -> Array:
    """Σ_k S_k f_k (−t)^k by Horner's rule."""
    total = sums[-1] * factors[-1]
    for s, f in zip(reversed(sums[:-1]), reversed(factors[:-1]), strict=True):
        total = s * f - t * total
    return total
