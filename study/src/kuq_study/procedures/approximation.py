"""Approximation error: convergence in members and draws, and the bias of plug-in statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, final

import numpy as np

from kuq._ranges import Count, Positive, Several, Within
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.normal import Normal
from kuq.distributions.samples import Samples
from kuq.kernels.base import Score
from kuq.uncertainty import decompose
from kuq_study.cell import Cell
from kuq_study.named_scores import scores_for
from kuq_study.procedure import Context, Procedure
from kuq_study.procedures.known_ensembles import KnownLaw
from kuq_study.records import Record
from kuq_study.settings import from_table

_COMPONENTS = ("aleatoric", "epistemic")


@final
@dataclass(frozen=True)
class Options:
    """Keys of ``[grid.NAME.evaluation]``; ``cases`` independent ensembles give each number."""

    points: Count
    members: Annotated[tuple[Several, ...], Within(least=1)]
    draws: Annotated[tuple[Several, ...], Within(least=1)]
    cases: Count
    bandwidth: Positive
    members_of_draws: Several = 10


def predict(cell: Cell, context: Context) -> Mapping[str, Any]:
    """Members for all sizes of ensemble (the first of them), and draws of some of them."""
    options = from_table(Options, cell.evaluation, "evaluation")
    law = KnownLaw(options.points)
    rng = np.random.default_rng([cell.seed, options.points])
    count = max(*options.members, options.members_of_draws)
    members = law.members(rng, count, options.cases)
    arrays = {"loc": members.loc, "scale": members.scale}
    if cell.representation == "sampler":
        few = _first(members, options.members_of_draws)
        arrays["values"] = few.sample(max(options.draws), rng)
    return arrays


def evaluate(cell: Cell, arrays: Mapping[str, Any], context: Context) -> Iterator[Record]:
    """Relative errors and biases of AU and EU against the exact values, under every score."""
    options = from_table(Options, cell.evaluation, "evaluation")
    law = KnownLaw(options.points)
    members = Normal(arrays["loc"], arrays["scale"], law.event_ndim)
    if cell.representation == "sampler":
        prediction = Ensemble(Samples(arrays["values"], law.event_ndim))
        scores = scores_for(cell, prediction, options.bandwidth)
        yield from _in_draws(cell, options, law, members, arrays["values"], scores)
    else:
        scores = scores_for(cell, Ensemble(members), options.bandwidth)
        yield from _in_members(cell, options, law, members, scores)


def _in_members(
    cell: Cell, options: Options, law: KnownLaw, members: Normal, scores: Mapping[str, Score]
) -> Iterator[Record]:
    for name, score in scores.items():
        exact = {"aleatoric": law.aleatoric(score), "epistemic": law.epistemic(score)}
        for count in options.members:
            ensemble = Ensemble(_first(members, count))
            fair = decompose(ensemble, score)
            plug_in = decompose(ensemble, score, unbiased=False)
            for component in _COMPONENTS:
                true = exact[component]
                relative = fair[component] / true - 1
                error = float(np.sqrt(np.mean(relative**2)))
                yield cell.record("error_members", error, score=name, component=component, x=count)
                for quantity, values in (
                    ("bias_members", plug_in[component]),
                    ("bias_members_unbiased", fair[component]),
                ):
                    bias = float(np.mean(values) / true - 1)
                    yield cell.record(quantity, bias, score=name, component=component, x=count)


def _in_draws(
    cell: Cell,
    options: Options,
    law: KnownLaw,
    members: Normal,
    values: Any,
    scores: Mapping[str, Score],
) -> Iterator[Record]:
    """Against the closed form for the same members: what is left is the error of the draws."""
    closed = Ensemble(_first(members, options.members_of_draws))
    for name, score in scores.items():
        exact = decompose(closed, score)
        for count in options.draws:
            ensemble = Ensemble(Samples(values[:, :, :count], law.event_ndim))
            fair = decompose(ensemble, score)
            plug_in = decompose(ensemble, score, unbiased="members")
            for component in _COMPONENTS:
                # By the mean over cases: the value of a single case can be near zero.
                unit = float(np.mean(exact[component]))
                gap = (fair[component] - exact[component]) / unit
                error = float(np.sqrt(np.mean(gap**2)))
                yield cell.record("error_samples", error, score=name, component=component, x=count)
                for quantity, estimated in (
                    ("bias_samples", plug_in[component]),
                    ("bias_samples_unbiased", fair[component]),
                ):
                    bias = float(np.mean(estimated - exact[component]) / unit)
                    yield cell.record(quantity, bias, score=name, component=component, x=count)


def _first(members: Normal, count: int) -> Normal:
    return Normal(members.loc[:count], members.scale[:count], members.event_ndim)


PROCEDURE = Procedure(predict, evaluate, options=Options)
