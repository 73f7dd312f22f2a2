"""Out-of-distribution detection: whether uncertainty tells shifted inputs from those trained on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

from kuq import protocols
from kuq.bench.bandwidths import TARGETS
from kuq.bench.cell import Cell
from kuq.bench.learners import squared_errors
from kuq.bench.procedure import Context, Procedure
from kuq.bench.procedures.example_maps import save_examples
from kuq.bench.procedures.fitted import depends_on, kept_prediction, predict, scores_and_bandwidth
from kuq.bench.records import Record
from kuq.bench.settings import from_table
from kuq.errors import ParameterError
from kuq.uncertainty import decompose


@final
@dataclass(frozen=True)
class Options:
    """Keys of ``[grid.NAME.evaluation]``: which uncertainty tells, and by which bandwidth."""

    component: str = "epistemic"
    bandwidth: str | float | Mapping[str, Any] = TARGETS
    #: Monte Carlo draws where a score of the user's own has no exact route (0: an error then).
    draws: int = 0
    #: Bootstrap resamples behind each interval.
    resamples: int = 1000


def evaluate(cell: Cell, arrays: Mapping[str, Any], context: Context) -> Iterator[Record]:
    """AUROC with its interval, AUPR and the false alarms at 95 % found, under every score."""
    options = from_table(Options, cell.evaluation, "evaluation")
    if "shifted.y" not in arrays:
        raise ParameterError(
            f"the data set {cell.dataset!r} has no shifted rows to detect; take it out of the grid"
        )
    inside, outside = kept_prediction(arrays, "test"), kept_prediction(arrays, "shifted")
    scores, bandwidth = scores_and_bandwidth(cell, arrays, options.bandwidth)
    for name, quantity in (("test", "mse"), ("shifted", "mse_shifted")):
        error = squared_errors(arrays[f"{name}.mean"], arrays[f"{name}.y"])
        yield cell.record(quantity, error.mean())
    yield cell.record("bandwidth", bandwidth, score="gaussian")
    for position, (name, score) in enumerate(scores.items()):
        context.report(f"evaluates {name}", position / len(scores))
        within, beyond = (
            decompose(rows, score, draws=options.draws or None, seed=cell.seed)
            for rows in (inside, outside)
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
        for quantity, value in values.items():
            yield cell.record(quantity, value, score=name, component=options.component)
    save_examples(cell, arrays, context)


PROCEDURE = Procedure(predict, evaluate, depends_on, Options)
