"""Active learning: label where the epistemic uncertainty is largest, train again, repeat."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias, final

import numpy as np

from kuq._numbers import whole_number
from kuq.errors import ParameterError, ShapeError
from kuq.kernels.base import Score
from kuq.protocols.acquisition import Indices, Selection, largest
from kuq.protocols.batches import SELECTIONS, check_method, diverse
from kuq.protocols.learning_state import ActiveLearningState
from kuq.protocols.vectors import Vector, as_numpy, one_per_case
from kuq.uncertainty import decompose


class Learner(Protocol):
    """What ``fit`` returns: a mean as an array, and a second-order prediction."""

    def predict(self, x: Any) -> Any: ...

    def predict_distribution(self, x: Any) -> Any: ...


#: (x, y) to a learner; a parameter called ``scaling`` gets rows (x, y) that fix the scale.
Fit: TypeAlias = Callable[..., Learner]
#: A learner and inputs to one number per input: label where it is large.
Acquisition: TypeAlias = Callable[[Learner, Any], Any]

#: A rule by uncertainties, or ``diverse``.
Rule: TypeAlias = Callable[..., Indices]

_COMPONENTS = ("epistemic", "aleatoric", "total")


@final
@dataclass(frozen=True, eq=False)
class ActiveLearningStep:
    """One round: the learner was trained on ``labelled`` cases and has ``error`` on the test set.

    ``indices`` are the places of these cases in the pool, in the order of their choice;
    ``acquired`` those that a next round adds, with their ``uncertainty`` (NaN for random choice).
    ``state`` continues after this round, also for more rounds than were planned.
    """

    round: int
    labelled: int
    error: float
    indices: Indices
    acquired: Indices
    uncertainty: Vector
    learner: Learner
    state: ActiveLearningState


def mean_squared_error(prediction: Vector, target: Vector) -> float:
    """The mean of (prediction − target)² over cases and coordinates."""
    return float(np.mean((prediction - target) ** 2))


def active_learning(
    fit: Fit,
    pool_x: Any,
    pool_y: Any,
    test_x: Any,
    test_y: Any,
    *,
    score: Score | str | Acquisition | None,
    initial: float | int = 0.05,
    batch: float | int = 0.01,
    rounds: int = 20,
    seed: int = 0,
    component: str = "epistemic",
    select: Selection | None = None,
    batch_method: str | None = None,
    candidates: int | None = None,
    scaling: Literal["initial", "pool"] | None = "initial",
    error: Callable[[Vector, Vector], float] = mean_squared_error,
    state: ActiveLearningState | None = None,
) -> Iterator[ActiveLearningStep]:
    """Train, measure the error, label the most uncertain cases of the pool, and again.

    ``fit(x, y)`` returns anything with ``predict`` and ``predict_distribution``. ``score`` is a
    kuq score, a function (learner, x) → uncertainties, or None for random choice. ``initial`` and
    ``batch`` are shares of the pool (floats) or numbers of cases (integers); the first set
    depends on ``seed`` alone, so that scores are compared on equal starts. ``batch_method`` is
    "top" (the default), "sampled" or "diverse", see ``select_batch``; ``select`` is a rule of your
    own in its place. There are ``rounds`` acquisitions, hence up to ``rounds + 1`` steps.
    ``candidates`` scores a random part of the pool only. ``step.state.save(file)`` and
    ``state=ActiveLearningState.load(file)`` continue a run with the same numbers.

    Rows that are chosen for their uncertainty are not like the pool, and a learner that scales
    targets by them starts from their mean. If ``fit`` has a parameter ``scaling``, as that of
    ``kuq.nn.Regressor`` has, it gets the same rows (x, y) to scale by in all rounds: all inputs
    with the targets of the first set ("initial"), or all of the pool ("pool": benchmarks only,
    since nobody knows these targets). None leaves scaling to ``fit``.
    """
    size = len(pool_x)
    if len(pool_y) != size or len(test_x) != len(test_y):
        raise ShapeError(
            f"inputs and targets need as many rows as each other, got pool {size} and "
            f"{len(pool_y)}, test {len(test_x)} and {len(test_y)}"
        )
    if component not in _COMPONENTS:
        raise ParameterError(f"component must be one of {_COMPONENTS}, got {component!r}")
    rule = _rule(select, batch_method, score, component)
    first, step = _count(initial, size, "initial"), _count(batch, size, "batch")
    whole_number(rounds, "rounds", 0)
    if candidates is not None:
        whole_number(candidates, "candidates", step)
    if scaling not in ("initial", "pool", None):
        raise ParameterError(f'scaling must be "initial", "pool" or None, got {scaling!r}')
    settings: dict[str, int | str] = {
        "pool": size,
        "initial": first,
        "batch": step,
        "seed": whole_number(seed, "seed", 0),
        "score": _name(score),
        "component": component,
        "select": _name(rule),
        "candidates": candidates or 0,
    }
    fixed = scaling if _takes_scaling(fit) else None
    if fixed is not None:
        settings["scaling"] = fixed
    if state is None:
        start = np.random.default_rng([seed, 0]).choice(size, first, replace=False)
        state = ActiveLearningState(settings, tuple(start.tolist()))
    elif state.settings != settings:
        raise ParameterError(
            f"the state comes from other settings: {_differences(state.settings, settings)}; "
            "continue with the same pool and settings"
        )
    if fixed is not None:
        targets = pool_y[np.asarray(state.labelled[:first])] if fixed == "initial" else pool_y
        fit = partial(fit, scaling=(pool_x, targets))
    return _rounds(
        fit, pool_x, pool_y, test_x, test_y, score, rounds, component, rule, error, state
    )


def _rounds(
    fit: Fit,
    pool_x: Any,
    pool_y: Any,
    test_x: Any,
    test_y: Any,
    score: Score | str | Acquisition | None,
    rounds: int,
    component: str,
    rule: Rule,
    error: Callable[[Vector, Vector], float],
    state: ActiveLearningState,
) -> Iterator[ActiveLearningStep]:
    size, step = len(pool_x), int(state.settings["batch"])
    while state.round <= rounds and (state.round == 0 or len(state.labelled) > state.sizes[-1]):
        number = state.round
        chosen = np.asarray(state.labelled, dtype=np.int64)
        learner = fit(pool_x[chosen], pool_y[chosen])
        loss = _test_error(learner, test_x, test_y, error)
        # Each round has its own generator: a continued run draws what an unbroken one draws.
        rng = np.random.default_rng([int(state.settings["seed"]), number + 1])
        rest = np.setdiff1d(np.arange(size), chosen)
        acquired, values = rest[:0], np.empty(0)
        if rest.size:  # also after the last round, so that a run can go on for more rounds
            limit = int(state.settings["candidates"])
            if limit and limit < rest.size:
                rest = np.sort(rng.choice(rest, limit, replace=False))
            count = min(step, rest.size)
            if score is None:
                picked, values = rng.choice(rest.size, count, replace=False), np.full(count, np.nan)
            else:
                picked, values = _picked(learner, pool_x[rest], score, component, rule, count, rng)
            acquired = rest[picked]
        state = ActiveLearningState(
            settings=state.settings,
            labelled=(*state.labelled, *(int(i) for i in acquired)),
            sizes=(*state.sizes, chosen.size),
            errors=(*state.errors, loss),
        )
        yield ActiveLearningStep(
            round=number,
            labelled=int(chosen.size),
            error=loss,
            indices=chosen,
            acquired=np.asarray(acquired, dtype=np.int64),
            uncertainty=values,
            learner=learner,
            state=state,
        )


def _takes_scaling(fit: Fit) -> bool:
    try:
        return "scaling" in inspect.signature(fit).parameters
    except (TypeError, ValueError):  # some functions of compiled libraries have none
        return False


def _count(amount: float | int, size: int, name: str) -> int:
    if isinstance(amount, (int, np.integer)) and not isinstance(amount, bool):
        count = int(amount)
    elif isinstance(amount, (float, np.floating)) and 0 < amount < 1:
        count = max(1, round(float(amount) * size))
    else:
        raise ParameterError(
            f"{name} must be a share between 0 and 1 or a number of cases ≥ 1, got {amount!r}"
        )
    if not 1 <= count <= size:
        raise ParameterError(f"{name} must be 1 to {size} cases, the size of the pool, got {count}")
    return count


def _name(value: object) -> str:
    """A name that stays the same from run to run."""
    if value is None:
        return "random"
    return str(getattr(value, "__qualname__", None) or repr(value))


def _differences(old: dict[str, int | str], new: dict[str, int | str]) -> str:
    names = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    return ", ".join(f"{name} was {old.get(name)!r}, is {new.get(name)!r}" for name in names)


def _test_error(
    learner: Learner, test_x: Any, test_y: Any, error: Callable[[Vector, Vector], float]
) -> float:
    prediction = as_numpy(learner.predict(test_x), "the prediction")
    target = as_numpy(test_y, "test_y")
    if prediction.shape != target.shape:
        raise ShapeError(
            f"predict must give the shape of test_y, {target.shape}, got {prediction.shape}"
        )
    return float(error(prediction, target))


def _rule(
    select: Selection | None,
    batch_method: str | None,
    score: Score | str | Acquisition | None,
    component: str,
) -> Rule:
    if batch_method is None:
        return largest if select is None else select
    if select is not None:
        raise ParameterError("batch_method and select both say how a batch is made; give one")
    check_method(batch_method, component)
    if batch_method in SELECTIONS:
        return SELECTIONS[batch_method]
    if not isinstance(score, (Score, str)):
        raise ParameterError(
            f'batch_method="diverse" needs a score of kuq, got {_name(score)}; it goes by the '
            "divergences of members"
        )
    return diverse


def _picked(
    learner: Learner,
    x: Any,
    score: Score | str | Acquisition,
    component: str,
    rule: Rule,
    count: int,
    rng: np.random.Generator,
) -> tuple[Indices, Vector]:
    """Places of those to label next, and their uncertainties."""
    if isinstance(score, (Score, str)):
        prediction = learner.predict_distribution(x)
        values = decompose(prediction, score)[component]
    else:
        values = score(learner, x)
    uncertainty = one_per_case(values, "the uncertainty of the pool", infinite=True)
    if uncertainty.size != len(x):
        raise ShapeError(f"{len(x)} cases of the pool got {uncertainty.size} uncertainties")
    picked = np.asarray(
        diverse(prediction, count, score, rng) if rule is diverse else rule(uncertainty, count, rng)
    )
    if picked.shape != (count,) or np.unique(picked).size != count:
        raise ParameterError(
            f"select must return {count} different places, got an array of shape {picked.shape}"
        )
    return picked, uncertainty[picked]
