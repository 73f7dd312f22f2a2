"""Ranks in which small differences are ties, against rules that are written out."""

import itertools

import numpy as np
import pytest
from scipy import stats

import kuq
from kuq.protocols import average_ranks
from kuq.protocols.ranks import _friedman, _ranks


def by_hand(row, tie):
    """One more than the number of better ones; ties count half."""
    ranks = []
    for i, value in enumerate(row):
        others = [other for j, other in enumerate(row) if j != i]
        tied = [abs(value - other) < tie or value == other for other in others]
        better = [other < value and not t for other, t in zip(others, tied, strict=True)]
        ranks.append(1 + sum(better) + sum(tied) / 2)
    return ranks


@pytest.mark.parametrize("tie", [0.0, 0.01, 0.3, 10.0])
def test_ranks_by_hand(tie):
    table = np.random.default_rng(0).uniform(size=(30, 5))
    found = average_ranks(table, tie=tie, resamples=0)
    np.testing.assert_array_equal(found.ranks, [by_hand(row, tie) for row in table])
    np.testing.assert_allclose(found.ranks.sum(axis=1), 15.0)
    higher = average_ranks(table, True, tie=tie, resamples=0)
    np.testing.assert_allclose(higher.ranks, 6 - found.ranks)


def test_no_tie_is_as_scipy_ranks_and_tests():
    rng = np.random.default_rng(1)
    table = rng.uniform(size=(12, 4)).round(1)
    table[0, 1] = np.inf
    table[0, 2] = np.inf
    found = average_ranks(table, resamples=0)
    np.testing.assert_array_equal(found.ranks, stats.rankdata(table, axis=1))
    assert found.friedman_p == pytest.approx(stats.friedmanchisquare(*table.T).pvalue, rel=1e-10)


def test_chains_of_ties():
    """0.500 and 0.508 are tied, 0.508 and 0.516 too, 0.500 and 0.516 are not."""
    found = average_ranks([[0.500, 0.508, 0.516]], tie=0.01, resamples=0)
    assert found.ranks.tolist() == [[1.5, 2.0, 2.5]]


def test_a_difference_of_exactly_the_limit_counts():
    pairs = [(k / 100, (k + 1) / 100) for k in range(99)]  # some differ by a little less than 0.01
    assert any(b - a < 0.01 for a, b in pairs)
    found = average_ranks(pairs, tie=0.01, resamples=0)
    assert (found.ranks == [1.0, 2.0]).all()


def test_missing_methods_stay_missing():
    found = average_ranks([[0.1, np.nan, 0.105], [np.nan, 0.3, 0.1]], tie=0.01, resamples=0)
    np.testing.assert_array_equal(found.ranks, [[1.5, np.nan, 1.5], [np.nan, 2.0, 1.0]])


def test_noise_below_the_limit_decides_nothing():
    """Third digits in one direction would be a certain order; as ties they are none."""
    rng = np.random.default_rng(2)
    table = rng.uniform(size=(40, 1)) + np.array([0.0, 0.001, 0.002])
    sharp, tied = (average_ranks(table, tie=tie, resamples=0) for tie in (0.0, 0.01))
    assert sharp.average.tolist() == [1.0, 2.0, 3.0]
    assert sharp.friedman_p < 1e-10
    assert tied.average.tolist() == [2.0, 2.0, 2.0]
    assert tied.friedman_p == 1.0
    for i, j in itertools.combinations(range(3), 2):
        assert sharp.wilcoxon_p[i, j] < 1e-5
        assert tied.wilcoxon_p[i, j] == 1.0


def test_friedman_with_ties_is_uniform_where_nothing_differs():
    """Under exchangeable columns p-values below 0.1 come a tenth of the time."""
    rng = np.random.default_rng(3)
    p = [_friedman(_ranks(rng.normal(size=(25, 4)), 0.5)) for _ in range(1000)]
    assert 60 <= np.sum(np.asarray(p) < 0.1) <= 140  # 100 ± 9.5, with room


@pytest.mark.parametrize("tie", [-0.1, np.nan, np.inf])
def test_bad_ties(tie):
    with pytest.raises(kuq.ParameterError, match="tie must be finite and not negative"):
        average_ranks([[1.0, 2.0]], tie=tie)
