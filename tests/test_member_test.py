"""The permutation test of members: against plain loops, and the laws that it has to keep."""

import itertools

import numpy as np
import pytest
from libraries import NAMES, opened

import kuq


def same_law(rng, shape, event_ndim=0):
    return kuq.Ensemble(kuq.Samples(rng.normal(size=shape), event_ndim))


@pytest.mark.parametrize(
    "score", [kuq.CRPS(), kuq.Gaussian(0.8), kuq.SquaredError() + kuq.Laplace(1.0)], ids=repr
)
def test_its_statistics_are_those_of_decompose(score):
    rng = np.random.default_rng(1)
    ensemble = same_law(rng, (4, 5, 6))
    u = kuq.decompose(ensemble, score)
    each = kuq.member_test(ensemble, score, permutations=5, per_input=True)
    whole = kuq.member_test(ensemble, score, permutations=5)
    np.testing.assert_allclose(each.statistic, u.epistemic, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(whole.statistic, u.epistemic.mean(), rtol=1e-9, atol=1e-12)
    to_others = kuq.member_divergences(ensemble, score).sum(axis=1) / 3
    np.testing.assert_allclose(each.excess, to_others - u.epistemic, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(whole.excess, each.excess.mean(axis=1), rtol=1e-8, atol=1e-12)


def test_ranks_are_those_of_all_permutations():
    """Two members with three draws: 20 ways to share six draws, half of them the same pairs."""
    rng = np.random.default_rng(2)
    values = rng.normal(size=(2, 3)) + np.array([[0.0], [1.0]])

    def statistic(draws):
        return float(kuq.decompose(kuq.Ensemble(kuq.Samples(draws)), "crps").epistemic)

    pooled = values.reshape(-1)
    own = statistic(values)
    ways = []
    for first in itertools.combinations(range(6), 3):
        rest = [i for i in range(6) if i not in first]
        ways.append(statistic(np.stack([pooled[list(first)], pooled[rest]])) >= own - 1e-12)
    found = kuq.member_test(kuq.Ensemble(kuq.Samples(values)), "crps", permutations=20_000)
    # 20000 random ones tell a share to 0.0035.
    assert float(found.p_value) == pytest.approx(np.mean(ways), abs=0.02)


def test_the_member_that_does_not_belong():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(5, 8, 20))
    values[3] += 1
    found = kuq.member_test(kuq.Ensemble(kuq.Samples(values)), "crps", permutations=199)
    assert int(found.outlier) == 3
    assert float(found.p_value) == float(found.outlier_p_value) == pytest.approx(1 / 200)
    others = np.delete(found.member_p_values, 3)
    assert np.all(others > 0.5)
    assert "member 3: p = 0.005" in repr(found)


def test_of_two_members_none_stands_apart():
    found = kuq.member_test(same_law(np.random.default_rng(4), (2, 3, 5)), "crps", permutations=19)
    np.testing.assert_array_equal(found.member_p_values, 1)


def test_equal_draws_are_no_evidence():
    ensemble = kuq.Ensemble(kuq.Samples(np.ones((3, 2, 4))))
    for per_input in (True, False):
        found = kuq.member_test(ensemble, "crps", permutations=19, per_input=per_input)
        np.testing.assert_array_equal(found.p_value, 1)
        np.testing.assert_array_equal(found.member_p_values, 1)


def test_laws_of_the_test():
    """Units and places do not matter, and members may be counted in any order."""
    rng = np.random.default_rng(5)
    values = rng.normal(size=(4, 6, 7))
    values[0] += 0.5
    plain = kuq.member_test(kuq.Ensemble(kuq.Samples(values)), "gaussian:median", seed=3)
    moved = kuq.member_test(kuq.Ensemble(kuq.Samples(4 * values + 1)), "gaussian:median", seed=3)
    assert float(plain.p_value) == float(moved.p_value)
    np.testing.assert_array_equal(plain.member_p_values, moved.member_p_values)
    turned = kuq.member_test(kuq.Ensemble(kuq.Samples(values[::-1])), "gaussian:median", seed=3)
    np.testing.assert_allclose(turned.statistic, plain.statistic, rtol=1e-9)
    # Other permutations: p-values agree to their own noise, about 0.01.
    np.testing.assert_allclose(turned.member_p_values[::-1], plain.member_p_values, atol=0.06)


def test_seeds():
    ensemble = same_law(np.random.default_rng(6), (3, 4, 5))
    first, again, other = (
        kuq.member_test(ensemble, "crps", permutations=99, seed=seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.member_p_values, again.member_p_values)
    assert not np.array_equal(first.member_p_values, other.member_p_values)


def test_the_bandwidth_does_not_know_the_members():
    """A median over pairs of members would be another one for permuted draws."""
    rng = np.random.default_rng(7)
    values = rng.normal(size=(3, 4, 5))
    values[0] += 3
    found = kuq.member_test(kuq.Ensemble(kuq.Samples(values)), "gaussian:median", permutations=9)
    mixed = rng.permuted(np.moveaxis(values, 0, 1).reshape(4, 15), axis=1)
    mixed = np.moveaxis(mixed.reshape(4, 3, 5), 1, 0)
    again = kuq.member_test(kuq.Ensemble(kuq.Samples(mixed)), "gaussian:median", permutations=9)
    assert found.score.bandwidth == pytest.approx(again.score.bandwidth, rel=1e-12)


def test_little_memory_changes_nothing():
    ensemble = same_law(np.random.default_rng(8), (4, 20, 12, 3), event_ndim=1)
    for score in (kuq.CRPS(), kuq.Energy(), kuq.CRPS(reduce=None)):
        for per_input in (True, False):
            settings = {"permutations": 49, "per_input": per_input}
            plain = kuq.member_test(ensemble, score, **settings)
            small = kuq.member_test(ensemble, score, max_memory=30_000, **settings)
            np.testing.assert_allclose(small.statistic, plain.statistic, rtol=1e-9, atol=1e-12)
            np.testing.assert_array_equal(small.p_value, plain.p_value)
            np.testing.assert_array_equal(small.member_p_values, plain.member_p_values)


def test_members_with_different_numbers_of_draws():
    rng = np.random.default_rng(9)
    ensemble = kuq.Ensemble([kuq.Samples(rng.normal(size=(3, n))) for n in (4, 7, 9)])
    found = kuq.member_test(ensemble, "crps", permutations=99, per_input=True)
    np.testing.assert_allclose(found.statistic, kuq.decompose(ensemble, "crps").epistemic)
    assert found.p_value.shape == (3,)
    assert found.outlier.shape == (3,)


@pytest.mark.parametrize("name", NAMES)
def test_every_library(name):
    rng = np.random.default_rng(10)
    values = rng.normal(size=(3, 4, 5))
    expected = kuq.member_test(kuq.Ensemble(kuq.Samples(values)), "crps", permutations=99)
    with opened(name) as library:
        ensemble = kuq.Ensemble(kuq.Samples(library.array(values)))
        found = kuq.member_test(ensemble, "crps", permutations=99)
        assert library.owns(found.p_value)
        np.testing.assert_allclose(np.asarray(found.member_p_values), expected.member_p_values)
        assert int(found.outlier) == int(expected.outlier)


def test_missing_values_are_not_evidence():
    values = np.random.default_rng(11).normal(size=(3, 4, 5))
    values[0, 1, 2] = np.nan
    ensemble = kuq.Ensemble(kuq.Samples(values, nan_policy="propagate"))
    found = kuq.member_test(ensemble, "crps", permutations=19, per_input=True)
    np.testing.assert_array_equal(np.isnan(found.p_value), [False, True, False, False])
    assert np.isnan(kuq.member_test(ensemble, "crps", permutations=19).p_value)
    with pytest.raises(kuq.ParameterError, match="has left some out"):
        kuq.member_test(kuq.Ensemble(kuq.Samples(values, nan_policy="omit")), "crps")


def test_what_is_refused():
    rng = np.random.default_rng(12)
    draws = rng.normal(size=(3, 4, 5))
    closed = kuq.Ensemble(kuq.Normal(rng.normal(size=(3, 4)), 1.0))
    with pytest.raises(kuq.ParameterError, match="nothing is left to chance"):
        kuq.member_test(closed, "crps")
    with pytest.raises(kuq.ParameterError, match="weights of members"):
        kuq.member_test(kuq.Ensemble(kuq.Samples(draws), weights=[1, 2, 3]), "crps")
    with pytest.raises(kuq.ParameterError, match="weights of draws"):
        kuq.member_test(kuq.Ensemble(kuq.Samples(draws, weights=np.arange(1.0, 6))), "crps")
    with pytest.raises(kuq.InsufficientDataError, match="N = 1"):
        kuq.member_test(kuq.Ensemble(kuq.Samples(draws[..., :1])), "crps")
    with pytest.raises(kuq.InsufficientDataError, match="M = 1"):
        kuq.member_test(kuq.Ensemble(kuq.Samples(draws[:1])), "crps")
    with pytest.raises(kuq.ParameterError, match="needs a kernel score"):
        kuq.member_test(kuq.Ensemble(kuq.Samples(draws)), "log")
    with pytest.raises(kuq.ParameterError, match="permutations"):
        kuq.member_test(kuq.Ensemble(kuq.Samples(draws)), "crps", permutations=0)
    with pytest.raises(kuq.ParameterError, match="whole population"):
        kuq.member_test(kuq.NormalInverseGamma(0.0, 1.0, 2.0, 1.0), "crps")


def test_no_inputs():
    empty = kuq.Ensemble(kuq.Samples(np.zeros((3, 0, 8))))
    assert kuq.member_test(empty, "crps", per_input=True).p_value.shape == (0,)
    with pytest.raises(kuq.InsufficientDataError, match="no inputs"):
        kuq.member_test(empty, "crps")
