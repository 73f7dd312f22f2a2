"""Average ranks against SciPy, and against what the tests are defined by."""

import math

import numpy as np
import pytest
from scipy import stats

import kuq
from kuq.protocols import average_ranks


@pytest.mark.parametrize("higher", [False, True])
def test_ranks_are_those_of_scipy(higher):
    values = np.random.default_rng(0).integers(0, 4, size=(12, 5)).astype(float)
    k = average_ranks(values, higher, resamples=0)
    for row, ranks in zip(values, k.ranks, strict=True):
        assert ranks.tolist() == stats.rankdata(-row if higher else row, "average").tolist()
    assert k.average == pytest.approx(k.ranks.mean(axis=0))
    assert np.isnan(k.interval).all()


def test_missing_values_are_not_ranked():
    k = average_ranks([[0.3, np.nan, 0.1], [0.2, 0.1, 0.3], [np.nan, np.nan, np.nan]])
    assert k.ranks[0, [0, 2]].tolist() == [2.0, 1.0]
    assert np.isnan(k.ranks[0, 1])
    assert k.average.tolist() == [2.0, 1.0, 2.0]
    assert k.complete == 1


def test_stand_in_takes_the_rank_where_there_is_no_value():
    k = average_ranks([[0.3, 0.1, np.nan], [0.3, 0.2, 0.1]], stand_ins={2: 1}, resamples=0)
    assert k.ranks.tolist() == [[2.0, 1.0, 1.0], [3.0, 2.0, 1.0]]


def test_groups_count_alike():
    values = [[1, 2], [1, 2], [1, 2], [2, 1]]
    assert average_ranks(values, groups=["a", "a", "a", "b"]).average.tolist() == [1.5, 1.5]
    assert average_ranks(values).average.tolist() == [1.25, 1.75]


def test_interval_has_the_width_of_the_mean():
    values = np.random.default_rng(0).normal(size=(200, 3))
    k = average_ranks(values, seed=1)
    error = k.ranks.std(axis=0) / math.sqrt(200)
    assert k.interval[:, 0] == pytest.approx(k.average - 1.96 * error, abs=0.02)
    assert k.interval[:, 1] == pytest.approx(k.average + 1.96 * error, abs=0.02)


def test_data_sets_are_drawn_as_a_whole():
    """Ten copies of each of 8 cases carry no more than the 8: the interval must not shrink."""
    values = np.random.default_rng(2).normal(size=(8, 3))
    once = average_ranks(values)
    again = average_ranks(np.repeat(values, 10, axis=0), datasets=np.repeat(np.arange(8), 10))
    alone = average_ranks(np.repeat(values, 10, axis=0))
    assert np.ptp(again.interval, axis=1) == pytest.approx(np.ptp(once.interval, axis=1))
    assert (np.ptp(alone.interval, axis=1) < 0.6 * np.ptp(once.interval, axis=1)).all()


def test_friedman_and_nemenyi():
    values = np.random.default_rng(3).normal([0.0, 0.0, 1.0, 2.0], size=(10, 4))
    k = average_ranks(values)
    assert k.friedman_p == pytest.approx(stats.friedmanchisquare(*values.T).pvalue)
    # Demšar (2006), table 5: q = 2.569 for four classifiers at 5 %
    assert k.critical_difference == pytest.approx(2.569 * math.sqrt(4 * 5 / (6 * 10)), abs=1e-3)
    gaps = np.abs(k.average[:, None] - k.average)
    assert ((k.nemenyi_p < 0.05) == (gaps > k.critical_difference)).all()
    assert k.nemenyi_p == pytest.approx(k.nemenyi_p.T)
    gap = gaps[0, 3] / math.sqrt(4 * 5 / (6 * 10)) * math.sqrt(2)
    assert k.nemenyi_p[0, 3] == pytest.approx(stats.studentized_range.sf(gap, 4, np.inf), rel=1e-5)
    assert np.diag(k.nemenyi_p) == pytest.approx(1.0)
    assert k.nemenyi_p[0, 3] < 0.05 < k.nemenyi_p[0, 1]


def test_wilcoxon_is_corrected_by_holm():
    values = np.random.default_rng(4).normal([0.0, 0.2, 0.9], size=(25, 3))
    raw = sorted(
        (stats.wilcoxon(values[:, i], values[:, j]).pvalue, i, j)
        for i, j in ((0, 1), (0, 2), (1, 2))
    )
    corrected = average_ranks(values).wilcoxon_p
    running = 0.0
    for (p, i, j), factor in zip(raw, (3, 2, 1), strict=True):
        running = max(running, min(1.0, factor * p))
        assert corrected[i, j] == corrected[j, i] == pytest.approx(running)


def test_no_difference_is_never_significant():
    k = average_ranks(np.ones((6, 3)))
    assert k.average.tolist() == [2.0, 2.0, 2.0]
    assert k.friedman_p == 1.0
    assert k.nemenyi_p == pytest.approx(np.ones((3, 3)))
    assert (k.wilcoxon_p == 1.0).all()


def test_too_few_cases_for_a_test_say_so():
    k = average_ranks([[1.0, 2.0, np.nan], [np.nan, 1.0, 2.0]])
    assert math.isnan(k.friedman_p)
    assert math.isnan(k.critical_difference)
    assert np.isnan(k.wilcoxon_p[0, 1])
    assert np.isfinite(average_ranks([[np.inf, 1.0], [np.inf, np.inf]]).average).all()


@pytest.mark.parametrize(
    ("values", "options", "text"),
    [
        ([1.0, 2.0], {}, "cases, methods"),
        ([[1.0], [2.0]], {}, "two methods"),
        (np.full((2, 2), np.nan), {}, "nothing can be ranked"),
        ([[1, 2]], {"groups": ["a", "b"]}, "one label per case"),
        ([[1, 2]], {"stand_ins": {2: 0}}, "columns 0 … 1"),
        ([[1, 2]], {"confidence": 2}, "confidence"),
    ],
)
def test_bad_input_is_named(values, options, text):
    with pytest.raises(kuq.KuqError, match=text):
        average_ranks(values, **options)
