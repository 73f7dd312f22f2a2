"""Scores and numbers in words."""

from __future__ import annotations

import numpy as np

from kuq.kernels.event_weights import unweighted
from kuq.kernels.names import NAMES, score_name
from kuq.kernels.squared_error import SquaredError
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


def score_in_words(u: Uncertainty) -> str:
    """The score of a result, and its estimator where that changes the numbers."""
    if isinstance(u.score, SquaredError) and u.estimator == "bma":
        return "variance (squared error with estimator bma)"
    plain = unweighted(u.score)
    # Weights of zero and one only leave masked cells out.
    weights = getattr(u.score, "weights", None)
    counts = weights is not None and not np.isin(np.asarray(weights), (0.0, 1.0)).all()
    name = spelled(score_name(plain)) + (", weighted" if counts else "")
    return f"{name}, estimator bma" if u.estimator == "bma" else name


def total_in_words(u: Uncertainty) -> str:
    """What the total is where nothing is split: that differs between members and draws."""
    return spread_in_words(u.score, u.estimator, u.note == OF_ONE_MODEL)


def grouped(count: int) -> str:
    """A count with spaces between thousands."""
    return f"{count:,}".replace(",", " ")
