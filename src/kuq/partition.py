"""The result of a decomposition into more than two levels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from kuq._array import Array, detach, is_traced, namespace, safe_ratio, same_value
from kuq.kernels.base import Score
from kuq.result import OF_LEVELS_OF_POINTS, cut, summaries, table_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class Partition(Mapping[str, Array]):
    """Total uncertainty as a sum: noise, each level, and interactions of crossed levels.

    A mapping: ``u["total"]``, ``u["noise"]``, ``u["scenario"]``, ``u["scenario:model"]``;
    ``components`` has all but the total, which is their sum in this order. ``noise`` is aleatoric,
    the sum of all others is ``epistemic``. ``design`` says how levels lie: "a / b" is b inside of
    a, "a × b" crossed. Further fields are those of ``Uncertainty``.
    """

    total: Array
    components: Mapping[str, Array]
    levels: tuple[str, ...]
    design: str
    #: Levels that were taken as they are, not as samples of more.
    fixed: tuple[str, ...]
    score: Score
    estimator: str
    unbiased: bool | str
    method: str
    units: str

    def __getitem__(self, key: str) -> Array:
        return self.total if key == "total" else self.components[key]

    def __iter__(self) -> Iterator[str]:
        return iter(("total", *self.components))

    def __len__(self) -> int:
        return 1 + len(self.components)

    def __eq__(self, other: object) -> bool:
        """Whether two results are the same in every number and in how they were computed."""
        if not isinstance(other, Partition):
            return NotImplemented
        if list(self) != list(other) or not all(same_value(self[k], other[k]) for k in self):
            return False
        mine, theirs = vars(self), vars(other)
        arrays = ("total", "components")
        return all(same_value(mine[name], theirs[name]) for name in mine if name not in arrays)

    __hash__ = None  # type: ignore[assignment]  # it holds arrays

    @property
    def noise(self) -> Array:
        """What each member says by itself, the mean over members."""
        return self.components["noise"]

    @property
    def aleatoric(self) -> Array:
        """The same as ``noise``."""
        return self.noise

    @property
    def epistemic(self) -> Array:
        """All that is not noise: the sum of levels and interactions."""
        components = [array for name, array in self.components.items() if name != "noise"]
        return sum(components[1:], start=components[0])

    @property
    def note(self) -> str:
        """What a reader has to know of the noise: that of points is unknown, and not zero.

        >>> import kuq
        >>> runs = kuq.Ensemble(kuq.Point([[0.0, 1.0], [4.0, 5.0]]), member_ndim=2)
        >>> kuq.decompose(runs, "crps", levels=("model", "run")).note
        'the noise of single values is unknown; their spread is in the levels'
        """
        if is_traced(self.total):
            return ""
        xp = namespace(self.total)
        not_nan = ~xp.isnan(detach(self.total))
        silent = (detach(self.noise) == 0) & not_nan
        alone = bool(xp.any(silent & (detach(self.total) != 0))) and bool(xp.all(silent | ~not_nan))
        return OF_LEVELS_OF_POINTS if alone else ""

    @property
    def known(self) -> dict[str, Array]:
        """Total and components without the noise of single values, which is unknown."""
        return {name: array for name, array in self.items() if name != "noise" or not self.note}

    def shares(self) -> dict[str, Array]:
        """The share of every component in the total, zero where the total is zero.

        >>> import kuq
        >>> groups = kuq.Ensemble(kuq.Normal([[0.0, 1.0], [4.0, 5.0]], 0.5), member_ndim=2)
        >>> u = kuq.decompose(groups, "variance", levels=("model", "run"), unbiased=False)
        >>> {name: float(share.round(2)) for name, share in u.shares().items()}
        {'noise': 0.06, 'model': 0.89, 'run': 0.06}
        """
        return {name: safe_ratio(array, self.total) for name, array in self.components.items()}

    def mapped(self, change: Callable[[Array], Array]) -> Partition:
        """The same with every array changed."""
        components = {name: change(array) for name, array in self.components.items()}
        return replace(self, total=change(self.total), components=components)

    def to_frame(self, index: Any = None) -> pd.DataFrame:
        """A pandas table with a row for every input and a column for total and components.

        ``index`` names the rows; results with several axes have one level of the index for each.
        ``frame.attrs`` has design, score, units, method, and a note if there is one: the noise of
        single values is unknown, and NaN.

        >>> import kuq
        >>> groups = kuq.Ensemble(kuq.Point([[[0.0], [2.0]], [[4.0], [6.0]]]), member_ndim=2)
        >>> u = kuq.decompose(groups, "variance", levels=("model", "run"), unbiased=False)
        >>> u.to_frame().iloc[0].to_dict()
        {'total': 5.0, 'noise': nan, 'model': 4.0, 'run': 1.0}
        """
        parts: dict[str, Array] = dict(self)
        if self.note:  # what is not known is missing
            parts["noise"] = np.full(tuple(self.total.shape), math.nan)
        frame = table_of(parts, index)
        frame.attrs = {"design": self.design, "score": repr(self.score)}
        frame.attrs |= {"units": self.units, "method": self.method}
        if self.note:
            frame.attrs["note"] = self.note
        return frame

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        # NumPy and pandas would make an array or a column of the words in it.
        raise TypeError(
            "a Partition holds several arrays; take one (u.total), or a table of all: u.to_frame()"
        )

    def __repr__(self) -> str:
        shape = tuple(self.total.shape)
        head = f"Partition(shape={shape}, design={self.design!r}, score={cut(repr(self.score))}, "
        head += f"estimator={self.estimator!r}, unbiased={self.unbiased!r}, "
        head += f"fixed={self.fixed!r}, " if self.fixed else ""
        head += f"method={self.method!r}, units={self.units!r})"
        if is_traced(self.total) or 0 in shape:
            return head
        rows = [head, *([f"  {self.note}"] if self.note else [])]
        return "\n".join([*rows, *summaries(self.known, max(map(len, self)))])


def summed(components: Mapping[str, Array]) -> Array:
    """The total of components, infinite where one is."""
    parts = list(components.values())
    xp = namespace(parts[0])
    total = sum(parts[1:], start=parts[0])
    infinite = xp.any(xp.stack([array == float("inf") for array in parts]), axis=0)
    return xp.where(infinite, xp.full_like(total, float("inf")), total)
