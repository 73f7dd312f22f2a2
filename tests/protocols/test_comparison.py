"""Which uncertainty ranks errors best: paired intervals."""

import numpy as np
import pytest
from scipy import stats

import kuq
from kuq.protocols import compare_detection, compare_retention, selective_prediction
from kuq.protocols.resampling import gain_bounds, simultaneous_halves


def problem(seed, n):
    """Errors whose size is known up to chance, and the same knowledge with noise."""
    rng = np.random.default_rng(seed)
    u = rng.gamma(2.0, size=n)
    return u, u + rng.gamma(1.0, size=n), u * rng.exponential(size=n)


def test_curves_are_those_of_selective_prediction():
    u, v, error = problem(0, 80)
    found = compare_retention({"u": u, "v": v}, error, resamples=50)
    for name, values in (("u", u), ("v", v)):
        assert found.curves[name].prr == selective_prediction(values, error).prr
    assert found.best == min(found.curves, key=lambda name: found.curves[name].prr)
    assert found.behind[found.best] == (0.0, 0.0)


def test_the_same_order_is_never_behind():
    u, _, error = problem(1, 60)
    found = compare_retention({"u": u, "cube": u**3, "log": np.log(u)}, error, resamples=40)
    for name in found.curves:
        assert found.behind[name] == (0.0, 0.0)
        assert not found.is_behind(name)
        assert found.intervals[name] == found.intervals["u"]


def test_pairing_is_sharper_than_two_intervals():
    u, v, error = problem(2, 500)
    found = compare_retention({"u": u, "v": v}, error)
    low, high = found.behind["v"]
    apart = sum(high - low for low, high in found.intervals.values())
    assert high - low < 0.7 * apart
    assert found.is_behind("v")


def test_intervals_hold_the_value_of_very_many_cases():
    """The ratio of a million cases lies inside of about 95 % of the intervals of 300."""
    u, _, error = problem(3, 10**6)
    truth = selective_prediction(u, error).prr
    inside = 0
    for seed in range(60):
        some, _, errors = problem(100 + seed, 300)
        low, high = compare_retention({"u": some}, errors, resamples=150).intervals["u"]
        inside += low <= truth <= high
    # Percentile intervals of 300 cases hold 92 % or so; under 80 % has a chance below 1e-3.
    assert inside >= 48


def test_the_same_seed_gives_the_same_intervals():
    u, v, error = problem(4, 50)
    one, two = (compare_retention({"u": u, "v": v}, error, resamples=30) for _ in range(2))
    assert one.intervals == two.intervals
    assert (
        one.intervals != compare_retention({"u": u, "v": v}, error, resamples=30, seed=1).intervals
    )


@pytest.mark.parametrize(
    ("uncertainties", "error", "options", "words"),
    [
        ({}, [1.0, 2.0], {}, "at least one"),
        ({"u": [1.0]}, [1.0, 2.0], {}, "'u'"),
        ({"u": [1.0, np.nan]}, [1.0, 2.0], {}, "'u'"),
        ({"u": [1.0, 2.0, 3.0]}, [1.0, 1.0, 1.0], {}, "equal"),
        ({"u": [1.0, 2.0]}, [1.0, 2.0], {"resamples": 3}, "resamples"),
        ({"u": [1.0, 2.0]}, [1.0, 2.0], {"confidence": 2.0}, "confidence"),
    ],
)
def test_bad_input(uncertainties, error, options, words):
    with pytest.raises(kuq.KuqError, match=words):
        compare_retention(uncertainties, error, **options)


def test_comparisons_are_shown_as_tables():
    rng = np.random.default_rng(0)
    u = rng.gamma(2.0, size=100)
    names = {"knows": u, "guesses": rng.gamma(2.0, size=100)}
    found = kuq.protocols.compare_retention(names, u * rng.exponential(size=100), resamples=50)
    lines = repr(found).splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("* knows")
    pairs = {name: (values, values + 1) for name, values in names.items()}
    shown = repr(kuq.protocols.compare_detection(pairs, resamples=50))
    assert shown.startswith("DetectionComparison: AUROC")
    assert len(shown.splitlines()) == 3


def test_the_best_of_many_is_not_taken_for_better_than_chance():
    """Single intervals found others "behind" the best of uncertainties that all know nothing."""
    known = behind = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        names = {str(k): rng.gamma(2.0, size=100) for k in range(6)}
        found = compare_retention(names, rng.exponential(size=100), resamples=60)
        known += found.intervals[found.best][1] < 1
        behind += any(map(found.is_behind, names))
    # At 95 % one or two are expected, and with 100 cases three or four; single intervals had 15.
    assert known <= 6
    assert behind <= 9


def test_intervals_of_many_hold_at_once():
    """The largest of nine independent normals in size has the quantile of the ninth root."""
    rng = np.random.default_rng(6)
    scale = np.geomspace(0.1, 10.0, 9)
    halves = simultaneous_halves(scale * rng.normal(size=(20000, 9)), 0.95)
    wanted = scale * stats.norm.ppf((1 + 0.95 ** (1 / 9)) / 2)
    # Quantiles of 20000 draws vary by 0.6 %, and their standard deviations by 0.5 %.
    np.testing.assert_allclose(halves, wanted, rtol=0.05)


def test_what_is_plainly_worse_does_not_hide_a_better_one():
    """The largest of nine independent normals on either side; above, of five if four are far below.
    The draws are skewed, and each end has the quantile of its own side.
    """
    rng = np.random.default_rng(8)
    scale = np.geomspace(0.1, 10.0, 9)
    law = stats.gamma(4.0)
    draws = scale * (law.rvs(size=(40000, 9), random_state=rng) - law.mean())
    far = np.where(np.arange(9) < 4, -3.0, 0.0)  # in standard errors; 100 cases leave 1.7
    for gain, rivals in ((np.zeros(9), 9), (scale * law.std() * far, 5)):
        low, high = gain_bounds(gain, gain + draws, 0.95, 100)
        above = law.ppf(0.975 ** (1 / rivals)) - law.mean()
        below = law.mean() - law.ppf(1 - 0.975 ** (1 / 9))
        # Quantiles of 40000 draws vary by 1 %; those of nine and five differ by 11 %.
        np.testing.assert_allclose(gain - low, scale * above, rtol=0.05)
        np.testing.assert_allclose(high - gain, scale * below, rtol=0.05)


def test_differences_of_all_pairs_hold_at_once():
    """Any could have come out best: of four there are six pairs, whatever the order of names."""
    rng = np.random.default_rng(7)
    error = rng.exponential(size=80)
    names = {name: error * rng.gamma(1.0, size=80) for name in "abcd"}
    found = compare_retention(names, error, resamples=50)
    turned = compare_retention(dict(reversed(names.items())), error, resamples=50)
    for name in names:
        assert found.behind[name] == pytest.approx(turned.behind[name], rel=1e-9, abs=1e-12)
        middle = sum(found.behind[name]) / 2
        gap = found.curves[name].prr - found.curves[found.best].prr
        assert middle == pytest.approx(gap, abs=1e-12)


def test_intervals_stay_where_values_can_be():
    u = np.arange(1.0, 31.0)
    error = u + np.random.default_rng(5).normal(size=30) ** 2
    low, _ = compare_retention({"u": u}, error, resamples=40).intervals["u"]
    assert low >= 0.0
    apart = {"u": (np.arange(20.0), np.arange(15.0, 35.0))}
    assert compare_detection(apart, resamples=40).intervals["u"][1] <= 1.0
