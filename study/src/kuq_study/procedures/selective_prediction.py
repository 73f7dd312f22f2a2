"""Selective prediction: errors of what is left when the most uncertain predictions are withheld."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from kuq import protocols
from kuq._ranges import InnerShare, Natural, Several, Share
from kuq.errors import ParameterError
from kuq.uncertainty import decompose
from kuq_study.bandwidths import TARGETS, Bandwidth
from kuq_study.cell import Cell
from kuq_study.kept import from_arrays
from kuq_study.learners import squared_errors
from kuq_study.procedure import Context, Procedure
from kuq_study.procedures.example_maps import save_examples
from kuq_study.procedures.fitted import (
    Component,
    depends_on,
    predict,
    scores_and_bandwidth,
)
from kuq_study.records import Record
from kuq_study.settings import from_table


@final
@dataclass(frozen=True)
class Options:
    """Keys of ``[grid.NAME.evaluation]``: which uncertainty, over which retentions."""

    component: Component = "total"
    retention: tuple[Share, Share] = (0.5, 1.0)
    bandwidth: Bandwidth = TARGETS
    #: Monte Carlo draws where a score of the user's own has no exact route (0: an error then).
    draws: Natural = 0
    #: Accuracy of quadratures, which evidential images under the energy score have to pay for.
    rtol: InnerShare = 1e-8
    #: Points of a retention curve that are stored, spread evenly.
    curve_points: Several = 51

    def __post_init__(self) -> None:
        low, high = self.retention
        if low >= high:
            raise ParameterError(
                f"retention must be two numbers, the smaller first, got {low, high}"
            )


def evaluate(cell: Cell, arrays: Mapping[str, Any], context: Context) -> Iterator[Record]:
    """Prediction-rejection ratio and retention curve under every score."""
    options = from_table(Options, cell.evaluation, "evaluation")
    test = from_arrays(arrays, "test")
    error = squared_errors(arrays["test.mean"], arrays["test.y"])
    scores, bandwidth = scores_and_bandwidth(cell, arrays, options.bandwidth)
    draws: dict[str, Any] = {"draws": options.draws or None, "seed": cell.seed}
    yield cell.record("mse", error.mean())
    yield cell.record("bandwidth", bandwidth, score="gaussian")
    low, high = options.retention
    oracle_stored = False
    for position, (name, score) in enumerate(scores.items()):
        context.report(f"evaluates {name}", position / len(scores))
        u = decompose(test, score, rtol=options.rtol, **draws)
        curve = protocols.selective_prediction(u[options.component], error, (low, high))
        shown = _spread(len(curve.retention), options.curve_points)
        if not oracle_stored:
            for i in shown:
                yield cell.record("risk_oracle", curve.oracle[i], x=curve.retention[i])
            oracle_stored = True
        yield cell.record("prr", curve.prr, score=name, component=options.component)
        yield cell.record("prr_full", curve.prr_full, score=name, component=options.component)
        for i in shown:
            yield cell.record(
                "risk",
                curve.risk[i],
                score=name,
                component=options.component,
                x=curve.retention[i],
            )
    save_examples(cell, arrays, context)


def _spread(count: int, points: int) -> list[int]:
    """At most so many places of a curve, with both ends."""
    return sorted({round(i) for i in np.linspace(0, count - 1, min(count, points))})


PROCEDURE = Procedure(predict, evaluate, depends_on, Options, learns=True)
