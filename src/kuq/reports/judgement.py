"""How good a prediction and its uncertainty were, where outcomes are known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kuq.calibration.outcomes import chances, share_interval, within
from kuq.distributions.base import Prediction
from kuq.errors import KuqError, ParameterError
from kuq.files.decomposed import Decomposed, Part
from kuq.files.roles import listed
from kuq.kernels.base import Score
from kuq.kernels.event_weights import unweighted, weighted
from kuq.kernels.gaussian import Gaussian
from kuq.kernels.log_score import LogScore
from kuq.kernels.marginal import CRPS
from kuq.kernels.names import score_name
from kuq.kernels.squared_error import SquaredError
from kuq.protocols.comparison import RetentionComparison, compare_retention
from kuq.reports.cases import cases, has_draws
from kuq.reports.components import components, shown_parts
from kuq.reports.inputs import equal_everywhere, evenly
from kuq.reports.pit import draws_of, pit_values
from kuq.reports.words import grouped, spelled
from kuq.uncertainty import score

#: Cases that are judged, numbers of the prediction that are looked at for it, and resamples.
_MOST_CASES, _MOST_NUMBERS, _RESAMPLES = 2000, 2**22, 200
#: Fewer cases say nothing about ranks; and places along the first axis that are looked at where
#: one of them would have cases enough.
_FEWEST, _FEWEST_ROWS = 10, 8
#: Below so many cases intervals of the best of many fall short: of nine that know nothing some are
#: said to be behind the best in 12 to 22 % of trials with 60 cases, and in 4 to 8 % with 600.
FEW = 200
#: 95 % of a normal distribution.
_TWO_SIGMA = 1.959963984540054
COVERAGES = np.linspace(0.05, 0.95, 19)


@dataclass(frozen=True, eq=False)
class Judgement:
    """What outcomes say about a prediction, case by case and in all."""

    target: str
    #: Cases that were looked at, and those of the file that have a prediction and an outcome.
    count: int
    #: Losses under the score of the decomposition, squared errors of the mean, per case.
    losses: np.ndarray
    errors: np.ndarray
    #: Where each coordinate of each outcome falls in its distribution: a place drawn at random in
    #: jumps and between draws, and the chances of less, and of no more, without that.
    pit: np.ndarray
    chances: tuple[np.ndarray, np.ndarray]
    #: Uncertainty by "score part" and the comparison of how these rank the errors.
    ranking: RetentionComparison | None
    #: Components of the cases under the score of the decomposition.
    parts: dict[str, np.ndarray]
    #: Whether there are more cases than were looked at.
    thinned: bool
    #: The cases: their positions among all inputs, predictions, and outcomes.
    places: np.ndarray
    prediction: Prediction
    outcomes: np.ndarray
    #: How much each case and each of ``pit`` counts.
    weights: np.ndarray
    pit_weights: np.ndarray
    #: Coordinates of an outcome that were never observed, and do not count.
    unobserved: int = 0

    @property
    def score(self) -> tuple[float, float]:
        """The mean loss and half of its 95 % interval."""
        there = np.isfinite(self.losses)
        losses, weights = self.losses[there], self.weights[there]
        mean = float(np.average(losses, weights=weights))
        n = losses.size
        if n < 2:
            return mean, np.nan
        spread = np.sqrt(n / (n - 1) * np.sum((weights * (losses - mean)) ** 2)) / weights.sum()
        return mean, float(_TWO_SIGMA * spread)

    @property
    def rmse(self) -> float:
        return float(np.sqrt(np.average(self.errors, weights=self.weights)))

    def coverage(self, level: float) -> float:
        """The share of outcomes inside of the central interval of this probability."""
        return self.share(within(*self.chances, level))

    def expected(self, level: float) -> float:
        """The share that lies inside where all is right: between few draws less than the level."""
        n = draws_of(self.prediction)
        if n == 0:
            return level
        first, last = (math.ceil(n * side - 1e-9) for side in ((1 - level) / 2, (1 + level) / 2))
        return (last - first) / (n + 1)

    def coverage_interval(self, level: float) -> tuple[float, float]:
        """The 95 % interval of the coverage, as that of ``kuq.calibration.coverage_curve``."""
        low, high = share_interval(self.coverage(level) * self.size, self.size, 0.95)
        return float(low), float(high)

    def share(self, mask: np.ndarray) -> float:
        """How much some of the coordinates of outcomes are of all."""
        return float(np.average(mask, weights=self.pit_weights))

    @property
    def size(self) -> float:
        """So many coordinates of equal weight would leave as much to chance."""
        return float(self.pit_weights.sum() ** 2 / np.sum(self.pit_weights**2))


def check_outcomes(names: Iterable[Any], y: Any) -> None:
    """Refuse outcomes, by their names, of what is not predicted."""
    named = [str(name) for name in names]
    strange = [str(name) for name in y if str(name) not in named] if hasattr(y, "keys") else []
    if strange:
        raise ParameterError(
            f"y has outcomes of {listed(strange)}, and predicted are {listed(named)}; names have "
            "to be the same"
        )


def judge(one: Decomposed) -> Judgement | None:
    """What outcomes say about a decomposed prediction; None if there are too few of them."""
    if one.target is None:
        return None
    shape = np.asarray(one.uncertainty.total).shape
    rows = shape[0] if shape else 1
    first = one.inputs_at(np.array([0]))
    each = max(1, int(np.size(first.prediction.reference)))
    places = max(1, first.masked.size)
    wanted = max(_FEWEST_ROWS, -(-_MOST_CASES // places))
    most = max(1, min(wanted, _MOST_NUMBERS // each))
    chosen = evenly(rows, most)
    inputs, judged_by, unobserved = _observed(one.inputs_at(chosen), one.uncertainty.score)
    whole = _whole(inputs)
    if whole.size < 2:
        return None
    thinned = len(chosen) < rows or whole.size > _MOST_CASES
    whole = whole[evenly(whole.size, _MOST_CASES)]
    already = _already(one, inputs, whole)
    row, within = np.divmod(whole, places)
    inputs = replace(
        inputs,
        prediction=cases(inputs.prediction, whole),
        outcome=_flat(inputs)[whole],
        weights=None if inputs.weights is None else inputs.weights.ravel()[whole],
    )
    judgement = _judged(one, inputs, judged_by, thinned, already, chosen[row] * places + within)
    return replace(judgement, unobserved=unobserved)


def _already(one: Decomposed, inputs: Part, whole: np.ndarray) -> dict[str, np.ndarray] | None:
    """The components of the cases, where they were computed for all inputs of the part."""
    u = one.uncertainty
    if np.size(u.total) != inputs.masked.size:
        return None
    return {name: np.asarray(u[name], dtype=float).ravel()[whole] for name in u}


def _flat(inputs: Part) -> np.ndarray:
    """Outcomes of all inputs of a part, (inputs, event…)."""
    outcome = inputs.outcome
    assert outcome is not None
    event = outcome.shape[inputs.masked.ndim :]
    return outcome.reshape(-1, *event)


def _observed(inputs: Part, used: Score) -> tuple[Part, Score, int]:
    """The part and the score with those cells only that were ever observed; how many were not."""
    outcome = _flat(inputs)
    counted = np.ones(outcome.shape[1:], dtype=bool) if inputs.cells is None else inputs.cells
    seen = counted & ~np.isnan(outcome).all(axis=0)
    if outcome.ndim == 1 or np.array_equal(seen, counted) or not seen.any():
        return inputs, used, 0
    given = getattr(used, "weights", None)
    weights = seen * (1.0 if given is None else np.asarray(given))
    try:
        judged_by = weighted(unweighted(used), weights * (seen.sum() / weights.sum()))
    except KuqError:  # a score without weights judges whole outcomes only
        return inputs, used, 0
    return replace(inputs, cells=seen), judged_by, int(counted.sum() - seen.sum())


def _whole(inputs: Part) -> np.ndarray:
    """The positions of inputs with a prediction and a whole outcome."""
    missing = np.isnan(_flat(inputs))
    if inputs.cells is not None:
        missing = missing & inputs.cells
    missing = missing.reshape(len(missing), -1).any(axis=1)
    return np.flatnonzero(~inputs.masked.ravel() & ~missing)


def _judged(
    one: Decomposed,
    inputs: Part,
    judged_by: Score,
    thinned: bool,
    parts: dict[str, np.ndarray] | None,
    places: np.ndarray,
) -> Judgement:
    """The judgement of a part that holds cases along one axis, with all of their outcomes."""
    prediction, y = inputs.prediction, inputs.outcome
    assert y is not None
    y = np.where(np.isnan(y), 0.0, y)  # cells that do not count
    weights = np.ones(len(y)) if inputs.weights is None else inputs.weights
    counted = np.ones(y.shape[1:]) if inputs.event_weights is None else inputs.event_weights
    if inputs.cells is not None:
        counted = counted * inputs.cells
    there = counted > 0
    squares = ((np.asarray(prediction.mean()) - y) ** 2)[:, there]
    errors = np.average(squares, axis=1, weights=counted[there])
    pit, below, upto = (
        values[:, there].ravel() for values in (pit_values(prediction, y), *chances(prediction, y))
    )
    used = one.uncertainty.score
    if parts is None:
        parts = components(prediction, used, estimator=one.uncertainty.estimator, **one.options)
    losses = np.asarray(score(prediction, y, judged_by, **one.options), dtype=float)
    if losses.ndim > 1:
        losses = np.average(losses[:, there], axis=1, weights=counted[there])
    shown = shown_parts(one.uncertainty)
    every = {spelled(score_name(unweighted(used))): parts}
    for other in _others(used):
        plain = other if np.all(counted == 1) else weighted(other, counted / counted[there].mean())
        try:
            named = components(prediction, plain, **one.options)
        except KuqError:  # no closed form, no density: it has no place in the table
            continue
        every[_SHORT.get(type(other), "CRPS")] = named
    return Judgement(
        target=str(one.target),
        count=len(y),
        losses=losses,
        errors=errors,
        pit=pit,
        chances=(below, upto),
        ranking=_ranking(every, shown, errors),
        parts=parts,
        thinned=thinned,
        places=places,
        prediction=prediction,
        outcomes=y,
        weights=weights,
        pit_weights=np.outer(weights, counted[there]).ravel(),
    )


_SHORT: dict[type, str] = {
    SquaredError: "squared error",
    Gaussian: "Gaussian kernel",
    LogScore: "log score",
}


def _others(used: Score) -> list[Score]:
    """Scores to compare with: unbounded, of means only, bounded."""
    kinds: list[Score] = [CRPS(), SquaredError(), Gaussian("median")]
    return [
        one
        for one in kinds
        if unweighted(used) != one and not (type(used) is Gaussian is type(one))
    ]


def _ranking(
    every: dict[str, dict[str, np.ndarray]], shown: tuple[str, ...], errors: np.ndarray
) -> RetentionComparison | None:
    named = {
        f"{component if len(shown) > 1 else 'spread'} ({name})": values
        for name, parts in every.items()
        for component, values in parts.items()
        if component in shown
        and values.ndim == 1
        and not np.isnan(values).any()
        and not equal_everywhere(values)
    }
    if errors.size < _FEWEST or not named:
        return None
    try:
        return compare_retention(named, errors, resamples=_RESAMPLES)
    except KuqError:  # all errors are equal
        return None


def how_counted(one: Decomposed, judged: Judgement) -> list[str]:
    """What a reader who compares mean scores has to know of this one, as sentences."""
    u, sentences = one.uncertainty, []
    draws = u.method == "samples" and has_draws(judged.prediction)
    if draws and u.unbiased in (True, "samples"):
        sentences.append("The mean score is fair: corrected for the number of draws.")
    elif not u.is_split:
        sentences.append("The mean score takes the members as they are, whatever their number.")
    if one.input_weights is not None:
        sentences.append(
            "Outcomes count by their area in the score, the error, coverage and PIT values, and "
            "all alike in the ranking of errors."
        )
    if judged.unobserved:
        sentences.append(f"{judged.unobserved} cells were never observed and do not count here.")
    if np.ndim(u.total) > 1:
        sentences.append(
            "The ± of the mean score takes outcomes as independent; where neighbours are not, it "
            "is too small."
        )
    return sentences


def as_good(ranking: RetentionComparison) -> list[str]:
    """What is not known to rank errors worse than the best does."""
    others = (name for name in ranking.curves if name != ranking.best)
    return [name for name in others if not ranking.is_behind(name)]


def may_be_chance(ranking: RetentionComparison) -> bool:
    """Whether the best may rank errors no better than a random choice does."""
    return ranking.intervals[ranking.best][1] >= 1


def summary_of_judgement(one: Decomposed, judged: Judgement | None) -> Iterator[str]:
    """Lines for the command line."""
    if one.target is None:
        return
    if judged is None:
        yield f"judged by {one.target!r}: fewer than two predictions have an outcome without gaps"
        yield ""
        return
    mean, half = judged.score
    thinning = ", evenly spread" if judged.thinned else ""
    yield f"judged by {one.target!r}, {grouped(judged.count)} outcomes{thinning}:"
    yield f"  mean score {mean:.4g} ± {half:.2g} (95 %), root mean squared error {judged.rmse:.4g}"
    yield f"  intervals of 50 % and 90 % hold {100 * judged.coverage(0.5):.0f} % and " + (
        f"{100 * judged.coverage(0.9):.0f} % of the outcomes"
    )
    for sentence in how_counted(one, judged):
        yield f"  {sentence[0].lower()}{sentence[1:-1]}"
    if judged.ranking is not None:
        best = judged.ranking.best
        low, high = judged.ranking.intervals[best]
        chance = ", which may be chance" if may_be_chance(judged.ranking) else ""
        yield f"  errors are ranked best by {best}:"
        yield (
            f"  prediction-rejection ratio {judged.ranking.curves[best].prr:.2f} "
            f"[{low:.2f}, {high:.2f}]; 0 is an oracle, 1 random{chance}"
        )
        count = len(judged.ranking.curves)
        if alike := as_good(judged.ranking):
            yield f"  {len(alike)} of {count - 1} others may be as good"
        if count > 1:
            yield f"  (interval and count allow for choosing the best of {count})"
    yield ""
