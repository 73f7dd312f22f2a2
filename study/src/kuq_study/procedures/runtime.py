"""Runtime: CPU seconds of each score against the number of members and of draws."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, final

import numpy as np

from kuq._ranges import Count, Several, Within
from kuq.distributions.base import Distribution
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.normal import Normal
from kuq.distributions.samples import Samples
from kuq.errors import ParameterError
from kuq.kernels.base import Score
from kuq.uncertainty import decompose
from kuq_study.cell import Cell
from kuq_study.named_scores import scores_for
from kuq_study.procedure import Context, Procedure
from kuq_study.records import Record
from kuq_study.settings import from_table

#: Times are given for as many cases as in the paper's figure.
_CASES = 100


@final
@dataclass(frozen=True)
class Options:
    """Keys of ``[grid.NAME.evaluation]``: sizes of the synthetic predictions that are timed."""

    shape: Annotated[tuple[Count, ...], Within(least=1)]
    cases: Count
    members: Annotated[tuple[Several, ...], Within(least=1)]
    draws: tuple[Several, ...]
    #: Draws while members vary, and members while draws vary.
    draws_of_members: Several = 10
    members_of_draws: Several = 10
    repeats: Count = 5


def predict(cell: Cell, context: Context) -> Mapping[str, Any]:
    """Measure: the median CPU time of a decomposition, for all sizes and scores."""
    options = from_table(Options, cell.evaluation, "evaluation")
    if cell.representation not in ("normal", "sampler"):
        raise ParameterError(
            f"runtime knows 'normal' and 'sampler', got the representation {cell.representation!r}"
        )
    rng = np.random.default_rng(cell.seed)
    sizes = [("members", m, options.draws_of_members) for m in options.members]
    if cell.representation == "sampler":
        sizes += [("samples", options.members_of_draws, n) for n in options.draws]
    arrays: dict[str, Any] = {}
    for position, (what, members, draws) in enumerate(sizes):
        context.report(f"times {what}", position / len(sizes))
        ensemble = Ensemble(_law(cell, options, members, draws, rng))
        bandwidth = float(np.sqrt(np.prod(options.shape)))
        for name, score in scores_for(cell, ensemble, bandwidth).items():
            seconds = _median_seconds(ensemble, score, options.repeats)
            number = members if what == "members" else draws
            arrays[f"{what}.{number}.{name}"] = np.array(seconds * _CASES / options.cases)
    return arrays


def _law(
    cell: Cell, options: Options, members: int, draws: int, rng: np.random.Generator
) -> Distribution:
    batch = (members, options.cases)
    if cell.representation == "sampler":
        values = rng.standard_normal((*batch, draws, *options.shape))
        return Samples(values, len(options.shape))
    loc = rng.standard_normal((*batch, *options.shape))
    return Normal(loc, 0.5 + rng.random(loc.shape), len(options.shape))


def _median_seconds(ensemble: Ensemble, score: Score, repeats: int) -> float:
    decompose(ensemble, score)  # compiles and fills caches
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        decompose(ensemble, score)
        seconds.append(time.process_time() - start)
    return float(np.median(seconds))


def evaluate(cell: Cell, arrays: Mapping[str, Any], context: Context) -> Iterator[Record]:
    """CPU seconds for 100 cases, by what was varied."""
    for key, seconds in arrays.items():
        what, number, name = key.split(".")
        yield cell.record(f"seconds_{what}", float(seconds), score=name, x=float(number))


PROCEDURE = Procedure(predict, evaluate, options=Options)
