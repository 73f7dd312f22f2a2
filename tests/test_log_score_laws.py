"""The log score of laws of every class: own densities, exact entropies, infinite divergences."""

import math

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

import kuq

LOG = kuq.LogScore()


class Mixed(kuq.Distribution):
    """0.95·N(loc, scale²) + 0.05·N(loc, (10·scale)²), as two weighted atoms or as a mixture."""

    parameters = ("loc", "scale")
    as_atoms = True

    def __init__(self, loc, scale, event_ndim=0):
        self.loc, self.scale = np.broadcast_arrays(loc, scale)
        self.event_ndim, self.dtype = event_ndim, self.loc.dtype

    def mixture(self):
        weights = np.broadcast_to([0.95, 0.05], (*self.loc.shape, 2))
        loc = np.stack([self.loc, self.loc], axis=-1)
        scale = np.stack([self.scale, 10 * self.scale], axis=-1)
        return kuq.NormalMixture(weights, loc, scale, self.event_ndim)

    def mean(self):
        return self.loc

    def variance(self):
        return self.mixture().variance()

    def sample(self, draws, rng):
        return self.mixture().sample(draws, rng)

    def law(self, marginal, rtol):
        found = self.mixture().law(marginal, rtol)
        if not self.as_atoms:
            return found
        from kuq.distributions.laws import to_scalar_atoms

        return to_scalar_atoms(found)


class WithDensity(Mixed):
    def log_density(self, x):
        parts = [stats.norm(self.loc, s * self.scale).pdf(x) for s in (1, 10)]
        return np.log(0.95 * parts[0] + 0.05 * parts[1])


class OneAtom(WithDensity):
    as_atoms = False


def density(x, loc=0.0, scale=1.0):
    return 0.95 * stats.norm(loc, scale).pdf(x) + 0.05 * stats.norm(loc, 10 * scale).pdf(x)


def kl(p, q):
    """KL(Q‖P) on the line."""
    value, _ = integrate.quad(
        lambda x: q(x) * math.log(q(x) / p(x)), -250, 250, limit=400, points=[-30, -3, 0, 3, 30]
    )
    return value


def test_an_own_density_is_asked():
    value = kuq.score(WithDensity(0.0, 1.0), 8.0, LOG)
    assert float(value) == pytest.approx(-math.log(density(8.0)), rel=1e-12)
    both = kuq.Ensemble([WithDensity(0.0, 1.0), kuq.Normal(1.0, 2.0)])
    wanted = -math.log(0.5 * density(8.0) + 0.5 * stats.norm(1, 2).pdf(8.0))
    assert float(kuq.score(both, 8.0, LOG)) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("law", [WithDensity, OneAtom])
def test_an_own_law_is_a_mixture_by_its_atoms(law):
    """Not the normal of its first atom."""
    entropy, _ = integrate.quad(
        lambda x: -density(x) * math.log(density(x)),
        -250,
        250,
        limit=400,
        points=[-30, -3, 0, 3, 30],
    )
    assert float(kuq.entropy(law(0.0, 1.0), LOG)) == pytest.approx(entropy, rel=1e-8)
    wanted = kl(lambda x: density(x, 1.0, 2.0), density)
    found = kuq.divergence(law(1.0, 2.0), law(0.0, 1.0), LOG)
    assert float(found) == pytest.approx(wanted, rel=1e-8)
    u = kuq.decompose(kuq.Ensemble(law([0.0, 1.0], [1.0, 2.0])), LOG)
    back = kl(density, lambda x: density(x, 1.0, 2.0))
    assert float(u.epistemic) == pytest.approx((wanted + back) / 2, rel=1e-8)
    assert float(u.aleatoric) == pytest.approx(entropy + math.log(2) / 2, rel=1e-8)
    assert u.method == "quadrature"


def test_atoms_of_vectors_are_no_product_of_coordinates():
    law = kuq.Ensemble(TwoFields(np.zeros((2, 2))))
    with pytest.raises(kuq.NoClosedFormError):
        kuq.decompose(law, LOG)
    u = kuq.decompose(law, LOG, draws=4000, seed=0)
    # Two unit normals in the plane, at distance 2·√2·4: one bit of place, and no overlap.
    wanted = math.log(2 * math.pi * math.e) + math.log(2)
    assert float(u.aleatoric) == pytest.approx(wanted, abs=0.1)  # 6 standard errors of √(2/4000)
    assert float(u.epistemic) == 0.0
    assert u.method == "monte-carlo"


class TwoFields(kuq.Distribution):
    """½ N(loc + 4, I) + ½ N(loc − 4, I) of vectors: coordinates depend on each other."""

    parameters = ("loc",)
    event_ndim = 1

    def __init__(self, loc):
        self.loc, self.dtype = loc, loc.dtype

    def mean(self):
        return self.loc

    def variance(self):
        return np.full_like(self.loc, 17.0)

    def sample(self, draws, rng):
        shape = (*self.batch_shape, draws)
        place = 4 * rng.choice([-1.0, 1.0], size=shape)[..., None]
        return self.loc[..., None, :] + place + rng.normal(size=(*shape, *self.event_shape))

    def law(self, marginal, rtol):
        from kuq.distributions.atoms import Normals
        from kuq.distributions.laws import Law

        loc = self.loc[..., None, None] if marginal else self.loc[..., None, :]
        loc = np.concatenate([loc - 4, loc + 4], axis=-2)
        return Law(Normals(loc, np.ones_like(loc)))

    def log_density(self, x):
        parts = [stats.norm(self.loc + s, 1).logpdf(x).sum(axis=-1) for s in (-4, 4)]
        return np.logaddexp(*parts) - math.log(2)


@pytest.mark.parametrize(
    "call",
    [
        lambda p: kuq.score(p, 0.0, LOG),
        lambda p: kuq.entropy(p, LOG),
        lambda p: kuq.divergence(kuq.Normal(0.0, 1.0), p, LOG),
        lambda p: kuq.divergence(p, kuq.Normal(0.0, 1.0), LOG),
        lambda p: kuq.decompose(kuq.Ensemble([p, p]), LOG),
        lambda p: kuq.decompose(kuq.Ensemble([p, p]), LOG, estimator="bma"),
        lambda p: kuq.member_divergences(kuq.Ensemble([p, p]), LOG),
        lambda p: kuq.member_influence(kuq.Ensemble([p, p, p]), LOG),
    ],
)
def test_a_law_without_a_density_says_what_to_write(call):
    with pytest.raises(kuq.ParameterError, match=r"Mixed has none; .*log_density\(self, x\)"):
        call(Mixed(0.0, 1.0))


@pytest.mark.parametrize(
    ("law", "wanted"),
    [
        (kuq.Normal([0.3, -1.0], [0.7, 2.0], 1), stats.norm([0.3, -1.0], [0.7, 2.0])),
        (kuq.StudentT([1.5, 4.0], [0.3, -1.0], 2.0, 1), stats.t([1.5, 4.0], [0.3, -1.0], 2.0)),
    ],
)
def test_laws_answer_themselves(law, wanted):
    x = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_allclose(law.log_density(x), wanted.logpdf(x).sum(axis=-1), rtol=1e-12)


def test_low_rank_laws_answer_themselves():
    rng = np.random.default_rng(1)
    loc, factor, diag = rng.normal(size=4), rng.normal(size=(4, 2)), rng.uniform(0.1, 1, 4)
    x = rng.normal(size=(5, 4))
    wanted = stats.multivariate_normal(loc, factor @ factor.T + np.diag(diag)).logpdf(x)
    found = kuq.LowRankNormal(loc, factor, diag).log_density(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-11)


# Student-t laws.


def student_entropy(df, scale):
    half = mpmath.mpf(df) / 2
    value = (half + 0.5) * (mpmath.digamma(half + 0.5) - mpmath.digamma(half))
    return float(value + mpmath.log(mpmath.sqrt(df) * mpmath.beta(half, 0.5)) + mpmath.log(scale))


@pytest.mark.parametrize("df", [0.1, 1.0, 3.7, 99.0, 101.0, 1e4, 1e9])
def test_the_entropy_of_a_student_law(df):
    with mpmath.workdps(50):
        wanted = student_entropy(df, 2.0)
        at = mpmath.log(stats_t(df, 1.5 / 2)) - mpmath.log(2)
    assert float(kuq.entropy(kuq.StudentT(df, 0.3, 2.0), LOG)) == pytest.approx(wanted, rel=1e-13)
    found = -kuq.score(kuq.StudentT(df, 0.0, 2.0), 1.5, LOG)
    assert float(found) == pytest.approx(float(at), rel=1e-13)


def stats_t(df, x):
    df = mpmath.mpf(df)
    constant = (
        mpmath.gamma((df + 1) / 2) / mpmath.gamma(df / 2)
        if df < 1e6
        else mpmath.exp(mpmath.loggamma((df + 1) / 2) - mpmath.loggamma(df / 2))
    )
    return constant / mpmath.sqrt(df * mpmath.pi) * (1 + mpmath.mpf(x) ** 2 / df) ** (-(df + 1) / 2)


@pytest.mark.parametrize("estimator", ["pairwise", "bma"])
def test_the_aleatoric_part_of_student_laws_is_not_drawn(estimator):
    df, scale = np.asarray([[3.0], [5.0]]), np.asarray([[1.0], [2.0]])
    wanted = (student_entropy(3.0, 1.0) + student_entropy(5.0, 2.0)) / 2
    p = kuq.Ensemble(kuq.StudentT(df, 0.0, scale))
    u = kuq.decompose(p, LOG, estimator=estimator, draws=50, seed=0)
    np.testing.assert_allclose(u.aleatoric, wanted, rtol=1e-13)
    assert u.method == "monte-carlo"  # the epistemic part is
    listed = kuq.Ensemble([kuq.StudentT(3.0, 0.0, 1.0), kuq.Normal(0.0, 2.0)])
    u = kuq.decompose(listed, LOG, estimator=estimator, draws=50, seed=0)
    wanted = (student_entropy(3.0, 1.0) + stats.norm(0, 2).entropy()) / 2
    assert float(u.aleatoric) == pytest.approx(wanted, rel=1e-13)


def test_an_ensemble_of_one_student_law_needs_no_draws():
    one = kuq.Ensemble([kuq.StudentT(3.0, 0.0, 1.0)])
    assert float(kuq.entropy(one, LOG)) == pytest.approx(student_entropy(3.0, 1.0), rel=1e-13)
    u = kuq.decompose(one, LOG, estimator="bma")
    assert u.method == "exact"
    assert float(u.epistemic) == 0.0


LIGHT = {
    "Normal": kuq.Normal([0.5, 1.0], 1.0, 1),
    "NormalMixture": kuq.NormalMixture([0.5, 0.5], [[0.0, 1.0], [1.0, 3.0]], 1.0, 1),
    "LowRankNormal": kuq.LowRankNormal([0.0, 0.0], [[1.0], [1.0]], [1.0, 1.0]),
}


@pytest.mark.parametrize("light", LIGHT.values(), ids=LIGHT)
def test_a_law_without_variance_is_infinitely_far_from_normal_tails(light):
    """−E log p(X) holds a second moment of X, of which Student-t laws have none up to df = 2."""
    for df, infinite in (([1.0, 5.0], True), ([5.0, 2.0], True), ([2.1, 5.0], False)):
        heavy = kuq.StudentT(df, 0.0, 1.0, 1)
        there = kuq.divergence(light, heavy, LOG, draws=20, seed=0)  # KL(heavy‖light)
        assert (float(there) == math.inf) is infinite
        back = kuq.divergence(heavy, light, LOG, draws=20, seed=0)
        assert math.isfinite(float(back))


def test_infinite_divergences_are_known_without_draws():
    cauchy, normal = kuq.StudentT([1.0, 2.0], 0.0, 1.0), kuq.Normal([0.0, 0.0], 1.0)
    assert np.all(kuq.divergence(normal, cauchy, LOG) == math.inf)
    u = kuq.decompose(kuq.Ensemble([normal, cauchy]), LOG)
    assert np.all(u.epistemic == math.inf)
    assert np.all(u.total == math.inf)
    assert u.method == "exact"
    with pytest.raises(kuq.NoClosedFormError):
        kuq.divergence(normal, kuq.StudentT([1.0, 3.0], 0.0, 1.0), LOG)


def test_decompositions_of_mixed_members_are_infinite_where_they_have_to_be():
    p = kuq.Ensemble([kuq.Normal([0.0, 0.0], 1.0), kuq.StudentT([1.5, 3.0], 0.0, 1.0)])
    u = kuq.decompose(p, LOG, draws=200, seed=0)
    np.testing.assert_array_equal(np.isinf(u.epistemic), [True, False])
    assert u.method == "monte-carlo"
    matrix = kuq.member_divergences(p, LOG, draws=200, seed=0)
    np.testing.assert_array_equal(np.isinf(matrix[0, 1]), [True, False])
    assert np.all(np.isfinite(matrix[1, 0]))
    assert np.all(np.isfinite(kuq.decompose(p, LOG, estimator="bma", draws=200).epistemic))


def test_one_heavy_member_makes_a_mixture_heavy():
    heavy, normal = kuq.StudentT(1.0, 0.0, 1.0), kuq.Normal(0.0, 1.0)
    mixture = kuq.Ensemble([normal, kuq.StudentT(3.0, 0.0, 1.0)])
    assert math.isfinite(float(kuq.divergence(mixture, heavy, LOG, draws=50)))
    assert float(kuq.divergence(kuq.Ensemble([normal, normal]), heavy, LOG)) == math.inf
    assert float(kuq.divergence(normal, kuq.Ensemble([normal, heavy]), LOG)) == math.inf


def test_predictive_laws_of_evidential_ones_have_their_tails():
    heavy = kuq.NormalInverseGamma(0.0, 1.0, 1.0, 1.0)  # a Student-t law of two degrees of freedom
    assert float(kuq.divergence(kuq.Normal(0.0, 1.0), heavy, LOG)) == math.inf
