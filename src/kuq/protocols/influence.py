"""Influence functions: the slope of AU and EU as a little weight moves to a new member."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from kuq._array import namespace
from kuq.distributions.base import Distribution
from kuq.distributions.ensemble import Ensemble
from kuq.errors import ParameterError, ShapeError
from kuq.kernels.base import Score
from kuq.protocols.vectors import as_numpy
from kuq.uncertainty import decompose, divergence, entropy


@final
@dataclass(frozen=True, eq=False)
class Influence:
    """IF(θ₀; AU, Q) and IF(θ₀; EU, Q) for every contamination, of shape (contaminations, batch…).

    Both are bounded over all contaminations if the kernel is bounded (the paper's Proposition
    5.3: by 2‖k‖ for AU, 4‖k‖ for pairwise EU), and grow without limit otherwise.
    """

    aleatoric: NDArray[np.float64]
    epistemic: NDArray[np.float64]
    score: Score


def influence_curves(base: Ensemble, contamination: Distribution, score: Score | str) -> Influence:
    """The theoretical influence of one more member on pairwise AU and EU, as a curve.

    lim (M((1−ε)Q + ε δ_P₀) − M(Q)) / ε for Q the members as they are: H(P₀) − AU for AU, and
    mean_m D(P₀, P_m) + mean_m D(P_m, P₀) − 2 EU for EU. ``contamination`` holds the members P₀
    along its first axis, before the batch of ``base``.

    >>> import kuq, numpy as np
    >>> base = kuq.Ensemble(kuq.Normal(np.zeros((5, 1)), 1.0))
    >>> far = kuq.Normal([[0.0], [10.0], [100.0]], 1.0)
    >>> kuq.protocols.influence_curves(base, far, kuq.SquaredError()).epistemic[:, 0].tolist()
    [0.0, 200.0, 20000.0]
    """
    if not isinstance(base, Ensemble):
        raise ParameterError(f"influence_curves needs an Ensemble, got {type(base).__name__}")
    shape = contamination.batch_shape
    if shape[1:] != base.batch_shape or not shape:
        raise ShapeError(
            "contamination needs an axis of members before the batch of base: "
            f"got {contamination!r} beside {base!r}"
        )
    before = decompose(base, score, unbiased=False)
    members = base.member_list()
    weights = (
        np.full(len(members), 1 / len(members))
        if base.weights is None
        else as_numpy(base.weights, "weights")
    )
    apart = np.zeros(shape)
    for weight, member in zip(weights, members, strict=True):
        repeated = _repeated(member, shape[0])
        there = divergence(contamination, repeated, before.score, unbiased=False)
        back = divergence(repeated, contamination, before.score, unbiased=False)
        apart += weight * (as_numpy(there, "divergence") + as_numpy(back, "divergence"))
    spread = as_numpy(entropy(contamination, before.score, unbiased=False), "entropy")
    return Influence(
        aleatoric=spread - as_numpy(before.aleatoric, "AU"),
        epistemic=apart - 2 * as_numpy(before.epistemic, "EU"),
        score=before.score,
    )


def _repeated(member: Distribution, count: int) -> Distribution:
    """The same law ``count`` times along a new first axis, without copying its arrays."""
    return member.mapped(lambda array: namespace(array).broadcast_to(array, (count, *array.shape)))
