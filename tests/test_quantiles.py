"""Distribution functions, quantiles, intervals, densities and draws of every law."""

import math

import mpmath as mp
import numpy as np
import pytest
from cases import DISTRIBUTIONS, SECOND_ORDER
from libraries import CASES, NAMES, opened, to_numpy
from scalar_laws import assert_quantile, chance, scalar_laws
from scipy import stats

import kuq

LAWS = [*DISTRIBUTIONS, *SECOND_ORDER]
LEVELS = [1e-300, 1e-12, 0.001, 0.05, 0.5, 0.7, 0.95, 1 - 1e-9]


def size(parts):
    return max(max(p[3] for p in parts), np.ptp([p[2] for p in parts]), 1e-3)


@pytest.mark.parametrize("case", LAWS, ids=lambda c: c.name)
def test_distribution_function_and_quantiles_of_every_law(case):
    law = case.build(np.random.default_rng(1), (1,), (2,))
    shape = (1, 2)
    values = law.quantile(LEVELS)
    assert values.shape == (len(LEVELS), *shape)
    with mp.workdps(40):
        for index in np.ndindex(*shape):
            parts = scalar_laws(law, index)
            for k, q in enumerate(LEVELS):
                x = values[(k, *index)]
                assert_quantile(parts, q, x, 1e-10 * size(parts) * max(1, abs(x)))
    y = np.random.default_rng(2).normal(size=(5, *shape))
    found = law.cdf(y)
    with mp.workdps(30):
        for index in np.ndindex(*y.shape):
            exact = float(chance(scalar_laws(law, index[1:]), mp.mpf(y[index])))
            assert abs(found[index] - exact) <= 1e-14


@pytest.mark.parametrize(
    ("law", "reference"),
    [
        (kuq.Normal(2.0, 3.0), stats.norm(2.0, 3.0)),
        (kuq.StudentT(2.5, 2.0, 3.0), stats.t(2.5, 2.0, 3.0)),
        (kuq.StudentT(0.3, 0.0, 1.0), stats.t(0.3)),
        (kuq.StudentT(1e7, 0.0, 1.0), stats.t(1e7)),
    ],
    ids=["normal", "df-2.5", "df-0.3", "df-1e7"],
)
def test_single_laws_against_scipy(law, reference):
    q = np.linspace(0.0, 1.0, 101)
    found, expected = law.quantile(q), reference.ppf(q)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(law.cdf(expected), q, rtol=1e-12)
    low, high = law.interval(0.8)
    np.testing.assert_allclose([low, high], reference.interval(0.8), rtol=1e-11)


def test_levels_next_to_zero_and_one_keep_their_digits():
    law = kuq.Ensemble(kuq.Normal([-1.0, 1.0], [0.5, 2.0]))
    parts = scalar_laws(law, ())
    with mp.workdps(40):
        for coverage in (1 - 1e-6, 1 - 2.0**-52):
            low, high = law.interval(coverage)
            outside = (1 - mp.mpf(coverage)) / 2
            assert_quantile(parts, outside, low, 1e-10)
            assert_quantile(parts, 1 - outside, high, 1e-10)


@pytest.mark.parametrize("seed", range(20))
def test_components_far_apart_and_of_very_different_widths(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 7))
    loc = rng.normal(size=count) * 10.0 ** rng.uniform(-2, 6)
    scale = 10.0 ** rng.uniform(-6, 4, size=count)
    scale[rng.random(count) < 0.15] = 0.0
    weights = rng.dirichlet(np.full(count, 0.5))
    law = kuq.NormalMixture(weights, loc, scale)
    parts = scalar_laws(law, ())
    with mp.workdps(60):
        for q in (1e-9, 0.1, rng.random(), 0.5, 0.999):
            x = float(law.quantile(q))
            assert_quantile(parts, q, x, 1e-10 * scale.max() + 4e-16 * abs(x))


def test_the_median_between_two_far_groups_of_members():
    """F is one half to rounding over the whole gap; the exact root is where the tails balance."""
    for narrow, wide in ((1.0, 1.0), (1.0, 10.0), (0.1, 0.5)):
        law = kuq.Ensemble(kuq.Normal([-100.0, -100.0, 100.0, 100.0], [narrow, narrow, wide, wide]))
        exact = (-100 * wide + 100 * narrow) / (narrow + wide)
        assert abs(float(law.quantile(0.5)) - exact) <= 1e-10 * 100
    heavy = kuq.Ensemble(kuq.StudentT(3.0, [-1e6, 1e6], 1.0))
    assert abs(float(heavy.quantile(0.5))) <= 1e-5


def test_heavy_and_light_tails_mixed():
    law = kuq.Ensemble([kuq.StudentT(0.4, 0.0, 1.0), kuq.Normal(3.0, 0.01), kuq.Point(3.0)])
    parts = scalar_laws(law, ())
    with mp.workdps(40):
        for q in (1e-6, 0.01, 0.4, 0.6, 0.9, 1 - 1e-6):
            x = float(law.quantile(q))
            assert_quantile(parts, q, x, 1e-10 * max(1, abs(x)))
    assert float(law.quantile(0.6)) == 3.0
    # A power law far beyond where routines for the Student-t law search.
    far = kuq.Ensemble(kuq.StudentT([0.1, 0.2], 0.0, 1.0)).quantile(1e-15)
    np.testing.assert_allclose(stats.t(0.1).sf(-far) / 2, 1e-15, rtol=1e-6)


def test_quantiles_beside_a_tail_whose_square_overflows():
    """Where z² is more than fits, a law with a quarter of the weight has four times the level."""
    heavy, light = kuq.StudentT(0.55, 0.0, 3.0), kuq.Normal(0.0, 1.0)
    found = kuq.Ensemble([heavy, light], weights=[0.25, 0.75]).quantile([1e-100, 4e-90])
    np.testing.assert_allclose(found, heavy.quantile([4e-100, 1.6e-89]), rtol=1e-12)
    assert found[0] < -1e170


def test_very_many_degrees_of_freedom_are_a_normal():
    df = np.asarray([1e20, 1e50, 1e300])
    found = kuq.StudentT(df, 0.0, 1.0).quantile([0.01, 0.999])
    np.testing.assert_allclose(found, stats.norm.ppf([[0.01] * 3, [0.999] * 3]), rtol=1e-13)


def test_draws_have_the_quantiles_of_their_empirical_law():
    rng = np.random.default_rng(3)
    q = rng.random(40)
    values = rng.normal(size=(4, 40, 3)).round(1)
    law = kuq.Samples(values, event_ndim=1)
    expected = np.quantile(values, q, axis=1, method="inverted_cdf")
    np.testing.assert_array_equal(law.quantile(q), expected)
    # At k/40 it is the k-th, though 3/40 is rounded up.
    every = np.sort(values, axis=1)
    for k in range(1, 41):
        np.testing.assert_array_equal(law.quantile(k / 40), every[:, k - 1])
    weights = rng.integers(0, 4, size=40).astype(float)
    law = kuq.Samples(values[..., 0], weights=weights)
    copies = np.repeat(values[..., 0], weights.astype(int), axis=1)
    np.testing.assert_array_equal(
        law.quantile(q), np.quantile(copies, q, axis=1, method="inverted_cdf")
    )
    low, high = law.interval(0.8)
    inside = (copies >= low[:, None]) & (copies <= high[:, None])
    assert np.all(inside.mean(axis=1) >= 0.8)


def test_members_of_draws_share_one_empirical_law():
    rng = np.random.default_rng(4)
    values = rng.normal(size=(3, 5, 20))
    law = kuq.Ensemble(kuq.Samples(values))
    pooled = values.transpose(1, 0, 2).reshape(5, -1)
    expected = np.sort(pooled, axis=1).T
    np.testing.assert_array_equal(law.quantile(np.arange(1, 61) / 60), expected)
    y = rng.normal(size=(7, 5))
    np.testing.assert_allclose(law.cdf(y), (pooled <= y[..., None]).mean(axis=-1), atol=1e-14)


def test_missing_draws_are_left_out_or_spread():
    values = np.array([[1.0, math.nan, 3.0], [4.0, 5.0, 6.0], [math.nan] * 3])
    omit = kuq.Samples(values, nan_policy="omit")
    np.testing.assert_array_equal(omit.quantile(0.5), [1.0, 5.0, math.nan])
    np.testing.assert_array_equal(omit.cdf(2.0), [0.5, 0.0, math.nan])
    spread = kuq.Samples(values, nan_policy="propagate")
    np.testing.assert_array_equal(spread.quantile(0.5), [math.nan, 5.0, math.nan])
    np.testing.assert_array_equal(spread.cdf(2.0), [math.nan, 0.0, math.nan])


def test_members_of_weight_zero_change_nothing():
    pair = kuq.Normal([[0.0], [1.0]], 1.0)
    three = kuq.Ensemble([*kuq.Ensemble(pair).member_list(), kuq.Samples([[9e99]])], [1, 1, 0])
    pair = kuq.Ensemble(pair)
    for q in (0.0, 0.01, 0.9, 1.0):
        np.testing.assert_array_equal(three.quantile(q), pair.quantile(q))
    np.testing.assert_array_equal(three.cdf([0.3]), pair.cdf([0.3]))
    np.testing.assert_array_equal(three.log_density(np.array([0.3])), pair.log_density([0.3]))
    assert np.max(three.sample(1000, 0)) < 20
    inside = kuq.NormalMixture([0.5, 0.5, 0.0], [0.0, 1.0, 1e200], [1.0, 1.0, 1e-200])
    np.testing.assert_array_equal(inside.quantile(0.9), pair.quantile(0.9)[0])


def test_ends_of_the_support():
    law = kuq.Ensemble([kuq.Normal([0.0], 1.0), kuq.Point([2.0])])
    np.testing.assert_array_equal(law.quantile([0.0, 1.0])[:, 0], [-math.inf, math.inf])
    np.testing.assert_array_equal(kuq.Point(2.0).quantile([0.0, 0.3, 1.0]), [2.0] * 3)
    draws = kuq.Samples([3.0, 1.0, 2.0], weights=[1.0, 0.0, 1.0])
    np.testing.assert_array_equal(draws.quantile([0.0, 0.5, 0.6, 1.0]), [2.0, 2.0, 3.0, 3.0])
    assert float(kuq.Normal(0.0, 1.0).cdf(math.inf)) == 1.0
    assert math.isnan(kuq.Normal(0.0, 1.0).cdf(math.nan))


def test_laws_far_from_zero_and_of_extreme_size():
    for unit in (1e-150, 1e150):
        law = kuq.Ensemble(kuq.Normal(np.array([-1.0, 2.0]) * unit, unit))
        plain = kuq.Ensemble(kuq.Normal([-1.0, 2.0], 1.0))
        q = [0.001, 0.4, 0.5, 0.99]
        np.testing.assert_allclose(law.quantile(q) / unit, plain.quantile(q), rtol=1e-12)
    law = kuq.Ensemble(kuq.Normal(np.array([-1.0, 2.0]) * 1e-3 + 1e9, 1e-3))
    moved = (law.quantile(q) - 1e9) * 1e3
    np.testing.assert_allclose(moved, plain.quantile(q), atol=1e9 * 2e-16 * 1e3 * 4)


class Contaminated(kuq.Distribution):
    """A law of a user's own, known by its canonical form alone."""

    parameters = ("loc",)

    def __init__(self, loc):
        self.loc, self.event_ndim, self.dtype = loc, 0, loc.dtype

    def _mixture(self):
        loc = np.stack([self.loc, self.loc], axis=-1)
        return kuq.NormalMixture([0.9, 0.1], loc, [1.0, 10.0])

    def mean(self):
        return self.loc

    def variance(self):
        return self._mixture().variance()

    def sample(self, draws, rng):
        return self._mixture().sample(draws, rng)

    def law(self, marginal, rtol):
        return self._mixture().law(marginal, rtol)


def test_a_law_of_ones_own_has_everything_but_a_density():
    own = Contaminated(np.array([0.0, 5.0]))
    mixture = own._mixture()
    np.testing.assert_array_equal(own.quantile([0.1, 0.9]), mixture.quantile([0.1, 0.9]))
    np.testing.assert_array_equal(own.cdf([1.0, 2.0]), mixture.cdf([1.0, 2.0]))
    np.testing.assert_allclose(own.std(), math.sqrt(0.9 + 10.0))
    assert own.sample(3, np.random.default_rng(0)).shape == (2, 3)
    many = kuq.Ensemble([own, kuq.Normal([0.0, 5.0], 1.0)])
    assert many.sample(3, seed=0).shape == (2, 3)
    with pytest.raises(kuq.ParameterError, match="Contaminated has none"):
        own.log_density(np.array([0.0, 1.0]))


@pytest.mark.parametrize("case", LAWS, ids=lambda c: c.name)
def test_draws_follow_the_distribution_function(case):
    law = case.build(np.random.default_rng(1), (3,), (2,))
    draws = law.sample(4000, seed=5)
    assert draws.shape == (3, 4000, 2)
    np.testing.assert_array_equal(draws, law.sample(4000, seed=np.random.default_rng(5)))
    median, (low, high) = law.quantile(0.5), law.interval(0.9)
    for bound in (median, low, high):
        share = np.mean(draws <= np.expand_dims(bound, 1), axis=1)
        # five standard deviations of a share
        np.testing.assert_allclose(share, law.cdf(bound), atol=2.5 / math.sqrt(4000))


@pytest.mark.parametrize("df", [0.3, 3.0, 1e9])
def test_draws_of_student_t_take_two_numbers_each(df):
    rng, other = np.random.default_rng(11), np.random.default_rng(11)
    draws = kuq.StudentT(df, 0.0, 1.0).sample(20_000, rng)
    other.random(40_000)
    assert rng.random() == other.random()
    assert stats.kstest(draws, stats.t(df).cdf).pvalue > 1e-3


def test_draws_of_an_ensemble_are_joint_over_the_event():
    factor = np.array([[1.0], [1.0]])
    law = kuq.Ensemble(
        [kuq.LowRankNormal(m * np.ones(2), factor, 1e-6 * np.ones(2)) for m in (-9.0, 9.0)], [1, 3]
    )
    draws = law.sample(2000, seed=0)
    assert np.max(np.abs(draws[:, 0] - draws[:, 1])) < 0.02  # one member for both coordinates
    assert abs(np.mean(draws[:, 0] > 0) - 0.75) < 0.05


def test_log_densities_against_scipy():
    rng = np.random.default_rng(6)
    y = rng.normal(size=(3, 2))
    loc, scale = rng.normal(size=(4, 2)), rng.uniform(0.5, 2.0, size=(4, 2))
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    law = kuq.Ensemble(kuq.Normal(loc, scale, event_ndim=1), weights)
    each = stats.norm(loc[:, None], scale[:, None]).pdf(y).prod(axis=-1)
    np.testing.assert_allclose(law.log_density(y), np.log(weights @ each), rtol=1e-12)
    factor = rng.normal(size=(2, 1))
    law = kuq.LowRankNormal(loc[0], factor, scale[0])
    joint = stats.multivariate_normal(loc[0], factor @ factor.T + np.diag(scale[0]))
    np.testing.assert_allclose(law.log_density(y.tolist()), joint.logpdf(y), rtol=1e-12)
    law = kuq.NormalInverseGamma(0.3, 2.0, 1.5, 0.7)
    t = stats.t(3.0, 0.3, math.sqrt(0.7 * 1.5 / 1.5))
    np.testing.assert_allclose(law.log_density(1.0), t.logpdf(1.0), rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", sorted(CASES.keys() - {"Samples"}))  # draws have no density
def test_no_outcome_is_infinite_and_what_is_missing_has_no_density(name, kind):
    """Points called NaN a miss, normals gave −4e305 and low-rank normals NaN at infinity."""
    case = CASES[kind]
    with opened(name) as library:
        law = case.make(**{key: library.array(value) for key, value in case.parameters.items()})
        y = np.zeros(law.batch_shape + law.event_shape)
        y.reshape(*law.batch_shape, -1)[..., 0] = math.inf  # one coordinate is enough
        assert np.all(to_numpy(law.log_density(library.array(y))) == -math.inf)
        assert np.all(to_numpy(law.log_density(library.array(-y))) == -math.inf)
        y[np.isinf(y)] = math.nan
        assert np.all(np.isnan(to_numpy(law.log_density(library.array(y)))))


@pytest.mark.parametrize("z", [1e5, 1e9, 1e160, 1e300])
def test_far_out_the_density_of_student_t_is_a_power(z):
    df, scale = 3.0, 0.5
    with mp.workdps(40):
        constant = mp.loggamma((df + 1) / 2) - mp.loggamma(df / 2) - mp.log(df * mp.pi) / 2
        exact = constant - mp.log(scale) - (df + 1) / 2 * mp.log1p(mp.mpf(z) ** 2 / df)
    found = kuq.StudentT(df, 1.0, scale).log_density(1.0 + scale * z)
    assert found == pytest.approx(float(exact), rel=1e-13)


def test_standard_deviations():
    assert float(kuq.Normal(0.0, 3.0).std()) == 3.0
    assert float(kuq.StudentT(2.0, 0.0, 3.0).std()) == math.inf
    pair = kuq.Ensemble(kuq.Normal([[-1.0], [1.0]], 1.0))
    np.testing.assert_allclose(pair.std(), math.sqrt(2.0), rtol=1e-15)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", sorted(CASES))
def test_every_library_gives_the_same_numbers(name, kind):
    case = CASES[kind]
    plain = case.make(**case.parameters)
    q, y = [0.02, 0.5, 0.9], np.full(plain.batch_shape + plain.event_shape, 0.1)
    with opened(name) as library:
        law = case.make(**{key: library.array(value) for key, value in case.parameters.items()})
        results = {
            "quantile": (law.quantile(q), plain.quantile(q)),
            "levels": (law.quantile(library.array(q)), plain.quantile(q)),
            "cdf": (law.cdf(library.array(y)), plain.cdf(y)),
            "low": (law.interval(0.8)[0], plain.interval(0.8)[0]),
            "std": (law.std(), plain.std()),
            "sample": (law.sample(4, seed=1), plain.sample(4, seed=1)),
        }
        for found, expected in results.values():
            assert library.owns(found)
            assert library.dtype_name(found) == "float64"
            np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-12, atol=1e-13)
        narrow = {k: library.array(v, "float32") for k, v in case.parameters.items()}
        found = case.make(**narrow).quantile(q)
        assert library.dtype_name(found) == "float32"
        np.testing.assert_allclose(to_numpy(found), plain.quantile(q), rtol=1e-5, atol=1e-6)


def test_half_precision_comes_back():
    law = kuq.Normal(np.zeros(3, dtype=np.float16), np.float16(1.0))
    assert law.quantile(0.9).dtype == law.std().dtype == law.cdf(0.1).dtype == np.float16


def test_values_of_a_trace_cannot_be_read():
    with opened("jax") as library, pytest.raises(kuq.ParameterError, match="call it outside"):
        library.module.jit(lambda x: kuq.Normal(x, 1.0).quantile(0.5))(library.array([1.0]))


def test_densities_have_gradients_and_quantiles_have_none():
    with opened("torch") as library:
        loc = library.array([0.0, 1.0]).requires_grad_()
        law = kuq.Ensemble(kuq.Normal(loc[:, None], 1.0))
        assert not law.quantile(0.3).requires_grad
        assert not law.cdf([0.3]).requires_grad
        law.log_density([0.3]).sum().backward()
        assert np.all(to_numpy(loc.grad) != 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.quantile(1.2), r"q must be between 0 and 1, got 1\.2"),
        (lambda p: p.quantile([0.5, math.nan]), r"got nan at index \(1,\)"),
        (lambda p: p.interval(90), "coverage must be between 0 and 1, got 90; percentages"),
        (lambda p: p.cdf(np.zeros(4)), r"any axes before, got \(4,\)"),
        (lambda p: p.log_density(np.zeros((3, 1))), r"batch \+ event = \(3,\)"),
        (lambda p: kuq.Samples([1.0, 2.0]).log_density(1.0), "none; use a kernel score"),
        (lambda p: kuq.Ensemble([kuq.Samples([1.0, 2.0])]).log_density(1.0), "Samples has none"),
    ],
)  # fmt: skip
def test_errors(call, message):
    with pytest.raises(kuq.KuqError, match=message):
        call(kuq.Normal(np.zeros(3), 1.0))


def test_shapes():
    law = kuq.Ensemble(kuq.Normal(np.zeros((4, 5, 2, 3)), 1.0, event_ndim=2))
    assert law.quantile(0.5).shape == law.std().shape == law.cdf(0.0).shape == (5, 2, 3)
    assert law.quantile(np.full((7, 6), 0.5)).shape == (7, 6, 5, 2, 3)
    assert law.cdf(np.zeros((9, 5, 2, 3))).shape == (9, 5, 2, 3)
    assert law.sample(11, seed=0).shape == (5, 11, 2, 3)
    assert law.log_density(np.zeros((9, 5, 2, 3))).shape == (9, 5)
    empty = kuq.Ensemble(kuq.Normal(np.zeros((4, 0)), 1.0))
    assert empty.quantile([0.1, 0.2]).shape == (2, 0)
    assert empty.cdf(np.zeros((3, 0))).shape == (3, 0)


def test_many_quantiles_take_few_looks():
    """A million quantiles of ten members take seconds: about five evaluations for each."""
    from kuq.distributions import marginals

    rng = np.random.default_rng(7)
    law = kuq.Ensemble(kuq.Normal(rng.normal(size=(10, 5000)), rng.uniform(0.2, 2.0, (10, 5000))))
    looked, look = [], marginals._on_normal_scale

    def counting(problem):
        looked.append(problem.x.size)
        return look(problem)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marginals, "_on_normal_scale", counting)
        law.quantile([0.01, 0.5, 0.9])
    assert sum(looked) < 10 * 3 * 5000
