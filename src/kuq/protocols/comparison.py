"""Which of several uncertainties ranks errors or detects best, and whether that may be chance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from kuq._numbers import whole_number
from kuq.errors import InsufficientDataError, ParameterError, ShapeError
from kuq.protocols.detection import auroc, sides
from kuq.protocols.resampling import Places, Units, simultaneous_halves
from kuq.protocols.retention import SelectivePrediction, selective_prediction
from kuq.protocols.vectors import Vector, fraction, one_per_case

Interval = tuple[float, float]


@final
@dataclass(frozen=True, eq=False, repr=False)
class RetentionComparison:
    """Retention curves of several uncertainties for the same errors, with intervals.

    ``intervals`` are of each prediction-rejection ratio, ``behind`` of its difference from that of
    the ``best``. Each kind holds for all names at once, so also for the one that came out best of
    them; differences, for all pairs. The differences are paired: every resample of cases is the
    same for all, so that they can be certain where the intervals of the ratios overlap.
    """

    curves: Mapping[str, SelectivePrediction]
    intervals: Mapping[str, Interval]
    behind: Mapping[str, Interval]
    best: str
    confidence: float

    def is_behind(self, name: str) -> bool:
        """Whether the best is better than this one beyond the chance of all comparisons."""
        return name != self.best and self.behind[name][0] > 0

    def __repr__(self) -> str:
        ratios = {name: curve.prr for name, curve in self.curves.items()}
        return _table("prediction-rejection ratio", ratios, self)


@final
@dataclass(frozen=True, eq=False, repr=False)
class DetectionComparison:
    """AUROCs of several uncertainties for the same cases inside and outside, with intervals.

    ``behind`` are intervals of what the ``best`` has more than each, paired as those of
    ``RetentionComparison``, and as there all hold at once.
    """

    auroc: Mapping[str, float]
    intervals: Mapping[str, Interval]
    behind: Mapping[str, Interval]
    best: str
    confidence: float

    def is_behind(self, name: str) -> bool:
        """Whether the best is better than this one beyond the chance of all comparisons."""
        return name != self.best and self.behind[name][0] > 0

    def __repr__(self) -> str:
        return _table("AUROC", self.auroc, self)


def _table(
    measure: str,
    values: Mapping[str, float],
    comparison: RetentionComparison | DetectionComparison,
) -> str:
    """A line for each uncertainty: its value and how far it is behind the best."""
    width = max(map(len, values))
    lines = [f"{type(comparison).__name__}: {measure}, and how far behind the best"]
    for name, value in values.items():
        low, high = comparison.behind[name]
        mark = "*" if name == comparison.best else " "
        behind = "" if name == comparison.best else f"  [{low:+.3f}, {high:+.3f}]"
        lines.append(f"{mark} {name:<{width}} {value:8.3f}{behind}")
    return "\n".join(lines)


def compare_retention(
    uncertainties: Mapping[str, Any],
    error: Any,
    retention: tuple[float, float] = (0.5, 1.0),
    *,
    groups: Any = None,
    resamples: int = 400,
    confidence: float = 0.95,
    seed: int = 0,
) -> RetentionComparison:
    """Rank the same errors by several uncertainties, with paired bootstrap intervals.

    ``uncertainties`` has one number per case under each name. Intervals are corrected for choosing
    the best of them. Cases count as independent; where neighbours in space or time are not,
    ``groups`` (a label per case) are drawn as a whole.

    >>> import kuq, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> u = rng.gamma(2.0, size=500)
    >>> error = u * rng.exponential(size=500)
    >>> noise = {"knows": u, "half": u + rng.gamma(4.0, size=500)}
    >>> found = kuq.protocols.compare_retention(noise, error)
    >>> found.best, found.is_behind("half")
    ('knows', True)
    """
    share = fraction(confidence, "confidence")
    e = one_per_case(error, "error")
    every = {
        name: one_per_case(u, f"the uncertainty {name!r}", infinite=True)
        for name, u in uncertainties.items()
    }
    _check(every, resamples)
    for name, u in every.items():
        if u.shape != e.shape:
            raise ShapeError(
                f"the uncertainty {name!r} needs one number for each of {e.size} errors, got "
                f"{u.size}"
            )
    units = Units.of(groups, e.size, "groups")
    units.check_several("groups", resamples)
    curves = {name: selective_prediction(u, e, retention) for name, u in every.items()}
    ratios = {name: curve.prr for name, curve in curves.items()}
    if all(np.isnan(ratio) for ratio in ratios.values()):
        raise InsufficientDataError("all errors are equal, so that no order is better than another")
    best = min(ratios, key=lambda name: ratios[name])
    drawn = {name: np.empty(resamples) for name in every}
    for place, cases in enumerate(_draws(units, resamples, seed)):
        for name, u in every.items():
            drawn[name][place] = selective_prediction(u[cases], e[cases], retention).prr
    intervals, behind = _at_once(ratios, drawn, best, share, (0.0, np.inf))
    return RetentionComparison(curves, intervals, behind, best, share)


def compare_detection(
    uncertainties: Mapping[str, tuple[Any, Any]],
    *,
    groups: tuple[Any, Any] | None = None,
    resamples: int = 400,
    confidence: float = 0.95,
    seed: int = 0,
) -> DetectionComparison:
    """Tell the same cases outside from those inside by several uncertainties, with intervals.

    ``uncertainties`` has under each name those inside and those outside, a number per case.
    ``groups`` are labels of both, as in ``ood_detection``. All cases count; AUROCs do not depend
    on the ratio of sizes.

    >>> import kuq, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> inside, outside = rng.gamma(2.0, size=200), rng.gamma(4.0, size=200)
    >>> noise = rng.gamma(4.0, size=(2, 200))
    >>> names = {"sees": (inside, outside), "half": (inside + noise[0], outside + noise[1])}
    >>> found = kuq.protocols.compare_detection(names)
    >>> found.best, found.is_behind("half")
    ('sees', True)
    """
    share = fraction(confidence, "confidence")
    every = {
        name: tuple(
            one_per_case(u, f"the uncertainty {name!r} {side}", infinite=True)
            for u, side in zip(both, ("inside", "outside"), strict=True)
        )
        for name, both in uncertainties.items()
    }
    _check(every, resamples)
    low, high = next(iter(every.values()))
    for name, (inside, outside) in every.items():
        if (inside.size, outside.size) != (low.size, high.size):
            raise ShapeError(
                f"the uncertainty {name!r} needs {low.size} cases inside and {high.size} outside, "
                f"as the others, got {inside.size} and {outside.size}"
            )
    inner, outer = sides(low, high, groups)
    for side, units in (("inside", inner), ("outside", outer)):
        units.check_several(side, resamples)
    values = {name: auroc(*both) for name, both in every.items()}
    best = max(values, key=lambda name: values[name])
    drawn = {name: np.empty(resamples) for name in every}
    draws = zip(_draws(inner, resamples, seed, 0), _draws(outer, resamples, seed, 1), strict=True)
    for place, (here, there) in enumerate(draws):
        for name, (inside, outside) in every.items():
            drawn[name][place] = auroc(inside[here], outside[there])
    intervals, behind = _at_once(values, drawn, best, share, (0.0, 1.0))
    return DetectionComparison(values, intervals, behind, best, share)


def _check(uncertainties: Mapping[str, Any], resamples: int) -> None:
    if not uncertainties:
        raise ParameterError("at least one uncertainty is needed")
    if whole_number(resamples, "resamples", 0) < 20:
        raise ParameterError(f"at least 20 resamples are needed for an interval, got {resamples}")


def _draws(units: Units, resamples: int, *seed: int) -> Iterator[Places]:
    """Resamples of cases, the same ones for all uncertainties."""
    rng = np.random.default_rng(seed[0] if len(seed) == 1 else seed)
    return (units.drawn(rng) for _ in range(resamples))


def _at_once(
    values: Mapping[str, float],
    drawn: Mapping[str, Vector],
    best: str,
    confidence: float,
    possible: Interval,
) -> tuple[dict[str, Interval], dict[str, Interval]]:
    """Intervals of all values, and of how far each is behind the best, which was chosen by them.

    Any of the values could have come out best, so that the second ones hold for all pairs.
    """
    names = list(values)
    draws = np.stack([drawn[name] for name in names], axis=1)
    halves = dict(zip(names, simultaneous_halves(draws, confidence), strict=True))
    intervals = {
        name: (
            float(np.maximum(value - halves[name], possible[0])),
            float(np.minimum(value + halves[name], possible[1])),
        )
        for name, value in values.items()
    }
    first, second = np.triu_indices(len(names), 1)
    of_pairs = np.zeros((len(names), len(names)))
    if first.size:
        of_pairs[first, second] = simultaneous_halves(
            draws[:, first] - draws[:, second], confidence
        )
    apart = dict(zip(names, (of_pairs + of_pairs.T)[names.index(best)], strict=True))
    gaps = {name: abs(value - values[best]) for name, value in values.items()}
    behind = {
        name: (float(gaps[name] - apart[name]), float(gaps[name] + apart[name])) for name in names
    }
    return intervals, behind
