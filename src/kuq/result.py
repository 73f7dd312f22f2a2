"""The result of a decomposition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kuq._array import Array, detach, is_traced, namespace, same_value
from kuq.kernels.base import Score

_KEYS = ("total", "aleatoric", "epistemic")


@dataclass(frozen=True, eq=False, repr=False)
class Uncertainty(Mapping[str, Array]):
    """Total, aleatoric and epistemic uncertainty; total = aleatoric + epistemic.

    Also a mapping (``u["epistemic"]``). ``method`` is the worst of "exact", "quadrature",
    "samples" and "monte-carlo" among its parts; ``score`` has every bandwidth as a number.
    """

    total: Array
    aleatoric: Array
    epistemic: Array
    score: Score
    estimator: str
    unbiased: bool | str
    method: str
    units: str

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
        if not isinstance(other, Uncertainty):
            return NotImplemented
        mine, theirs = vars(self), vars(other)
        return all(same_value(mine[name], theirs[name]) for name in mine)

    __hash__ = None  # type: ignore[assignment]  # it holds arrays

    def __repr__(self) -> str:
        shape = tuple(self.total.shape)
        head = f"Uncertainty(shape={shape}, score={self.score!r}, estimator={self.estimator!r}, "
        head += f"unbiased={self.unbiased!r}, method={self.method!r}, units={self.units!r})"
        if is_traced(self.total) or 0 in shape:
            return head
        xp = namespace(self.total)
        rows = [head]
        for key in _KEYS:
            values = detach(self[key])
            if not shape:
                rows.append(f"  {key:<9} {float(values):.6g}")
                continue
            low, high = float(xp.min(values)), float(xp.max(values))
            mean = float(
                xp.mean(xp.astype(values, xp.float32) if "16" in str(values.dtype) else values)
            )
            rows.append(f"  {key:<9} mean {mean:.6g}, from {low:.6g} to {high:.6g}")
        return "\n".join(rows)
