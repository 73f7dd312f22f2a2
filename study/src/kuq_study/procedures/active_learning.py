"""Active learning: test errors while each score chooses what is labelled next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, final

import numpy as np

from kuq import protocols
from kuq._ranges import InnerShare, Natural
from kuq.errors import ParameterError
from kuq.kernels.base import Score
from kuq.uncertainty import decompose
from kuq_study.bandwidths import TARGETS, Bandwidth, bandwidth_of
from kuq_study.cell import Cell
from kuq_study.learners import load_data, make_model, target_distance
from kuq_study.named_scores import scores_for
from kuq_study.procedure import Context, Procedure
from kuq_study.procedures.fitted import Component
from kuq_study.records import Record
from kuq_study.settings import from_table

RANDOM = "random"
#: Rows of the pool that tell the kind of law, and the bandwidth where it comes from predictions.
_PROBE = 256


@final
@dataclass(frozen=True)
class Options:
    """Keys of ``[grid.NAME.evaluation]``: shares of the pool, and how often it is labelled.

    ``scaling`` names the rows by which models scale inputs and targets: those of the round
    ("labelled"), which are not like the pool when they were chosen for their uncertainty, or the
    same in all rounds, "initial" or "pool" (``kuq.protocols.active_learning``). ``candidates``
    scores a random part of the pool only (0: all of it); ``test_rows`` limits the test rows (0:
    all of them). ``setting`` ends the names of the quantities, for a grid beside the paper's:
    ``"trained"`` gives ``mse_trained``.
    """

    initial: InnerShare = 0.05
    batch: InnerShare = 0.01
    rounds: Natural = 20
    component: Component = "epistemic"
    bandwidth: Bandwidth = TARGETS
    scaling: Literal["labelled", "initial", "pool"] = "labelled"
    candidates: Natural = 0
    test_rows: Natural = 0
    setting: str = ""
    #: Accuracy of quadratures, which members that hardly differ have to pay for.
    rtol: InnerShare = 1e-8


def predict(cell: Cell, context: Context) -> Mapping[str, Any]:
    """Sizes of the labelled set and test errors of every round, for every score and at random."""
    options = from_table(Options, cell.evaluation, "evaluation")
    data = load_data(cell, context)
    pool_x, pool_y = np.asarray(data.train.x), np.asarray(data.train.y)
    rows = slice(options.test_rows or None)
    test_x, test_y = np.asarray(data.test.x)[rows], np.asarray(data.test.y)[rows]
    shares: dict[str, Any] = {
        "initial": options.initial,
        "batch": options.batch,
        "seed": cell.seed,
        "scaling": None if options.scaling == "labelled" else options.scaling,
    }
    fit = _first_one_kept(cell)
    # All acquisitions begin with the same labels, hence with the same learner.
    steps = protocols.active_learning(
        fit, pool_x, pool_y, test_x, test_y, score=None, rounds=0, **shares
    )
    probe = next(steps).learner.predict_distribution(pool_x[:_PROBE])
    bandwidth = bandwidth_of(options.bandwidth, cell.dataset, target_distance(pool_y), probe)
    scores: dict[str, Score | None] = {**scores_for(cell, probe, bandwidth), RANDOM: None}
    arrays: dict[str, Any] = {"bandwidth": np.array(bandwidth)}
    for position, (name, score) in enumerate(scores.items()):
        kept = context.state_file(f"{position}")
        state = None if kept is None else _kept_state(kept)
        steps = protocols.active_learning(
            fit,
            pool_x,
            pool_y,
            test_x,
            test_y,
            score=None if score is None else _acquisition(score, options),
            rounds=options.rounds,
            candidates=options.candidates or None,
            state=state,
            **shares,
        )
        for step in steps:
            done = (position + step.round / (options.rounds + 1)) / len(scores)
            context.report(f"round {step.round} of {name}", done)
            state = step.state
            if kept is not None:
                state.save(kept)
        assert state is not None
        arrays[f"labels.{name}"] = np.array(state.sizes)
        arrays[f"mse.{name}"] = np.array(state.errors)
    return arrays


def _kept_state(path: Path) -> protocols.ActiveLearningState | None:
    """The rounds that an interrupted run has done, unless the file is damaged."""
    try:
        return protocols.ActiveLearningState.load(path) if path.exists() else None
    except ParameterError:
        return None


def _acquisition(score: Score, options: Options) -> Callable[[Any, Any], Any]:
    """The uncertainty that chooses: of a learner, at inputs."""

    def uncertainty(learner: Any, x: Any) -> Any:
        u = decompose(learner.predict_distribution(x), score, rtol=options.rtol)
        return u[options.component]

    return uncertainty


def _first_one_kept(cell: Cell) -> Callable[[Any, Any], Any]:
    """Trains a learner on labelled rows; the first rows that come train only once."""
    kept: list[tuple[Any, Any]] = []

    def fit(x: Any, y: Any, scaling: Any = None) -> Any:
        if kept and np.array_equal(kept[0][0], x):
            return kept[0][1]
        # A model of the user's own need not know the word.
        more = {} if scaling is None else {"scaling": scaling}
        model = make_model(cell, cell.seed).fit(x, y, **more)
        if not kept:
            kept.append((x, model))
        return model

    return fit


def evaluate(cell: Cell, arrays: Mapping[str, Any], context: Context) -> Iterator[Record]:
    """Test MSE against the number of labels, for every acquisition."""
    setting = from_table(Options, cell.evaluation, "evaluation").setting
    end = f"_{setting}" if setting else ""
    yield cell.record(f"bandwidth{end}", float(arrays["bandwidth"]), score="gaussian")
    for key in arrays:
        what, _, name = key.partition(".")
        if what == "mse":
            for size, error in zip(arrays[f"labels.{name}"], arrays[key], strict=True):
                yield cell.record(f"mse{end}", error, score=name, x=size)


PROCEDURE = Procedure(predict, evaluate, options=Options, learns=True)
