"""The components of a prediction, of those that it has."""

from __future__ import annotations

from typing import Any

import numpy as np

from kuq.distributions.base import Distribution, Prediction
from kuq.files.output_marks import PARTS
from kuq.kernels.base import Kernel, Score
from kuq.kernels.energy import Energy
from kuq.kernels.marginal import CRPS, Marginal
from kuq.kernels.names import score_name
from kuq.reports.words import spelled
from kuq.result import Uncertainty
from kuq.uncertainty import decompose, entropy


def shown_parts(u: Uncertainty) -> tuple[str, ...]:
    """The components; of a spread that cannot be split only the total."""
    return PARTS if u.is_split else ("total",)


def components(prediction: Prediction, score: Score, **options: Any) -> dict[str, np.ndarray]:
    """Total, aleatoric and epistemic uncertainty; of draws of one model only the total."""
    if isinstance(prediction, Distribution):
        options.pop("estimator", None)
        return {"total": np.asarray(entropy(prediction, score, **options), dtype=float)}
    u = decompose(prediction, score, **options)
    return {component: np.asarray(u[component], dtype=float) for component in PARTS}


def cell_kernel(score: object) -> Marginal:
    """A score of every cell of a field: with the kernel of the score if that is a plain one."""
    base = next(score.terms()).kernel if isinstance(score, Kernel) else None
    bandwidth = getattr(base, "bandwidth", None)
    if base is None or base.weights is not None or not isinstance(bandwidth, (float, type(None))):
        base = CRPS().kernel
    return Marginal(base, reduce=None)


def named_by_cell(kernel: Marginal) -> str:
    return "CRPS" if kernel.kernel == Energy() else spelled(score_name(kernel.kernel))
