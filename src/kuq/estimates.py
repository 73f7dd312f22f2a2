"""Answers by random directions: means over their units, and standard errors over the same."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kuq._array import Array, namespace, safe_sqrt
from kuq.distributions.base import Prediction
from kuq.distributions.laws import Stack, worst_method
from kuq.driver import planned
from kuq.errors import ParameterError
from kuq.kernels.base import Score
from kuq.scores.options import Options
from kuq.views import resolve_bandwidths, staged, views


class Averages(NamedTuple):
    """Means over units and their standard errors."""

    score: Score
    values: list[Array]
    errors: list[Array]
    method: str


def over_directions(
    ask: Callable[..., Sequence[Array]],
    predictions: list[Prediction],
    score: Score,
    options: Options,
) -> Averages:
    """Means over all units of what ``ask(*predictions, score, options)`` says by one of them.

    Every statistic is linear in those of a unit, so that its mean is that over all directions.
    The terms of a score have directions of their own: their errors are independent.
    """
    assert options.directions is not None
    if score.local:
        raise ParameterError(
            f"directions are for kernels; {score!r} asks for densities: leave directions out"
        )
    score = resolve_bandwidths(score, predictions, options)
    means, squares, methods = [], [], []
    for position, term in enumerate(score.parts):
        staged_term, transformed = staged(term, options, predictions)
        directions = options.directions._replace(seed=(options.seed, position))
        seen = views(staged_term, options, *transformed)
        stack = Stack(tuple(group for view in seen for group in view.stack.groups))
        sampled, method = planned(seen[0].score, stack, options)
        units = directions.units(stack.groups[0].atoms.dimension) if sampled else [directions]
        alone = score.changed(parts=(staged_term,))
        of_units = [dataclasses.replace(options, directions=unit) for unit in units]
        mean, square = _spread(functools.partial(ask, *transformed, alone), of_units)
        means.append(mean)
        squares.append(square)
        methods.append(method)
    values, errors = (
        [sum(column[1:], start=column[0]) for column in zip(*rows, strict=True)]
        for rows in (means, squares)
    )
    return Averages(score, values, [safe_sqrt(x) for x in errors], worst_method(*methods))


def _spread(
    ask: Callable[[Options], Sequence[Array]], of_units: Sequence[Options]
) -> tuple[list[Array], list[Array]]:
    """Means over units, and their squared standard errors; one unit at a time is held."""
    means = list(ask(of_units[0]))
    squares = [namespace(mean).zeros_like(mean) for mean in means]
    for seen, options in enumerate(of_units[1:], start=2):
        for k, value in enumerate(ask(options)):
            gap = value - means[k]
            means[k] = means[k] + gap / seen
            squares[k] = squares[k] + gap * (value - means[k])
    count = len(of_units)
    return means, [square / max(1, count * (count - 1)) for square in squares]
