"""Paired differences against SciPy's tests, and power against quadrature and simulation."""

import numpy as np
import pytest
from scipy import integrate, stats

import kuq
from kuq.protocols import paired_difference, runs_needed, smallest_detectable_effect


def power_by_quadrature(effect, runs, level):
    """P(|Z + effect·√n| > t·S): over the law of S, the estimate of the deviation."""
    freedom, shift = runs - 1, effect * np.sqrt(runs)
    critical = stats.t.isf(level / 2, freedom)

    def density(s):
        chi = stats.chi.pdf(s * np.sqrt(freedom), freedom) * np.sqrt(freedom)
        return chi * (stats.norm.sf(critical * s - shift) + stats.norm.cdf(-critical * s - shift))

    return integrate.quad(density, 0, 8, limit=400, epsabs=1e-12)[0]


@pytest.mark.parametrize("runs", [2, 3, 5, 10, 34, 200])
@pytest.mark.parametrize(("level", "power"), [(0.05, 0.8), (0.01, 0.95), (0.2, 0.5)])
def test_the_effect_has_the_power_that_was_asked_for(runs, level, power):
    effect = smallest_detectable_effect(1.0, runs, level=level, power=power)
    assert power_by_quadrature(effect, runs, level) == pytest.approx(power, abs=1e-6)


def test_effects_are_in_the_unit_of_the_deviation():
    one = smallest_detectable_effect(1.0, 10)
    assert smallest_detectable_effect(0.03, 10) == pytest.approx(0.03 * one, rel=1e-12)
    assert smallest_detectable_effect(0.0, 10) == 0.0
    # Many runs: (1.9600 + 0.8416) standard errors.
    assert smallest_detectable_effect(1.0, 10**6) == pytest.approx(2.8016e-3, rel=1e-4)
    assert smallest_detectable_effect(1.0, 10, level=0.3, power=0.2) == 0.0


def test_the_test_finds_it_as_often_as_it_says():
    rng = np.random.default_rng(0)
    effect = smallest_detectable_effect(0.5, 8)
    found = stats.ttest_1samp(rng.normal(effect, 0.5, (10_000, 8)), 0.0, axis=1).pvalue < 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.02)  # ± 0.004


@pytest.mark.parametrize("effect", [0.02, 0.1, 0.5, 3.0, 50.0])
def test_runs_needed_are_the_fewest(effect):
    needed = runs_needed(1.0, effect)
    assert smallest_detectable_effect(1.0, needed) <= effect
    assert needed == 2 or smallest_detectable_effect(1.0, needed - 1) > effect


def test_differences_are_those_of_scipy():
    rng = np.random.default_rng(1)
    hard = rng.normal(size=12)  # what a split does to all methods
    a, b = hard + 0.1 * rng.normal(size=12), hard + 0.1 * rng.normal(size=12) + 0.1
    found = paired_difference(a, b, confidence=0.9)
    test = stats.ttest_rel(a, b)
    interval = test.confidence_interval(0.9)
    assert found.difference == pytest.approx(np.mean(a - b), rel=1e-12)
    assert found.p_value == pytest.approx(test.pvalue, rel=1e-10)
    assert found.interval == pytest.approx((interval.low, interval.high), rel=1e-10)
    assert found.deviation == pytest.approx(np.std(a - b, ddof=1), rel=1e-12)
    assert found.detectable == smallest_detectable_effect(found.deviation, 12, level=1 - 0.9)


@pytest.mark.parametrize(
    ("gap", "spread", "tie", "verdict"),
    [
        (-0.5, 0.1, 0.0, "lower"),
        (0.5, 0.1, 0.0, "higher"),
        (0.5, 0.1, 0.2, "higher"),
        (0.001, 0.005, 0.01, "tie"),
        (0.0, 0.5, 0.01, "undecided"),
        (0.02, 0.03, 0.01, "undecided"),
        (0.02, 0.02, 0.0, "higher"),
        (0.0, 0.0, 0.0, "tie"),
        (0.3, 0.0, 0.0, "higher"),
    ],
)
def test_verdicts(gap, spread, tie, verdict):
    pattern = np.array([-1.0, 1.0] * 10)
    found = paired_difference(gap + spread * pattern, np.zeros(20), tie=tie)
    assert found.verdict == verdict
    assert verdict in found.reason
    assert "over 20 runs" in found.reason


def test_undecided_says_what_could_have_been_seen():
    found = paired_difference([0.1, 0.2, 0.4], [0.2, 0.1, 0.3])
    assert f"could have seen {found.detectable:.3g}" in found.reason


def test_rounding_is_no_spread():
    a = np.array([0.1, 0.2, 0.3, 0.7]) + 1e3
    found = paired_difference(a + 0.1, a)
    assert found.deviation == 0.0
    assert found.p_value == 0.0
    assert found.verdict == "higher"
    assert paired_difference(a, a).p_value == 1.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: paired_difference([1.0, 2.0], [1.0]), "the same runs, got 2 and 1"),
        (lambda: paired_difference([1.0], [1.0]), "at least two"),
        (lambda: paired_difference([1.0, np.nan], [1.0, 2.0]), "first has NaN"),
        (lambda: paired_difference([1.0, 2.0], [1.0, 2.0], tie=-1.0), "tie must be"),
        (lambda: paired_difference([1.0, 2.0], [1.0, 2.0], power=1.0), "power"),
        (lambda: smallest_detectable_effect(1.0, 1), "at least two"),
        (lambda: smallest_detectable_effect(-1.0, 3), "deviation must be"),
        (lambda: smallest_detectable_effect(1.0, 3, level=0.0), "level"),
        (lambda: runs_needed(1.0, 0.0), "effect must be positive"),
        (lambda: runs_needed(1.0, 1e-6), "too small to be seen"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(kuq.KuqError, match=words):
        call()
