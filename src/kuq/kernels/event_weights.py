"""Scores with weights over the event."""

from __future__ import annotations

import dataclasses

from kuq._array import Array
from kuq.errors import ParameterError
from kuq.kernels.base import Kernel, Scaled, Score, Sum, Transformed


def weighted(score: Score, weights: Array) -> Kernel:
    """The same score with weights over the event; a weight of zero leaves a coordinate out."""
    if isinstance(score, Sum):
        return Sum(tuple(weighted(kernel, weights) for kernel in score.kernels))
    if isinstance(score, Scaled):
        return Scaled(weighted(score.kernel, weights), score.factor)
    if not isinstance(score, Kernel) or isinstance(score, Transformed):
        raise ParameterError(f"{score!r} takes no weights over the event")
    if score.weights is not None or not dataclasses.is_dataclass(score):
        raise ParameterError(f"{score!r} has weights of its own, or takes none")
    return dataclasses.replace(score, weights=weights)


def unweighted(score: Score) -> Score:
    """The same score without weights over the event, where it has its own."""
    if isinstance(score, Kernel) and score.weights is not None and dataclasses.is_dataclass(score):
        return dataclasses.replace(score, weights=None)
    return score
