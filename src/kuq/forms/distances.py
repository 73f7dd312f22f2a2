"""Draws of vectors under radial kernels: compiled distances, profiles and sums by member."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np

from kuq._array import Array, any_true, detach
from kuq._compiled import twin
from kuq.distributions.atoms import Points
from kuq.distributions.laws import Stack, draws_of, in_one_row
from kuq.forms.form import (
    Differential,
    Differentiated,
    Form,
    Measure,
    Problem,
    Slopes,
    Statistics,
    by_statistics,
)
from kuq.kernels.base import Score
from kuq.kernels.energy import Energy
from kuq.kernels.gaussian import Gaussian
from kuq.kernels.laplace import Laplace
from kuq.kernels.matern import Matern
from kuq.kernels.rational_quadratic import RationalQuadratic

#: Dispersions below this fraction of the distances between members have lost their digits.
_CLOSE = 1e-6
#: Draws and coordinates above which one matrix product is faster than differences.
_MANY_DRAWS, _MANY_COORDINATES = 48, 1500
#: Numbers of one batch entry that may be copied.
_MOST_NUMBERS = 2**18


@final
class Distances(Form, Differentiated):
    def applies(self, problem: Problem) -> bool:
        if not problem.compiled or not problem.only(Points):
            return False
        product = problem.atoms > _MANY_DRAWS and problem.dimension > _MANY_COORDINATES
        product |= problem.atoms * problem.dimension > _MOST_NUMBERS
        return problem.dimension > 1 and not product and profile_of(problem.score) is not None

    def scratch(self, problem: Problem) -> int:
        return problem.atoms * problem.dimension

    def cancels(self, problem: Problem) -> bool:
        return True

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        return _statistics(measure, pooled(stack))

    def differentiates(self, problem: Problem) -> bool:
        return problem.absolute or isinstance(problem.score, Gaussian)

    def differential(self, stack: Stack, wanted: Sequence[bool], asked: np.ndarray) -> Differential:
        shared = pooled(stack)
        sizes = [(law.atoms.lead[0], law.count) for law in stack.groups]
        starts = np.cumsum([0, *(m * count for m, count in sizes)])

        def run(measure: Measure, arrays: Sequence[Array]) -> tuple[np.ndarray, Slopes] | None:
            draws = shared._replace(values=_in_doubles([np.asarray(detach(x)) for x in arrays]))
            entropies, dispersion, lost = _statistics(measure, draws)
            if any_true(lost):
                return None
            profile = profile_of(measure.score)
            assert profile is not None

            def slopes(by_values: Sequence[np.ndarray | None]) -> list[np.ndarray | None]:
                n = len(draws.values)
                *by_members, by_dispersion = by_statistics(asked, by_values, n)
                by_draws = twin("forms.distance_slopes").slopes(
                    profile[0], measure.bandwidth, *draws, np.stack(by_members), by_dispersion
                )
                return [
                    by_draws[:, start : start + m * count]
                    .reshape(n, m, count, -1)
                    .transpose(1, 0, 2, 3)
                    for start, (m, count) in zip(starts, sizes, strict=False)
                ]

            return asked @ np.concatenate([entropies, dispersion[None]]), slopes

        return run


class PooledDraws(NamedTuple):
    """All draws (n, T, d), their weights inside of a member (n, T) or (1, T), owners, weights."""

    values: np.ndarray
    weights: np.ndarray
    owners: np.ndarray
    members: np.ndarray


def pooled(stack: Stack) -> PooledDraws:
    counts = [law.count for law in stack.groups for _ in range(law.atoms.lead[0])]
    if all(law.weights is None for law in stack.groups):
        weights = np.repeat(1 / np.asarray(counts), counts)[None, :]
    else:
        weights = np.ascontiguousarray(in_one_row([law.full_weights() for law in stack.groups]))
    owners = np.repeat(np.arange(len(counts)), counts)
    values = _in_doubles([draws_of(law) for law in stack.groups])
    return PooledDraws(values, weights, owners, stack.member_weights())


def _in_doubles(draws: Sequence[np.ndarray]) -> np.ndarray:
    return np.ascontiguousarray(in_one_row(draws), dtype=np.float64)


def _statistics(measure: Measure, draws: PooledDraws) -> Statistics:
    profile = profile_of(measure.score)
    assert profile is not None
    entropies, dispersion, between = twin("forms.distances").statistics(
        *profile, measure.bandwidth, *draws
    )
    return Statistics(entropies, dispersion, (dispersion <= _CLOSE * between) & (between > 0))


def profile_of(score: Score) -> tuple[str, float] | None:
    """The name and the parameter by which compiled code knows a kernel."""
    if isinstance(score, Energy):
        return ("root", 0.0) if score.beta == 1 else ("power", score.beta)
    if isinstance(score, Gaussian):
        return "bump", 0.0
    if isinstance(score, RationalQuadratic):
        return "rational", score.alpha
    if isinstance(score, Laplace):
        return "exponential", 0.0
    if isinstance(score, Matern):
        names = {0.5: "exponential", 1.5: "matern_3_2", 2.5: "matern_5_2"}
        return (names[score.nu], 0.0) if score.nu in names else None
    return None
