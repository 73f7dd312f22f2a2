"""A prediction that was read from a file, as arrays whose axes are known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kuq.distributions.base import Distribution, Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.evidential import NormalInverseGamma
from kuq.distributions.mixture import NormalMixture
from kuq.distributions.normal import Normal, Point
from kuq.distributions.samples import Samples
from kuq.distributions.student_t import StudentT
from kuq.errors import ParameterError, ShapeError
from kuq.files.decomposed import Part
from kuq.kernels.base import Kernel, Score
from kuq.kernels.event_weights import weighted
from kuq.result import PartErrors, Uncertainty
from kuq.scores.options import DEFAULT_MEMORY, Options
from kuq.uncertainty import decompose
from kuq.views import resolve_bandwidths

#: Numbers of the prediction that one piece of work touches.
_PIECE = 2**22
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class StoredPrediction:
    """Arrays (members, batch…, [draws], event…, [components]), or (batch…, event…) if evidential.

    ``labels`` has one text or number per entry of the first batch axis, for reports.
    """

    law: str
    arrays: Mapping[str, np.ndarray]
    event_ndim: int = 0
    weights: np.ndarray | None = None
    nan_policy: str = "raise"
    labels: tuple[str, ...] = ()
    label_name: str = "input"
    extra: Mapping[str, Any] = field(default_factory=dict)
    member_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    #: What happened, (batch…, event…).
    outcome: np.ndarray | None = None
    #: Where values are missing, so that there is no result, (batch…).
    masked: np.ndarray | None = None
    #: Which coordinates of an outcome count, (event…); None if all do.
    cells: np.ndarray | None = None
    #: Members that are not there, (members, batch…); None if all are everywhere.
    absent: np.ndarray | None = None

    @property
    def is_evidential(self) -> bool:
        return self.law == "evidential"

    @property
    def count(self) -> int:
        """The length of the first batch axis; one if there is none."""
        return int(self._first.shape[self._member_axes]) if self._batch_ndim else 1

    @property
    def _first(self) -> np.ndarray:
        return next(iter(self.arrays.values()))

    @property
    def _member_axes(self) -> int:
        return 0 if self.is_evidential else 1

    @property
    def _batch_ndim(self) -> int:
        inner = self._member_axes + self.event_ndim + (self.law in ("samples", "mixture"))
        return self._first.ndim - inner

    @property
    def _batch_shape(self) -> tuple[int, ...]:
        start = self._member_axes
        return self._first.shape[start : start + self._batch_ndim]

    def part_at(self, places: np.ndarray) -> Part:
        """The prediction at some places of the first batch axis, and what is known there."""
        masked, outcome = self._incomplete(), self.outcome
        if self._batch_ndim:
            masked, outcome = masked[places], None if outcome is None else outcome[places]
        return Part(self.prediction(places), masked, outcome, self.cells)

    def judged_by(self, outcome: np.ndarray) -> StoredPrediction:
        """The same with what happened, which has the shape of the inputs and of an outcome."""
        first = self._first
        event = first.shape[first.ndim - self.event_ndim - (self.law == "mixture") :]
        shape = (*self._batch_shape, *event[: self.event_ndim])
        if outcome.shape != shape:
            raise ShapeError(
                f"the target needs the shape {shape} of what is predicted, got {outcome.shape}"
            )
        if np.isinf(outcome).any():
            raise ParameterError("the target must be finite, or NaN where it is not known")
        return replace(self, outcome=outcome)

    def complete(self) -> Prediction:
        """The prediction where nothing is missing, which decides about bandwidths."""
        incomplete = self._incomplete()
        if not incomplete.any():
            return self.prediction()
        if incomplete.all():  # most inputs of the same members
            return max(self.by_some_members(), key=lambda group: len(group[0]))[1]
        return self._at(np.flatnonzero(~incomplete.ravel()))

    def by_some_members(self) -> Iterator[tuple[np.ndarray, Prediction]]:
        """Inputs that lack members, by their places in the flat batch, with those they have."""
        if self.absent is None:
            return
        absent = self.absent.reshape(len(self.absent), -1)
        lacking = absent.any(axis=0)
        if self.masked is not None:
            lacking &= ~self.masked.ravel()
        rows = np.flatnonzero(lacking)
        kinds, which = np.unique(absent[:, rows], axis=1, return_inverse=True)
        for k, gone in enumerate(kinds.T):
            alike = rows[which.ravel() == k]
            yield alike, self._at(alike, np.flatnonzero(~gone))

    def _incomplete(self) -> np.ndarray:
        """Inputs without a result, or with one of some members only, (batch…)."""
        incomplete = np.zeros(self._batch_shape, bool) if self.masked is None else self.masked
        return incomplete if self.absent is None else incomplete | self.absent.any(axis=0)

    def _at(self, rows: np.ndarray, members: np.ndarray | None = None) -> Prediction:
        """The prediction at places of the flat batch, of all members or of some."""
        lead, axes = self._member_axes, len(self._batch_shape)
        arrays, weights = {}, self.weights
        for name, a in self.arrays.items():
            flat = a.reshape(*a.shape[:lead], -1, *a.shape[lead + axes :])
            chosen = flat[(slice(None),) * lead + (rows,)]
            arrays[name] = chosen if members is None else chosen[members]
        if weights is not None and members is not None:
            weights = weights[members]
        return replace(self, arrays=arrays, weights=weights).prediction()

    def prediction(self, places: slice | np.ndarray | None = None) -> Prediction:
        """The prediction, or that of a part of the first batch axis."""
        arrays = dict(self.arrays)
        if places is not None and self._batch_ndim:
            index = (slice(None),) * self._member_axes + (places,)
            arrays = {name: a[index] for name, a in arrays.items()}
        if self.is_evidential:
            loc, nu, alpha, beta = (arrays[name] for name in ("loc", "nu", "alpha", "beta"))
            return NormalInverseGamma(loc, nu, alpha, beta, self.event_ndim)
        return Ensemble(self._members(arrays), self.weights)

    def _members(self, arrays: dict[str, np.ndarray]) -> Distribution:
        n = self.event_ndim
        if self.law == "normal":
            return Normal(arrays["loc"], arrays["scale"], n)
        if self.law == "student":
            return StudentT(arrays["df"], arrays["loc"], arrays["scale"], n)
        if self.law == "mixture":
            return NormalMixture(arrays["mixture"], arrays["loc"], arrays["scale"], n)
        if self.law == "samples":
            return Samples(arrays["samples"], n, nan_policy=self.nan_policy)
        return Point(arrays["points"], n)

    def checked(self) -> StoredPrediction:
        """Itself, once its arrays have shapes and values that make a prediction."""
        shapes = {name: a.shape for name, a in self.arrays.items()}
        if len(set(shapes.values())) > 1:
            listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            raise ShapeError(f"the parameters must have one shape, got {listed}")
        if self._batch_ndim < 0 or self._first.size == 0:
            raise ShapeError(
                f"expected the axes {self._expected_axes()}, got an array of shape "
                f"{self._first.shape}"
            )
        if self.nan_policy == "propagate":
            return replace(_without_missing(self), nan_policy="raise").checked()
        if self.nan_policy == "omit" and self.is_evidential:
            raise ParameterError(
                "--nan omit leaves out draws or members, and there are none; --nan propagate gives "
                "inputs with missing values no result"
            )
        if self.nan_policy == "omit" and self.law != "samples":
            return replace(_without_missing(self, omit=True), nan_policy="raise").checked()
        prediction = self.prediction()  # checks values
        if isinstance(prediction, Ensemble) and prediction.member_count < 2:
            raise ParameterError(
                "at least two members are needed to tell epistemic from aleatoric uncertainty; "
                f"the array has shape {self._first.shape}, read as {self._expected_axes()}"
            )
        return self

    def _expected_axes(self) -> str:
        members = [] if self.is_evidential else ["members"]
        draws = ["draws"] if self.law == "samples" else []
        last = ["components"] if self.law == "mixture" else []
        event = ["event…"] if self.event_ndim else []
        return f"({', '.join([*members, 'inputs…', *draws, *event, *last])})"


#: Values at which every parameter is valid, for entries that are masked.
_NEUTRAL = {"scale": 1.0, "df": 9.0, "nu": 1.0, "alpha": 3.0, "beta": 1.0, "mixture": 1.0}


def _without_missing(stored: StoredPrediction, omit: bool = False) -> StoredPrediction:
    """The prediction with valid numbers for missing ones, and where these are.

    A coordinate of the event that is missing in every prediction, such as a cell of the sea, is
    left out of outcomes; any other missing value leaves its input without a result, or, with
    ``omit``, without a member, of which two are needed.
    """
    missing: np.ndarray = np.zeros(stored._first.shape, dtype=bool)
    for a in stored.arrays.values():
        missing |= np.isnan(a)
    if stored.law == "mixture":
        missing = np.asarray(missing.any(axis=-1))
    batch, event = stored._batch_shape, stored.event_ndim
    lead = stored._member_axes
    outer = tuple(range(missing.ndim - event))
    never: np.ndarray = np.asarray(missing.all(axis=outer) if event else False)
    inner = tuple(range(lead + len(batch), missing.ndim))
    absent = np.asarray((missing & ~never).any(axis=inner))
    masked = np.asarray(absent.any(axis=tuple(range(lead))))
    lacking = masked
    if omit:
        masked = np.asarray((~absent).sum(axis=0) < 2)
        lacking = lacking & ~masked
    if masked.all() or (event and never.all()):
        raise ParameterError("every prediction has missing values (NaN), so there is no result")
    notes = []
    if never.any():
        notes.append(
            f"{int(never.sum())} of {never.size} cells are missing (NaN) in every prediction and "
            "left out of the outcome"
        )
    if masked.any():
        what = "fewer than two members" if omit else "missing values (NaN)"
        notes.append(f"{int(masked.sum())} of {masked.size} inputs have {what} and no result")
    if omit and lacking.any():
        notes.append(
            f"{int(lacking.sum())} of {masked.size} inputs lack members and are decomposed by "
            "those that are there; comparisons of members and judgements leave them out"
        )
    arrays = {
        name: np.where(np.isnan(a), _NEUTRAL.get(name, 0.0), a) for name, a in stored.arrays.items()
    }
    return replace(
        stored,
        arrays=arrays,
        masked=masked if masked.any() else None,
        cells=~never if never.any() else None,
        absent=absent if omit and lacking.any() else None,
        notes=(*stored.notes, *notes),
    )


def decompose_stored(
    stored: StoredPrediction,
    score: Score,
    progress: Progress | None = None,
    **options: Any,
) -> Uncertainty:
    """Decompose a stored prediction piece by piece, telling how far it is."""
    if stored.cells is not None:
        score = weighted(score, stored.cells.astype(np.float64))
    if isinstance(score, Kernel):  # one bandwidth for all pieces
        draws, seed = options.get("draws"), options.get("seed")
        checked = Options.checked(True, 1e-8, draws, seed, DEFAULT_MEMORY)
        score = resolve_bandwidths(score, [stored.complete()], checked)
    count = stored.count
    per_input = sum(a.size for a in stored.arrays.values()) / max(count, 1)
    step = max(1, int(_PIECE / max(per_input, 1)))
    parts = []
    for start in range(0, count, step):
        piece = slice(start, min(start + step, count))
        parts.append(decompose(stored.prediction(piece), score, **options))
        if progress is not None:
            progress(piece.stop, count)
    u = parts[0] if len(parts) == 1 else _joined(parts)
    return _masked(_with_uneven(u, stored, score, options), stored.masked)


def _with_uneven(
    u: Uncertainty, stored: StoredPrediction, score: Score, options: dict[str, Any]
) -> Uncertainty:
    """The result with inputs that lack members by those that they have."""
    if stored.absent is None:
        return u
    inputs = max(1, math.prod(stored._batch_shape))
    flat = {key: np.array(u[key]).reshape(inputs, -1) for key in u}
    for rows, prediction in stored.by_some_members():
        uneven = decompose(prediction, score, **options)
        for key, values in flat.items():
            values[rows] = np.asarray(uneven[key]).reshape(len(rows), -1)
    total, aleatoric, epistemic = (values.reshape(u.total.shape) for values in flat.values())
    return replace(u, total=total, aleatoric=aleatoric, epistemic=epistemic)


def _masked(u: Uncertainty, masked: np.ndarray | None) -> Uncertainty:
    if masked is None:
        return u
    total, aleatoric, epistemic = (np.where(masked, np.nan, u[key]) for key in u)
    errors = u.standard_error
    if errors is not None:
        errors = PartErrors(*(np.where(masked, np.nan, error) for error in errors))
    return replace(u, total=total, aleatoric=aleatoric, epistemic=epistemic, standard_error=errors)


def _joined(parts: list[Uncertainty]) -> Uncertainty:
    first = parts[0]
    total, aleatoric, epistemic = (
        np.concatenate([u[key] for u in parts]) for key in ("total", "aleatoric", "epistemic")
    )
    errors = None
    if first.standard_error is not None:
        pieces = [u.standard_error for u in parts if u.standard_error is not None]
        errors = PartErrors(*map(np.concatenate, zip(*pieces, strict=True)))
    return replace(
        first, total=total, aleatoric=aleatoric, epistemic=epistemic, standard_error=errors
    )
