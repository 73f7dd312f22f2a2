"""Functions that JAX transforms may use arrays from outside, of JAX and of NumPy."""

import numpy as np
import pytest
from libraries import CASES, OUTCOME, PAIRS, SCORES, from_arrays, opened, options_for, to_numpy

import kuq

KINDS = ("jax", "numpy")


@pytest.fixture
def jax():
    with opened("jax") as library:
        yield library.module


def constant(jax, kind, value):
    return jax.numpy.asarray(value) if kind == "jax" else np.asarray(value)


#: Every law and every score, not every pair: those are traced in test_jit.
@pytest.mark.parametrize(
    ("case", "score", "kind"), [(*pair, KINDS[k % 2]) for k, pair in enumerate(PAIRS[::3])]
)
def test_every_law_and_score_takes_constants(jax, case, score, kind):
    """One parameter, or only the outcome, is an argument; all others come from outside."""
    parameters = CASES[case].parameters
    outside = {name: constant(jax, kind, value) for name, value in parameters.items()}
    y = constant(jax, kind, OUTCOME)
    wanted = (2, 2) if score == "crps-map" else (2,)

    name = list(parameters)[-1]

    def with_argument(value):
        return from_arrays(case, score, {**outside, name: value}, y)

    assert jax.eval_shape(with_argument, parameters[name])["entropy"].shape == wanted
    law = CASES[case].make(**{name: value[0] for name, value in outside.items()})
    options = options_for(case, score)
    shape = jax.eval_shape(lambda y: kuq.score(law, y, SCORES[score], **options), OUTCOME)
    assert shape.shape == wanted


def functions(law, weights, width, y):
    """Every public function, of an ensemble of three members and of its first one."""
    p = kuq.Ensemble(law, weights=weights)
    first, second = p.member_list()[:2]
    rule = kuq.Gaussian(width, weights=[0.5, 2.0]) + kuq.CRPS()
    return {
        "decompose": kuq.decompose(p, rule).epistemic,
        "log": kuq.decompose(p, kuq.LogScore(), estimator="pairwise").total,
        "entropy": kuq.entropy(p, rule),
        "divergence": kuq.divergence(first, second, rule),
        "score": kuq.score(p, y, rule),
        "expected": kuq.expected_kernel(first, second, rule),
        "matrix": kuq.member_divergences(p, rule),
        "influence": kuq.member_influence(p, rule).total,
        "median": kuq.decompose(p, kuq.Laplace("median")).epistemic,
        "tail": kuq.score(first, y, kuq.tail(kuq.CRPS(), 0.3)),
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("argument", ["loc", "scale", "weights", "width", "y", "none"])
def test_every_function_takes_constants(jax, argument, kind):
    arrays = CASES["Normal"].parameters
    values = {
        **arrays,
        "weights": np.asarray([1.0, 2.0, 3.0]),
        "width": np.asarray([0.8, 1.7]),
        "y": OUTCOME,
        "none": np.asarray(1.0),
    }
    outside = {name: constant(jax, kind, value) for name, value in values.items()}

    def function(value):
        given = {**outside, argument: value}
        law = CASES["Normal"].make(given["loc"], given["scale"])
        found = functions(law, given["weights"], given["width"], given["y"])
        return {name: x * given["none"] for name, x in found.items()}

    wanted = functions(
        CASES["Normal"].make(**arrays), values["weights"], values["width"], values["y"]
    )
    actual = jax.eval_shape(function, values[argument])
    assert {n: x.shape for n, x in actual.items()} == {n: x.shape for n, x in wanted.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_values_with_constants(jax, kind):
    scale, width, y, weights = (
        constant(jax, kind, value)
        for value in (CASES["Normal"].parameters["scale"], [0.8, 1.7], OUTCOME, [1.0, 2.0, 3.0])
    )

    def function(loc):
        p = kuq.Ensemble(kuq.Normal(loc, scale, event_ndim=1), weights=weights)
        score = kuq.Gaussian(width) + kuq.CRPS()
        return {**kuq.decompose(p, score), "score": kuq.score(p, y, score)}

    loc = CASES["Normal"].parameters["loc"]
    actual = jax.jit(function)(loc)
    scale, width, y, weights = map(to_numpy, (scale, width, y, weights))
    for name, value in function(loc).items():
        np.testing.assert_allclose(to_numpy(actual[name]), value, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize(
    ("case", "kind", "score"),
    [("Normal", "jax", kuq.CRPS()), ("Samples", "numpy", kuq.Gaussian(1.3))],
)
def test_gradients_and_vectorised_functions_take_constants(jax, case, kind, score):
    """Without jit, values from outside can be read and those of the argument cannot."""
    parameters = CASES[case].parameters
    first = next(iter(parameters))
    outside = {name: constant(jax, kind, value) for name, value in parameters.items()}

    def loss(value):
        law = CASES[case].make(**{**outside, first: value})
        return kuq.decompose(kuq.Ensemble(law), score).total.sum()

    def outcome_loss(y):
        return kuq.score(kuq.Ensemble(CASES[case].make(**outside)), y, score).sum()

    for function, at in ((loss, parameters[first]), (outcome_loss, OUTCOME)):
        gradient = to_numpy(jax.grad(function)(jax.numpy.asarray(at)))
        step = 1e-6 * np.random.default_rng(0).normal(size=at.shape)
        ahead, behind = (float(function(constant(jax, kind, at + s))) for s in (step, -step))
        # Central differences: rounding 1e-16/1e-6 over values of order one.
        np.testing.assert_allclose((gradient * step).sum(), (ahead - behind) / 2, atol=1e-13)
        several = jax.vmap(function)(jax.numpy.stack([at, at + 1e-6]))
        np.testing.assert_allclose(several[0], function(constant(jax, kind, at)), rtol=1e-8)


def test_constants_are_checked_where_they_can_be_read(jax):
    bad = jax.numpy.asarray([1.0, np.nan])
    with pytest.raises(kuq.ParameterError, match="loc must be finite"):
        jax.jit(lambda scale: kuq.Normal(bad, scale).mean())(np.ones(2))
    negative = jax.numpy.asarray([1.0, -1.0])
    with pytest.raises(kuq.ParameterError, match="scale of Normal"):
        jax.grad(lambda loc: kuq.Normal(loc, negative).mean().sum())(jax.numpy.ones(2))


def test_median_bandwidth_of_constants(jax):
    values = np.asarray([0.0, 1.0, 3.0])
    targets = jax.numpy.asarray(values)
    assert float(jax.jit(lambda x: x * kuq.median_bandwidth(targets))(1.0)) == 2.0
    with pytest.raises(kuq.ParameterError, match="call it outside"):
        jax.jit(kuq.median_bandwidth)(targets)


@pytest.mark.parametrize("kind", KINDS)
def test_constants_keep_the_dtype_that_jax_has(jax, kind):
    jax.config.update("jax_enable_x64", False)  # the fixture puts it back
    loc = constant(jax, kind, np.asarray([0.0, 1.0]))
    value = jax.jit(lambda scale: kuq.entropy(kuq.Normal(loc, scale), kuq.CRPS()))(np.ones(2))
    assert str(value.dtype) == "float32"
