"""Scores and numbers in words."""

from __future__ import annotations

import numpy as np

from kuq.kernels.base import Kernel
from kuq.kernels.event_weights import unweighted
from kuq.kernels.names import NAMES, score_name
from kuq.kernels.squared_error import SquaredError
from kuq.partition import Partition
from kuq.result import OF_ONE_MODEL, Uncertainty, spread_in_words

_SPELLED = {
    "crps": "CRPS",
    "squared": "squared error",
    "log": "log score",
    "energy": "energy score",
    "gaussian": "Gaussian kernel",
    "laplace": "Laplace kernel",
}
_LONGEST = 60
#: How numbers were computed.
METHODS = {
    "exact": "by closed forms",
    "quadrature": "by quadrature, accurate to 1e-8",
    "samples": "from the draws in the prediction",
    "sliced": "from the draws in the prediction, by random directions",
    "monte-carlo": "by Monte Carlo, from draws that kuq made",
}


def spelled(name: str) -> str:
    """The short name of a score as people write it, with a bandwidth of four digits."""
    short, *numbers = name.split(":")
    if short not in NAMES:
        return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
    text = _SPELLED.get(short, short)
    return f"{text} {', '.join(_digits(n) for n in numbers)}" if numbers else text


def _digits(number: str) -> str:
    try:
        return f"{float(number):.4g}"
    except ValueError:
        return number  # median


def facts_of_score(u: Uncertainty | Partition) -> list[str]:
    """What a reader should know of the score of a result."""
    card = u.score.card
    facts = [f"k(x, y) = {card.formula}" if isinstance(u.score, Kernel) else card.formula]
    if card.robust:
        facts.append("bounded, so a single wrong member has limited influence")
    if card.aleatoric_grows_with_spread:
        facts.append("aleatoric uncertainty grows with the spread of a prediction")
    if isinstance(u.score, SquaredError):
        facts.append("only means are compared: members of different shape and equal mean agree")
    return facts


def score_in_words(u: Uncertainty | Partition) -> str:
    """The score of a result, and its estimator where that changes the numbers."""
    if isinstance(u.score, SquaredError) and u.estimator == "bma":
        return "variance (squared error with estimator bma)"
    plain = unweighted(u.score)
    # Weights of zero and one only leave masked cells out.
    weights = getattr(u.score, "weights", None)
    counts = weights is not None and not np.isin(np.asarray(weights), (0.0, 1.0)).all()
    name = spelled(score_name(plain)) + (", weighted" if counts else "")
    return f"{name}, estimator bma" if u.estimator == "bma" else name


def largest_errors(u: Uncertainty) -> str:
    """The largest standard errors over random directions of all inputs."""
    assert u.standard_error is not None
    worst = ((name, np.asarray(error)) for name, error in u.standard_error._asdict().items())
    return ", ".join(f"{name} up to {np.nanmax(error):.2g}" for name, error in worst)


def total_in_words(u: Uncertainty) -> str:
    """What the total is where nothing is split: that differs between members and draws."""
    return spread_in_words(u.score, u.estimator, u.note == OF_ONE_MODEL)


def grouped(count: int) -> str:
    """A count with spaces between thousands."""
    return f"{count:,}".replace(",", " ")
