"""Standard errors of the decomposition, against k-statistics, brute force and laws."""

import numpy as np
import pytest
from scipy.stats import kstatvar

import kuq


def members_of(values):
    return kuq.Ensemble(kuq.Point(values))


def test_members_under_squared_error_are_the_variance_of_a_variance():
    """EU is twice the sample variance of the members' means, whose variance SciPy estimates."""
    rng = np.random.default_rng(1)
    means = rng.normal(size=(9, 30))
    found = kuq.standard_error(members_of(means), kuq.SquaredError())
    expected = 4 * kstatvar(means, 2, axis=0)
    np.testing.assert_allclose(found.epistemic**2, expected, rtol=1e-10)
    np.testing.assert_array_equal(found.aleatoric, 0)


def test_draws_under_squared_error_are_the_variance_of_a_variance():
    """AU is the mean of the members' sample variances."""
    rng = np.random.default_rng(2)
    draws = rng.normal(size=(3, 20, 12))
    found = kuq.standard_error(kuq.Ensemble(kuq.Samples(draws)), kuq.SquaredError(), over="draws")
    expected = kstatvar(draws, 2, axis=-1).mean(axis=0) / 3
    np.testing.assert_allclose(found.aleatoric**2, expected, rtol=1e-10)


def test_aleatoric_uncertainty_of_closed_members_is_a_mean():
    rng = np.random.default_rng(3)
    ensemble = kuq.Ensemble(kuq.Normal(rng.normal(size=(6, 8)), rng.uniform(0.5, 2.0, (6, 8))))
    noise = kuq.entropy(ensemble.members, kuq.CRPS())
    found = kuq.standard_error(ensemble, "crps")
    np.testing.assert_allclose(found.aleatoric, noise.std(axis=0, ddof=1) / np.sqrt(6), rtol=1e-12)
