"""Standard errors of the decomposition, against k-statistics, brute force and laws."""

import itertools

import numpy as np
import pytest
from libraries import NAMES, opened
from scipy.stats import kstatvar

import kuq

SCORES = {
    "crps": kuq.CRPS(),
    "energy": kuq.Energy(1.5),
    "squared": kuq.SquaredError(),
    "gaussian": kuq.Gaussian(1.3),
    "sum": kuq.Laplace(0.7) + 0.3 * kuq.Energy(),
}
PARTS = ("total", "aleatoric", "epistemic")


def members_of(values):
    return kuq.Ensemble(kuq.Point(values))


def drawn(rng, shape, event_ndim=0):
    """Members whose laws differ in place and width."""
    rest = (1,) * (len(shape) - 1)
    place = rng.normal(size=(shape[0], *rest))
    width = np.exp(0.3 * rng.normal(size=(shape[0], *rest)))
    return kuq.Ensemble(kuq.Samples(place + width * rng.normal(size=shape), event_ndim))


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
    assert found.over == "members"
    assert found.draws is None


def unbiased_variance(table):
    """Var of the mean over pairs of a symmetric table, from means over distinct members.

    E k₁₂² − θ², E k₁₂k₁₃ − θ² and θ² = E k₁₂k₃₄ have no bias, pair by pair.
    """
    m = len(table)
    twice = [table[i, j] ** 2 for i, j in itertools.permutations(range(m), 2)]
    joined = [table[i, j] * table[i, k] for i, j, k in itertools.permutations(range(m), 3)]
    apart = [table[i, j] * table[k, n] for i, j, k, n in itertools.permutations(range(m), 4)]
    squared = np.mean(apart)
    one, two = np.mean(joined) - squared, np.mean(twice) - squared
    return (4 * (m - 2) * one + 2 * two) / (m * (m - 1))


@pytest.mark.parametrize("name", SCORES)
def test_members_by_enumeration(name):
    """All parts are means over pairs of members: EU of D, TU of D + (h + h')/2."""
    rng = np.random.default_rng(4)
    ensemble = kuq.Ensemble(kuq.Normal(2 * rng.normal(size=(7, 1)), rng.uniform(0.2, 3.0, (7, 1))))
    h = kuq.entropy(ensemble.members, SCORES[name])[:, 0]
    d = kuq.member_divergences(ensemble, SCORES[name])[..., 0]
    found = kuq.standard_error(ensemble, SCORES[name])
    np.testing.assert_allclose(found.epistemic[0] ** 2, unbiased_variance(d), rtol=1e-8)
    both = d + (h[:, None] + h) / 2
    np.testing.assert_allclose(found.total[0] ** 2, unbiased_variance(both), rtol=1e-8)


@pytest.mark.parametrize("name", SCORES)
def test_draws_by_enumeration(name):
    """AU of one law is a mean over pairs of draws: other members keep their places in it."""
    rng = np.random.default_rng(5)
    draws = rng.normal(size=(2, 1, 7)) ** 3
    point = [kuq.Samples(draws[0]), kuq.Samples(draws[1])]
    found = kuq.standard_error(kuq.Ensemble(point), SCORES[name], over="draws")
    expected = 0.0
    for one in draws[:, 0]:
        table = np.asarray(
            kuq.divergence(kuq.Point(np.repeat(one, 7)), kuq.Point(np.tile(one, 7)), SCORES[name])
        ).reshape(7, 7)
        expected += unbiased_variance(table / 2) / 4
    np.testing.assert_allclose(found.aleatoric[0] ** 2, expected, rtol=1e-8)


def spread_and_error(make, score, trials, **options):
    """Standard deviations of the parts over trials, and the roots of the mean squared errors."""
    prediction = make(trials)
    u = kuq.decompose(prediction, score)
    found = kuq.standard_error(prediction, score, **options)
    spread = [float(np.std(u[part], ddof=1)) for part in PARTS]
    return spread, [float(np.sqrt(np.mean(found[part] ** 2))) for part in PARTS]


@pytest.mark.parametrize("over", ["both", "draws"])
@pytest.mark.parametrize("name", ["crps", "gaussian"])
def test_it_is_the_spread_over_repetitions(over, name):
    """2000 repetitions tell a standard deviation to 2 %, and these squares to 3 %."""
    rng = np.random.default_rng(6)
    place = rng.normal(size=(8, 1, 1))

    def make(trials):
        places = place if over == "draws" else rng.normal(size=(8, trials, 1))
        return kuq.Ensemble(kuq.Samples(places + rng.normal(size=(8, trials, 6))))

    spread, found = spread_and_error(make, SCORES[name], 2000, over=over)
    np.testing.assert_allclose(found, spread, rtol=0.15)


def test_both_is_members_and_draws():
    ensemble = drawn(np.random.default_rng(7), (6, 40, 9))
    both, members, draws = (
        kuq.standard_error(ensemble, "crps", over=over) for over in ("both", "members", "draws")
    )
    for part in PARTS:
        expected = np.sqrt(np.maximum(both[part] ** 2 - draws[part] ** 2, 0))
        np.testing.assert_allclose(members[part], expected, rtol=1e-6, atol=1e-9)
    assert (both.over, members.over, draws.over) == ("both", "members", "draws")
    assert (both.members, both.draws) == (6, 9)


@pytest.mark.parametrize("over", ["both", "draws"])
def test_units_places_and_order_do_not_matter(over):
    rng = np.random.default_rng(8)
    ensemble = drawn(rng, (5, 6, 8))
    values = ensemble.members.values

    def errors(draws):
        return kuq.standard_error(kuq.Ensemble(kuq.Samples(draws)), "crps", over=over)

    expected = errors(values)
    shuffled = rng.permuted(values, axis=-1)[rng.permutation(5)]
    for found, factor in (
        (errors(3 * values), 3),
        (errors(values + 7), 1),
        (errors(1e150 * values), 1e150),
        (errors(shuffled), 1),
    ):
        for part in PARTS:
            np.testing.assert_allclose(found[part], factor * expected[part], rtol=1e-8)


def test_sorted_numbers_and_tables_agree():
    """Half a kernel and its other half are two terms, for which nothing is sorted."""
    ensemble = drawn(np.random.default_rng(9), (4, 5, 11))
    expected = kuq.standard_error(ensemble, kuq.CRPS(), over="draws")
    found = kuq.standard_error(ensemble, 0.5 * kuq.CRPS() + 0.5 * kuq.Energy(), over="draws")
    for part in PARTS:
        np.testing.assert_allclose(found[part], expected[part], rtol=1e-10)


@pytest.mark.parametrize("over", ["both", "draws"])
def test_coordinates_move_together(over):
    """Two copies of a number are as uncertain as one; maps keep every coordinate for itself."""
    rng = np.random.default_rng(10)
    values = rng.normal(size=(5, 6, 8)) + rng.normal(size=(5, 1, 1))
    one = kuq.standard_error(kuq.Ensemble(kuq.Samples(values)), "crps", over=over)
    twice = kuq.Ensemble(kuq.Samples(np.stack([values, values], axis=-1), event_ndim=1))
    found = kuq.standard_error(twice, "crps", over=over)
    total = kuq.standard_error(twice, kuq.CRPS(reduce="sum"), over=over)
    weighted = kuq.CRPS(weights=np.array([1.0, 3.0]))
    by_weight = kuq.standard_error(twice, weighted, over=over)
    maps = kuq.standard_error(twice, kuq.CRPS(reduce=None), over=over)
    for part in PARTS:
        np.testing.assert_allclose(found[part], one[part], rtol=1e-9)
        np.testing.assert_allclose(total[part], 2 * one[part], rtol=1e-9)
        np.testing.assert_allclose(by_weight[part], one[part], rtol=1e-9)
        np.testing.assert_allclose(maps[part], np.stack([one[part]] * 2, axis=-1), rtol=1e-9)


@pytest.mark.parametrize("over", ["both", "members", "draws"])
def test_equal_weights_change_nothing_and_no_weight_is_left_out(over):
    rng = np.random.default_rng(11)
    values = rng.normal(size=(6, 4, 9)) + rng.normal(size=(6, 1, 1))
    plain = kuq.standard_error(kuq.Ensemble(kuq.Samples(values[:5])), "crps", over=over)
    weighted = kuq.Ensemble(kuq.Samples(values[:5], weights=np.full(9, 2.0)), weights=np.ones(5))
    without = kuq.Ensemble(kuq.Samples(values), weights=[1, 1, 1, 1, 1, 0])
    for ensemble in (weighted, without):
        found = kuq.standard_error(ensemble, "crps", over=over)
        for part in PARTS:
            np.testing.assert_allclose(found[part], plain[part], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("over", ["both", "draws"])
def test_weights_by_simulation(over):
    """Weights that know nothing of the values; 3000 repetitions, three standard errors of room."""
    rng = np.random.default_rng(12)
    of_members, of_draws = rng.uniform(0.5, 1.5, 8), rng.uniform(0.5, 1.5, 10)
    place = rng.normal(size=(8, 1, 1))

    def make(trials):
        places = place if over == "draws" else rng.normal(size=(8, trials, 1))
        values = places + rng.normal(size=(8, trials, 10))
        return kuq.Ensemble(kuq.Samples(values, weights=of_draws), weights=of_members)

    spread, found = spread_and_error(make, kuq.CRPS(), 3000, over=over)
    np.testing.assert_allclose(found, spread, rtol=0.15)


def test_estimators_and_biased_values():
    ensemble = drawn(np.random.default_rng(13), (6, 5, 7))
    plain = kuq.standard_error(ensemble, "crps")
    half = kuq.standard_error(ensemble, "crps", estimator="bma")
    np.testing.assert_allclose(half.epistemic, plain.epistemic / 2, rtol=1e-12)
    samples = kuq.standard_error(ensemble, "crps", unbiased="samples")
    np.testing.assert_allclose(samples.epistemic, plain.epistemic * 5 / 6, rtol=1e-12)
    members = kuq.standard_error(ensemble, "crps", unbiased="members", over="draws")
    own = kuq.standard_error(ensemble, "crps", over="draws")
    np.testing.assert_allclose(members.aleatoric, own.aleatoric * 6 / 7, rtol=1e-12)


def test_members_of_different_kinds_and_numbers_of_draws():
    """A law that is known is one with draws without end; of 1500 about 2 % are left."""
    rng = np.random.default_rng(14)
    draws = [rng.normal(size=(3, n)) for n in (8, 12, 20)]
    closed = kuq.Normal(np.full(3, 0.5), np.full(3, 1.5))
    many = kuq.Samples(closed.sample(1500, seed=0))
    for score in (kuq.CRPS(), kuq.Gaussian(1.0)):
        known, nearly = (
            kuq.standard_error(
                kuq.Ensemble([kuq.Samples(x) for x in draws] + [law]), score, over="draws"
            )
            for law in (closed, many)
        )
        for part in PARTS:
            np.testing.assert_allclose(known[part], nearly[part], rtol=0.1)
        assert known.draws == 8


@pytest.mark.parametrize("estimator", ["pairwise", "bma"])
def test_log_score_by_simulation(estimator):
    rng = np.random.default_rng(15)
    size = (20, 400) if estimator == "pairwise" else (8, 60)
    loc, scale = rng.normal(size=size), np.exp(0.1 * rng.normal(size=size))
    ensemble = kuq.Ensemble(kuq.Normal(loc, 2 * scale))
    u = kuq.decompose(ensemble, "log", estimator=estimator)
    found = kuq.standard_error(ensemble, "log", estimator=estimator)
    for part in PARTS:
        assert np.sqrt(np.mean(found[part] ** 2)) == pytest.approx(np.std(u[part]), rel=0.3)


def test_monte_carlo_counts_as_draws():
    rng = np.random.default_rng(16)
    laws = kuq.Ensemble(kuq.Normal(rng.normal(size=(5, 3)), 1.0))
    score = kuq.Energy().on(lambda x: x**2)
    found = kuq.standard_error(laws, score, draws=200, seed=1, over="draws")
    more = kuq.standard_error(laws, score, draws=3200, seed=1, over="draws")
    assert found.draws == 200
    assert np.all(more.aleatoric < found.aleatoric / 2)


def test_little_memory_changes_nothing():
    ensemble = drawn(np.random.default_rng(17), (5, 30, 20, 3), event_ndim=1)
    for score in (kuq.CRPS(), kuq.Energy(), kuq.CRPS(reduce=None)):
        for over in ("both", "draws"):
            plain = kuq.standard_error(ensemble, score, over=over)
            small = kuq.standard_error(ensemble, score, over=over, max_memory=20_000)
            for part in PARTS:
                np.testing.assert_allclose(small[part], plain[part], rtol=1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("over", ["both", "draws"])
def test_every_library(name, over):
    ensemble = drawn(np.random.default_rng(18), (4, 3, 7))
    expected = kuq.standard_error(ensemble, "crps", over=over)
    with opened(name) as library:
        for dtype, rtol in (("float64", 1e-5), ("float32", 1e-3)):
            given = library.array(ensemble.members.values, dtype)
            found = kuq.standard_error(kuq.Ensemble(kuq.Samples(given)), "crps", over=over)
            for part in PARTS:
                assert library.owns(found[part])
                assert found[part].dtype == given.dtype
                np.testing.assert_allclose(np.asarray(found[part]), expected[part], rtol=rtol)


def test_a_tensor_with_a_gradient_and_a_kernel_on_a_module():
    torch = pytest.importorskip("torch")
    ensemble = drawn(np.random.default_rng(19), (4, 3, 7, 2), event_ndim=1)
    module = torch.nn.Linear(2, 5, dtype=torch.float64)
    weight, bias = (p.detach().numpy() for p in module.parameters())
    values = torch.tensor(ensemble.members.values, requires_grad=True)
    given = kuq.Ensemble(kuq.Samples(values, event_ndim=1))
    for over in ("both", "draws"):
        found = kuq.standard_error(given, kuq.Energy().on(module), over=over)
        expected = kuq.standard_error(
            ensemble, kuq.Energy().on(lambda x: x @ weight.T + bias), over=over
        )
        assert not found.epistemic.requires_grad
        np.testing.assert_allclose(found.epistemic.numpy(), expected.epistemic, rtol=1e-9)


class Product(kuq.Kernel):
    """−(1 + x·y)², a kernel of the user's own."""

    def __call__(self, x, y):
        return -((1 + (x * y).sum(-1)) ** 2)


def test_a_kernel_of_ones_own():
    ensemble = drawn(np.random.default_rng(20), (4, 3, 7, 2), event_ndim=1)

    def features(x):
        square = [x[..., :1] ** 2, x[..., 1:] ** 2, np.sqrt(2) * x[..., :1] * x[..., 1:]]
        return np.concatenate([*square, np.sqrt(2) * x], axis=-1)

    for over in ("both", "draws"):
        found = kuq.standard_error(ensemble, Product(), over=over)
        # −φ·φ' has the divergences of ½‖φ − φ'‖².
        expected = kuq.standard_error(ensemble, 0.5 * kuq.SquaredError().on(features), over=over)
        for part in PARTS:
            np.testing.assert_allclose(found[part], expected[part], rtol=1e-8)


def test_missing_draws():
    rng = np.random.default_rng(21)
    values = rng.normal(size=(4, 3, 9))
    values[1, 0, 3:5] = np.nan
    ensemble = kuq.Ensemble(kuq.Samples(values, nan_policy="omit"))
    some = kuq.Ensemble([kuq.Samples(v[:1, :, ...][~np.isnan(v[:1])][None]) for v in values])
    found = kuq.standard_error(ensemble, "crps", over="draws")
    expected = kuq.standard_error(some, "crps", over="draws")
    np.testing.assert_allclose(found.epistemic[0], expected.epistemic[0], rtol=1e-9)
    unknown = kuq.Ensemble(kuq.Samples(values, nan_policy="propagate"))
    assert np.isnan(kuq.standard_error(unknown, "crps", over="draws").epistemic[0])


def test_what_is_refused():
    rng = np.random.default_rng(22)
    three = drawn(rng, (3, 2, 8))
    with pytest.raises(kuq.InsufficientDataError, match=r'at least 4.*over="draws"'):
        kuq.standard_error(three, "crps")
    assert np.all(kuq.standard_error(drawn(rng, (2, 2, 8)), "crps", over="draws").epistemic > 0)
    few = drawn(rng, (5, 2, 3))
    with pytest.raises(kuq.InsufficientDataError, match=r"at least 4 draws.*N = 3"):
        kuq.standard_error(few, "crps", over="draws")
    with pytest.raises(kuq.InsufficientDataError, match="N = 1"):
        kuq.standard_error(drawn(rng, (5, 2, 1)), "crps")
    closed = kuq.Ensemble(kuq.Normal(rng.normal(size=(5, 2)), 1.0))
    with pytest.raises(kuq.ParameterError, match="nothing to chance"):
        kuq.standard_error(closed, "crps", over="draws")
    with pytest.raises(kuq.ParameterError, match="over must be one of"):
        kuq.standard_error(closed, "crps", over="models")
    with pytest.raises(kuq.ParameterError, match="whole population"):
        kuq.standard_error(kuq.NormalInverseGamma(0.0, 1.0, 2.0, 1.0), "crps")
    with pytest.raises(kuq.ParameterError, match="needs an Ensemble"):
        kuq.standard_error(kuq.Normal(0.0, 1.0), "crps")


def test_inside_jit_it_is_refused():
    jax = pytest.importorskip("jax")

    def traced(values):
        return kuq.standard_error(kuq.Ensemble(kuq.Samples(values)), "crps").epistemic

    with pytest.raises(kuq.ParameterError, match="call it outside"):
        jax.jit(traced)(np.zeros((5, 3, 8)))


def test_it_prints_what_it_covers():
    found = kuq.standard_error(drawn(np.random.default_rng(23), (4, 3, 7)), "crps")
    assert "over='both', 4 members of 7 draws" in repr(found)
    assert set(found) == set(PARTS)
    assert found == kuq.standard_error(drawn(np.random.default_rng(23), (4, 3, 7)), "crps")


def test_a_decomposition_says_where_noise_is_below_zero():
    """No epistemic uncertainty is negative; estimates from few draws are."""
    rng = np.random.default_rng(24)
    ensemble = kuq.Ensemble(kuq.Samples(rng.normal(size=(4, 50, 6))))
    u = kuq.decompose(ensemble, "crps")
    below = int(np.sum(u.epistemic < 0))
    assert below > 0
    assert f"({below} of 50 below zero: noise of draws, see kuq.standard_error)" in repr(u)
    assert "below zero" not in repr(kuq.decompose(ensemble, "crps", unbiased=False))
    assert "below zero" not in repr(kuq.member_influence(ensemble, "crps"))


def test_vectors_far_from_zero():
    """Distances of draws that lie close together, 1e6 away from zero."""
    rng = np.random.default_rng(25)
    draws = rng.normal(size=(3, 1, 8, 6))
    near, far = (
        kuq.standard_error(kuq.Ensemble(kuq.Samples(x, event_ndim=1)), "energy", over="draws")
        for x in (draws, draws + 1e6)
    )
    expected = 0.0
    for one in draws[:, 0]:
        table = np.linalg.norm(one[:, None] - one, axis=-1)
        expected += unbiased_variance(table / 2) / 9
    np.testing.assert_allclose(near.aleatoric[0] ** 2, expected, rtol=1e-8)
    for part in PARTS:
        np.testing.assert_allclose(far[part], near[part], rtol=1e-6)


def test_no_inputs():
    empty = kuq.Ensemble(kuq.Samples(np.zeros((5, 0, 8))))
    for over in ("both", "members", "draws"):
        assert kuq.standard_error(empty, "crps", over=over).epistemic.shape == (0,)


def test_as_a_table():
    pytest.importorskip("pandas")
    found = kuq.standard_error(drawn(np.random.default_rng(26), (4, 2, 7)), "crps")
    frame = found.to_frame(index=["a", "b"])
    np.testing.assert_array_equal(frame.epistemic, found.epistemic)
    assert frame.attrs["over"] == "both"


def test_groups_of_members_are_not_independent():
    rng = np.random.default_rng(27)
    groups = kuq.Ensemble([kuq.Ensemble(kuq.Samples(rng.normal(size=(3, 2, 6)))) for _ in "ab"])
    for over in ("both", "draws"):
        with pytest.raises(kuq.ParameterError, match=r"2 levels.*flattened\(\)"):
            kuq.standard_error(groups, "crps", over=over)
    assert kuq.standard_error(groups.flattened(), "crps").members == 6
