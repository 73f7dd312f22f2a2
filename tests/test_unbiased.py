"""U-statistics have the population values as means, at every number of members and draws.

A small population is enumerated in full: two laws of two places each. All ensembles that can be
drawn from it form one batch, and their mean must equal the population value to rounding.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from brute_force import R_WEIGHTS, R
from cases import DISTRIBUTIONS, KERNELS, moved
from scipy import stats

import kuq

kernels = pytest.mark.parametrize("kernel", KERNELS, ids=str)
PLACES = np.random.default_rng(5).normal(size=(2, 2, 2))  # laws, places of a law, event
ENUMERATED = [(2, 2), (2, 3), (3, 2)]
MEMBER_WEIGHTS = np.array([0.5, 1.0, 2.0, 1.5])
DRAW_WEIGHTS = np.array([0.6, 1.0, 1.7, 0.9, 1.3])


def draws_of(places: np.ndarray, count: int) -> np.ndarray:
    """Every outcome of ``count`` draws from equally likely places: (outcomes, count, event)."""
    return places[list(itertools.product(range(len(places)), repeat=count))]


@functools.cache
def all_ensembles(members: int, draws: int) -> np.ndarray:
    """Every ensemble of the population, (members, ensembles, draws, event)."""
    outcomes = np.concatenate([draws_of(places, draws) for places in PLACES])
    chosen = list(itertools.product(range(len(outcomes)), repeat=members))
    return np.moveaxis(outcomes[chosen], 1, 0)


def mean_kernel(kernel, x: np.ndarray, y: np.ndarray) -> float:
    return float(kernel.k(x[:, None], y[None, :]).mean())


@functools.cache
def population(kernel) -> tuple[float, float]:
    """AU and EU of the population."""
    a = np.array([[mean_kernel(kernel, x, y) for y in PLACES] for x in PLACES])
    diagonal = float(kernel.k(PLACES[0, 0], PLACES[0, 0]))
    own = np.diag(a)
    return float(own.mean() - diagonal) / 2, float((a - own[:, None] / 2 - own / 2).mean())


def means(kernel, members, draws, unbiased, weighted=False):
    """The means of AU and EU over all ensembles."""
    law = kuq.Samples(
        all_ensembles(members, draws), 1, weights=DRAW_WEIGHTS[:draws] if weighted else None
    )
    prediction = kuq.Ensemble(law, weights=MEMBER_WEIGHTS[:members] if weighted else None)
    u = kuq.decompose(prediction, kernel.build(1.0), unbiased=unbiased)
    return u.aleatoric.mean(), u.epistemic.mean()


@kernels
@pytest.mark.parametrize(("members", "draws"), ENUMERATED)
def test_means_over_all_ensembles(kernel, members, draws):
    au, eu = population(kernel)
    np.testing.assert_allclose(means(kernel, members, draws, True), (au, eu), rtol=1e-9)
    weighted = means(kernel, members, draws, True, weighted=True)
    np.testing.assert_allclose(weighted, (au, eu), rtol=1e-9)
    share = 1 - 1 / members
    wanted = {
        "samples": (au, share * eu),
        "members": ((1 - 1 / draws) * au, eu + 2 * au / draws),
        False: ((1 - 1 / draws) * au, share * (eu + 2 * au / draws)),
    }
    for unbiased, expected in wanted.items():
        found = means(kernel, members, draws, unbiased)
        np.testing.assert_allclose(found, expected, rtol=1e-9, err_msg=str(unbiased))


@kernels
@pytest.mark.parametrize(("n", "m"), [(2, 3), (4, 2), (5, 5)])
def test_entropies_divergences_and_scores(kernel, n, m):
    x, y, score = draws_of(PLACES[0], n), draws_of(PLACES[1], m), kernel.build(1.0)
    a, b, c = (mean_kernel(kernel, PLACES[i], PLACES[j]) for i, j in ((0, 0), (1, 1), (0, 1)))
    diagonal = float(kernel.k(PLACES[0, 0], PLACES[0, 0]))
    h = kuq.entropy(kuq.Samples(x, 1), score)
    assert h.mean() == pytest.approx((a - diagonal) / 2, rel=1e-10)
    left, right = (np.array(pair) for pair in zip(*itertools.product(x, y), strict=True))
    d = kuq.divergence(kuq.Samples(left, 1), kuq.Samples(right, 1), score)
    assert d.mean() == pytest.approx(c - a / 2 - b / 2, rel=1e-9)
    outcome = np.array([0.4, -0.2])
    s = kuq.score(kuq.Samples(x, 1), outcome, score)
    cross = float(kernel.k(PLACES[0], outcome).mean())
    assert s.mean() == pytest.approx(cross - a / 2 - diagonal / 2, rel=1e-10)


@kernels
@pytest.mark.parametrize("unbiased", [True, "samples"])
def test_mixtures_of_drawn_members(kernel, unbiased):
    """The mixture of an ensemble: draws of one member are correlated, those of two are not."""
    score, weights, outcome = kernel.build(1.0), np.array([0.3, 0.7]), np.array([0.4, -0.2])
    rows = itertools.product(draws_of(PLACES[0], 3), draws_of(PLACES[1], 2))
    x, y = (np.array(column) for column in zip(*rows, strict=True))
    prediction = kuq.Ensemble([kuq.Samples(x, 1), kuq.Samples(y, 1)], weights=weights)
    a = np.array([[mean_kernel(kernel, p, q) for q in PLACES] for p in PLACES])
    inside = weights @ a @ weights
    diagonal = float(kernel.k(outcome, outcome))
    h = kuq.entropy(prediction, score, unbiased=unbiased)
    np.testing.assert_allclose(h.mean(), (inside - diagonal) / 2, rtol=1e-10)
    cross = weights @ [float(kernel.k(p, outcome).mean()) for p in PLACES]
    s = kuq.score(prediction, outcome, score, unbiased=unbiased)
    np.testing.assert_allclose(s.mean(), cross - inside / 2 - diagonal / 2, rtol=1e-10)


# Normal members and normal draws: μ ~ N(0, τ²), X | μ ~ N(μ, σ²).

SIGMA, TAU, REPEATS = 0.8, 0.6, 800


def normal_expectation(kernel, variance: float) -> float:
    """E k for X − Y ~ N(0, variance)."""
    density = 2 * stats.norm.pdf(R, scale=np.sqrt(variance))
    return float((R_WEIGHTS * density * kernel.formula(R, 1.0)).sum())


@functools.cache
def normal_population(kernel) -> tuple[float, float]:
    inside = normal_expectation(kernel, 2 * SIGMA**2)
    across = normal_expectation(kernel, 2 * SIGMA**2 + 2 * TAU**2)
    return (inside - float(kernel.formula(np.zeros(1), 1.0)[0])) / 2, across - inside


def z_values(u, kernel):
    for values, expected in zip((u.aleatoric, u.epistemic), normal_population(kernel), strict=True):
        error = values.std(ddof=1) / np.sqrt(values.size)
        yield abs(values.mean() - expected) / max(error, 1e-7 * abs(expected))


@kernels
@pytest.mark.parametrize("members", [2, 3, 4])
@pytest.mark.parametrize("draws", [2, 3, 4, 5])
def test_repeated_draws_of_normals(kernel, members, draws):
    rng = np.random.default_rng([members, draws])
    mu = rng.normal(scale=TAU, size=(members, REPEATS))
    values = mu[..., None] + rng.normal(scale=SIGMA, size=(members, REPEATS, draws))
    u = kuq.decompose(kuq.Ensemble(kuq.Samples(values)), kernel.build(1.0))
    assert max(z_values(u, kernel)) < 5
    assert u.epistemic.min() < 0  # never clipped
    plug_in = kuq.decompose(kuq.Ensemble(kuq.Samples(values)), kernel.build(1.0), unbiased=False)
    assert plug_in.epistemic.min() >= 0
    assert max(z_values(plug_in, kernel)) > 5  # the test can tell the two apart


@kernels
@pytest.mark.parametrize("members", [2, 3, 4])
def test_repeated_normal_members(kernel, members):
    rng = np.random.default_rng(members)
    mu = rng.normal(scale=TAU, size=(members, REPEATS))
    u = kuq.decompose(kuq.Ensemble(kuq.Normal(mu, SIGMA)), kernel.build(1.0))
    assert max(z_values(u, kernel)) < 5
    half = kuq.decompose(kuq.Ensemble(kuq.Normal(mu, SIGMA)), kernel.build(1.0), estimator="bma")
    np.testing.assert_allclose(half.epistemic, u.epistemic / 2, rtol=1e-14)


# Edges.


@kernels
@pytest.mark.parametrize("law", DISTRIBUTIONS, ids=str)
def test_one_member(kernel, law):
    one = kuq.Ensemble(law.build(np.random.default_rng(0), (1, 3), (2,)))
    score = kernel.build(1.0)
    for unbiased in (False, "samples"):
        u = kuq.decompose(one, score, unbiased=unbiased, rtol=1e-4)
        np.testing.assert_array_equal(u.epistemic, np.zeros(3))
        np.testing.assert_array_equal(u.total, u.aleatoric)
    for unbiased in (True, "members"):
        with pytest.raises(kuq.InsufficientDataError, match="two members"):
            kuq.decompose(one, score, unbiased=unbiased)


@kernels
@pytest.mark.parametrize("law", DISTRIBUTIONS, ids=str)
def test_plug_in_epistemic_uncertainty_is_not_negative(kernel, law):
    """Also for members that nearly agree: a translation is all that differs."""
    base = law.build(np.random.default_rng(1), (1 if law.name == "student" else 5,), (2,))
    for spread in (1.0, 1e-3, 1e-7):
        members = [moved(base, shift=k * spread) for k in (0, 1, 3)]
        u = kuq.decompose(kuq.Ensemble(members), kernel.build(1.0), unbiased=False, rtol=1e-4)
        assert np.all(u.epistemic > 0)


def test_single_draws_need_the_plug_in_statistic():
    one = kuq.Samples(np.zeros((3, 1)))
    for unbiased in (True, "samples"):
        for call in (
            lambda u: kuq.decompose(kuq.Ensemble(one), kuq.CRPS(), unbiased=u),
            lambda u: kuq.entropy(one, kuq.CRPS(), unbiased=u),
            lambda u: kuq.divergence(one, one, kuq.CRPS(), unbiased=u),
        ):
            with pytest.raises(kuq.InsufficientDataError, match="two draws"):
                call(unbiased)
    u = kuq.decompose(kuq.Ensemble(one), kuq.CRPS(), unbiased="members")
    assert float(u.aleatoric) == 0.0
