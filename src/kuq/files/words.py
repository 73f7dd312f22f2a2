"""Predictions in words, for people."""

from __future__ import annotations

import math
from collections.abc import Mapping

from kuq.distributions.base import Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.samples import Samples

_KINDS = {
    "Normal": "a normal distribution",
    "Point": "a single value",
    "NormalMixture": "a mixture of normal distributions",
    "LowRankNormal": "a multivariate normal distribution",
    "_low_rank": "a multivariate normal distribution",
    "StudentT": "a Student t distribution",
}
#: Values that are a law, and no draws of one.
_WHOLE = "law of values"


def in_words(prediction: Prediction, sizes: Mapping[str, int], event: tuple[str, ...] = ()) -> str:
    """What a prediction is: members, what each of them says, and for which inputs.

    >>> import kuq, numpy as np
    >>> in_words(kuq.Ensemble(kuq.Normal(np.zeros((5, 40)), 1.0)), {"station": 40})
    '5 members, each a normal distribution; 40 predictions by station'
    """
    shape = prediction.event_shape
    names = event or ("",) * len(shape)
    outcome = [f"{n} {name}".strip() for name, n in zip(names, shape, strict=True)]
    return f"{_who(prediction)}; {for_what(sizes, outcome)}"


def of_kind(kind: str, members: int, draws: int | None = None) -> str:
    """So many members, and what each of them is."""
    if draws == 1 and kind == _WHOLE:
        kind, draws = "Point", None
    if draws is not None:
        count = f"{draws} draws" if draws > 1 else "one draw"
        each = f"a law of up to {draws} values" if kind == _WHOLE else f"with {count}"
        return f"{members} members, each {each}"
    return f"{members} members, each {_KINDS.get(kind, kind)}"


def for_what(sizes: Mapping[str, int], outcome: list[str]) -> str:
    """How many predictions there are, along which dimensions, and of how many values each."""
    count = math.prod(sizes.values())
    by = " × ".join(f"{name} ({n})" for name, n in sizes.items())
    if len(sizes) == 1:
        by = next(iter(sizes))
    number = f"{count:,}".replace(",", " ")
    text = f"{number} predictions by {by}" if count > 1 else "one prediction"
    each = ", each" if count > 1 else ""
    return text + (f"{each} of {' × '.join(outcome)} values" if outcome else "")


EVIDENTIAL = "An evidential prediction (normal-inverse-gamma)"


def _who(prediction: Prediction) -> str:
    if not isinstance(prediction, Ensemble):
        return EVIDENTIAL
    kinds = {_kind(law): law for law in prediction.groups}
    if len(kinds) > 1:
        return f"{prediction.member_count} members of different kinds"
    (kind, draws), _ = next(iter(kinds.items()))
    return of_kind(kind, prediction.member_count, draws)


def _kind(law: Prediction) -> tuple[str, int | None]:
    if isinstance(law, Samples):
        return _WHOLE if law.whole else type(law).__name__, law.draw_count
    return type(law).__name__, None


def not_judged(name: str) -> str:
    """What is said of a variable without outcomes beside others that have some."""
    return f"not judged: what happened is not known of {name!r}"
