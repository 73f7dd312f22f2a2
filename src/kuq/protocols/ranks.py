"""Average ranks of methods over cases, with intervals and significance tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from kuq._numbers import whole_number
from kuq.errors import InsufficientDataError, ParameterError, ShapeError
from kuq.protocols.vectors import Table, Vector, as_numpy, fraction, group_numbers


@final
@dataclass(frozen=True, eq=False)
class AverageRanks:
    """Mean ranks per method (1 is best), and how far they can be trusted.

    ``ranks`` (cases, methods) has tied values at shared ranks and NaN where a method does not
    apply; ``interval`` (methods, 2) is a bootstrap percentile interval over cases, of the
    averages ``resampled`` (resamples, methods), which tell how often any order occurs.
    ``friedman_p`` tests that all methods rank alike, on the ``complete`` cases where all of them
    apply; two methods whose average ranks there differ by more than ``critical_difference`` do so
    significantly (Nemenyi), with p-values ``nemenyi_p`` (methods, methods). ``wilcoxon_p`` are
    paired signed-rank tests on the values, Holm-corrected over all pairs. They are NaN
    for too few cases.
    """

    ranks: Table
    average: Vector
    interval: Table
    resampled: Table
    complete: int
    friedman_p: float
    critical_difference: float
    nemenyi_p: Table
    wilcoxon_p: Table


def average_ranks(
    values: Any,
    higher_is_better: bool = False,
    *,
    tie: float = 0.0,
    groups: Sequence[Any] | None = None,
    datasets: Sequence[Any] | None = None,
    stand_ins: Mapping[int, int] | None = None,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> AverageRanks:
    """Rank methods within every case and average over cases; ties share their average rank.

    ``values`` (cases, methods) has NaN where a method does not apply; a case ranks the methods
    that it has. Values that differ by less than ``tie`` are tied: a method's rank is one more than
    the number of better ones, and ties count half; in tests, too, such differences are none.
    With ``groups`` (a label per case) the average is over groups of the averages
    within them. ``datasets`` (a label per case) are drawn as a whole by the bootstrap.
    ``stand_ins={3: 2}`` gives method 3, where it has no value, the rank of method 2 (the energy
    score of scalars is the CRPS).

    >>> import kuq
    >>> kuq.protocols.average_ranks([[0.1, 0.2, 0.2], [0.3, 0.1, 0.2]]).average.tolist()
    [2.0, 1.75, 2.25]
    >>> kuq.protocols.average_ranks([[0.501, 0.5, 0.7]], tie=0.01).average.tolist()
    [1.5, 1.5, 3.0]
    """
    table = _checked(values)
    if not 0 <= tie < math.inf:
        raise ParameterError(f"tie must be finite and not negative, got {tie!r}")
    whole_number(resamples, "resamples", 0)
    fraction(confidence, "confidence")
    rng = np.random.default_rng(whole_number(seed, "seed", 0))
    cases, methods = table.shape
    ranks = _ranks(-table if higher_is_better else table, tie)
    for method, other in (stand_ins or {}).items():
        if not (0 <= method < methods and 0 <= other < methods):
            raise ParameterError(f"stand_ins name columns 0 … {methods - 1}, got {method}: {other}")
        ranks[:, method] = np.where(np.isnan(table[:, method]), ranks[:, other], ranks[:, method])
    group = (
        group_numbers(groups, "groups", cases) if groups is not None else np.zeros(cases, np.intp)
    )
    block = group_numbers(datasets, "datasets", cases) if datasets is not None else np.arange(cases)
    whole = ~np.isnan(table).any(axis=1)
    resampled = _resampled(ranks, group, block, resamples, rng)
    friedman, critical, nemenyi = _rank_tests(
        _ranks(-table[whole] if higher_is_better else table[whole], tie), confidence
    )
    return AverageRanks(
        ranks=ranks,
        average=_average(ranks, np.ones((1, cases)), group)[0],
        interval=_interval(resampled, confidence),
        resampled=resampled,
        complete=int(whole.sum()),
        friedman_p=friedman,
        critical_difference=critical,
        nemenyi_p=nemenyi,
        wilcoxon_p=_wilcoxon(table, tie),
    )


def _checked(values: Any) -> Table:
    table = as_numpy(values, "values")
    if table.ndim != 2 or table.shape[1] < 2:
        raise ShapeError(
            f"values must have shape (cases, methods) with two methods or more, got {table.shape}"
        )
    if np.isnan(table).all():
        raise InsufficientDataError("values has no case with a number; nothing can be ranked")
    return table


def _average(ranks: Table, weights: Table, group: NDArray[np.intp]) -> Table:
    """Mean over groups of the weighted mean rank within each, for every row of weights."""
    ranked = ~np.isnan(ranks)
    filled = np.where(ranked, ranks, 0.0)
    total = np.zeros((len(weights), ranks.shape[1]))
    groups = np.zeros_like(total)
    for number in range(int(group.max()) + 1):
        inside = group == number
        counts = weights[:, inside] @ ranked[inside].astype(np.float64)
        has = counts > 0
        total += (weights[:, inside] @ filled[inside]) / np.where(has, counts, 1.0)
        groups += has
    return np.where(groups > 0, total / np.maximum(groups, 1), np.nan)


def _resampled(
    ranks: Table,
    group: NDArray[np.intp],
    block: NDArray[np.intp],
    resamples: int,
    rng: np.random.Generator,
) -> Table:
    blocks = int(block.max()) + 1
    drawn = rng.multinomial(blocks, np.full(blocks, 1 / blocks), size=resamples)
    return _average(ranks, drawn[:, block].astype(np.float64), group)


def _interval(resampled: Table, confidence: float) -> Table:
    tail = (1 - confidence) / 2
    ends = np.full((resampled.shape[1], 2), np.nan)
    for method, averages in enumerate(resampled.T):
        present = averages[~np.isnan(averages)]
        if present.size:
            ends[method] = np.quantile(present, [tail, 1 - tail])
    return ends


def _ranks(table: Table, tie: float) -> Table:
    """Ranks within every case, the smallest value first; NaN keeps out of them."""
    # The guard keeps 0.57 − 0.56 = 0.0099999999999999 from being less than 0.01.
    limit = tie * (1 - 1e-9)
    one, other = table[:, :, None], table[:, None, :]
    with np.errstate(invalid="ignore"):  # inf − inf, which equality below tells
        apart = one - other
    tied = (one == other) | (np.abs(apart) < limit)
    better = (other < one) & ~tied
    ranks = 0.5 + better.sum(axis=2) + 0.5 * tied.sum(axis=2)
    return np.where(np.isnan(table), np.nan, ranks)


def _rank_tests(ranks: Table, confidence: float) -> tuple[float, float, Table]:
    """Friedman's test, and Nemenyi's critical difference and p-values, on complete cases."""
    cases, methods = ranks.shape
    if cases < 2:
        return math.nan, math.nan, np.full((methods, methods), np.nan)
    friedman = _friedman(ranks) if methods > 2 else math.nan
    error = math.sqrt(methods * (methods + 1) / (6 * cases))
    average = ranks.mean(axis=0)
    gaps = np.abs(average[:, None] - average) / error * math.sqrt(2)
    critical = optimize.brentq(lambda q: confidence - 1 + float(_range_tail(q, methods)), 0, 50)
    return friedman, critical / math.sqrt(2) * error, _range_tail(gaps, methods)


def _friedman(ranks: Table) -> float:
    """The p-value for ranks of any kind that have one mean in every case, ties or none."""
    cases, methods = ranks.shape
    middle = (methods + 1) / 2
    within = float(((ranks - middle) ** 2).sum())
    if within == 0:  # all are tied
        return 1.0
    between = float(((ranks.mean(axis=0) - middle) ** 2).sum()) * cases**2
    return float(stats.chi2.sf((methods - 1) * between / within, methods - 1))


def _range_tail(q: Any, methods: int) -> Table:
    """P(range of ``methods`` standard normals > q); SciPy's general form takes seconds for it."""
    z, step = np.linspace(-9.0, 9.0, 361, retstep=True)
    # The largest is z, the others lie within q below it; a trapezoid is exact for such densities.
    others = special.ndtr(z) - special.ndtr(z - np.asarray(q)[..., None])
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    below = methods * step * np.sum(density * others ** (methods - 1), axis=-1)
    return np.asarray(np.clip(1.0 - below, 0.0, 1.0))


def _wilcoxon(table: Table, tie: float) -> Table:
    """Paired signed-rank tests of all pairs of methods, Holm-corrected over the testable ones."""
    methods = table.shape[1]
    raw: dict[tuple[int, int], float] = {}
    for i in range(methods):
        for j in range(i + 1, methods):
            with np.errstate(invalid="ignore"):  # inf − inf tells nothing, like a missing value
                gap = table[:, i] - table[:, j]
            gap = gap[~np.isnan(gap)]
            gap[np.abs(gap) < tie * (1 - 1e-9)] = 0.0
            if gap.size < 2:
                continue
            raw[i, j] = _signed_rank_p(gap)
    corrected = np.full((methods, methods), np.nan)
    np.fill_diagonal(corrected, 1.0)
    running = 0.0
    for rank, (pair, p) in enumerate(sorted(raw.items(), key=lambda item: item[1])):
        running = max(running, min(1.0, (len(raw) - rank) * p))
        corrected[pair] = corrected[pair[::-1]] = running
    return corrected


def _signed_rank_p(gap: Vector) -> float:
    if not gap.any():
        return 1.0
    sizes = np.abs(gap)
    # Exact where there are no ties; with ties SciPy would go through permutations for seconds.
    exact = gap.size <= 50 and sizes.all() and np.unique(sizes).size == gap.size
    method: Literal["exact", "approx"] = "exact" if exact else "approx"
    return float(stats.wilcoxon(gap, zero_method="zsplit", method=method).pvalue)
