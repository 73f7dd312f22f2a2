"""Detection of out-of-distribution inputs by their uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from kuq._numbers import whole_number
from kuq.errors import ParameterError
from kuq.protocols.resampling import Units
from kuq.protocols.vectors import Vector, fraction, one_per_case


@final
@dataclass(frozen=True)
class OodDetection:
    """How well uncertainty tells outside from inside; outside counts as the positive class.

    ``auroc`` is the chance that an outside case is more uncertain than an inside one (ties count
    half), ``aupr`` the average precision, ``fpr95`` the share of inside cases that are flagged
    when at least 95 % of the outside cases are. Intervals are bootstrap percentiles, NaN for
    ``resamples=0``. ``cases`` is the number of cases on either side after subsampling, ``groups``
    that of the groups that were drawn as a whole, None if cases were.
    """

    auroc: float
    aupr: float
    fpr95: float
    auroc_interval: tuple[float, float]
    aupr_interval: tuple[float, float]
    fpr95_interval: tuple[float, float]
    cases: tuple[int, int]
    groups: tuple[int, int] | None = None


def ood_detection(
    inside: Any,
    outside: Any,
    *,
    groups: tuple[Any, Any] | None = None,
    unit: Literal["case", "group"] = "case",
    seed: int = 0,
    equal_sizes: bool = True,
    resamples: int = 1000,
    confidence: float = 0.95,
) -> OodDetection:
    """AUROC, AUPR and FPR at 95 % TPR of uncertainties inside and outside of the training domain.

    With ``equal_sizes`` the larger side is subsampled, as in the paper; the AUPR depends on the
    ratio of sizes. ``seed`` fixes subsample and bootstrap, which draws both sides with
    replacement. Infinite uncertainties are fine, NaN is an error.

    Cases that come from one trajectory, patient or station say less than as many independent
    ones: ``groups`` has their labels, of inside and of outside, and subsample and bootstrap then
    draw whole groups. With unit="group" a group is judged as one: by the mean of its cases.

    >>> import kuq
    >>> o = kuq.protocols.ood_detection([0.1, 0.2, 0.3, 0.4], [0.35, 0.5, 0.6, 0.7])
    >>> o.auroc, o.fpr95
    (0.9375, 0.25)
    """
    low = one_per_case(inside, "inside", infinite=True)
    high = one_per_case(outside, "outside", infinite=True)
    whole_number(resamples, "resamples", 0)
    fraction(confidence, "confidence")
    rng = np.random.default_rng(whole_number(seed, "seed", 0))
    inner_units, outer_units = sides(low, high, groups)
    if unit not in ("case", "group"):
        raise ParameterError(f'unit must be "case" or "group", got {unit!r}')
    if unit == "group":
        if groups is None:
            raise ParameterError('unit="group" needs groups=(labels of inside, labels of outside)')
        low, high = (_means(u, v) for u, v in ((inner_units, low), (outer_units, high)))
        inner_units, outer_units = Units(low.size), Units(high.size)
    if equal_sizes:
        size = min(inner_units.count, outer_units.count)
        low, inner_units = _subsample(low, inner_units, size, rng)
        high, outer_units = _subsample(high, outer_units, size, rng)
    for name, units in (("inside", inner_units), ("outside", outer_units)):
        units.check_several(name, resamples)
    _, place = np.unique(np.concatenate([low, high]), return_inverse=True)
    levels = int(place.max()) + 1
    inner, outer = place[: low.size], place[low.size :]
    point = _measures(_counts(inner, levels), _counts(outer, levels))
    draws = np.full((resamples, 3), np.nan)
    for row in draws:
        again, beyond = inner[inner_units.drawn(rng)], outer[outer_units.drawn(rng)]
        row[:] = _measures(_counts(again, levels), _counts(beyond, levels))
    auroc, aupr, fpr95 = _percentiles(draws, confidence)
    return OodDetection(
        auroc=point[0],
        aupr=point[1],
        fpr95=point[2],
        auroc_interval=auroc,
        aupr_interval=aupr,
        fpr95_interval=fpr95,
        cases=(int(low.size), int(high.size)),
        groups=None if groups is None else (inner_units.count, outer_units.count),
    )


def sides(low: Vector, high: Vector, groups: tuple[Any, Any] | None) -> tuple[Units, Units]:
    """What is drawn as a whole on either side."""
    if groups is not None and len(groups) != 2:
        raise ParameterError(
            f"groups must be (labels of inside, labels of outside), got {len(groups)} parts"
        )
    inner, outer = (None, None) if groups is None else groups
    return (
        Units.of(inner, low.size, "the groups of inside"),
        Units.of(outer, high.size, "the groups of outside"),
    )


def auroc(inside: Vector, outside: Vector) -> float:
    """The chance that an outside case is more uncertain than an inside one; ties count half."""
    _, place = np.unique(np.concatenate([inside, outside]), return_inverse=True)
    levels = int(place.max()) + 1
    return _measures(_counts(place[: inside.size], levels), _counts(place[inside.size :], levels))[
        0
    ]


def _means(units: Units, values: Vector) -> Vector:
    with np.errstate(invalid="ignore"):  # infinities of both signs, which the check below tells
        return one_per_case(units.means(values), "the mean of a group", infinite=True)


def _subsample(
    values: Vector, units: Units, size: int, rng: np.random.Generator
) -> tuple[Vector, Units]:
    if units.count == size:
        return values, units
    chosen = rng.choice(units.count, size, replace=False)
    kept = values[units.places(chosen)]
    if units.begin is None:
        return kept, Units(kept.size)
    lengths = np.diff(units.begin)[chosen]
    return kept, Units.of(np.repeat(np.arange(size), lengths), kept.size, "groups")


def _counts(places: NDArray[np.intp], levels: int) -> Vector:
    return np.bincount(places, minlength=levels).astype(np.float64)


def _measures(inside: Vector, outside: Vector) -> tuple[float, float, float]:
    """AUROC, AUPR and FPR95 from the number of cases at every level of uncertainty."""
    n_inside, n_outside = inside.sum(), outside.sum()
    below = np.cumsum(inside) - inside
    auroc = float(outside @ (below + 0.5 * inside) / (n_inside * n_outside))
    # From the highest threshold down: what is flagged when all above it are.
    hits = np.cumsum(outside[::-1])
    alarms = np.cumsum(inside[::-1])
    flagged = hits + alarms
    precision = hits / np.where(flagged > 0, flagged, 1.0)
    aupr = float(precision @ outside[::-1] / n_outside)
    # The guard keeps 0.95·20 = 19.000000000000004 from asking for one more.
    enough = int(np.argmax(hits >= 0.95 * n_outside * (1 - 1e-12)))
    return auroc, aupr, float(alarms[enough] / n_inside)


def _percentiles(draws: NDArray[np.float64], confidence: float) -> list[tuple[float, float]]:
    if not len(draws):
        return [(np.nan, np.nan)] * 3
    tail = (1 - confidence) / 2
    ends = np.quantile(draws, [tail, 1 - tail], axis=0)
    return [(float(low), float(high)) for low, high in ends.T]
