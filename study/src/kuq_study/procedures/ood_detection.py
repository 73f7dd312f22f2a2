"""Out-of-distribution detection: whether uncertainty tells shifted inputs from those trained on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

import numpy as np

from kuq import protocols
from kuq._ranges import InnerShare, Natural, NotNegative
from kuq.distributions.base import Prediction
from kuq.errors import ParameterError
from kuq.kernels.base import Score
from kuq.kernels.marginal import CRPS, Marginal
from kuq.kernels.squared_error import SquaredError
from kuq.protocols.detection import OodDetection
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
from kuq_study.procedures.row_facts import SHARED, kept_reference_errors
from kuq_study.records import Record
from kuq_study.settings import from_table

#: Whether rows or groups of rows are detected.
Unit: TypeAlias = Literal["case", "group"]


@final
@dataclass(frozen=True)
class Options:
    """Keys of ``[grid.NAME.evaluation]``: which uncertainty tells, and by which bandwidth."""

    component: Component = "epistemic"
    bandwidth: Bandwidth = TARGETS
    #: One more bandwidth, whose results end in "_other_bandwidth": a wide kernel is the squared
    #: error, so that the median distance of targets does not show what a bounded kernel can do.
    other_bandwidth: Bandwidth | None = None
    #: Results with "_late" are of frames from this one on, beside those of all frames.
    first_frame: Natural = 0
    #: Monte Carlo draws where a score of the user's own has no exact route (0: an error then).
    draws: Natural = 0
    #: Accuracy of quadratures, which evidential images under the energy score have to pay for.
    rtol: InnerShare = 1e-8
    #: Bootstrap resamples behind each interval.
    resamples: Natural = 1000
    #: Set where the grid is one point of a curve over training: its place, such as the epochs.
    training: NotNegative | None = None


def evaluate(cell: Cell, arrays: Mapping[str, Any], context: Context) -> Iterator[Record]:
    """AUROC with its interval, AUPR and the false alarms at 95 % found, under every score.

    Where rows are of groups (trajectories, years), intervals are by groups, and quantities that
    end in "_grouped" judge a group as one, by the mean of its rows.
    """
    options = from_table(Options, cell.evaluation, "evaluation")
    if "shifted.y" not in arrays:
        raise ParameterError(
            f"the data set {cell.dataset!r} has no shifted rows to detect; take it out of the grid"
        )
    suffix = "" if options.training is None else "_training"
    for name, quantity in (("test", "mse"), ("shifted", "mse_shifted")):
        error = squared_errors(arrays[f"{name}.mean"], arrays[f"{name}.y"])
        yield cell.record(f"{quantity}{suffix}", error.mean(), x=options.training)
    for name, value in kept_reference_errors(arrays).items():
        yield cell.record(f"mse_{name.replace(' ', '_')}", value)
    scores, bandwidth = scores_and_bandwidth(cell, arrays, options.bandwidth)
    yield cell.record(f"bandwidth{suffix}", bandwidth, score="gaussian", x=options.training)
    detect = _Detection(cell, arrays, options)
    for position, (name, score) in enumerate(scores.items()):
        context.report(f"evaluates {name}", position / len(scores))
        yield from detect(name, score)
    if options.training is not None:
        return
    if options.other_bandwidth is not None and "gaussian" in scores:
        scores, bandwidth = scores_and_bandwidth(cell, arrays, options.other_bandwidth)
        end = "_other_bandwidth"
        yield cell.record(f"bandwidth{end}", bandwidth, score="gaussian")
        yield from detect("gaussian", scores["gaussian"], end)
    yield from _component_correlations(cell, from_arrays(arrays, "shifted"), options.rtol)
    save_examples(cell, arrays, context)


@final
class _Detection:
    """Detects the twins of a cell by the uncertainty under any score."""

    def __init__(self, cell: Cell, arrays: Mapping[str, Any], options: Options) -> None:
        self.cell, self.arrays, self.options = cell, arrays, options

    def __call__(self, name: str, score: Score, end: str = "") -> Iterator[Record]:
        options = self.options
        within, beyond = (self._uncertainty(rows, score) for rows in ("test", "shifted"))
        groups = self._of_both("group")
        detection = self._detected(within, beyond, groups)
        if options.training is not None:
            yield self._record("auroc_training", detection.auroc, name)
            return
        yield from self._interval(f"auroc{end}", detection, name)
        yield self._record(f"aupr{end}", detection.aupr, name)
        yield self._record(f"fpr95{end}", detection.fpr95, name)
        if groups is not None:
            grouped = self._detected(within, beyond, groups, unit="group")
            yield from self._interval(f"auroc_grouped{end}", grouped, name)
        frames = self._of_both("frame")
        if options.first_frame and groups is not None and frames is not None:
            late = [np.asarray(numbers) >= options.first_frame for numbers in frames]
            late_groups = [labels[keep] for labels, keep in zip(groups, late, strict=True)]
            rest = within[late[0]], beyond[late[1]]
            yield from self._interval(f"auroc_late{end}", self._detected(*rest, late_groups), name)
            grouped = self._detected(*rest, late_groups, unit="group")
            yield from self._interval(f"auroc_grouped_late{end}", grouped, name)
            # How much of what groups are judged by comes from their first frames.
            share = within[~late[0]].sum() / within.sum()
            yield self._record(f"early_share{end}", float(share), name)
        if f"{SHARED}.y" in self.arrays:
            twin = self._uncertainty(SHARED, score)
            shared = self._detected(within, twin, self._of_both("group", SHARED))
            yield from self._interval(f"auroc_{SHARED}{end}", shared, name)

    def _uncertainty(self, rows: str, score: Score) -> Any:
        draws: dict[str, Any] = {"draws": self.options.draws or None, "seed": self.cell.seed}
        prediction = from_arrays(self.arrays, rows)
        u = decompose(prediction, score, rtol=self.options.rtol, **draws)
        return np.asarray(u[self.options.component])

    def _of_both(self, what: str, twin: str = "shifted") -> list[Any] | None:
        names = f"test.{what}", f"{twin}.{what}"
        return [self.arrays[name] for name in names] if names[0] in self.arrays else None

    def _detected(
        self, within: Any, beyond: Any, groups: list[Any] | None, unit: Unit = "case"
    ) -> OodDetection:
        return protocols.ood_detection(
            within,
            beyond,
            groups=None if groups is None else (groups[0], groups[1]),
            unit=unit,
            seed=self.cell.seed,
            resamples=self.options.resamples,
        )

    def _interval(self, quantity: str, detection: OodDetection, score: str) -> Iterator[Record]:
        yield self._record(quantity, detection.auroc, score)
        for end, value in zip(("low", "high"), detection.auroc_interval, strict=True):
            yield self._record(f"{quantity}_{end}", value, score)

    def _record(self, quantity: str, value: float, score: str) -> Record:
        options = self.options
        return self.cell.record(
            quantity, value, score=score, component=options.component, x=options.training
        )


def _component_correlations(cell: Cell, outside: Prediction, rtol: float) -> Iterator[Record]:
    """Over the field of a shifted case, how far AU and EU say the same: the mean correlation."""
    if not outside.event_shape:
        return
    for name, score in (("squared", Marginal(SquaredError(), None)), ("crps", CRPS(reduce=None))):
        u = decompose(outside, score, rtol=rtol)
        rows = [np.asarray(field).reshape(len(field), -1) for field in (u.aleatoric, u.epistemic)]
        centred = [values - values.mean(1, keepdims=True) for values in rows]
        size = np.sqrt(np.prod([(values**2).sum(1) for values in centred], axis=0))
        correlations = (centred[0] * centred[1]).sum(1)[size > 0] / size[size > 0]
        if correlations.size:
            yield cell.record("component_correlation", float(correlations.mean()), score=name)


PROCEDURE = Procedure(predict, evaluate, depends_on, Options, learns=True)
