"""How sure the numbers of members that are draws are, in words for a report."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kuq.distributions.ensemble import Ensemble
from kuq.distributions.samples import Samples
from kuq.kernels.base import Kernel, MarginalStage
from kuq.reports.cases import cases
from kuq.reports.inputs import evenly
from kuq.result import MemberTest, Uncertainty
from kuq.standard_errors import FEWEST
from kuq.uncertainty import decompose, member_test, standard_error

#: Kernel values of single coordinates that are worth a line: about a second.
_WORTH = 2**26
#: Sums of these that a test makes, for all of its permutations.
_WORTH_OF_TEST = 2**33
_PERMUTATIONS = 199


@dataclass(frozen=True)
class NoiseOfDraws:
    """At how many of the inputs that were looked at EU is below the noise of so many draws."""

    below: int
    inputs: int
    draws: int

    @property
    def everywhere(self) -> bool:
        return self.below == self.inputs

    def in_words(self) -> str:
        draws = f"{self.draws} draws of each member"
        places = f"{self.inputs} inputs that were looked at"
        if self.below == 0:
            where = "At the input" if self.inputs == 1 else f"At all {places}"
            return (
                f"{where} the epistemic uncertainty is more than twice its standard error over "
                f"draws: {draws} are enough to see it."
            )
        where = "At the input" if self.inputs == 1 else f"At {self.below} of {places}"
        return (
            f"{where} the epistemic uncertainty is below twice its standard error over draws: with "
            f"{draws} it cannot be told from zero there."
        )


def noise_of_draws(
    prediction: object, u: Uncertainty, options: dict[str, Any]
) -> NoiseOfDraws | None:
    """Whether draws are enough to see EU; None where draws are no sample."""
    if u.unbiased not in (True, "samples"):
        return None
    draws = _affordable(prediction, u.score)
    if draws is None or _fewest(draws) < FEWEST:
        return None
    settings = {**options, "estimator": u.estimator}
    settings.pop("directions", None)  # what is affordable needs none
    noise = standard_error(draws, u.score, over="draws", **settings).epistemic
    epistemic = decompose(draws, u.score, **settings).epistemic
    finite = np.isfinite(noise) & np.isfinite(epistemic)
    if not finite.any():
        return None
    below = int((epistemic < 2 * noise)[finite].sum())
    return NoiseOfDraws(below, int(finite.sum()), _fewest(draws))


def same_law(prediction: object, score: object, options: dict[str, Any]) -> MemberTest | None:
    """The test of members that are draws with equal weights, where it is worth its time."""
    draws = _affordable(prediction, score)
    if draws is None or draws.weights is not None or _fewest(draws) < 2 or draws.member_count < 2:
        return None
    if any(law.weights is not None or law.nan_policy == "omit" for law in _laws(draws)):
        return None
    work = _draws(draws) ** 2 * draws.member_count * _PERMUTATIONS
    if work > _WORTH_OF_TEST or not isinstance(score, Kernel):
        return None
    memory = {name: value for name, value in options.items() if name == "max_memory"}
    test = member_test(draws, score, permutations=_PERMUTATIONS, **memory)
    return None if np.isnan(test.p_value) else test


def same_law_in_words(test: MemberTest) -> str:
    p = float(test.p_value)
    if p > 0.05:
        return (
            "Draws of a single law would differ as much between members with a probability of "
            f"{p:.2g} (permutation test): the members cannot be told apart."
        )
    return (
        "The members differ by more than chance of their draws explains "
        f"(permutation test, p {_at_most(p)})."
    )


def apart_in_words(test: MemberTest, member: int) -> str:
    """What a test says of the member that a report names."""
    p = float(test.member_p_values[member])
    if p > 0.05:
        return (
            "But by chance of the draws alone some member would stand as far apart with a "
            f"probability of {p:.2g}."
        )
    return f"That is not by chance of its draws (permutation test, p {_at_most(p)})."


def _at_most(p: float) -> str:
    return f"≤ {p:.2g}" if p <= 1 / (_PERMUTATIONS + 1) else f"= {p:.2g}"


def _laws(prediction: Ensemble) -> list[Samples]:
    return [law for law in prediction.groups if isinstance(law, Samples) and not law.whole]


def _fewest(prediction: Ensemble) -> int:
    return min(law.draw_count for law in _laws(prediction))


def _draws(prediction: Ensemble) -> int:
    """Draws of all members."""
    return sum(law.batch_shape[0] * law.draw_count for law in _laws(prediction))


def _affordable(prediction: object, score: object) -> Ensemble | None:
    """So many inputs of members that are draws as are worth their time, evenly spread."""
    if not isinstance(prediction, Ensemble) or not isinstance(score, Kernel):
        return None
    if len(_laws(prediction)) < len(prediction.groups) or 0 in prediction.batch_shape:
        return None
    stages = (stage for term in score.parts for stage in term.stages)
    marginal = any(isinstance(stage, MarginalStage) for stage in stages)
    each = _draws(prediction) ** 2 * len(score.parts)
    if marginal:
        each *= math.prod(prediction.event_shape)
    most, inputs = _WORTH // each, math.prod(prediction.batch_shape)
    if most == 0:
        return None
    if most >= inputs:
        return prediction
    thinned = cases(prediction, evenly(inputs, most))
    assert isinstance(thinned, Ensemble)
    return thinned
