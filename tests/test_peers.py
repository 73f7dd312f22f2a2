"""Peers as oracles, and their known defects as tests.

Scores are compared with scoringrules, decompositions with the formulas of the paper written out
plainly. Then come defects found in other libraries, and requests of their users: each is a
small test that kuq does not share the defect, or meets the request.
"""

import tracemalloc

import numpy as np
import pytest
from numpy.random import default_rng
from scipy import integrate, special, stats

import kuq

SQRT2 = 2**0.5


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def sr():
    return pytest.importorskip("scoringrules")


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def jax():
    return pytest.importorskip("jax")


def close(actual, expected, rtol=1e-11, atol=1e-14):
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=rtol, atol=atol)


# --- scores against scoringrules -------------------------------------------------------------

LOC, SCALE, Y = (
    default_rng(0).normal(size=(2, 3)),
    default_rng(1).uniform(0.1, 3, (2, 3)),
    default_rng(2).normal(0, 2, (2, 3)),
)
DRAWS = default_rng(3).normal(size=(2, 3, 11))
FIELDS, FIELD = default_rng(4).normal(size=(2, 3, 11, 4)), default_rng(5).normal(size=(2, 3, 4))
DRAW_WEIGHTS = default_rng(6).uniform(0.2, 1, (2, 3, 11))
DRAW_WEIGHTS /= DRAW_WEIGHTS.sum(-1, keepdims=True)
ESTIMATORS = [("nrg", False), ("fair", True)]


def test_crps_of_normals(sr):
    close(kuq.score(kuq.Normal(LOC, SCALE), Y, kuq.CRPS()), sr.crps_normal(Y, LOC, SCALE))


@pytest.mark.parametrize("df", [1.3, 2.0, 5.0, 40.0])
def test_crps_of_student_t(sr, df):
    p = kuq.StudentT(df, LOC, SCALE)
    close(kuq.score(p, Y, kuq.CRPS()), sr.crps_t(Y, df, LOC, SCALE), rtol=1e-7)


def test_crps_of_mixtures(sr, rng):
    weights = rng.dirichlet(np.ones(4), (2, 3))
    loc, scale = rng.normal(0, 3, (2, 3, 4)), rng.uniform(0.1, 2, (2, 3, 4))
    p = kuq.NormalMixture(weights, loc, scale)
    close(kuq.score(p, Y, kuq.CRPS()), sr.crps_mixnorm(Y, loc, scale, weights))


def test_log_score(sr, rng):
    close(kuq.score(kuq.Normal(LOC, SCALE), Y, kuq.LogScore()), sr.logs_normal(Y, LOC, SCALE))
    student = kuq.StudentT(3.0, LOC, SCALE)
    close(kuq.score(student, Y, kuq.LogScore()), sr.logs_t(Y, 3.0, LOC, SCALE))
    weights, loc, scale = rng.dirichlet(np.ones(4), (2, 3)), DRAWS[..., :4], SCALE[..., None]
    expected = sr.logs_mixnorm(Y, loc, np.broadcast_to(scale, loc.shape), weights)
    close(kuq.score(kuq.NormalMixture(weights, loc, scale), Y, kuq.LogScore()), expected)


@pytest.mark.parametrize(("estimator", "unbiased"), [*ESTIMATORS, ("qd", False), ("pwm", True)])
def test_crps_of_draws(sr, estimator, unbiased):
    expected = sr.crps_ensemble(Y, DRAWS, estimator=estimator, backend="numpy")
    close(kuq.score(kuq.Samples(DRAWS), Y, kuq.CRPS(), unbiased=unbiased), expected)


@pytest.mark.parametrize(("estimator", "unbiased"), ESTIMATORS)
def test_energy_score_of_draws(sr, estimator, unbiased):
    expected = sr.es_ensemble(FIELD, FIELDS, estimator=estimator, backend="numpy")
    p = kuq.Samples(FIELDS, event_ndim=1)
    close(kuq.score(p, FIELD, kuq.Energy(), unbiased=unbiased), expected)


@pytest.mark.parametrize(("estimator", "unbiased"), ESTIMATORS)
def test_gaussian_kernel_score_of_draws(sr, estimator, unbiased):
    """scoringrules has exp(−r²/2), which is a bandwidth of √2 here."""
    kernel, options = kuq.Gaussian(SQRT2), {"estimator": estimator, "backend": "numpy"}
    p = kuq.Samples(DRAWS)
    close(kuq.score(p, Y, kernel, unbiased=unbiased), sr.gksuv_ensemble(Y, DRAWS, **options))
    p = kuq.Samples(FIELDS, event_ndim=1)
    expected = sr.gksmv_ensemble(FIELD, FIELDS, **options)
    close(kuq.score(p, FIELD, kernel, unbiased=unbiased), expected)


def test_weighted_draws(sr):
    options = {"ens_w": DRAW_WEIGHTS, "estimator": "nrg", "backend": "numpy"}
    p = kuq.Samples(DRAWS, weights=DRAW_WEIGHTS)
    expected = sr.crps_ensemble(Y, DRAWS, **options)
    close(kuq.score(p, Y, kuq.CRPS(), unbiased=False), expected)
    expected = sr.gksuv_ensemble(Y, DRAWS, **options)
    close(kuq.score(p, Y, kuq.Gaussian(SQRT2), unbiased=False), expected)
    p = kuq.Samples(FIELDS, event_ndim=1, weights=DRAW_WEIGHTS)
    expected = sr.es_ensemble(FIELD, FIELDS, **options)
    close(kuq.score(p, FIELD, kuq.Energy(), unbiased=False), expected)


def test_variogram_score_is_the_squared_error_of_features(sr):
    def variogram(x):
        return np.abs(x[..., :, None] - x[..., None, :]) ** 0.5

    expected = sr.vs_ensemble(FIELD, FIELDS, p=0.5, backend="numpy")
    p = kuq.Samples(FIELDS, event_ndim=1)
    close(kuq.score(p, FIELD, kuq.SquaredError().on(variogram), unbiased=False), expected)


# --- decompositions against the paper's formulas for normals, written out plainly -------------

MEANS, STDS = default_rng(7).normal(0, 2, (5, 7)), default_rng(8).uniform(0.2, 2, (5, 7))


def absolute_moment(gap, variance):
    """E|Z| of Z ~ N(gap, variance) by the confluent hypergeometric function."""
    shape = special.hyp1f1(-0.5, 0.5, -(gap**2) / (2 * variance))
    return np.sqrt(2 * variance) * special.gamma(1) / np.sqrt(np.pi) * shape


def gaussian_overlap(gap, variance, bandwidth):
    shrink = 1 + 2 * variance / bandwidth**2
    return -(shrink**-0.5) * np.exp(-(gap**2) / (bandwidth**2 * shrink))


EXPECTED_KERNELS = {
    "SquaredError": (kuq.SquaredError(), lambda gap, v: gap**2 + v, 0.0),
    "CRPS": (kuq.CRPS(), absolute_moment, 0.0),
    "Energy": (kuq.Energy(), absolute_moment, 0.0),
    "Gaussian": (kuq.Gaussian(0.7), lambda gap, v: gaussian_overlap(gap, v, 0.7), -1.0),
}


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("name", EXPECTED_KERNELS)
def test_kernel_decomposition_of_normals(name, unbiased):
    score, expected_kernel, diagonal = EXPECTED_KERNELS[name]
    members = len(MEANS)
    gap, variance = MEANS[:, None] - MEANS[None], STDS[:, None] ** 2 + STDS[None] ** 2
    a = expected_kernel(gap, variance)
    own = np.mean([a[m, m] for m in range(members)], axis=0)
    aleatoric, epistemic = (own - diagonal) / 2, a.mean((0, 1)) - own
    epistemic *= members / (members - 1) if unbiased else 1
    ensemble = kuq.Ensemble(kuq.Normal(MEANS, STDS))
    for estimator, factor in (("pairwise", 1), ("bma", 0.5)):
        u = kuq.decompose(ensemble, score, estimator=estimator, unbiased=unbiased)
        close(u.aleatoric, aleatoric)
        close(u.epistemic, factor * epistemic)
        close(u.total, aleatoric + factor * epistemic)
        assert u.method == "exact"


def kl(loc_q, std_q, loc_p, std_p):
    """KL(Q‖P) of normals."""
    ratio = (std_q**2 + (loc_q - loc_p) ** 2) / (2 * std_p**2)
    return np.log(std_p / std_q) + ratio - 0.5


@pytest.mark.parametrize("unbiased", [False, True])
def test_pairwise_log_decomposition_of_normals(unbiased):
    members = len(MEANS)
    pairs = kl(MEANS[None], STDS[None], MEANS[:, None], STDS[:, None])
    u = kuq.decompose(kuq.Ensemble(kuq.Normal(MEANS, STDS)), kuq.LogScore(), unbiased=unbiased)
    close(u.aleatoric, np.mean(np.log(2 * np.pi * np.e * STDS**2) / 2, axis=0))
    close(u.epistemic, pairs.sum((0, 1)) / (members * (members - unbiased)))


def test_mutual_information_of_normals():
    u = kuq.decompose(kuq.Ensemble(kuq.Normal(MEANS, STDS)), kuq.LogScore(), estimator="bma")

    def mixture_entropy(loc, std):
        def integrand(x):
            density = stats.norm.pdf(x, loc, std).mean()
            return -special.xlogy(density, density)

        points = np.sort(np.concatenate([loc + k * std for k in (-2, 0, 2)]))
        low, high = (loc - 12 * std).min(), (loc + 12 * std).max()
        return integrate.quad(integrand, low, high, points=points, limit=500, epsabs=1e-12)[0]

    total = [mixture_entropy(MEANS[:, i], STDS[:, i]) for i in range(MEANS.shape[1])]
    close(u.total, total, rtol=1e-8)
    close(u.epistemic, total - stats.norm.entropy(MEANS, STDS).mean(0), rtol=1e-7)


# --- defects of peers (the numbers are those of the list in the notes on peers) ----------------


@pytest.mark.parametrize(
    ("weights", "loc", "scale", "known"),
    [([1.0], [0.0], [1.0], 1.128379167), ([0.5, 0.5], [-5.0, 5.0], [1.0, 1.0], 5.564189584)],
)
def test_defect_1_self_energy_of_mixtures_sees_the_components(weights, loc, scale, known):
    p = kuq.NormalMixture(weights, loc, scale)

    def integrand(x):  # E|X − X'| = 2 ∫ F(1 − F)
        cdf = np.dot(weights, stats.norm.cdf(x, loc, scale))
        return 2 * cdf * (1 - cdf)

    numeric = integrate.quad(integrand, -20, 20, points=[*loc], limit=200, epsabs=1e-12)[0]
    value = float(kuq.expected_kernel(p, p, kuq.Energy()))
    close(value, numeric, rtol=1e-9)
    close(value, known, rtol=1e-8)
    close(2 * kuq.entropy(p, kuq.Energy()), numeric, rtol=1e-9)


def test_defect_2_biased_and_unbiased_are_two_documented_values():
    draws, y = np.array([0.1, 0.4, 1.3]), 0.5
    gaps = np.abs(draws[:, None] - draws)
    error = np.abs(draws - y).mean()
    p = kuq.Samples(draws)
    plug_in = kuq.score(p, y, kuq.CRPS(), unbiased=False)
    fair = kuq.score(p, y, kuq.CRPS(), unbiased=True)
    close(plug_in, error - gaps.sum() / (2 * 3 * 3))
    close(fair, error - gaps.sum() / (2 * 3 * 2))
    assert plug_in != fair
    assert fair == kuq.score(p, y, kuq.CRPS())  # the default
    assert "unbiased" in kuq.decompose.__doc__


@pytest.mark.parametrize("unbiased", [False, True])
def test_defect_3_tail_scores_take_any_batch(sr, unbiased):
    estimator = "fair" if unbiased else "nrg"
    options = {"estimator": estimator, "backend": "numpy"}

    def tail(x):
        return np.maximum(x, 0.3)

    value = kuq.score(kuq.Samples(DRAWS), Y, kuq.Energy().on(tail), unbiased=unbiased)
    assert value.shape == (2, 3)
    close(value, sr.twcrps_ensemble(Y, DRAWS, a=0.3, **options))
    p = kuq.Samples(FIELDS, event_ndim=1)
    value = kuq.score(p, FIELD, kuq.Energy().on(tail), unbiased=unbiased)
    assert value.shape == (2, 3)
    close(value, sr.twes_ensemble(FIELD, FIELDS, tail, **options))


def test_defect_3_weights_and_transforms_keep_the_batch(rng):
    fields = rng.normal(size=(4, 2, 3, 11, 5))
    ensemble = kuq.Ensemble(kuq.Samples(fields, event_ndim=1))
    weights = np.arange(5.0)
    for score in (
        kuq.Energy(weights=weights),
        kuq.CRPS(weights=weights),
        kuq.Gaussian(2.0, weights=weights).on(np.tanh),
        kuq.Marginal(kuq.Gaussian(2.0).on(np.tanh), weights=weights),
        kuq.Energy() + 0.5 * kuq.CRPS(),
    ):
        u = kuq.decompose(ensemble, score)
        assert u.total.shape == (2, 3)
        one = kuq.Ensemble(kuq.Samples(fields[:, 1, 2], event_ndim=1))
        close(u.epistemic[1, 2], kuq.decompose(one, score).epistemic, rtol=1e-10)
    assert kuq.decompose(ensemble, kuq.CRPS(reduce=None)).total.shape == (2, 3, 5)


def test_defect_4_variance_in_float32_far_from_zero(rng):
    values = (1000 + 0.01 * rng.standard_normal((8, 50))).astype(np.float32)
    exact = values.astype(float).var(axis=0)
    u = kuq.decompose(
        kuq.Ensemble(kuq.Point(values)), kuq.SquaredError(), estimator="bma", unbiased=False
    )
    assert u.epistemic.dtype == np.float32
    close(u.epistemic, exact, rtol=2e-6)
    close(kuq.Ensemble(kuq.Point(values)).variance(), exact, rtol=2e-6)
    samples = kuq.Samples(values.T)
    close(kuq.entropy(samples, kuq.SquaredError(), unbiased=False), exact, rtol=2e-6)
    close(samples.variance(), exact, rtol=2e-6)


def test_defect_5_squared_error_gives_variances_throughout():
    ensemble = kuq.Ensemble(kuq.Normal(MEANS, STDS))
    u = kuq.decompose(ensemble, kuq.SquaredError(), estimator="bma", unbiased=False)
    assert u.units == "target units^2"
    close(u.aleatoric, np.mean(STDS**2, axis=0))
    close(u.epistemic, np.var(MEANS, axis=0))
    close(u.total, ensemble.variance())  # the law of total variance
    scaled = kuq.Ensemble(kuq.Normal(1000 * MEANS, 1000 * STDS))
    for score, degree in ((kuq.SquaredError(), 2), (kuq.CRPS(), 1), (kuq.Energy(0.5), 0.5)):
        before, after = (kuq.decompose(e, score) for e in (ensemble, scaled))
        for part in before:
            close(after[part], 1000**degree * before[part], rtol=1e-8)


def test_defect_6_an_ensemble_is_scored_as_its_mixture(sr):
    loc, scale = np.array([-2.0, 2.0]), np.array([0.1, 0.3])
    ensemble = kuq.Ensemble(kuq.Normal(loc, scale))
    averaged = kuq.Normal(loc.mean(), scale.mean())
    mixed = float(kuq.score(ensemble, 0.5, kuq.CRPS()))
    close(mixed, sr.crps_mixnorm(0.5, loc, scale))
    assert abs(mixed - float(kuq.score(averaged, 0.5, kuq.CRPS()))) > 0.1
    log_density = np.log(stats.norm.pdf(0.5, loc, scale).mean())
    close(kuq.score(ensemble, 0.5, kuq.LogScore()), -log_density)


@pytest.mark.parametrize(
    "score",
    [kuq.CRPS(), kuq.Gaussian(1.0), kuq.SquaredError(), kuq.Laplace(1.0), kuq.LogScore()],
    ids=repr,
)
def test_defect_8_member_weights_count(score):
    loc, scale = MEANS[:3], STDS[:3]
    times = [0, 0, 1, 2, 2, 2]
    weighted = kuq.Ensemble(kuq.Normal(loc, scale), weights=[2, 1, 3])
    repeated = kuq.Ensemble(kuq.Normal(loc[times], scale[times]))
    for estimator in ("pairwise", "bma"):
        u, v = (
            kuq.decompose(e, score, estimator=estimator, unbiased=False)
            for e in (weighted, repeated)
        )
        close(u.aleatoric, v.aleatoric, rtol=1e-9)
        close(u.epistemic, v.epistemic, rtol=1e-8)
    close(
        kuq.score(weighted, Y[0, 0] + 0 * loc[0], score),
        kuq.score(repeated, Y[0, 0] + 0 * loc[0], score),
        rtol=1e-9,
    )
    without = kuq.decompose(kuq.Ensemble(kuq.Normal(loc, scale), weights=[1, 1, 0]), score)
    close(
        without.epistemic,
        kuq.decompose(kuq.Ensemble(kuq.Normal(loc[:2], scale[:2])), score).epistemic,
        rtol=1e-9,
    )


def test_defect_9_gradient_of_the_energy_score_at_equal_draws_torch(torch):
    for kernel in (kuq.Energy(), kuq.Energy(0.5), kuq.CRPS(), kuq.Laplace(1.0), kuq.Matern(1.0)):
        draws = torch.zeros((3, 4, 2), dtype=torch.float64)
        draws[:, 0] = 1.0  # the other three draws are equal, and equal to the outcome
        draws.requires_grad_()
        p = kuq.Samples(draws, event_ndim=1)
        y = torch.zeros((3, 2), dtype=torch.float64)
        loss = kuq.score(p, y, kernel, unbiased=False).sum()
        loss = loss + kuq.decompose(kuq.Ensemble(p), kernel).epistemic
        loss.backward()
        assert bool(torch.isfinite(draws.grad).all()), kernel
        assert float(draws.grad[:, 0].abs().min()) > 0, kernel


def test_defect_9_gradient_of_the_energy_score_at_equal_draws_jax(jax):
    draws = jax.numpy.zeros((4, 2)).at[0].set(1.0)

    @jax.grad
    def gradient(values):
        p = kuq.Samples(values, event_ndim=1)
        return kuq.score(p, [0.0, 0.0], kuq.Energy(), unbiased=False)

    value = np.asarray(gradient(draws))
    assert np.all(np.isfinite(value))
    close(value[0], [SQRT2 / 32] * 2, rtol=1e-5)  # (1/4 − 3/16) times the direction


def test_defect_10_every_pair_has_its_own_divergence():
    matrix = kuq.member_divergences(kuq.Ensemble(kuq.Normal(MEANS, STDS)), kuq.LogScore())
    expected = kl(MEANS[None], STDS[None], MEANS[:, None], STDS[:, None])
    close(matrix, expected, rtol=1e-10, atol=1e-13)
    assert np.all(matrix >= 0)
    assert np.abs(matrix - np.swapaxes(matrix, 0, 1)).max() > 0.1  # KL is not symmetric
    narrow, wide = kuq.Normal(0.0, 1.0), kuq.Normal(0.0, 2.0)
    close(kuq.divergence(narrow, wide, kuq.LogScore()), np.log(1 / 2) + 2 - 0.5)
    close(kuq.divergence(wide, narrow, kuq.LogScore()), np.log(2) + 1 / 8 - 0.5)


def test_defect_10_agrees_with_torch_distributions(torch):
    p, q = torch.distributions.Normal(0.3, 0.5), torch.distributions.Normal(-1.0, 2.0)
    expected = torch.distributions.kl_divergence(q, p)
    value = kuq.divergence(kuq.Normal(0.3, 0.5), kuq.Normal(-1.0, 2.0), kuq.LogScore())
    close(value, float(expected), rtol=1e-6)


@pytest.mark.parametrize("score", [kuq.CRPS(), kuq.Gaussian(1.0), kuq.Laplace(1.0)], ids=repr)
def test_defect_11_measures_of_normals_are_differentiable(torch, score):
    loc = torch.tensor(MEANS[:3, :2], requires_grad=True)
    scale = torch.tensor(STDS[:3, :2], requires_grad=True)

    def parts(loc, scale):
        u = kuq.decompose(kuq.Ensemble(kuq.Normal(loc, scale)), score)
        return u.aleatoric, u.epistemic

    assert torch.autograd.gradcheck(parts, (loc, scale), rtol=1e-5, atol=1e-8)


# --- evidential regression: standard deviation or variance, which is which ----------------------

LAW = {"loc": 0.3, "nu": 2.5, "alpha": 3.0, "beta": 1.7}


def test_evidential_variances_are_not_swapped():
    u = kuq.decompose(kuq.NormalInverseGamma(**LAW), kuq.SquaredError(), estimator="bma")
    close(u.aleatoric, LAW["beta"] / (LAW["alpha"] - 1))
    close(u.epistemic, LAW["beta"] / (LAW["nu"] * (LAW["alpha"] - 1)))
    close(u.total, kuq.NormalInverseGamma(**LAW).variance())
    assert u.units == "target units^2"


@pytest.mark.parametrize(
    "score", [kuq.CRPS(), kuq.SquaredError(), kuq.Gaussian(1.0), kuq.LogScore()], ids=repr
)
def test_evidence_lowers_epistemic_uncertainty_only(score):
    little = kuq.decompose(kuq.NormalInverseGamma(**LAW), score)
    much = kuq.decompose(kuq.NormalInverseGamma(**{**LAW, "nu": 1e6}), score)
    close(much.aleatoric, little.aleatoric, rtol=1e-8)
    assert much.epistemic < little.epistemic


def test_evidence_of_mean_and_variance_removes_epistemic_uncertainty():
    sure = kuq.NormalInverseGamma(0.0, 1e8, 1e8, 1e8)
    for score in (kuq.CRPS(), kuq.SquaredError(), kuq.LogScore()):
        u = kuq.decompose(sure, score)
        assert 0 <= u.epistemic < 1e-6
        close(u.aleatoric, kuq.entropy(kuq.Normal(0.0, 1.0), score), rtol=1e-6)


@pytest.mark.parametrize(
    "score", [kuq.CRPS(), kuq.SquaredError(), kuq.Gaussian(1.0), kuq.LogScore()], ids=repr
)
def test_evidential_values_are_those_of_many_drawn_members(score):
    u = kuq.decompose(kuq.NormalInverseGamma(**LAW), score)
    own = np.random.default_rng(7)
    variance = LAW["beta"] / own.standard_gamma(LAW["alpha"], (40, 1000))
    loc = LAW["loc"] + np.sqrt(variance / LAW["nu"]) * own.standard_normal(variance.shape)
    drawn = kuq.decompose(kuq.Ensemble(kuq.Normal(loc, np.sqrt(variance))), score)
    for part in ("aleatoric", "epistemic"):
        mean, error = drawn[part].mean(), drawn[part].std() / 1000**0.5
        assert abs(mean - float(u[part])) < 4.5 * error, part


# --- what users of other libraries ask for ------------------------------------------------------


def test_memory_of_many_draws(rng):
    draws, y = rng.normal(size=(500, 1000)), rng.normal(size=500)
    calls = {
        "score": lambda: kuq.score(kuq.Samples(draws), y, kuq.CRPS()),
        "entropy": lambda: kuq.entropy(kuq.Samples(draws), kuq.CRPS()),
        "decompose": lambda: kuq.decompose(
            kuq.Ensemble(kuq.Samples(draws.reshape(2, 250, 1000))), kuq.CRPS()
        ),
    }
    for name, call in calls.items():
        tracemalloc.start()
        call()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 100e6, f"{name}: {peak / 1e6:.0f} MB for 4 MB of draws"


def test_memory_of_the_energy_score_is_bounded(rng):
    draws = rng.normal(size=(8, 300, 50))
    p = kuq.Samples(draws, event_ndim=1)
    for budget in (16e6, 64e6):
        tracemalloc.start()
        kuq.entropy(p, kuq.Energy(), max_memory=budget)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 3 * budget + 20e6, f"{peak / 1e6:.0f} MB"


def test_sorted_crps_has_the_gradient_of_the_quadratic_form(torch):
    draws = torch.tensor(DRAWS[0], requires_grad=True)
    y = torch.tensor(Y[0])
    plain = (draws - y[:, None]).abs().mean(-1)
    plain = plain - (draws[:, :, None] - draws[:, None, :]).abs().sum((-1, -2)) / (2 * 11 * 10)
    (expected,) = torch.autograd.grad(plain.sum(), draws)
    value = kuq.score(kuq.Samples(draws), y, kuq.CRPS())
    (gradient,) = torch.autograd.grad(value.sum(), draws)
    close(value.detach(), plain.detach())
    close(gradient, expected)


SCORES = [
    kuq.CRPS(),
    kuq.SquaredError(),
    kuq.Energy(0.5),
    kuq.Gaussian(1.0),
    kuq.InverseMultiquadric(1.0),
    kuq.LogScore(),
]


@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_an_ensemble_of_one_is_its_member(score):
    """lightning-uq-box#143."""
    member = kuq.Normal(MEANS[0], STDS[0])
    u = kuq.decompose(kuq.Ensemble([member]), score, unbiased=False)
    assert np.all(u.epistemic == 0)
    close(u.total, kuq.entropy(member, score))
    close(
        kuq.score(kuq.Ensemble([member]), Y[0, 0] + 0 * MEANS[0], score),
        kuq.score(member, Y[0, 0] + 0 * MEANS[0], score),
    )
    with pytest.raises(kuq.InsufficientDataError, match="unbiased=False"):
        kuq.decompose(kuq.Ensemble([member]), score)


@pytest.mark.parametrize("score", [kuq.CRPS(), kuq.SquaredError(), kuq.Gaussian(1.0)], ids=repr)
@pytest.mark.parametrize(("members", "draws"), [(2, 2), (2, 5), (6, 3)])
def test_expectation_does_not_depend_on_the_size_of_the_ensemble(score, members, draws):
    """Members N(m, 1) with m ~ N(0, 0.5²); properscoring#7, earth2studio#190, MET#2206."""
    own = np.random.default_rng(members * 10 + draws)
    repeats = 20_000
    means = 0.5 * own.standard_normal((members, repeats, 1))
    values = means + own.standard_normal((members, repeats, draws))
    u = kuq.decompose(kuq.Ensemble(kuq.Samples(values)), score)
    # Two members differ like m − m' ~ N(0, 2·0.5²), so that a(P, P') has variance 2 + 2·0.5².
    between = kuq.expected_kernel(kuq.Normal(0.0, 1.5**0.5), kuq.Normal(0.0, 1.0), score)
    within = kuq.expected_kernel(kuq.Normal(0.0, 1.0), kuq.Normal(0.0, 1.0), score)
    truth = {
        "aleatoric": float(kuq.entropy(kuq.Normal(0.0, 1.0), score)),
        "epistemic": float(between - within),
    }
    plug_in = kuq.decompose(kuq.Ensemble(kuq.Samples(values)), score, unbiased=False)
    for part, expected in truth.items():
        error = u[part].std() / repeats**0.5
        assert abs(u[part].mean() - expected) < 4.5 * error, part
        assert abs(plug_in[part].mean() - expected) > 4.5 * error, part
    assert np.any(u.epistemic < 0)  # unbiased means not clipped
    assert np.all(plug_in.epistemic >= 0)


def test_total_is_not_mixed_up_with_the_mean_entropy():
    """torch-uncertainty#304: the entropy of the ensemble is its total, not its aleatoric part."""
    ensemble = kuq.Ensemble(kuq.Normal(MEANS, STDS))
    for score in (kuq.CRPS(), kuq.Gaussian(1.0), kuq.LogScore()):
        u = kuq.decompose(ensemble, score, estimator="bma", unbiased=False)
        close(kuq.entropy(ensemble, score), u.total, rtol=1e-8)
        assert np.all(u.total > u.aleatoric)


def test_statistics_do_not_depend_on_the_diagonal_of_the_kernel():
    """shogun#5133."""

    class Shifted(kuq.Kernel):
        def __call__(self, x, y):
            return 7.0 - np.exp(-np.sum((x - y) ** 2, axis=-1))

    ensemble = kuq.Ensemble(kuq.Samples(DRAWS))
    for unbiased in (True, False):
        u = kuq.decompose(ensemble, kuq.Gaussian(1.0), unbiased=unbiased)
        v = kuq.decompose(ensemble, Shifted(), unbiased=unbiased)
        close(v.aleatoric, u.aleatoric, rtol=1e-10)
        close(v.epistemic, u.epistemic, rtol=1e-9, atol=1e-12)


def test_missing_draws():
    """scoringrules#118 and #123, anemoi-core#358."""
    values = FIELDS.copy()
    values[0, 1, 3, 2] = np.nan
    with pytest.raises(kuq.ParameterError, match="nan_policy"):
        kuq.Samples(values, event_ndim=1)
    y = FIELD
    omitted = kuq.Samples(values, event_ndim=1, nan_policy="omit")
    value = kuq.score(omitted, y, kuq.Energy())
    rest = kuq.Samples(np.delete(values[0, 1], 3, axis=0), event_ndim=1)
    close(value[0, 1], kuq.score(rest, y[0, 1], kuq.Energy()))
    kept = kuq.Samples(values, event_ndim=1, nan_policy="propagate")
    value = kuq.score(kept, y, kuq.Energy())
    assert np.isnan(value[0, 1])
    assert np.isnan(value).sum() == 1


def test_the_bandwidth_that_was_chosen_is_in_the_result():
    """torch-two-sample#10: which bandwidth was used?"""
    ensemble = kuq.Ensemble(kuq.Normal(MEANS, STDS))
    u = kuq.decompose(ensemble, kuq.Gaussian("median"))
    rows, columns = np.triu_indices(len(MEANS), 1)
    gap, variance = MEANS[rows] - MEANS[columns], STDS[rows] ** 2 + STDS[columns] ** 2
    close(u.score.bandwidth, np.median(np.sqrt(gap**2 + variance)))
    again = kuq.decompose(ensemble, u.score)
    close(again.epistemic, u.epistemic)


def test_which_axes_form_an_outcome_is_said_and_shown():
    """scoringrules#19 and #35."""
    values = np.zeros((4, 6, 8, 3))
    assert repr(kuq.Samples(values, event_ndim=1)) == "Samples(batch=(4, 6), N=8, event=(3,))"
    assert repr(kuq.Samples(values)) == "Samples(batch=(4, 6, 8), N=3, event=())"


def test_results_are_named():
    """catboost#1876: which column is which?"""
    u = kuq.decompose(kuq.Ensemble(kuq.Normal(MEANS, STDS)), kuq.CRPS())
    assert list(u) == ["total", "aleatoric", "epistemic"]
    assert u["epistemic"] is u.epistemic
    assert u.units == "target units"
