"""Robustness: how much one corrupted member moves the uncertainties of an ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from kuq.distributions.base import Prediction
from kuq.errors import ParameterError, ShapeError
from kuq.kernels.base import Score
from kuq.protocols.vectors import as_numpy
from kuq.uncertainty import decompose


@final
@dataclass(frozen=True)
class Robustness:
    """Change of aleatoric and epistemic uncertainty against the base ensemble, in percent.

    ``…_mape`` is the mean over inputs of |M(corrupted) − M(base)| / |M(base)|, as in the paper;
    ``…_median`` the median, which a few inputs with a base value near zero cannot spoil (the
    entropy of the log score crosses zero). ``score`` has every bandwidth as a number.
    """

    score: Score
    aleatoric_mape: float
    epistemic_mape: float
    aleatoric_median: float
    epistemic_median: float


def robustness(
    base: Prediction,
    corrupted: Prediction,
    scores: Sequence[Score | str],
    *,
    estimator: str = "pairwise",
    unbiased: bool | str = True,
    draws: int | None = None,
    seed: int | None = None,
) -> list[Robustness]:
    """Percentage errors of AU and EU when ``corrupted`` is used in place of ``base``, per score.

    ``corrupted`` is usually the base ensemble with one member more. A bandwidth of "median" is
    found on ``base`` and kept for ``corrupted``. Where a base value is zero the change counts as
    infinite, or as zero if it stayed zero. Further options are those of ``kuq.decompose``.

    >>> import kuq
    >>> base = kuq.Ensemble(kuq.Normal([[0.0], [2.0]], 1.0))
    >>> worse = kuq.Ensemble(kuq.Normal([[0.0], [2.0], [1.0]], [[1.0], [1.0], [4.0]]))
    >>> [r] = kuq.protocols.robustness(base, worse, [kuq.SquaredError()])
    >>> r.aleatoric_mape, r.epistemic_mape
    (500.0, 50.0)
    """
    if isinstance(scores, (Score, str)):
        raise ParameterError(f"scores must be a list of scores, got {scores!r}; write [{scores!r}]")
    if (base.batch_shape, base.event_shape) != (corrupted.batch_shape, corrupted.event_shape):
        raise ShapeError(
            f"base and corrupted must predict the same cases, got {base!r} and {corrupted!r}"
        )
    records = []
    for score in scores:
        before = decompose(
            base, score, estimator=estimator, unbiased=unbiased, draws=draws, seed=seed
        )
        # The score as it was resolved on the base: a bandwidth must not follow the corruption.
        after = decompose(
            corrupted, before.score, estimator=estimator, unbiased=unbiased, draws=draws, seed=seed
        )
        aleatoric = _percent(before.aleatoric, after.aleatoric)
        epistemic = _percent(before.epistemic, after.epistemic)
        records.append(
            Robustness(
                score=before.score,
                aleatoric_mape=float(np.mean(aleatoric)),
                epistemic_mape=float(np.mean(epistemic)),
                aleatoric_median=float(np.median(aleatoric)),
                epistemic_median=float(np.median(epistemic)),
            )
        )
    return records


def _percent(before: object, after: object) -> np.ndarray:
    base = np.abs(as_numpy(before, "base"))
    gap = np.abs(as_numpy(after, "corrupted") - as_numpy(before, "base"))
    zero = base == 0
    relative = gap / np.where(zero, 1.0, base)
    return np.asarray(100.0 * np.where(zero, np.where(gap == 0, 0.0, np.inf), relative))
