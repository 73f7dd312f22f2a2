"""What the paper says about runtime and approximation error."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable

import numpy as np

from kuq.bench.claims.claim import Case, Claim, Verdict, decided, undecided
from kuq.bench.estimates import by_cell, estimates

_KERNELS = ("crps", "energy", "gaussian")


def _curves(
    case: Case, experiment: str, quantity: str, representation: str | None = None
) -> dict[str, list[tuple[float, float]]]:
    """Mean values against x by score (geometric mean over data sets and representations)."""
    logs: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    table = by_cell(case.evidence.of(experiment, quantity), along_x=True, component=True)
    for cell, e in estimates(table).items():
        if cell.x is None or e.mean <= 0:
            continue
        if representation is None or cell.representation == representation:
            logs[cell.score][cell.x].append(math.log(e.mean))
    return {
        score: sorted((x, math.exp(float(np.mean(values)))) for x, values in points.items())
        for score, points in logs.items()
    }


def _slope(curve: list[tuple[float, float]]) -> float:
    x, y = np.log(np.asarray(curve).T)
    return float(np.polyfit(x, y, 1)[0])


def _slopes(curves: dict[str, list[tuple[float, float]]]) -> dict[str, float]:
    return {score: _slope(curve) for score, curve in curves.items() if len(curve) >= 3}


def _listing(values: dict[str, float], form: str = ".2f") -> str:
    return ", ".join(f"{score} {value:{form}}" for score, value in sorted(values.items()))


def _flat_squared_error(case: Case) -> Verdict:
    slopes = _slopes(_curves(case, "runtime", "seconds_samples"))
    if "squared" not in slopes:
        return undecided("no runtime of the squared error against N")
    return decided(slopes["squared"] < 1.2, f"seconds grow as N^p with p: {_listing(slopes)}")


def _quadratic_in_draws(case: Case) -> Verdict:
    slopes = _slopes(_curves(case, "runtime", "seconds_samples"))
    known = {s: slopes[s] for s in _KERNELS if s in slopes}
    if not known:
        return undecided("no runtime of kernel scores against N")
    return decided(
        all(1.5 <= p <= 2.5 for p in known.values()),
        f"seconds grow as N^p with p: {_listing(slopes)}; below 2, kuq is faster than the paper's "
        "estimate (sorting, pooled products)",
    )


def _below_a_second(case: Case) -> Verdict:
    curves = _curves(case, "runtime", "seconds_members")
    times = {
        s: dict(curve)[10.0]
        for s, curve in curves.items()
        if s in (*_KERNELS, "squared") and 10.0 in dict(curve)
    }
    if len(times) < 2:
        return undecided("no runtime of kernel scores at M = 10")
    return decided(max(times.values()) < 1, f"seconds at M = 10: {_listing(times, '.3g')}")


def _rate(quantity: str, letter: str) -> Callable[[Case], Verdict]:
    def test(case: Case) -> Verdict:
        slopes = _slopes(_curves(case, "approximation", quantity))
        if not slopes:
            return undecided(f"no approximation error against {letter}")
        return decided(
            all(-0.7 <= p <= -0.35 for p in slopes.values()),
            f"error falls as {letter}^p with p: {_listing(slopes)} (−0.5 expected)",
        )

    return test


def _one_rate_for_all(case: Case) -> Verdict:
    slopes = _slopes(_curves(case, "approximation", "error_members"))
    if len(slopes) < 3:
        return undecided("approximation errors against M of fewer than three scores")
    spread = max(slopes.values()) - min(slopes.values())
    return decided(spread < 0.2, f"exponents differ by {spread:.2f}: {_listing(slopes)}")


def _claim(key: str, statement: str, source: str, test: Callable[[Case], Verdict]) -> Claim:
    return Claim(key, statement, source, "experiment", test)


CLAIMS = (
    _claim(
        "cost-se",
        "The cost of the squared error is at most linear in the number of draws.",
        "Appendix C, computational complexity",
        _flat_squared_error,
    ),
    _claim(
        "cost-kernels",
        "Kernel scores of samples cost N² per pair of members.",
        "Appendix C, computational complexity",
        _quadratic_in_draws,
    ),
    _claim(
        "cost-second",
        "For 100 images and M = 10 every kernel measure takes less than a second.",
        "Appendix C, empirical runtime",
        _below_a_second,
    ),
    _claim(
        "rate-members",
        "The error of a finite ensemble falls like 1/√M.",
        "Appendix C, approximation error",
        _rate("error_members", "M"),
    ),
    _claim(
        "rate-samples",
        "The error of finite samples falls like 1/√N.",
        "Appendix C, approximation error",
        _rate("error_samples", "N"),
    ),
    _claim(
        "rate-alike",
        "The rate in M is the same for every score.",
        "Appendix C, approximation error",
        _one_rate_for_all,
    ),
)
