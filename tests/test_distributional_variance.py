"""Epistemic uncertainty of draws against the distributional variance of Gruber and Buettner.

*A Bias-Variance-Covariance Decomposition of Kernel Scores for Generative Models*, ICML 2024
(github.com/MLO-lab/BVCD_generative_models, ``dist_var``): for a random law P and a kernel k,
Var_k(P) = E⟨P, P⟩ − ⟨E P, E P⟩ with ⟨P, Q⟩ = E k(X, Y). Here it is written from that definition,
with inner products that are unbiased: of a member with itself over pairs of different draws, and of
two members over all pairs.
"""

import itertools
import math

import numpy as np
import pytest

import kuq


def kernel(x, y, bandwidth):
    """exp(−‖x − y‖² / bandwidth²)."""
    square = sum((a - b) ** 2 for a, b in zip(x, y, strict=True))
    return math.exp(-square / bandwidth**2)


def distributional_variance(draws, bandwidth):
    """``draws`` (members, draws, d) of one input."""
    members, count, _ = draws.shape
    own = [
        math.fsum(kernel(a, b, bandwidth) for a, b in itertools.permutations(member, 2))
        / (count * (count - 1))
        for member in draws.tolist()
    ]
    cross = [
        math.fsum(kernel(a, b, bandwidth) for a, b in itertools.product(one, other)) / count**2
        for one, other in itertools.permutations(draws.tolist(), 2)
    ]
    return math.fsum(own) / members - math.fsum(cross) / (members * (members - 1))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("members", [2, 5])
@pytest.mark.parametrize("event", [(), (3,)])
@pytest.mark.parametrize("bandwidth", [0.3, 1.0, 6.33])
def test_epistemic_uncertainty_is_the_distributional_variance(bandwidth, event, members, compiled):
    if compiled:
        pytest.importorskip("numba")
    rng = np.random.default_rng([members, len(event)])
    inputs, draws = 4, 7
    spread = rng.normal(0.0, 1.0, (members, inputs, 1, *event))
    values = spread + rng.normal(0.0, 0.5, (members, inputs, draws, *event))
    law = kuq.Samples(values, event_ndim=len(event))
    with kuq.compiled(compiled):
        u = kuq.decompose(kuq.Ensemble(law), kuq.Gaussian(bandwidth))
    expected = [
        distributional_variance(values[:, i].reshape(members, draws, -1), bandwidth)
        for i in range(inputs)
    ]
    np.testing.assert_allclose(u.epistemic, expected, rtol=0, atol=1e-12)


def test_it_is_unbiased_for_normals():
    """Averaged over many draws it is the variance in closed form: ∫∫ of a Gaussian kernel."""
    means, std, bandwidth = [0.0, 0.7, -0.4], 0.5, 1.0
    spread = bandwidth**2 + 4 * std**2

    def inner(a, b):
        return bandwidth / math.sqrt(spread) * math.exp(-((a - b) ** 2) / spread)

    own = sum(inner(a, a) for a in means) / 3
    cross = sum(inner(a, b) for a, b in itertools.permutations(means, 2)) / 6
    rng = np.random.default_rng(0)
    draws = np.asarray(means)[:, None, None] + std * rng.normal(size=(3, 4000, 4))
    u = kuq.decompose(kuq.Ensemble(kuq.Samples(draws)), kuq.Gaussian(bandwidth))
    spread_of_mean = u.epistemic.std() / np.sqrt(4000)
    assert abs(u.epistemic.mean() - (own - cross)) < 5 * spread_of_mean
    exact = kuq.decompose(kuq.Ensemble(kuq.Normal(np.asarray(means), std)), kuq.Gaussian(bandwidth))
    assert float(exact.epistemic) == pytest.approx(own - cross, abs=1e-14)
