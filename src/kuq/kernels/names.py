"""Scores by name, wherever a score is expected: ``crps``, ``gaussian:0.5``."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from kuq.errors import ParameterError
from kuq.kernels.base import Bounded, Score, Sum
from kuq.kernels.energy import Energy
from kuq.kernels.gaussian import Gaussian
from kuq.kernels.laplace import Laplace
from kuq.kernels.log_score import LogScore
from kuq.kernels.marginal import CRPS
from kuq.kernels.matern import Matern
from kuq.kernels.multi_scale import multi_scale
from kuq.kernels.parameters import median_factor
from kuq.kernels.rational_quadratic import InverseMultiquadric, RationalQuadratic
from kuq.kernels.squared_error import SquaredError


@dataclass(frozen=True)
class _Form:
    """How a score is written: its parameters, the first of which may be a bandwidth."""

    make: Callable[..., Score]
    most: int = 0
    bandwidth: bool = False
    example: str = ""
    estimator: str = "pairwise"


_FORMS: dict[str, _Form] = {
    "crps": _Form(CRPS, example="crps"),
    "energy": _Form(Energy, most=1, example="energy or energy:1.5 (the power)"),
    "squared": _Form(SquaredError, example="squared"),
    "variance": _Form(SquaredError, example="variance", estimator="bma"),
    "log": _Form(LogScore, example="log"),
    "gaussian": _Form(Gaussian, 1, True, "gaussian:0.5, gaussian:median or gaussian:multi"),
    "laplace": _Form(Laplace, 1, True, "laplace:0.5 or laplace:median"),
    "imq": _Form(InverseMultiquadric, 1, True, "imq:0.5 or imq:median"),
    "rational": _Form(RationalQuadratic, 2, True, "rational:0.5 or rational:median:1.5 (alpha)"),
    "matern": _Form(Matern, 2, True, "matern:0.5 or matern:median:2.5 (nu)"),
}
NAMES = tuple(_FORMS)


def as_score(value: Score | str) -> Score:
    """A score as it is, or the one of a name.

    >>> from kuq.kernels.names import as_score
    >>> as_score("gaussian:0.5")
    Gaussian(bandwidth=0.5)
    """
    if isinstance(value, Score):
        return value
    if isinstance(value, str):
        return _parsed(value)
    hint = " (an instance is needed: CRPS(), not CRPS)" if callable(value) else ""
    raise ParameterError(
        f'score must be a kuq score such as CRPS(), or a name such as "crps", got {value!r}{hint}'
    )


@functools.lru_cache(maxsize=256)
def _parsed(text: str) -> Score:
    return parse_score(text)


def parse_score(text: str) -> Score:
    """The score of a name such as "crps", "energy", "squared", "log", "gaussian:0.5".

    Parameters follow after colons; a bandwidth is a number, "median", a multiple such as
    "median*0.5", or "multi" for several around the median (``multi:0.5``: around a number).

    >>> from kuq.kernels.names import parse_score
    >>> parse_score("gaussian:0.5"), parse_score("laplace:median")
    (Gaussian(bandwidth=0.5), Laplace(bandwidth='median'))
    """
    name, *given = text.strip().lower().split(":")
    form = _FORMS.get(name)
    if form is None:
        raise ParameterError(f"a score by name is one of {', '.join(NAMES)}; got {text!r}")
    several = form.bandwidth and given[:1] == ["multi"]
    if several:
        given = given[1:] or ["median"]
    if len(given) > form.most or (form.bandwidth and not given):
        raise ParameterError(f"the score {name!r} is written {form.example}; got {text!r}")
    values = [
        word if form.bandwidth and place == 0 and median_factor(word) else _number(word, text)
        for place, word in enumerate(given)
    ]
    score = form.make(*values)
    return multi_scale(cast(Bounded, score)) if several else score


def usual_estimator(score: Score | str) -> str:
    """The estimator that the name of a score asks for; pairwise for a score itself.

    ``variance`` is the squared error whose epistemic part is the variance of the members' means,
    as everybody knows it; pairwise it would be twice that.

    >>> from kuq.kernels.names import usual_estimator
    >>> usual_estimator("variance"), usual_estimator("squared")
    ('bma', 'pairwise')
    """
    if not isinstance(score, str):
        return "pairwise"
    parse_score(score)  # or an error
    return _FORMS[score.strip().lower().split(":")[0]].estimator


def usual_score(*, on_grid: bool) -> Score:
    """The score of an uncertainty for which none is named.

    The CRPS, of vectors the mean over their coordinates; the energy score where outcomes are
    functions or images, whose points belong together.

    >>> from kuq.kernels.names import usual_score
    >>> usual_score(on_grid=False), usual_score(on_grid=True)
    (CRPS(), Energy(beta=1.0))
    """
    return Energy() if on_grid else CRPS()


def score_name(score: Score) -> str:
    """The short name of a score that :func:`parse_score` can read, or else how it prints.

    >>> import kuq
    >>> from kuq.kernels.names import score_name
    >>> score_name(kuq.Gaussian(0.5)), score_name(kuq.CRPS())
    ('gaussian:0.5', 'crps')
    """
    for name in ("crps", "squared", "log", "energy"):
        if score == parse_score(name):
            return name
    if getattr(score, "weights", None) is None:
        if isinstance(score, Energy):
            return f"energy:{score.beta!r}"
        if isinstance(score, (Gaussian, Laplace)) and isinstance(score.bandwidth, (float, str)):
            return f"{type(score).__name__.lower()}:{score.bandwidth}"
    if isinstance(score, Sum):
        middle = score.parts[len(score.parts) // 2].score
        if isinstance(middle, (Gaussian, Laplace)) and score == multi_scale(middle):
            name, *width = score_name(middle).split(":")
            return ":".join([name, "multi", *width]).removesuffix(":median")
    return repr(score)


def _number(word: str, text: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ParameterError(f"{word!r} in the score {text!r} is not a number")
    return value
