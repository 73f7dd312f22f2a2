"""A report of a prediction that is in memory."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kuq._array import axis_of_one
from kuq._replacing import check_target, write_text
from kuq.adapters.conversion import as_distribution, no_prediction
from kuq.distributions.base import Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.errors import ParameterError, ShapeError
from kuq.files.decomposed import Decomposed, Part, Partitioned
from kuq.files.words import in_words, not_judged
from kuq.kernels.base import Score
from kuq.kernels.marginal import CRPS
from kuq.protocols.vectors import as_numpy
from kuq.reports.cases import cases, in_numpy
from kuq.reports.decomposition import report_page
from kuq.reports.inputs import evenly
from kuq.reports.judgement import check_outcomes
from kuq.reports.levels import levels_page
from kuq.reports.named import as_named, named_page
from kuq.reports.page import PAGE
from kuq.uncertainty import decompose

#: Inputs whose cells are looked at for maps.
_INPUTS_OF_MAPS = 200
#: What ``decompose`` can be told.
_OPTIONS = frozenset(inspect.signature(decompose).parameters)


def report(
    prediction: Any,
    score: Score | str | None = None,
    *,
    y: Any = None,
    names: Sequence[Any] | None = None,
    labels: Sequence[Any] | None = None,
    path: str | Path = "report.html",
    title: str = "predictions",
    **options: Any,
) -> Path:
    """Decompose a prediction or several, and write a page about it; see ``kuq.report``."""
    target = Path(path)
    if target.suffix.lower() != ".html":
        raise ParameterError(f"the path of a report must end in .html, got {str(target)!r}")
    if not target.parent.is_dir():
        raise ParameterError(f"the folder {str(target.parent)!r} of the report does not exist")
    check_target(target, PAGE, [])
    if reason := no_prediction(prediction):
        raise ParameterError(reason)
    named = as_named(prediction)
    if named is not None:
        if names is not None or labels is not None:
            raise ParameterError(
                "names and labels of a prediction with named dimensions are its coordinates: "
                "data.assign_coords(member=[…])"
            )
        page = named_page(named, score, y=y, title=title, **options)
        write_text(target, page, PAGE, [])
        return target
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        raise ParameterError(
            f"kuq.report has no option {unknown[0]!r}; labels= names the inputs, names= the "
            "members, and others are those of kuq.decompose"
        )
    if isinstance(prediction, Mapping) and not prediction:
        raise ParameterError("a report needs at least one prediction, got an empty mapping")
    if options.get("levels") is not None:
        if y is not None or names is not None:
            given = "y" if y is not None else "names"
            raise ParameterError(
                f"{given} is about members of one level; leave it or levels out (flattened() has "
                "the members of an Ensemble in no groups)"
            )
        every = prediction if isinstance(prediction, Mapping) else {"": prediction}
        parts = {str(key): _partitioned(one, score, labels, options) for key, one in every.items()}
        write_text(target, levels_page(title, parts), PAGE, [])
        return target
    if isinstance(prediction, Mapping):
        check_outcomes(prediction, y)
        outcomes = y if isinstance(y, Mapping) else dict.fromkeys(prediction, y)
        variables = [
            _decomposed(str(name), one, score, outcomes.get(name), names, labels, options)
            for name, one in prediction.items()
        ]
        if y is not None:
            variables = [
                one if one.target else replace(one, notes=(*one.notes, not_judged(one.name)))
                for one in variables
            ]
    else:
        variables = [_decomposed("", prediction, score, y, names, labels, options)]
    write_text(target, report_page(title, variables), PAGE, [])
    return target


def _decomposed(
    name: str,
    prediction: Any,
    score: Score | str | None,
    y: Any,
    names: Sequence[Any] | None,
    labels: Sequence[Any] | None,
    options: dict[str, Any],
) -> Decomposed:
    predicted = _predicted(prediction)
    count = predicted.member_count if isinstance(predicted, Ensemble) else 0
    if names is not None and len(names) != count:
        rows = predicted.batch_shape[:1] == (len(names),)
        hint = "; names are of members, and labels= names the inputs" if rows else ""
        raise ShapeError(f"{count} members need {count} names, got {len(names)}{hint}")
    batch = predicted.batch_shape
    outcome = None if y is None else _outcome(y, predicted)
    row_names = _names_of_rows(y)
    _check_labels(labels, batch)
    _check_order(labels, row_names)
    labels = row_names if labels is None else labels
    u = decompose(predicted, CRPS() if score is None else score, **options)
    dims = _dims(batch)
    kept = {key: value for key, value in options.items() if key != "estimator"}
    return Decomposed(
        name=name,
        uncertainty=u,
        description=in_words(predicted, dict(zip(dims, batch, strict=True))),
        dims=dims or ("input",),
        labels=() if labels is None else tuple(map(str, labels)),
        inputs_at=_Selected(predicted, outcome),
        options=kept,
        member_names=() if names is None else tuple(map(str, names)),
        target=None if y is None else str(getattr(y, "name", None) or "y"),
        factors=prediction.factors if isinstance(prediction, Prediction) else None,
    )


def _partitioned(
    prediction: Any,
    score: Score | str | None,
    labels: Sequence[Any] | None,
    options: dict[str, Any],
) -> Partitioned:
    predicted = _predicted(prediction)
    batch = predicted.batch_shape
    _check_labels(labels, batch)
    u = decompose(predicted, CRPS() if score is None else score, **options)
    dims = _dims(batch)

    def of_cells(of_cell: Score) -> dict[str, np.ndarray]:
        chosen = evenly(math.prod(batch), _INPUTS_OF_MAPS)
        return dict(decompose(cases(predicted, chosen), of_cell, **options))

    return Partitioned(
        u,
        in_words(predicted, dict(zip(dims, batch, strict=True))),
        dims or ("input",),
        labels=() if labels is None else tuple(map(str, labels)),
        cells=of_cells if len(predicted.event_shape) == 2 else None,
    )


def _predicted(prediction: Any) -> Prediction:
    predicted = prediction if isinstance(prediction, Prediction) else as_distribution(prediction)
    return in_numpy(predicted)


def _names_of_rows(y: Any) -> Sequence[Any] | None:
    """The index of a pandas Series, where it is more than positions."""
    index: Any = getattr(y, "index", None)  # of a list it is a method
    named = hasattr(index, "tolist") and type(index).__name__ != "RangeIndex"
    return list(index) if named else None


def _check_labels(labels: Sequence[Any] | None, batch: tuple[int, ...]) -> None:
    inputs = batch[0] if batch else 1
    if labels is not None and len(labels) != inputs:
        raise ShapeError(f"{inputs} inputs need as many labels, got {len(labels)}")


def _check_order(labels: Sequence[Any] | None, of_outcomes: Sequence[Any] | None) -> None:
    """Outcomes count by their places, so that names in another order are those of other inputs."""
    if labels is None or of_outcomes is None or len(labels) != len(of_outcomes):
        return
    ours, theirs = list(map(str, labels)), list(map(str, of_outcomes))
    if ours != theirs and sorted(ours) == sorted(theirs):
        place = next(k for k, one in enumerate(ours) if one != theirs[k])
        raise ParameterError(
            f"y and labels name the same inputs in different orders: {ours[place]!r} is at the "
            f"place of {theirs[place]!r}; give outcomes in the order of the predictions, such as "
            "y.loc[labels]"
        )


def _dims(batch: tuple[int, ...]) -> tuple[str, ...]:
    return tuple("input" if axis == 0 else f"axis {axis}" for axis in range(len(batch)))


def _outcome(y: Any, prediction: Prediction) -> np.ndarray:
    shape = (*prediction.batch_shape, *prediction.event_shape)
    values = as_numpy(getattr(y, "values", y) if hasattr(y, "dims") else y, "y")
    if values.shape != shape:
        raise ShapeError(
            f"y needs the shape {shape} of what is predicted, got {values.shape}"
            f"{axis_of_one(values.shape, shape)}"
        )
    if np.isinf(values).any():
        raise ParameterError("y must be finite, or NaN where it is not known")
    return values


class _Selected:
    """Inputs of a prediction in memory."""

    def __init__(self, prediction: Prediction, outcome: np.ndarray | None) -> None:
        self._prediction = prediction
        self._outcome = outcome

    def __call__(self, places: np.ndarray) -> Part:
        batch = self._prediction.batch_shape
        outcome = self._outcome
        if not batch:
            return Part(self._prediction, np.zeros((), dtype=bool), outcome)
        every = np.arange(int(np.prod(batch))).reshape(batch)[places]
        # All axes of the batch become one: what is asked of a part does not depend on them.
        flat = None
        if outcome is not None:
            flat = outcome.reshape(-1, *outcome.shape[len(batch) :])[every.ravel()]
        return Part(cases(self._prediction, every.ravel()), np.zeros(every.size, dtype=bool), flat)
