"""A prediction that was read from a file, as arrays whose axes are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
from kuq.kernels.base import Kernel, Score
from kuq.result import Uncertainty
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
        own = self._member_axes + self.event_ndim + (self.law in ("samples", "mixture"))
        return self._first.ndim - own

    def prediction(self, part: slice | np.ndarray | None = None) -> Prediction:
        """The prediction, or that of a part of the first batch axis."""
        arrays = dict(self.arrays)
        if part is not None and self._batch_ndim:
            index = (slice(None),) * self._member_axes + (part,)
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


def decompose_stored(
    stored: StoredPrediction,
    score: Score,
    progress: Progress | None = None,
    **options: Any,
) -> Uncertainty:
    """Decompose a stored prediction piece by piece, telling how far it is."""
    whole = stored.prediction()
    if isinstance(score, Kernel):  # one bandwidth for all pieces
        draws, seed = options.get("draws"), options.get("seed")
        checked = Options.checked(True, 1e-8, draws, seed, DEFAULT_MEMORY)
        score = resolve_bandwidths(score, [whole], checked)
    count = stored.count
    per_input = sum(a.size for a in stored.arrays.values()) / max(count, 1)
    step = max(1, int(_PIECE / max(per_input, 1)))
    if step >= count:
        u = decompose(whole, score, **options)
        _tell(progress, count, count)
        return u
    parts = []
    for start in range(0, count, step):
        piece = slice(start, min(start + step, count))
        parts.append(decompose(stored.prediction(piece), score, **options))
        _tell(progress, piece.stop, count)
    return _joined(parts)


def _tell(progress: Progress | None, done: int, total: int) -> None:
    if progress is not None:
        progress(done, total)


def _joined(parts: list[Uncertainty]) -> Uncertainty:
    first = parts[0]
    total, aleatoric, epistemic = (
        np.concatenate([u[key] for u in parts]) for key in ("total", "aleatoric", "epistemic")
    )
    return Uncertainty(
        total, aleatoric, epistemic, first.score, first.estimator, first.unbiased, first.method,
        first.units,
    )  # fmt: skip
