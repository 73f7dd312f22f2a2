"""Robustness: how far one member that was trained on distorted targets moves AU and EU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, final

import numpy as np

from kuq import protocols
from kuq._ranges import NotNegative, Several, Within
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.normal import Normal
from kuq.errors import ParameterError
from kuq_study.bandwidths import SCALE, Bandwidth, bandwidth_of
from kuq_study.cell import Cell
from kuq_study.learners import fit_model, load_data, target_distance
from kuq_study.named_scores import scores_for
from kuq_study.procedure import Context, Procedure
from kuq_study.records import Record
from kuq_study.settings import from_table


@final
@dataclass(frozen=True)
class Options:
    """Keys of ``[grid.NAME.evaluation]``.

    ``setting`` ends the names of the quantities; ``members`` are the sizes of base ensembles, of
    which the largest is trained; ``deltas`` the standard deviations of the noise on targets.
    With ``validation = false`` the validation rows are trained on as well.
    """

    setting: str
    members: Annotated[tuple[Several, ...], Within(least=1)] = (25, 5)
    deltas: Annotated[tuple[NotNegative, ...], Within(least=1)] = (
        0.0,
        0.2,
        0.5,
        1.0,
        1.5,
        2.5,
        5.0,
    )
    validation: bool = True
    bandwidth: Bandwidth = SCALE


def depends_on(cell: Cell) -> dict[str, Any]:
    """All settings but the scores and their bandwidth."""
    settings = cell.settings()
    options = from_table(Options, cell.evaluation, "evaluation")
    del settings["scores"]
    settings["evaluation"] = {
        "members": max(options.members),
        "deltas": list(options.deltas),
        "validation": options.validation,
    }
    return settings


def predict(cell: Cell, context: Context) -> Mapping[str, Any]:
    """Train base and distorted members as one batch; their normal predictions of the test rows."""
    options = from_table(Options, cell.evaluation, "evaluation")
    if cell.representation != "normal":
        raise ParameterError(f"robustness needs 'normal' members, got {cell.representation!r}")
    data = load_data(cell, context)
    x, y = np.asarray(data.train.x), np.asarray(data.train.y)
    validation = None
    if options.validation:
        validation = (data.validation.x, data.validation.y)
    else:
        x, y = np.concatenate([x, data.validation.x]), np.concatenate([y, data.validation.y])
    base = max(options.members)
    targets = np.broadcast_to(y, (base + len(options.deltas), len(y))).copy()
    # The same noise at every size, so that a curve over delta is smooth in it.
    noise = np.random.default_rng([cell.seed, 1]).standard_normal(len(y))
    for row, delta in enumerate(options.deltas, start=base):
        targets[row] += delta * noise
    context.report("trains", 0.0)
    more = {"n_members": len(targets)}
    model = fit_model(cell, context, x, y, validation, options=more, member_targets=targets)
    law = model.predict_distribution(data.test.x).members
    return {
        "loc": law.loc,
        "scale": law.scale,
        "target_distance": np.array(target_distance(y)),
        "y": np.asarray(data.test.y),
    }


def evaluate(cell: Cell, arrays: Mapping[str, Any], context: Context) -> Iterator[Record]:
    """MAPE of AU and EU for every size of the base ensemble, distortion and score."""
    options = from_table(Options, cell.evaluation, "evaluation")
    loc, scale, trained = arrays["loc"], arrays["scale"], max(options.members)
    whole = Ensemble(Normal(loc[:trained], scale[:trained]))
    yield cell.record("mse", np.mean((whole.mean() - arrays["y"]) ** 2))
    for size in options.members:
        base = Ensemble(Normal(loc[:size], scale[:size]))
        distance = float(arrays["target_distance"])
        bandwidth = bandwidth_of(options.bandwidth, cell.dataset, distance, base)
        scores = scores_for(cell, base, bandwidth)
        name_of = f"M{size}_{options.setting}"
        yield cell.record(f"bandwidth_{name_of}", bandwidth, score="gaussian")
        for position, delta in enumerate(options.deltas):
            context.report(f"evaluates M = {size}", position / len(options.deltas))
            chosen = [*range(size), trained + position]
            corrupted = Ensemble(Normal(loc[chosen], scale[chosen]))
            results = protocols.robustness(base, corrupted, list(scores.values()))
            for name, r in zip(scores, results, strict=True):
                for component, mape, median in (
                    ("aleatoric", r.aleatoric_mape, r.aleatoric_median),
                    ("epistemic", r.epistemic_mape, r.epistemic_median),
                ):
                    yield cell.record(
                        f"mape_{name_of}", mape, score=name, component=component, x=delta
                    )
                    yield cell.record(
                        f"median_{name_of}", median, score=name, component=component, x=delta
                    )


PROCEDURE = Procedure(predict, evaluate, depends_on, Options, learns=True)
