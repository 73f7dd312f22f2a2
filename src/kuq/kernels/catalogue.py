"""The kernels that come with kuq, and the table of their cards."""

from __future__ import annotations

from collections.abc import Sequence

from kuq.kernels.base import Score
from kuq.kernels.card import KernelCards
from kuq.kernels.energy import Energy
from kuq.kernels.gaussian import Gaussian
from kuq.kernels.laplace import Laplace
from kuq.kernels.log_score import LogScore
from kuq.kernels.marginal import CRPS
from kuq.kernels.matern import Matern
from kuq.kernels.rational_quadratic import InverseMultiquadric, RationalQuadratic
from kuq.kernels.squared_error import SquaredError


def catalogue() -> tuple[Score, ...]:
    """One instance of every score, at unit bandwidth."""
    return (
        SquaredError(),
        Energy(),
        Energy(0.5),
        CRPS(),
        Gaussian(1.0),
        Laplace(1.0),
        InverseMultiquadric(1.0),
        RationalQuadratic(1.0, 1.0),
        Matern(1.0, 1.5),
        LogScore(),
    )


def kernel_cards(scores: Sequence[Score] | None = None) -> KernelCards:
    """The facts of scores as a table: by default of all that come with kuq.

    >>> import kuq
    >>> [card.name for card in kuq.kernel_cards([kuq.Energy()]) if card.aleatoric_grows_with_spread]
    ['Energy(1)']
    """
    return KernelCards([score.card for score in (catalogue() if scores is None else scores)])
