"""What has no weight changes nothing: members, components of mixtures, draws."""

import math

import numpy as np
import pytest
from libraries import CASES, OUTCOME, SCORES, opened, to_numpy

import kuq

LAWS = ["Normal", "Point", "NormalMixture", "LowRankNormal", "StudentT", "Samples"]
#: Parameters of a member that must not be seen.
WILD = {
    "far": {"loc": 1e200, "value": 1e200, "values": 1e200},
    "point": {"scale": 0.0, "diag": 0.0, "factor": 0.0},
    "wide": {"scale": 1e150, "diag": 1e300},
    "tail": {"df": 0.05},
}
#: Vectors of points and draws have no log score of their mixture.
PAIRS = [
    (law, score)
    for law in LAWS
    for score in SCORES
    if score != "log" or law not in ("Point", "Samples")
]
#: Every law and score meets one of them.
CASES_OF_MEMBERS = [(*pair, list(WILD)[k % len(WILD)]) for k, pair in enumerate(PAIRS)]


def wild_parameters(law, wild):
    """The parameters of a fourth member: those of the first one, some replaced."""
    arrays = {name: value[:1].copy() for name, value in CASES[law].parameters.items()}
    for name in arrays.keys() & WILD[wild].keys():
        arrays[name][...] = WILD[wild][name]
    return arrays


def measures(p, score, y, **options):
    """Every function of a prediction that has weights."""
    pairwise = kuq.decompose(p, score, **options)
    if not isinstance(score, kuq.LogScore):
        options = {k: v for k, v in options.items() if k != "draws"}
    bma = kuq.decompose(p, score, estimator="bma", unbiased=False, **options)
    first = next(m for m in p.member_list() if m.batch_shape or np.all(to_numpy(m.mean()) < 1e100))
    found = {
        "aleatoric": pairwise.aleatoric,
        "epistemic": pairwise.epistemic,
        "bma": bma.epistemic,
        "entropy": kuq.entropy(p, score, **options),
        "divergence": kuq.divergence(p, first, score, **options),
        "back": kuq.divergence(first, p, score, **options),
        "score": kuq.score(p, y, score, **options),
        "mean": p.mean(),
        "variance": p.variance(),
    }
    if isinstance(score, kuq.Kernel):
        found["expected"] = kuq.expected_kernel(p, first, score, **options)
    return found


def options_for(law, score):
    if score == "log":
        return {"draws": 5, "seed": 1}
    return {"rtol": 1e-3} if law == "StudentT" else {}


def wanted_and_found(law, score, wild, library, function=measures):
    make = CASES[law].make
    plain = {k: library.array(v) for k, v in CASES[law].parameters.items()}
    extra = {k: library.array(v) for k, v in wild_parameters(law, wild).items()}
    xp = library.module if library.name != "jax" else library.module.numpy
    join = xp.cat if library.name == "torch" else xp.concatenate
    joined = {name: join([plain[name], extra[name]]) for name in plain}
    weights = [0.5, 0.3, 0.2]
    y = library.array(OUTCOME)
    without = kuq.Ensemble(make(**plain), weights=library.array(weights))
    beside = kuq.Ensemble(make(**joined), weights=library.array([*weights, 0.0]))
    options = options_for(law, score)
    rule = SCORES[score]
    return function(without, rule, y, **options), function(beside, rule, y, **options)


@pytest.mark.parametrize(("law", "score", "wild"), CASES_OF_MEMBERS)
def test_a_member_without_weight_is_not_there(law, score, wild):
    with opened("numpy") as library:
        wanted, found = wanted_and_found(law, score, wild, library)
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.parametrize(
    ("name", "law"), [*(("torch", law) for law in LAWS), ("jax", "Normal"), ("jax", "Samples")]
)
def test_in_other_libraries(name, law):
    def function(p, rule, y, **options):
        u = kuq.decompose(p, rule, **options)
        return {**u, "score": kuq.score(p, y, rule, **options)}

    with opened(name) as library:
        for score in ("crps", "squared") if law == "Samples" else ("crps", "log"):
            wanted, found = wanted_and_found(law, score, "far", library, function)
            for key, value in wanted.items():
                np.testing.assert_array_equal(to_numpy(found[key]), to_numpy(value), err_msg=key)


@pytest.mark.parametrize("position", [0, 1, 3])
def test_members_of_different_kinds(position):
    members = [kuq.Normal(0.0, 1.0), kuq.Samples([0.0, 2.0, 3.0]), kuq.Point(1.0)]
    weights = [0.5, 0.3, 0.2]
    wild = kuq.StudentT(0.5, 1e200, 1e100)
    beside = [*members[:position], wild, *members[position:]]
    more = [*weights[:position], 0.0, *weights[position:]]
    for score in (kuq.CRPS(), kuq.Gaussian("median"), kuq.Energy(0.7), kuq.SquaredError()):
        wanted = measures(kuq.Ensemble(members, weights), score, 0.3)
        found = measures(kuq.Ensemble(beside, more), score, 0.3)
        for name, value in wanted.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_under_the_log_score():
    two = kuq.Ensemble(kuq.Normal([0.0, 1.0], [1.0, 2.0]))
    for third in ([0.0, 0.0], [50.0, 1.0], [0.0, 1e200]):
        p = kuq.Ensemble(kuq.Normal([0.0, 1.0, third[0]], [1.0, 2.0, third[1]]), [0.5, 0.5, 0.0])
        for estimator in ("pairwise", "bma"):
            u, wanted = (kuq.decompose(x, kuq.LogScore(), estimator=estimator) for x in (p, two))
            assert (u.aleatoric, u.epistemic) == (wanted.aleatoric, wanted.epistemic)
    points = kuq.Ensemble(kuq.Point([0.0, 1.0, 2.0]), [0.5, 0.5, 0.0])
    u = kuq.decompose(points, kuq.LogScore(), estimator="bma")
    assert float(u.epistemic) == pytest.approx(math.log(2), rel=1e-15)
    hit = kuq.Ensemble([kuq.Normal(0.0, 1.0), kuq.Point(3.0)], [1.0, 0.0])
    wanted = 4.5 + math.log(2 * math.pi) / 2
    assert float(kuq.score(hit, 3.0, kuq.LogScore())) == pytest.approx(wanted, rel=1e-14)


def test_the_median_bandwidth_does_not_see_it():
    loc, weights = [0.0, 1.0, 999.0], [0.5, 0.5, 0.0]
    p = kuq.Ensemble(kuq.Normal(loc, 1.0), weights)
    wanted = math.sqrt(3)  # E(X − Y)² of two unit normals at distance one
    for u in (
        kuq.decompose(p, kuq.Gaussian("median")),
        kuq.member_influence(p, kuq.Gaussian("median"), unbiased=False),
    ):
        assert u.score.bandwidth == pytest.approx(wanted, rel=1e-14)
    one = kuq.member_divergences(p, kuq.Gaussian("median"))
    np.testing.assert_allclose(one, kuq.member_divergences(p, kuq.Gaussian(wanted)), rtol=1e-12)


@pytest.mark.parametrize("score", [kuq.LogScore(), kuq.CRPS(), kuq.Gaussian("median")])
def test_the_influence_of_members(score):
    loc, scale = np.asarray([0.0, 1.0, 3.0, 1e6]), np.asarray([1.0, 2.0, 0.5, 0.0])
    p = kuq.Ensemble(kuq.Normal(loc, scale), [0.2, 0.5, 0.3, 0.0])
    wanted = kuq.member_influence(
        kuq.Ensemble(kuq.Normal(loc[:3], scale[:3]), [0.2, 0.5, 0.3]), score
    )
    found = kuq.member_influence(p, score)
    for part in ("aleatoric", "epistemic", "total"):
        np.testing.assert_array_equal(found[part][:3], wanted[part])
        assert found[part][3] == 0.0
    with pytest.raises(kuq.InsufficientDataError):
        kuq.member_influence(kuq.Ensemble(kuq.Normal(loc, scale), [0.5, 0.5, 0.0, 0.0]), score)


@pytest.mark.parametrize(
    "score", ["crps", "energy", "gaussian", "laplace", "imq", "squared", "log"]
)
@pytest.mark.parametrize("wild", ["far", "wide", "narrow", "point"])
def test_a_component_without_weight_is_not_there(score, wild):
    bad = {"far": (1e200, 1.0), "wide": (0.0, 1e150), "narrow": (0.0, 1e-200), "point": (0.0, 0.0)}
    place, width = bad[wild]
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=(3, 2)), rng.uniform(0.5, 1.5, size=(3, 2))
    column = np.ones((3, 1))
    beside = kuq.NormalMixture(
        np.broadcast_to([0.4, 0.0, 0.6], (3, 3)),
        np.concatenate([loc[:, :1], place * column, loc[:, 1:]], axis=1),
        np.concatenate([scale[:, :1], width * column, scale[:, 1:]], axis=1),
    )
    plain = kuq.NormalMixture([0.4, 0.6], loc, scale)
    found, wanted = (measures(kuq.Ensemble(p), SCORES[score], 0.3) for p in (beside, plain))
    for name, value in wanted.items():
        # Grids of quadratures may differ, within rtol.
        np.testing.assert_allclose(found[name], value, rtol=1e-7, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("score", ["crps", "energy", "gaussian", "laplace", "imq", "squared"])
@pytest.mark.parametrize("event_ndim", [0, 1])
def test_a_draw_without_weight_is_not_there(score, event_ndim):
    rng = np.random.default_rng(0)
    shape = (2,) * event_ndim
    draws = rng.normal(size=(3, 6, *shape))
    far = np.full((3, 1, *shape), 1e200)
    weights = rng.uniform(0.5, 1.5, size=6)
    y = np.zeros(shape)
    beside = kuq.Samples(np.concatenate([far, draws], axis=1), event_ndim, weights=[0.0, *weights])
    plain = kuq.Samples(draws, event_ndim, weights=weights)
    found, wanted = (measures(kuq.Ensemble(p), SCORES[score], y) for p in (beside, plain))
    for name, value in wanted.items():
        # Sums over one more term of zero: rounding.
        np.testing.assert_allclose(found[name], value, rtol=1e-10, atol=1e-13, err_msg=name)


# Gradients.


@pytest.mark.parametrize("score", ["crps", "energy", "gaussian", "imq", "squared", "log"])
@pytest.mark.parametrize("third", [(1e200, 1.0), (0.0, 0.0), (0.0, 1e150)])
@pytest.mark.parametrize("recorded", [False, True])
def test_gradients_are_those_without_the_member(score, third, recorded):
    with opened("torch") as library:
        torch = library.module

        def gradients(loc, scale, weights):
            loc, scale = (
                torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (loc, scale)
            )
            weights = torch.tensor(weights, dtype=torch.float64, requires_grad=recorded)
            p = kuq.Ensemble(kuq.Normal(loc, scale), weights)
            rule = SCORES[score]
            u = kuq.decompose(p, rule)
            (u.aleatoric + 2 * u.epistemic + 3 * kuq.score(p, torch.tensor(0.3), rule)).backward()
            found = [loc.grad, scale.grad, *([weights.grad] if recorded else [])]
            return [g.numpy() for g in found]

        wanted = gradients([0.0, 1.0], [1.0, 2.0], [0.4, 0.6])
        found = gradients([0.0, 1.0, third[0]], [1.0, 2.0, third[1]], [0.4, 0.6, 0.0])
    for with_it, without in zip(found, wanted, strict=True):
        assert np.isfinite(with_it).all()
        np.testing.assert_allclose(with_it[:2], without, rtol=1e-12, atol=1e-14)
    assert found[0][2] == found[1][2] == 0


@pytest.mark.parametrize("score", ["crps", "energy", "gaussian", "log"])
def test_an_ordinary_member_of_weight_zero_keeps_its_derivative(score):
    """From the edge of the simplex there is one way to go: one-sided differences inwards."""
    rule = SCORES[score]
    loc, scale = [0.0, 1.0, 0.4], [1.0, 2.0, 1.5]

    def value(weights, xp):
        p = kuq.Ensemble(kuq.Normal(xp.asarray(loc), xp.asarray(scale)), weights)
        u = kuq.decompose(p, rule, unbiased=False)
        return u.aleatoric + 2 * u.epistemic

    with opened("torch") as library:
        torch = library.module
        torch.set_default_dtype(torch.float64)
        try:
            weights = torch.tensor([0.4, 0.6, 0.0], requires_grad=True)
            value(weights, torch).backward()
        finally:
            torch.set_default_dtype(torch.float32)
    h = 1e-4
    at = [float(value(np.asarray([0.4, 0.6, k * h]), np)) for k in range(3)]
    wanted = (-3 * at[0] + 4 * at[1] - at[2]) / (2 * h)
    assert float(weights.grad[2]) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize(
    ("score", "third"),
    [
        ("crps", (1e150, 1.0)),
        ("gaussian", (0.0, 1e150)),
        ("log", (0.0, 0.0)),
        ("log", (0.0, 1e150)),
    ],
)
def test_weights_that_are_traced(score, third):
    with opened("jax") as library:
        jax = library.module

        def function(loc, scale, weights):
            p = kuq.Ensemble(kuq.Normal(loc, scale), weights)
            u = kuq.decompose(p, SCORES[score])
            return u.aleatoric + 2 * u.epistemic + 3 * kuq.score(p, 0.3, SCORES[score])

        both = jax.jit(jax.value_and_grad(function, argnums=(0, 1, 2)))
        arrays = ([0.0, 1.0, third[0]], [1.0, 2.0, third[1]], [0.4, 0.6, 0.0])
        value, gradients = both(*map(jax.numpy.asarray, arrays))
    wanted = function(*(np.asarray(a[:2]) for a in arrays))
    np.testing.assert_allclose(to_numpy(value), wanted, rtol=1e-8)
    assert all(np.isfinite(to_numpy(g)).all() for g in gradients)


def test_listed_members_with_traced_weights():
    with opened("jax") as library:
        jax = library.module

        def function(weights):
            members = [kuq.Normal(jax.numpy.asarray(x), 1.0) for x in (0.0, 1.0, 1e150)]
            return kuq.decompose(kuq.Ensemble(members, weights), kuq.CRPS()).total

        found = jax.jit(function)(jax.numpy.asarray([0.5, 0.5, 0.0]))
    wanted = kuq.decompose(kuq.Ensemble(kuq.Normal([0.0, 1.0], 1.0)), kuq.CRPS()).total
    np.testing.assert_allclose(to_numpy(found), wanted, rtol=1e-10)
