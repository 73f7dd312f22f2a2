"""Random ensembles whose law is known, so that the right uncertainties are known exactly.

Means of members are normal, their scales one of two values; outcomes are scalars or vectors of
independent coordinates. Then every expectation over members is one over normal laws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from kuq.distributions.normal import Normal, Point
from kuq.kernels.base import Kernel, Score
from kuq.kernels.log_score import LogScore
from kuq.uncertainty import entropy, expected_kernel


@final
@dataclass(frozen=True)
class KnownLaw:
    """The law of members N(μ, s²): μ ~ N(0, spread²) in each of ``points`` coordinates.

    ``s`` is one of ``scales`` for a whole member, each with probability one half.
    """

    points: int
    spread: float = 0.7
    scales: tuple[float, float] = (0.5, 1.0)

    @property
    def event_ndim(self) -> int:
        return 1 if self.points > 1 else 0

    def members(self, rng: np.random.Generator, members: int, cases: int) -> Normal:
        """Members of ``cases`` independent ensembles, batch (members, cases)."""
        event = (self.points,) * self.event_ndim
        loc = self.spread * rng.standard_normal((members, cases, *event))
        scale = rng.choice(self.scales, (members, cases, *(1,) * self.event_ndim))
        return Normal(loc, scale, self.event_ndim)

    def aleatoric(self, score: Score) -> float:
        """E H(P): the mean of the entropies of both kinds of member."""
        return float(np.mean([float(entropy(self._normal(s), score)) for s in self.scales]))

    def epistemic(self, score: Score) -> float:
        """E D(P, P′) for two independent members."""
        pairs = [(s, t) for s in self.scales for t in self.scales]
        return float(np.mean([self._divergence(s, t, score) for s, t in pairs]))

    def _divergence(self, s: float, t: float, score: Score) -> float:
        """The expectation over both means of D(N(μ, s²), N(μ′, t²))."""
        if isinstance(score, LogScore):  # KL(N(μ′, t²) ‖ N(μ, s²)), with E(μ − μ′)² = 2 spread²
            square = (t * t + 2 * self.spread**2) / (2 * s * s)
            return self.points * (math.log(s / t) + square - 0.5)
        assert isinstance(score, Kernel)
        gap = math.sqrt(s * s + t * t + 2 * self.spread**2)
        within = (self._kernel_at(math.sqrt(2.0) * scale, score) for scale in (s, t))
        return self._kernel_at(gap, score) - 0.5 * sum(within)

    def _kernel_at(self, scale: float, kernel: Kernel) -> float:
        """E k(0, Z) with Z ~ N(0, scale²): the difference of two outcomes."""
        origin = Point(np.zeros((self.points,) * self.event_ndim), self.event_ndim)
        return float(expected_kernel(origin, self._normal(scale), kernel))

    def _normal(self, scale: float) -> Normal:
        return Normal(np.zeros((self.points,) * self.event_ndim), scale, self.event_ndim)
