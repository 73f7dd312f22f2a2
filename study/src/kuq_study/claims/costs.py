"""What the paper says about runtime and approximation error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kuq_study.claims.claim import Case, Claim, Verdict, decided, undecided
from kuq_study.estimates import by_cell, estimates
from kuq_study.vocabulary import SCORES, name_of, ordered

_KERNELS = ("crps", "energy", "gaussian")
#: An exponent that is still called linear; times and exponents of a busy machine scatter so much.
_LINEAR, _SCATTER = 1.3, 0.25


def _curves(
    case: Case, experiment: str, quantity: str
) -> dict[str, list[list[tuple[float, float]]]]:
    """Curves of means over seeds, by score: one for each data set, representation, component."""
    table = by_cell(case.evidence.of(experiment, quantity), along_x=True, component=True)
    by_score: dict[str, dict[tuple[str, str, str], list[tuple[float, float]]]] = {}
    for cell, e in estimates(table).items():
        if cell.x is not None and cell.x > 0 and e.mean > 0:
            key = (cell.dataset, cell.representation, cell.component)
            by_score.setdefault(cell.score, {}).setdefault(key, []).append((cell.x, e.mean))
    return {
        score: [sorted(curve) for curve in curves.values()] for score, curves in by_score.items()
    }


def _slopes(
    curves: dict[str, list[list[tuple[float, float]]]], share: float = 0.5
) -> dict[str, float]:
    """Exponents of power laws, fitted to the upper part of every curve, averaged by score."""
    slopes = {}
    for score, family in curves.items():
        tails = [c[-max(3, round(share * len(c))) :] for c in family if len(c) >= 3]
        if tails:
            slopes[score] = float(np.mean([_exponent(tail) for tail in tails]))
    return slopes


def _exponent(curve: list[tuple[float, float]]) -> float:
    x, y = np.log(np.asarray(curve).T)
    return float(np.polyfit(x, y, 1)[0])


def _listing(values: dict[str, float], form: str = ".2f") -> str:
    return ", ".join(
        f"{name_of(score, SCORES).text} {values[score]:{form}}" for score in ordered(values, SCORES)
    )


def _runtime_slopes(case: Case) -> dict[str, float]:
    """Of all draws but the fewest, whose fixed costs show: the more, the less times scatter."""
    return _slopes(_curves(case, "runtime", "seconds_samples"), share=0.85)


def _flat_squared_error(case: Case) -> Verdict:
    slopes = _runtime_slopes(case)
    if "squared" not in slopes:
        return undecided("no runtime of the squared error against N")
    text = f"seconds grow as N^p with p: {_listing(slopes)}"
    if abs(slopes["squared"] - _LINEAR) < _SCATTER:
        return undecided(f"{text}; times scatter too much to tell")
    return decided(slopes["squared"] < _LINEAR, text)


def _quadratic_in_draws(case: Case) -> Verdict:
    slopes = _runtime_slopes(case)
    kernel_slopes = {s: slopes[s] for s in _KERNELS if s in slopes}
    if not kernel_slopes:
        return undecided("no runtime of kernel scores against N")
    return decided(
        all(1.5 <= p <= 2.5 for p in kernel_slopes.values()),
        f"seconds grow as N^p with p: {_listing(slopes)}; below 2, kuq is faster than the paper's "
        "estimate (sorting, pooled products)",
    )


def _below_a_second(case: Case) -> Verdict:
    curves = _curves(case, "runtime", "seconds_members")
    times = {
        s: max(dict(curve)[10.0] for curve in family if 10.0 in dict(curve))
        for s, family in curves.items()
        if s in (*_KERNELS, "squared") and any(10.0 in dict(curve) for curve in family)
    }
    if len(times) < 2:
        return undecided("no runtime of kernel scores at M = 10")
    text = f"seconds at M = 10: {_listing(times, '.3g')}"
    if abs(max(times.values()) - 1) < _SCATTER:
        return undecided(f"{text}; too close to a second to tell")
    return decided(max(times.values()) < 1, text)


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


CLAIMS = (
    Claim(
        "cost-se",
        "The cost of the squared error is at most linear in the number of draws.",
        "Appendix C, computational complexity",
        _flat_squared_error,
    ),
    Claim(
        "cost-kernels",
        "Kernel scores of samples cost N² per pair of members.",
        "Appendix C, computational complexity",
        _quadratic_in_draws,
    ),
    Claim(
        "cost-second",
        "For 100 images and M = 10 every kernel measure takes less than a second.",
        "Appendix C, empirical runtime",
        _below_a_second,
    ),
    Claim(
        "rate-members",
        "The error of a finite ensemble falls like 1/√M.",
        "Appendix C, approximation error",
        _rate("error_members", "M"),
    ),
    Claim(
        "rate-samples",
        "The error of finite samples falls like 1/√N.",
        "Appendix C, approximation error",
        _rate("error_samples", "N"),
    ),
    Claim(
        "rate-alike",
        "The rate in M is the same for every score.",
        "Appendix C, approximation error",
        _one_rate_for_all,
    ),
)
