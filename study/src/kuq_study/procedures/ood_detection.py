"""Out-of-distribution detection: whether uncertainty tells shifted inputs from those trained on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from kuq import protocols
from kuq._ranges import InnerShare, Natural, NotNegative
from kuq.distributions.base import Prediction
from kuq.errors import ParameterError
from kuq.kernels.marginal import CRPS, Marginal
from kuq.kernels.squared_error import SquaredError
from kuq.uncertainty import decompose
from kuq_study.bandwidths import TARGETS, Bandwidth
from kuq_study.cell import Cell
from kuq_study.learners import squared_errors
from kuq_study.procedure import Context, Procedure
from kuq_study.procedures.example_maps import save_examples
from kuq_study.procedures.fitted import (
    Component,
    depends_on,
    kept_prediction,
    predict,
    scores_and_bandwidth,
)
from kuq_study.records import Record
from kuq_study.settings import from_table


@final
@dataclass(frozen=True)
class Options:
    """Keys of ``[grid.NAME.evaluation]``: which uncertainty tells, and by which bandwidth."""

    component: Component = "epistemic"
    bandwidth: Bandwidth = TARGETS
    #: Monte Carlo draws where a score of the user's own has no exact route (0: an error then).
    draws: Natural = 0
    #: Accuracy of quadratures, which evidential images under the energy score have to pay for.
    rtol: InnerShare = 1e-8
    #: Bootstrap resamples behind each interval.
    resamples: Natural = 1000
    #: Set where the grid is one point of a curve over training: its place, such as the epochs.
    training: NotNegative | None = None


def evaluate(cell: Cell, arrays: Mapping[str, Any], context: Context) -> Iterator[Record]:
    """AUROC with its interval, AUPR and the false alarms at 95 % found, under every score."""
    options = from_table(Options, cell.evaluation, "evaluation")
    if "shifted.y" not in arrays:
        raise ParameterError(
            f"the data set {cell.dataset!r} has no shifted rows to detect; take it out of the grid"
        )
    inside, outside = kept_prediction(arrays, "test"), kept_prediction(arrays, "shifted")
    scores, bandwidth = scores_and_bandwidth(cell, arrays, options.bandwidth)
    draws: dict[str, Any] = {"draws": options.draws or None, "seed": cell.seed}
    suffix = "" if options.training is None else "_training"
    for name, quantity in (("test", "mse"), ("shifted", "mse_shifted")):
        error = squared_errors(arrays[f"{name}.mean"], arrays[f"{name}.y"])
        yield cell.record(f"{quantity}{suffix}", error.mean(), x=options.training)
    yield cell.record(f"bandwidth{suffix}", bandwidth, score="gaussian", x=options.training)
    for position, (name, score) in enumerate(scores.items()):
        context.report(f"evaluates {name}", position / len(scores))
        within, beyond = (
            decompose(rows, score, rtol=options.rtol, **draws) for rows in (inside, outside)
        )
        found = protocols.ood_detection(
            within[options.component],
            beyond[options.component],
            seed=cell.seed,
            resamples=options.resamples,
        )
        values = {
            "auroc": found.auroc,
            "auroc_low": found.auroc_interval[0],
            "auroc_high": found.auroc_interval[1],
            "aupr": found.aupr,
            "fpr95": found.fpr95,
        }
        if options.training is not None:
            values = {"auroc_training": found.auroc}
        for quantity, value in values.items():
            yield cell.record(
                quantity, value, score=name, component=options.component, x=options.training
            )
    if options.training is not None:
        return
    yield from _component_correlations(cell, outside, options.rtol)
    save_examples(cell, arrays, context)


def _component_correlations(cell: Cell, outside: Prediction, rtol: float) -> Iterator[Record]:
    """Over the field of a shifted case, how far AU and EU say the same: the mean correlation."""
    if not outside.event_shape:
        return
    for name, score in (("squared", Marginal(SquaredError(), None)), ("crps", CRPS(reduce=None))):
        u = decompose(outside, score, rtol=rtol)
        rows = [np.asarray(part).reshape(len(part), -1) for part in (u.aleatoric, u.epistemic)]
        centred = [values - values.mean(1, keepdims=True) for values in rows]
        size = np.sqrt(np.prod([(values**2).sum(1) for values in centred], axis=0))
        found = (centred[0] * centred[1]).sum(1)[size > 0] / size[size > 0]
        if found.size:
            yield cell.record("component_correlation", float(found.mean()), score=name)


PROCEDURE = Procedure(predict, evaluate, depends_on, Options, learns=True)
