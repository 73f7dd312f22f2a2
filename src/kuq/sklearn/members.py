"""What the members of a fitted ensemble offer, whatever they are."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kuq

Floats = NDArray[np.float64]


class Members(ABC):
    """Fitted members, each of which gives a distribution for every row of an input."""

    @abstractmethod
    def ensemble(self, X: Any) -> kuq.Ensemble:
        """The predictions for the rows of X."""

    @property
    @abstractmethod
    def numbers_per_row(self) -> int:
        """The most numbers that the predictions for one row hold."""

    def parts(self, X: Any, max_memory: float) -> Iterator[Any]:
        """Rows of X whose predictions take a quarter of the memory; the measures take the rest."""
        count = X.shape[0]
        step = int(max(1, min(count, max_memory / 32 / self.numbers_per_row)))
        for start in range(0, count, step):
            chosen = slice(start, start + step)
            yield X.iloc[chosen] if hasattr(X, "iloc") else X[chosen]

    def decompose(
        self, X: Any, score: kuq.Score, estimator: str, unbiased: bool | str, max_memory: float
    ) -> kuq.Uncertainty:
        """The uncertainty of every row of X, with the predictions of some rows at a time."""
        room = max_memory if has_plain_bandwidths(score) else np.inf
        chunks = [
            kuq.decompose(
                self.ensemble(rows),
                score,
                estimator=estimator,
                unbiased=unbiased,
                max_memory=max_memory,
            )
            for rows in self.parts(X, room)
        ]
        total, aleatoric, epistemic = (np.concatenate([u[k] for u in chunks]) for k in chunks[0])
        return dataclasses.replace(chunks[0], total=total, aleatoric=aleatoric, epistemic=epistemic)


def has_plain_bandwidths(score: kuq.Score) -> bool:
    """Whether a score is the same for all rows: no median over them, no bandwidth for each."""
    if not isinstance(score, kuq.Kernel):
        return True
    widths = (getattr(term.kernel, "bandwidth", None) for term in score.terms())
    return all(width is None or isinstance(width, float) for width in widths)


def as_event(predictions: Floats) -> int:
    """The event axes of predictions (members, rows) or (members, rows, outputs)."""
    return predictions.ndim - 2
