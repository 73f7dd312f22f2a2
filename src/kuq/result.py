"""The result of a decomposition."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from kuq._array import Array, detach, is_traced, namespace, same_value
from kuq.errors import ParameterError, ShapeError
from kuq.kernels.base import Score

if TYPE_CHECKING:
    import pandas as pd

_KEYS = ("total", "aleatoric", "epistemic")
#: What a result is where there is one level of uncertainty and not two.
OF_POINTS = "spread of the members; their own noise is unknown"
OF_ONE_MODEL = "spread of the draws of one model; what the model does not know is unknown"
#: What it is where there are levels of members that are points.
OF_LEVELS_OF_POINTS = "the noise of single values is unknown; their spread is in the levels"
#: Values of a law below which they know clearly too little noise: rows in leaves of a forest count
#: 1 − 1/n of it, and trees that follow it make that less.
_FEW_VALUES = 10
#: Characters of the score in the repr of a result.
_LONGEST = 80


def spread_in_words(score: Score, estimator: str, of_one_model: bool) -> str:
    """What the total of points, or of draws of one model, is.

    Points are compared with each other, and draws are a law with an entropy, which is half as much:
    so the same numbers have two totals.
    """
    if of_one_model:
        return "the entropy of the draws, half of the mean divergence of two of them"
    if score.local:
        return "infinite under the log score"
    if estimator == "bma":
        return "the mean divergence of a member from the mixture of all"
    return "the mean divergence of two members, twice the entropy that they have as draws"


def cut(text: str) -> str:
    """A text that fits a line."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


class PartErrors(NamedTuple):
    """Standard errors of the parts of an :class:`Uncertainty`."""

    total: Array
    aleatoric: Array
    epistemic: Array


def _same_fields(one: object, other: object) -> bool:
    mine, theirs = vars(one), vars(other)
    return all(same_value(mine[name], theirs[name]) for name in mine)


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """A value by random directions, and its standard error over them.

    ``method`` is "sliced"; where an exact way costs no more it is taken, and the error is zero.

    >>> import kuq, numpy as np
    >>> draws = np.random.default_rng(0).normal(size=(5000, 3))
    >>> h = kuq.entropy(kuq.Samples(draws, event_ndim=1), kuq.Energy(), directions=200)
    >>> h.method, bool(abs(h.value - 2 / np.sqrt(np.pi)) < 0.03)  # E‖X − X'‖ / 2 = 2/√π
    ('sliced', True)
    """

    value: Array
    standard_error: Array
    method: str

    def __eq__(self, other: object) -> bool:
        return _same_fields(self, other) if isinstance(other, Estimate) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it holds arrays

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The value, where NumPy wants an array."""
        return np.asarray(_in_numpy(self.value), dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        shape = tuple(self.value.shape)
        if shape:
            return f"Estimate(shape={shape}, method={self.method!r})"
        value, error = float(self.value), float(self.standard_error)
        return f"Estimate({value:.6g} ± {error:.2g}, method={self.method!r})"


@dataclass(frozen=True, eq=False, repr=False)
class _ThreeParts(Mapping[str, Array]):
    """Three arrays over the inputs, as attributes and as a mapping, and how they were computed."""

    total: Array
    aleatoric: Array
    epistemic: Array

    def __getitem__(self, key: str) -> Array:
        if key not in _KEYS:
            raise KeyError(key)
        return getattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return iter(_KEYS)

    def __len__(self) -> int:
        return len(_KEYS)

    def __eq__(self, other: object) -> bool:
        """Whether two results are the same in every number and in how they were computed."""
        return _same_fields(self, other) if type(other) is type(self) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it holds arrays


@dataclass(frozen=True, eq=False, repr=False)
class Uncertainty(_ThreeParts):
    """Total, aleatoric and epistemic uncertainty; total = aleatoric + epistemic.

    Also a mapping (``u["epistemic"]``). ``method`` is the worst of "exact", "quadrature",
    "samples", "sliced" and "monte-carlo" among its parts; ``score`` has every bandwidth as a
    number. ``standard_error`` has those of the parts where random directions were asked for.
    Members without noise of their own, such as points, have one level of uncertainty only: then
    ``is_split`` is False, and ``note`` says what ``total`` is. ``values_per_law`` is how many
    values the laws of members typically have where they are ``Samples(…, whole=True)``, such as the
    rows in leaves; of few ``note`` says what that means for the split.
    """

    score: Score
    estimator: str
    unbiased: bool | str
    method: str
    units: str
    standard_error: PartErrors | None = None
    values_per_law: float | None = None

    @property
    def is_split(self) -> bool:
        """Whether the two parts can be told apart: at some input members have noise of their own.

        >>> import kuq
        >>> kuq.decompose(kuq.Ensemble(kuq.Point([[0.0], [1.0]])), kuq.CRPS()).is_split
        False
        """
        count, alike = self._without_noise()
        return not (self._is_of_one_model() or 0 < count == alike)

    @property
    def note(self) -> str:
        """What a reader has to know of the split, in words; empty where it is as it should be."""
        if self._is_of_one_model():
            return OF_ONE_MODEL
        count, alike = self._without_noise()
        if 0 < count == alike:
            return OF_POINTS
        of_points = f"{count} of {alike} inputs: {OF_POINTS}" if count else ""
        return "; ".join(filter(None, (of_points, self.note_of_few_values)))

    @property
    def note_of_few_values(self) -> str:
        """What laws of few values, such as small leaves, mean for the split; empty without."""
        n = self.values_per_law
        if n is None or n >= _FEW_VALUES:
            return ""
        return (
            f"members are laws of typically {n:g} value{'' if n == 1 else 's'}; if these are rows "
            "in leaves of a forest, they know too little noise, and how much is epistemic hangs on "
            'the leaf size: from_fitted(…, noise="normal") takes noise from out-of-bag residuals'
        )

    def _without_noise(self) -> tuple[int, int]:
        """Inputs at which members are points, and inputs that are known; (0, 0) if traced.

        Points that agree say nothing of their noise either, but count only beside others. Changes
        by leaving members out are of both signs, and no parts.
        """
        if any(is_traced(self[key]) for key in _KEYS):
            return 0, 0
        xp = namespace(self.total)
        aleatoric, epistemic = detach(self.aleatoric), detach(self.epistemic)
        not_nan = ~xp.isnan(detach(self.total))
        silent = ((aleatoric == 0) | (aleatoric == -math.inf)) & not_nan
        if bool(xp.any(not_nan & (epistemic < 0))) or not bool(xp.any(silent & (epistemic > 0))):
            return 0, 0
        return int(xp.count_nonzero(silent)), int(xp.count_nonzero(not_nan))

    def _is_of_one_model(self) -> bool:
        """Whether the total is known and none of its parts."""
        if any(is_traced(self[key]) for key in _KEYS):
            return False
        xp = namespace(self.total)
        not_nan = ~xp.isnan(detach(self.total))
        parts = ~(xp.isnan(detach(self.aleatoric)) & xp.isnan(detach(self.epistemic)))
        return bool(xp.any(not_nan)) and not bool(xp.any(parts))

    def _below_zero(self) -> int:
        """Inputs whose epistemic part is negative by noise: changes are so in both parts."""
        xp = namespace(self.total)
        if bool(xp.any(detach(self.aleatoric) < 0)) or self.score.local:
            return 0
        return int(xp.count_nonzero(detach(self.epistemic) < 0))

    def to_frame(self, index: Any = None) -> pd.DataFrame:
        """A pandas table with a row for every input and the columns total, aleatoric, epistemic.

        ``index`` names the rows, such as ``X.index``; results with several axes have one level of
        the index for each. ``frame.attrs`` has score, units, method and a note, if there is one.
        Where nothing can be split, aleatoric and epistemic are NaN.

        >>> import kuq
        >>> u = kuq.decompose(kuq.Ensemble(kuq.Normal([[0.0, 1.0], [2.0, 1.0]], 1.0)), kuq.CRPS())
        >>> u.to_frame(index=["a", "b"]).epistemic.tolist()
        [0.972..., 0.0]
        """
        attrs = {"score": repr(self.score), "units": self.units, "method": self.method}
        if self.note:
            attrs["note"] = self.note
        parts: dict[str, Array] = dict(self)
        if not self.is_split:  # what is not known is missing
            parts |= {key: np.full(tuple(self.total.shape), math.nan) for key in _KEYS[1:]}
        return table_of(parts, index, attrs)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        # NumPy and pandas would make an array or a column of the words in it.
        raise TypeError(
            "an Uncertainty holds three arrays; take one (u.total), or a table of all: u.to_frame()"
        )

    def __repr__(self) -> str:
        shape = tuple(self.total.shape)
        head = f"Uncertainty(shape={shape}, score={cut(repr(self.score))}, "
        head += f"estimator={self.estimator!r}, unbiased={self.unbiased!r}, "
        head += f"method={self.method!r}, units={self.units!r})"
        if is_traced(self.total) or 0 in shape:
            return head
        rows = [head, *([f"  {self.note}"] if self.note else [])]
        shown = _KEYS if self.is_split else _KEYS[:1]
        parts = {key: self[key] for key in shown}
        errors = {} if self.standard_error is None else self.standard_error._asdict()
        rows += summaries(parts, 9, errors)
        below = self._below_zero() if self.is_split and shape else 0
        if below:
            rows[-1] += f" ({below} of {math.prod(shape)} below zero: noise of draws, see "
            rows[-1] += "kuq.standard_error)"
        return "\n".join(rows)


def summaries(
    parts: Mapping[str, Array], width: int, errors: Mapping[str, Array] = MappingProxyType({})
) -> list[str]:
    """A line for every part: its mean and range over the inputs, and standard errors, if any."""
    rows = []
    for key, array in parts.items():
        values = detach(array)
        xp = namespace(values)
        name = f"  {key:<{width}}"
        if not values.shape:
            error = f" ± {float(errors[key]):.2g}" if key in errors else ""
            rows.append(f"{name} {float(values):.6g}{error}")
            continue
        every = math.prod(values.shape)
        given = values[~xp.isnan(values)]
        missing = every - math.prod(given.shape)
        if missing == every:
            rows.append(f"{name} none: all {every} are NaN")
            continue
        low, high = float(xp.min(given)), float(xp.max(given))
        mean = float(xp.mean(xp.astype(given, xp.float32) if "16" in str(given.dtype) else given))
        rows.append(f"{name} mean {mean:.6g}, from {low:.6g} to {high:.6g}")
        rows[-1] += f" ({missing} of {every} are NaN)" if missing else ""
        if key in errors:
            error = detach(errors[key])
            largest = float(xp.max(xp.where(xp.isnan(error), xp.zeros_like(error), error)))
            rows[-1] += f", standard error up to {largest:.2g}"
    return rows


def table_of(
    parts: Mapping[str, Array], index: Any, attrs: Mapping[Any, Any] = MappingProxyType({})
) -> pd.DataFrame:
    """A pandas table with a row for every input and a column for every part."""
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise ParameterError(
            'to_frame needs pandas: pip install "kuq[files]", or take u["total"] as an array'
        ) from error
    shape = tuple(parts["total"].shape)
    if index is None and len(shape) > 1:
        index = pd.MultiIndex.from_product([range(n) for n in shape])
    count = math.prod(shape)
    if index is not None and len(index) != count:
        raise ShapeError(f"an index of {len(index)} entries does not fit {count} inputs")
    columns = {key: _in_numpy(array).reshape(-1) for key, array in parts.items()}
    frame = pd.DataFrame(columns, index=index)
    frame.attrs.update(attrs)
    return frame


@dataclass(frozen=True, eq=False, repr=False)
class StandardError(_ThreeParts):
    """Standard errors of the total, aleatoric and epistemic uncertainty of every input.

    Also a mapping (``e["epistemic"]``). ``over`` says what they cover: "members" (other models
    could have been trained), "draws" (each member's law is known by draws only), or "both".
    ``members`` and ``draws`` are the numbers of them, the fewest draws of a law, None without.
    """

    over: str
    members: int
    draws: int | None
    score: Score
    estimator: str
    unbiased: bool | str
    method: str
    units: str

    def to_frame(self, index: Any = None) -> pd.DataFrame:
        """A pandas table like :meth:`Uncertainty.to_frame`; ``frame.attrs`` says what it covers."""
        attrs = {"score": repr(self.score), "units": self.units, "method": self.method}
        return table_of(self, index, attrs | {"over": self.over})

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a StandardError holds three arrays; take one: e.epistemic")

    def __repr__(self) -> str:
        sizes = f"{self.members} members"
        if self.draws is not None:
            sizes += f" of {self.draws} draws"
        head = f"StandardError(shape={tuple(self.total.shape)}, over={self.over!r}, {sizes}, "
        head += f"score={cut(repr(self.score))}, units={self.units!r})"
        return "\n".join([head, *summaries(self, 9)])


@dataclass(frozen=True, eq=False, repr=False)
class MemberTest:
    """Whether draws of members can be told apart, by permutation of the draws between members.

    ``p_value``: of all members being the same law; ``statistic`` is what it tests, the epistemic
    uncertainty. ``excess`` (M, …): by how much the mean divergence of a member from the others is
    above that of all members; ``member_p_values`` (M, …): of a member standing as far apart as this
    one by chance, whichever member it is. Shapes … are those of the batch if ``per_input``, else
    empty: means over all inputs are tested. ``permutations`` is their number B; no p-value is below
    1/(B + 1).
    """

    statistic: Array
    p_value: Array
    excess: Array
    member_p_values: Array
    permutations: int
    per_input: bool
    score: Score

    @property
    def outlier(self) -> Array:
        """The position of the member that stands farthest apart."""
        return namespace(self.excess).argmax(self.excess, axis=0)

    @property
    def outlier_p_value(self) -> Array:
        """The p-value of that member, which is right though it was chosen among all."""
        return namespace(self.member_p_values).min(self.member_p_values, axis=0)

    def __repr__(self) -> str:
        shape = tuple(self.p_value.shape)
        head = f"MemberTest(shape={shape}, members={self.excess.shape[0]}, "
        head += f"permutations={self.permutations}, score={cut(repr(self.score))})"
        if shape:
            return "\n".join([head, *summaries({"p_value": self.p_value}, 9)])
        of_one = f"  member {int(self.outlier)}: p = {float(self.outlier_p_value):.4g}"
        return "\n".join([head, f"  all members: p = {float(self.p_value):.4g}", of_one])


def _in_numpy(array: Array) -> np.ndarray:
    """The values without a graph, on the CPU, in a dtype that pandas knows."""
    values = detach(array)
    if "16" in str(values.dtype):
        xp = namespace(values)
        values = xp.astype(values, xp.float32)
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values)
