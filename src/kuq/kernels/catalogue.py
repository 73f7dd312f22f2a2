"""The kernels that come with kuq, and the table of their cards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kuq.kernels.base import Score
from kuq.kernels.card import KernelCards
from kuq.kernels.energy import Energy
from kuq.kernels.gaussian import Gaussian
from kuq.kernels.laplace import Laplace
from kuq.kernels.log_score import LogScore
from kuq.kernels.marginal import CRPS
from kuq.kernels.matern import Matern
from kuq.kernels.needs import asked, reasons, structured, why_none
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


def kernel_cards(
    scores: Sequence[Score] | None = None, *, need: str | Iterable[str] | None = None
) -> KernelCards:
    """The facts of scores as a table: by default of all that come with kuq.

    With ``need``, such as "robust,shape", those that meet every need, and why; the needs are
    robust, spread, shape, dependence, tails, units, no-bandwidth, samples, exact, fields, graphs.

    >>> import kuq
    >>> [card.name for card in kuq.kernel_cards([kuq.Energy()]) if card.aleatoric_grows_with_spread]
    ['Energy(1)']
    >>> print(kuq.kernel_cards(need="spread,shape"))
    Energy(1)  convex: aleatoric uncertainty grows when a prediction spreads out
               tells apart members of equal mean and different shape
    CRPS       convex: aleatoric uncertainty grows when a prediction spreads out
               tells apart members of equal mean and different shape
    """
    if need is None:
        return KernelCards([score.card for score in (catalogue() if scores is None else scores)])
    needs = asked(need)
    candidates = (*catalogue(), *structured()) if scores is None else scores
    answers = [(score.card, reasons(score, needs)) for score in candidates]
    fitting = [(card, why) for card, why in answers if why is not None]
    return KernelCards(
        [card for card, _ in fitting],
        reasons=[why for _, why in fitting],
        otherwise=why_none(needs),
    )
