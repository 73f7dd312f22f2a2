"""The right score for a task: scores compared on outcomes that no model has seen, with intervals.

A score is chosen only if it is better than the usual one beyond noise, and what the choice will
reach on new data is measured on cases that it was not made on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from kuq._numbers import whole_number
from kuq.distributions.ensemble import Ensemble
from kuq.errors import InsufficientDataError, KuqError, ParameterError, ShapeError
from kuq.kernels.base import Score
from kuq.kernels.names import as_score, score_name, usual_estimator
from kuq.protocols.resampling import Units, gain_bounds
from kuq.protocols.vectors import Vector, as_numpy, fraction, one_per_case
from kuq.uncertainty import decompose

Counts = NDArray[np.float64]

#: Kernels at several bandwidths around the median distance, and their mean.
_KERNELS = (
    "squared",
    *(f"gaussian:median*{factor:g}" for factor in (0.25, 0.5, 1, 2, 4)),
    "gaussian:multi",
    "laplace:median",
    "laplace:multi",
)
_FOLDS = 5
_FEWEST = 4 * _FOLDS
#: Of the cases that could be labelled, the share that is.
_LABELLED = 0.1
_SHARES = np.linspace(0.5, 1.0, 101)


@final
@dataclass(frozen=True)
class CandidateResult:
    """What one score reaches. ``gain`` is how much better it is than the usual one, the first.

    Intervals are of the bootstrap; those of gains are paired, and hold for all candidates at once;
    their lower ends for all that are not plainly worse than the usual score.
    """

    name: str
    value: float
    interval: tuple[float, float]
    gain: float
    gain_interval: tuple[float, float]


@final
@dataclass(frozen=True, eq=False)
class ScoreSelection:
    """The score for a task, what all candidates reach, and what to expect on new data.

    ``expected`` and ``expected_gain`` are measured on parts of the cases after choosing on the
    others: no case judges a choice that it took part in. ``skipped`` says why scores of the usual
    list could not be tried.
    """

    task: str
    measure: str
    score: Score
    name: str
    table: tuple[CandidateResult, ...]
    expected: float
    expected_gain: float
    chosen_in_folds: tuple[str, ...]
    skipped: Mapping[str, str]
    cases: int
    confidence: float

    @property
    def usual(self) -> str:
        """The score that is taken unless another one is better beyond noise."""
        return self.table[0].name

    def to_frame(self) -> Any:
        """A pandas table with a row for every candidate."""
        import pandas as pd

        rows = [
            {
                "score": row.name,
                self.measure: row.value,
                "low": row.interval[0],
                "high": row.interval[1],
                "gain": row.gain,
                "gain_low": row.gain_interval[0],
                "gain_high": row.gain_interval[1],
                "chosen": row.name == self.name,
            }
            for row in self.table
        ]
        return pd.DataFrame(rows).set_index("score")

    def __repr__(self) -> str:
        width = max(len(row.name) for row in self.table) + 2
        lines = [
            f"ScoreSelection for {self.task}, {self.cases} cases: {self.name}",
            f"{'':{width}}{self.measure:>24}  {f'gain over {self.usual}':>24}",
        ]
        for row in self.table:
            low, high = row.gain_interval
            mark = "*" if row.name == self.name else " "
            gain = f"{row.gain:+.3f} [{low:+.3f}, {high:+.3f}]" if row.name != self.usual else ""
            line = f"{mark} {row.name:{width - 2}}{row.value:>24.3f}  {gain:>24}"
            lines.append(line.rstrip())
        lines.append(
            f"on new data expect {self.expected:.3f}, {self.expected_gain:+.3f} over {self.usual}"
        )
        return "\n".join(lines)


def select_score(
    prediction: Any,
    y: Any = None,
    task: str = "ranking",
    *,
    candidates: Sequence[Score | str] | None = None,
    outside: Any = None,
    groups: Any = None,
    tie: float = 0.01,
    resamples: int = 200,
    confidence: float = 0.95,
    seed: int = 0,
) -> ScoreSelection:
    """Choose the score that serves a task best, on held-out predictions and outcomes.

    ``prediction`` is for cases that the model was not trained on. ``task``:

    - "ranking": which cases have large errors? The prediction-rejection ratio (0 best, 1 random)
      of total uncertainty for squared errors of the mean; needs ``y``.
    - "detection": which cases lie outside of the training data? The AUROC of epistemic uncertainty
      against ``outside``, the prediction for such cases; needs no ``y``.
    - "acquisition": which labels help most? Cases are split at random; the tenth of one half
      with the largest epistemic uncertainty is labelled with its ``y``, members are combined anew
      as a linear model would, and the mean squared error in the other half is compared.

    ``candidates`` are scores or their names, the usual one first; None tries the CRPS (energy
    score for vectors), the squared error, Gaussian and Laplace kernels at bandwidths around the
    median distance and their multi-scale means. Another than the first is chosen only if its gain
    is beyond noise (its interval lies above zero, with all candidates looked at together: scores
    that are equally good give another one in (1 − ``confidence``)/2 of all choices) and is at least
    ``tie``, a difference of ratios and AUROCs, or a share of the mean squared error, and if it
    ranks or detects better than chance. Of those within a standard error of the best the first in
    the list is taken. ``groups`` are labels of cases that belong together (for detection: a pair,
    inside and outside).

    >>> import kuq, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> scale = rng.gamma(2.0, size=400)
    >>> held_out = kuq.Ensemble(kuq.Normal(0.1 * rng.normal(size=(5, 400)), scale))
    >>> y = scale * rng.normal(size=400)
    >>> kuq.select_score(held_out, y, candidates=["crps", "squared"]).name
    'crps'
    """
    share = fraction(confidence, "confidence")
    whole_number(seed, "seed", 0)
    if not 0 <= tie < 1:
        raise ParameterError(f"tie must be at least 0 and below 1, got {tie!r}")
    if whole_number(resamples, "resamples", 0) < 50:
        raise ParameterError(f"at least 50 resamples are needed, got {resamples}")
    kinds: dict[str, type[_Task]] = {
        kind.name: kind for kind in (_Ranking, _Detection, _Acquisition)
    }
    if task not in kinds:
        raise ParameterError(f"task must be one of {tuple(kinds)}, got {task!r}")
    if len(getattr(prediction, "batch_shape", ())) != 1:
        raise ShapeError(
            "the prediction needs one axis of cases, shape (n,), before its event, got "
            f"{prediction!r}; reshape it, or set event_ndim"
        )
    asked = kinds[task](prediction, y, outside, groups, seed)
    if asked.units.count < _FEWEST:
        raise InsufficientDataError(
            f"a choice needs {_FEWEST} independent cases or groups at least, got "
            f"{asked.units.count}"
        )
    scores, skipped = _tried(asked, candidates, len(prediction.event_shape) > 0)
    names = list(scores)
    everything = np.ones(asked.cases)
    chosen, values, draws, bounds = _chosen(asked, names, everything, resamples, share, tie, seed)
    tails = ((1 - share) / 2, (1 + share) / 2)
    table = []
    for place, name in enumerate(names):
        gain = float(asked.sign * (values[place] - values[0]))
        low, high = np.quantile(draws[:, place], tails)
        inside, gained = (
            (float(low), float(high)),
            (float(bounds[0][place]), float(bounds[1][place])),
        )
        table.append(CandidateResult(name, float(values[place]), inside, gain, gained))
    expected = _cross_fitted(asked, names, resamples, share, tie, seed)
    return ScoreSelection(
        task=task,
        measure=asked.measure,
        score=scores[chosen],
        name=chosen,
        table=tuple(table),
        expected=expected[0],
        expected_gain=expected[1],
        chosen_in_folds=expected[2],
        skipped=skipped,
        cases=asked.cases,
        confidence=share,
    )


def _tried(
    task: _Task, candidates: Sequence[Score | str] | None, vectors: bool
) -> tuple[dict[str, Score], dict[str, str]]:
    """The scores by name, after their uncertainties were computed; and those that have none."""
    tried: list[Score | str] = list(candidates or [])
    if candidates is None:
        tried = ["energy", "crps", *_KERNELS] if vectors else ["crps", *_KERNELS]
    if not tried:
        raise ParameterError("at least one candidate is needed")
    scores: dict[str, Score] = {}
    skipped: dict[str, str] = {}
    for candidate in tried:
        score = as_score(candidate)
        name = candidate if isinstance(candidate, str) else score_name(score)
        if name in scores:
            raise ParameterError(f"the candidate {name!r} comes twice")
        try:
            task.look(name, score, usual_estimator(candidate))
        except KuqError as error:
            if candidates is not None or not scores:
                raise
            skipped[name] = str(error)
            continue
        scores[name] = score
    return scores, skipped


def _chosen(
    task: _Task,
    names: list[str],
    mask: Vector,
    resamples: int,
    confidence: float,
    tie: float,
    seed: int,
) -> tuple[str, Vector, NDArray[np.float64], tuple[Vector, Vector]]:
    """The choice on some cases, the values, those of resamples, and bounds of the gains."""
    values = np.array([task.value(name, mask, 0) for name in names])
    draws = np.array(
        [
            [task.value(name, counts, number + 1) for name in names]
            for number, counts in enumerate(task.resampled(mask, resamples, seed))
        ]
    )
    gains = task.sign * (draws - draws[:, :1])
    gain = task.sign * (values - values[0])
    bounds = gain_bounds(gain, gains, confidence, task.units.count)
    least = tie * (abs(float(values[0])) if task.in_units else 1.0)
    better = (bounds[0] > 0) & (gain >= least)
    if task.chance is not None:  # what is less wrong than the usual score serves nobody
        better &= task.sign * (values - task.chance) > 0
    if not better.any():
        return names[0], values, draws, bounds
    best = int(np.argmax(np.where(better, gain, -np.inf)))
    apart = np.std(gains - gains[:, [best]], axis=0, ddof=1)
    near = better & (gain[best] - gain <= apart)
    return names[int(np.argmax(near))], values, draws, bounds


def _cross_fitted(
    task: _Task, names: list[str], resamples: int, confidence: float, tie: float, seed: int
) -> tuple[float, float, tuple[str, ...]]:
    """What choices reach on cases that they were not made on, as a mean over folds."""
    fold = np.random.default_rng([seed, 1]).permutation(task.units.count) % _FOLDS
    by_case = np.empty(task.cases, dtype=np.int64)
    for unit in range(_FOLDS):
        by_case[task.units.places(np.flatnonzero(fold == unit))] = unit
    reached, gained, chosen = [], [], []
    for held_out in range(_FOLDS):
        here = (by_case == held_out).astype(np.float64)
        name = _chosen(task, names, 1 - here, resamples, confidence, tie, seed + 1)[0]
        value, usual = task.value(name, here, 0), task.value(names[0], here, 0)
        chosen.append(name)
        reached.append(value)
        gained.append(task.sign * (value - usual))
    return float(np.nanmean(reached)), float(np.nanmean(gained)), tuple(chosen)


class _Task(ABC):
    """Cases, the uncertainties of all candidates for them, and a measure of how these serve."""

    name: ClassVar[str]
    measure: ClassVar[str]
    #: +1 if large values are good, −1 if small ones are.
    sign: ClassVar[int]
    #: What uncertainties that have nothing to do with the task reach; None if it is not known.
    chance: ClassVar[float | None] = None
    #: Whether values have the unit of the outcomes, and are no plain numbers.
    in_units: ClassVar[bool] = False
    cases: int
    units: Units

    @abstractmethod
    def __init__(self, prediction: Any, y: Any, outside: Any, groups: Any, seed: int) -> None: ...

    @abstractmethod
    def look(self, name: str, score: Score, estimator: str) -> None:
        """Compute the uncertainties of a candidate."""

    @abstractmethod
    def value(self, name: str, counts: Counts, number: int) -> float:
        """The measure where each case counts so many times; ``number`` tells resamples apart."""

    def resampled(self, mask: Vector, resamples: int, seed: int) -> Iterator[Counts]:
        """How often each case counts in resamples of the units of some cases."""
        alive = self._alive(mask)
        rng = np.random.default_rng([seed, 2])
        for _ in range(resamples):
            yield self._counted(rng.choice(alive, alive.size))

    def _alive(self, mask: Vector) -> NDArray[np.intp]:
        return np.flatnonzero(self.units.means(mask) > 0)

    def _counted(self, units: NDArray[np.intp]) -> Counts:
        return np.bincount(self.units.places(units), minlength=self.cases).astype(np.float64)


def _outcomes(prediction: Any, y: Any, task: str) -> NDArray[np.float64]:
    if y is None:
        raise ParameterError(f"task={task!r} needs the outcomes y of the cases")
    shape = (*prediction.batch_shape, *prediction.event_shape)
    outcomes = as_numpy(y, "y")
    if outcomes.shape != shape:
        raise ShapeError(f"y must have the shape {shape} of the prediction, got {outcomes.shape}")
    if not np.isfinite(outcomes).all():
        raise ParameterError("y must be finite; drop the cases without an outcome")
    return outcomes


class _Order:
    """Cases from the smallest to the largest uncertainty; equal ones are one step."""

    def __init__(self, values: Vector) -> None:
        self.order = np.argsort(values, kind="stable")
        moved = np.diff(values[self.order]) != 0  # infinities are equal to each other
        self.starts = np.concatenate([[0], np.flatnonzero(moved) + 1])

    def steps(self, numbers: Vector) -> Vector:
        """Sums over the cases of each step."""
        return np.asarray(np.add.reduceat(numbers[self.order], self.starts))

    def running(self, numbers: Vector) -> Vector:
        """Zero, and the sums up to each step."""
        return np.concatenate([[0.0], np.cumsum(self.steps(numbers))])


@final
class _Ranking(_Task):
    name = "ranking"
    measure = "prediction-rejection"
    sign = -1
    chance = 1.0

    def __init__(self, prediction: Any, y: Any, outside: Any, groups: Any, seed: int) -> None:
        if outside is not None:
            raise ParameterError('outside is for task="detection"')
        self.prediction = prediction
        outcomes = _outcomes(prediction, y, self.name)
        square = (as_numpy(prediction.mean(), "the mean") - outcomes) ** 2
        self.errors = square.reshape(len(square), -1).mean(axis=1)
        self.cases = len(square)
        self.units = Units.of(groups, self.cases, "groups")
        self.oracle = _Order(self.errors)
        self.orders: dict[str, _Order] = {}

    def look(self, name: str, score: Score, estimator: str) -> None:
        total = decompose(self.prediction, score, estimator=estimator).total
        self.orders[name] = _Order(one_per_case(total, f"the uncertainty {name!r}", infinite=True))

    def value(self, name: str, counts: Counts, number: int) -> float:
        area = self._area(self.orders[name], counts)
        best = self._area(self.oracle, counts)
        mean = float(counts @ self.errors / counts.sum()) * (_SHARES[-1] - _SHARES[0])
        return (area - best) / (mean - best) if mean > best else 1.0

    def _area(self, order: _Order, counts: Counts) -> float:
        """Under the curve of mean errors of the least uncertain half to all."""
        kept = _SHARES * counts.sum()
        sums = np.interp(kept, order.running(counts), order.running(counts * self.errors))
        return float(np.trapezoid(sums / kept, _SHARES))


@final
class _Detection(_Task):
    name = "detection"
    measure = "AUROC"
    sign = 1
    chance = 0.5

    def __init__(self, prediction: Any, y: Any, outside: Any, groups: Any, seed: int) -> None:
        if outside is None:
            raise ParameterError(
                'task="detection" needs outside, the prediction for cases that are to be found'
            )
        if outside.event_shape != prediction.event_shape or len(outside.batch_shape) != 1:
            raise ShapeError(
                f"outside must have one axis of cases and the event {prediction.event_shape} of "
                f"the prediction, got {outside!r}"
            )
        self.both = (prediction, outside)
        sizes = [side.batch_shape[0] for side in self.both]
        self.cases = sum(sizes)
        self.is_outside = np.repeat([0.0, 1.0], sizes)
        if groups is not None and len(groups) != 2:
            raise ParameterError("groups must be a pair: labels inside and labels outside")
        labels = None
        if groups is not None:
            sides = [[f"{k} {label}" for label in side] for k, side in enumerate(groups)]
            labels = sides[0] + sides[1]
        self.units = Units.of(labels, self.cases, "groups")
        self.orders: dict[str, _Order] = {}

    def look(self, name: str, score: Score, estimator: str) -> None:
        inside = decompose(self.both[0], score, estimator=estimator)
        # The same kernel for both: a median of those outside would know where they are.
        beyond = decompose(self.both[1], inside.score, estimator=estimator)
        values = [as_numpy(u.epistemic, f"the uncertainty {name!r}") for u in (inside, beyond)]
        pooled = one_per_case(np.concatenate(values), f"the uncertainty {name!r}", infinite=True)
        self.orders[name] = _Order(pooled)

    def value(self, name: str, counts: Counts, number: int) -> float:
        order = self.orders[name]
        low, high = (order.steps(counts * side) for side in (1 - self.is_outside, self.is_outside))
        if low.sum() == 0 or high.sum() == 0:
            return float("nan")
        below = np.cumsum(low) - low / 2
        return float(high @ below / (low.sum() * high.sum()))

    def resampled(self, mask: Vector, resamples: int, seed: int) -> Iterator[Counts]:
        """Both sides by themselves, so that none is empty."""
        rng = np.random.default_rng([seed, 2])
        alive = self._alive(mask)
        beyond = self.units.means(self.is_outside)[alive] > 0
        sides = alive[~beyond], alive[beyond]
        for _ in range(resamples):
            yield self._counted(np.concatenate([rng.choice(side, side.size) for side in sides]))


@final
class _Acquisition(_Task):
    """Members' deviations A from their mean span what labels can teach: with noise of the size of
    the aleatoric variance, outcomes at chosen cases give weights z, and predictions become
    mean + A z elsewhere. Resamples are halves, whose spread is that of the whole (the jackknife
    that leaves out half), as a case must not be both labelled and judged.
    """

    name = "acquisition"
    measure = "mean squared error"
    sign = -1
    in_units = True

    def __init__(self, prediction: Any, y: Any, outside: Any, groups: Any, seed: int) -> None:
        if outside is not None:
            raise ParameterError('outside is for task="detection"')
        if not isinstance(prediction, Ensemble):
            raise ParameterError(
                f'task="acquisition" needs an Ensemble, got {type(prediction).__name__}'
            )
        self.prediction, self.seed = prediction, seed
        outcomes = _outcomes(prediction, y, self.name)
        self.cases = len(outcomes)
        self.units = Units.of(groups, self.cases, "groups")
        members = prediction.member_list()
        weights = as_numpy(prediction.member_weights(), "the weights of members")
        means, variances = (
            np.stack([as_numpy(moment, "a member").reshape(self.cases, -1) for moment in parts])
            for parts in ([m.mean() for m in members], [m.variance() for m in members])
        )
        mean = np.tensordot(weights, means, 1)
        self.deviations = np.moveaxis((means - mean) * np.sqrt(weights)[:, None, None], 0, -1)
        self.residuals = outcomes.reshape(self.cases, -1) - mean
        noise = np.tensordot(weights, variances, 1).mean(axis=1)
        # Members without noise of their own would be believed to the last digit.
        self.noise = np.maximum(noise, 1e-6 * float(np.mean(self.residuals**2)) + 1e-300)
        self.values: dict[str, Vector] = {}

    def look(self, name: str, score: Score, estimator: str) -> None:
        epistemic = decompose(self.prediction, score, estimator=estimator).epistemic
        self.values[name] = one_per_case(epistemic, f"the uncertainty {name!r}", infinite=True)

    def value(self, name: str, counts: Counts, number: int) -> float:
        """A mean over a few splits of the cases that count."""
        errors = [self._after(name, counts, [self.seed, number, k]) for k in range(4)]
        return float(np.mean(errors))

    def _after(self, name: str, counts: Counts, seed: list[int]) -> float:
        alive = self._alive(counts)
        mixed = np.random.default_rng(seed).permutation(alive)
        pool, test = (self.units.places(half) for half in np.array_split(mixed, 2))
        take = max(1, round(_LABELLED * pool.size))
        labelled = pool[np.argsort(-self.values[name][pool], kind="stable")[:take]]
        a, noise = self.deviations[labelled], self.noise[labelled]
        scaled = a / noise[:, None, None]
        precision = np.eye(a.shape[-1]) + np.einsum("nem,nek->mk", scaled, a)
        z = np.linalg.solve(precision, np.einsum("nem,ne->m", scaled, self.residuals[labelled]))
        return float(np.mean((self.residuals[test] - self.deviations[test] @ z) ** 2))

    def resampled(self, mask: Vector, resamples: int, seed: int) -> Iterator[Counts]:
        alive = self._alive(mask)
        rng = np.random.default_rng([seed, 2])
        for _ in range(resamples):
            yield self._counted(rng.permutation(alive)[: alive.size // 2])
