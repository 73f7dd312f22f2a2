"""Cases that come in groups: intervals that hold, and groups judged as one."""

import numpy as np
import pytest

import kuq
from kuq.protocols import compare_detection, compare_retention, ood_detection
from kuq.protocols.resampling import Units

TRUTH = 0.7602499389065233  # Φ(1/√2): N(1, 1) against N(0, 1)


def trajectories(rng, centre, count, pairs):
    """Uncertainties of pairs that hardly differ within a trajectory, (count·pairs,), and labels."""
    level = rng.normal(centre, np.sqrt(0.9), count)
    values = level[:, None] + rng.normal(0.0, np.sqrt(0.1), (count, pairs))
    return values.ravel(), np.repeat(np.arange(count), pairs)


def test_intervals_by_groups_hold_and_by_cases_do_not():
    """Marginally N(0, 1) and N(1, 1), in 40 trajectories of 6 pairs each; 60 data sets."""
    rng = np.random.default_rng(0)
    hits = np.zeros(2)
    for _ in range(60):
        (low, a), (high, b) = trajectories(rng, 0.0, 40, 6), trajectories(rng, 1.0, 40, 6)
        for which, groups in enumerate((None, (a, b))):
            o = ood_detection(low, high, groups=groups, resamples=100)
            hits[which] += o.auroc_interval[0] <= TRUTH <= o.auroc_interval[1]
    # 95 % of 60 are 57 ± 1.7; by cases it is little more than half.
    assert hits[0] < 47
    assert hits[1] >= 51


def test_groups_of_one_case_are_cases():
    rng = np.random.default_rng(1)
    low, high = rng.normal(size=30), rng.normal(1.0, size=30)
    labels = (np.arange(30), np.arange(30))
    alone, grouped = ood_detection(low, high), ood_detection(low, high, groups=labels)
    assert grouped.groups == (30, 30)
    assert alone.groups is None
    assert (alone.auroc, alone.auroc_interval) == (grouped.auroc, grouped.auroc_interval)
    assert ood_detection(low, high, groups=labels, unit="group").auroc == alone.auroc


def test_groups_leave_the_point_estimate_alone():
    rng = np.random.default_rng(2)
    (low, a), (high, b) = trajectories(rng, 0.0, 20, 5), trajectories(rng, 1.0, 20, 5)
    order = rng.permutation(100)
    plain = ood_detection(low, high)
    grouped = ood_detection(low[order], high, groups=(a[order], b))
    assert (grouped.auroc, grouped.aupr, grouped.fpr95) == (plain.auroc, plain.aupr, plain.fpr95)
    wide, narrow = (np.ptp(o.auroc_interval) for o in (grouped, plain))
    assert wide > 1.5 * narrow


def test_a_group_is_judged_by_its_mean():
    low, high = np.array([0.0, 4.0, 1.0, 1.0]), np.array([2.0, 3.0, 0.0])
    labels = (["a", "a", "b", "b"], ["c", "c", "d"])
    o = ood_detection(low, high, groups=labels, unit="group", resamples=0)
    expected = ood_detection([2.0, 1.0], [2.5, 0.0], resamples=0)
    assert (o.auroc, o.aupr, o.fpr95, o.cases) == (
        expected.auroc,
        expected.aupr,
        expected.fpr95,
        (2, 2),
    )
    assert o.groups == (2, 2)


def test_trajectories_are_told_apart_where_pairs_are_not():
    """Means of ten pairs have a tenth of their noise: Φ(1/√(2·0.1)) instead of Φ(1/√2)."""
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(200), 10)
    low, high = rng.normal(size=2000), rng.normal(1.0, size=2000)
    by_pair = ood_detection(low, high, groups=(labels, labels), resamples=0).auroc
    by_group = ood_detection(low, high, groups=(labels, labels), unit="group", resamples=0).auroc
    assert by_pair == pytest.approx(TRUTH, abs=0.02)
    assert by_group == pytest.approx(0.98733, abs=0.01)


def test_the_side_with_more_groups_is_subsampled_by_groups():
    rng = np.random.default_rng(4)
    (low, a), (high, b) = trajectories(rng, 0.0, 50, 4), trajectories(rng, 1.0, 10, 7)
    o = ood_detection(low, high, groups=(a, b), seed=1, resamples=50)
    assert o.groups == (10, 10)
    assert o.cases == (40, 70)
    assert o == ood_detection(low, high, groups=(a, b), seed=1, resamples=50)
    assert ood_detection(low, high, groups=(a, b), equal_sizes=False, resamples=0).cases == (
        200,
        70,
    )


def test_draws_are_of_whole_groups():
    labels = np.array([2, 0, 1, 0, 2, 2])
    units = Units.of(labels, 6, "groups")
    rng = np.random.default_rng(5)
    for _ in range(20):
        counts = np.bincount(units.drawn(rng), minlength=6)
        for group in range(3):
            assert np.unique(counts[labels == group]).size == 1
    np.testing.assert_allclose(units.means(np.arange(6.0)), [2.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"groups": ([1, 2], [1])}, "the groups of outside needs one label per case, got 1 for 2"),
        ({"groups": ([1, 2],)}, r"groups must be \(labels of inside, labels of outside\), got 1"),
        ({"unit": "group"}, 'unit="group" needs groups'),
        ({"unit": "pair"}, 'unit must be "case" or "group"'),
        ({"groups": ([1, 1], [1, 2])}, "one group only"),
    ],
)
def test_bad_groups_are_named(options, words):
    with pytest.raises(kuq.KuqError, match=words):
        ood_detection([0.0, 1.0], [1.0, 2.0], equal_sizes=False, **options)


def test_infinities_of_both_signs_have_no_mean():
    with pytest.raises(kuq.ParameterError, match="the mean of a group has NaN"):
        ood_detection(
            [-np.inf, np.inf], [1.0, 2.0], groups=([0, 0], [0, 1]), unit="group", resamples=0
        )


# --- comparisons ---------------------------------------------------------------------------------


def test_retention_is_compared_by_groups():
    """Every case ten times over tells no more than once."""
    rng = np.random.default_rng(6)
    u = rng.gamma(2.0, size=60)
    error = u * rng.exponential(size=60)
    names = {"knows": u, "half": u + rng.gamma(4.0, size=60)}
    once = compare_retention(names, error, seed=1)
    labels = np.repeat(np.arange(60), 10)
    many = {name: np.repeat(values, 10) for name, values in names.items()}
    grouped = compare_retention(many, np.repeat(error, 10), groups=labels, seed=1)
    cases = compare_retention(many, np.repeat(error, 10), seed=1)
    widths = [np.ptp(found.intervals["half"]) for found in (once, grouped, cases)]
    assert widths[1] == pytest.approx(widths[0], rel=0.15)
    assert widths[2] < 0.5 * widths[0]


def test_detection_is_compared_in_pairs():
    """Intervals of AUROCs overlap, and yet the difference is certain: the same cases decide."""
    rng = np.random.default_rng(7)
    low, high = rng.normal(size=400), rng.normal(1.0, size=400)
    worse = (low + 0.7 * rng.normal(size=400), high + 0.7 * rng.normal(size=400))
    found = compare_detection({"sees": (low, high), "less": worse, "same": (2 * low, 2 * high)})
    assert found.best == "sees"
    assert found.auroc["sees"] == ood_detection(low, high, resamples=0).auroc
    assert found.auroc["same"] == found.auroc["sees"]
    assert found.behind["same"] == (0.0, 0.0)
    assert not found.is_behind("same")
    assert not found.is_behind("sees")
    assert found.is_behind("less")
    one, two = found.intervals["sees"], found.intervals["less"]
    assert one[0] < two[1]
    assert np.ptp(found.behind["less"]) < np.ptp(one)


def test_detection_is_compared_by_groups():
    rng = np.random.default_rng(8)
    (low, a), (high, b) = trajectories(rng, 0.0, 30, 8), trajectories(rng, 1.0, 25, 8)
    names = {"one": (low, high), "two": (low**3, high**3)}
    by_cases, by_groups = (compare_detection(names, groups=g) for g in (None, (a, b)))
    assert np.ptp(by_groups.intervals["one"]) > 1.5 * np.ptp(by_cases.intervals["one"])
    assert by_groups.behind["two"] == (0.0, 0.0)


@pytest.mark.parametrize(
    ("names", "options", "words"),
    [
        ({}, {}, "at least one uncertainty"),
        ({"a": ([1.0], [2.0]), "b": ([1.0, 2.0], [2.0])}, {}, r"'b' needs 1 cases inside"),
        ({"a": ([1.0], [2.0])}, {"resamples": 3}, "at least 20 resamples"),
        ({"a": ([1.0, np.nan], [2.0])}, {}, "'a' inside has NaN"),
    ],
)
def test_bad_comparisons_are_named(names, options, words):
    with pytest.raises(kuq.KuqError, match=words):
        compare_detection(names, **options)
