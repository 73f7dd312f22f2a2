"""Compiled and vectorised by JAX and torch, the functions give what they give line by line."""

import functools

import numpy as np
import pytest
from libraries import CASES, OUTCOME, PAIRS, SCORES, from_arrays, opened, to_numpy

import kuq


@pytest.fixture
def jax():
    with opened("jax") as library:
        yield library.module


@pytest.fixture
def torch():
    with opened("torch") as library:
        yield library.module


def uncertainty(case, score, arrays, **options):
    return dict(kuq.decompose(kuq.Ensemble(CASES[case].make(**arrays)), SCORES[score], **options))


def on_device(jax, case):
    return jax.tree.map(jax.numpy.asarray, CASES[case].parameters)


def assert_same(actual, wanted, rtol=1e-10):
    assert actual.keys() == wanted.keys()
    for key in wanted:
        np.testing.assert_allclose(
            to_numpy(actual[key]), to_numpy(wanted[key]), rtol=rtol, atol=1e-14
        )


# The quadrature of a compiled function has nodes that do not follow the data: 1e-8 by default.
@pytest.mark.parametrize(
    ("case", "score", "rtol"),
    [
        ("Normal", "crps-map", 1e-12),
        ("Normal", "squared", 1e-12),
        ("Normal", "log", 1e-12),
        ("Normal", "energy-0.7", 1e-8),
        ("Normal", "imq", 1e-8),
        ("Samples", "crps", 1e-12),
        ("Samples", "laplace", 1e-12),
        ("LowRankNormal", "energy", 1e-8),
    ],
)
def test_compiled_decomposition(jax, case, score, rtol):
    function = jax.jit(functools.partial(uncertainty, case, score))
    actual = function(on_device(jax, case))
    assert_same(actual, uncertainty(case, score, CASES[case].parameters), rtol)


@pytest.mark.parametrize(("case", "score"), PAIRS)
def test_every_law_and_score_can_be_traced(jax, case, score):
    """No value is read and no warning given, also as most people run JAX: in 32 bits."""
    jax.config.update("jax_enable_x64", False)  # the fixture puts it back
    function = functools.partial(from_arrays, case, score)
    shapes = jax.eval_shape(function, on_device(jax, case), jax.numpy.asarray(OUTCOME))
    assert {str(shape.dtype) for shape in shapes.values()} == {"float32"}
    wanted = (2, 2) if score == "crps-map" else (2,)
    assert {shapes[name].shape for name in ("entropy", "divergence", "score")} == {wanted}


def test_compiled_once_for_all_values(jax):
    """No value decides about the code, so other values need no other code."""
    traces = []

    @jax.jit
    def function(arrays):
        traces.append(1)
        return uncertainty("Normal", "energy", arrays)

    arrays = CASES["Normal"].parameters
    for factor, shift in ((1.0, 0.0), (1e-3, 5.0), (1e4, -100.0), (0.0, 1.0)):
        moved = {"loc": shift + factor * arrays["loc"], "scale": factor * arrays["scale"]}
        actual = function(jax.tree.map(jax.numpy.asarray, moved))
        assert_same(actual, uncertainty("Normal", "energy", moved), 1e-8)
    assert len(traces) == 1


def test_compiled_in_single_precision(jax):
    """As most people run JAX: 64-bit numbers switched off."""
    jax.config.update("jax_enable_x64", False)  # the fixture puts it back
    arrays = on_device(jax, "Normal")
    actual = jax.jit(functools.partial(uncertainty, "Normal", "laplace"))(arrays)
    assert {str(value.dtype) for value in actual.values()} == {"float32"}
    assert_same(actual, uncertainty("Normal", "laplace", CASES["Normal"].parameters), 1e-5)


def test_options_of_a_compiled_function(jax):
    """Weights, bandwidths and laws that are built outside or inside, all as arguments."""
    arrays = CASES["Normal"].parameters
    weights, widths = np.asarray([1.0, 2.0, 3.0]), np.asarray([0.8, 1.7])

    def function(loc, scale, weights, bandwidth, y):
        p = kuq.Ensemble(kuq.Normal(loc, scale, event_ndim=1), weights=weights)
        score = kuq.Gaussian(bandwidth) + 0.5 * kuq.Laplace(bandwidth)
        u = kuq.decompose(p, score, unbiased=False, estimator="bma")
        return {**u, "score": kuq.score(p, y, score)}

    inputs = (arrays["loc"], arrays["scale"], weights, widths, OUTCOME)
    actual = jax.jit(function)(*map(jax.numpy.asarray, inputs))
    assert_same(actual, function(*inputs), 1e-8)


def test_median_bandwidth_is_traced(jax):
    def function(loc):
        p = kuq.Ensemble(kuq.Normal(loc, 1.0, event_ndim=1))
        return dict(kuq.decompose(p, kuq.Gaussian("median")))

    loc = CASES["Normal"].parameters["loc"]
    assert_same(jax.jit(function)(jax.numpy.asarray(loc)), function(loc), 1e-12)


@pytest.mark.parametrize("score", ["crps", "gaussian", "log"])
def test_vectorised_score(jax, score):
    """vmap over inputs equals a batch of inputs."""
    loc, scale = (CASES["Normal"].parameters[name][0] for name in ("loc", "scale"))

    def one(loc, scale, y):
        return kuq.score(kuq.Normal(loc, scale, event_ndim=1), y, SCORES[score])

    actual = jax.jit(jax.vmap(one))(*map(jax.numpy.asarray, (loc, scale, OUTCOME)))
    np.testing.assert_allclose(np.asarray(actual), one(loc, scale, OUTCOME), rtol=1e-12)


@pytest.mark.parametrize("score", ["crps", "energy", "gaussian", "log"])
def test_vectorised_score_in_torch(torch, score):
    loc, scale = (CASES["Normal"].parameters[name][0] for name in ("loc", "scale"))

    def one(loc, scale, y):
        return kuq.score(kuq.Normal(loc, scale, event_ndim=1), y, SCORES[score])

    inputs = [torch.tensor(a) for a in (loc, scale, OUTCOME)]
    actual = torch.func.vmap(one)(*inputs)
    np.testing.assert_allclose(actual.numpy(), one(loc, scale, OUTCOME), rtol=1e-8)


def test_gradients_of_each_input_in_torch(torch):
    """vmap of grad: the derivative of each loss by its own parameters."""
    loc, scale = (CASES["Normal"].parameters[name][0] for name in ("loc", "scale"))

    def one(loc, scale, y):
        return kuq.score(kuq.Normal(loc, scale, event_ndim=1), y, kuq.CRPS())

    inputs = [torch.tensor(a) for a in (loc, scale, OUTCOME)]
    actual = torch.func.vmap(torch.func.grad(one))(*inputs)
    leaf = inputs[0].clone().requires_grad_()
    one(leaf, *inputs[1:]).sum().backward()
    np.testing.assert_allclose(actual.numpy(), leaf.grad.numpy(), rtol=1e-12)


def test_bad_shapes_are_found_while_tracing(jax):
    function = jax.jit(lambda p, y: kuq.score(kuq.Normal(p, 1.0), y, kuq.CRPS()))
    with pytest.raises(kuq.ShapeError, match=r"got \(2, 1\)"):
        function(jax.numpy.zeros(2), jax.numpy.zeros((2, 1)))


def test_monte_carlo_is_compiled_too(jax):
    def function(loc):
        p = kuq.Ensemble(kuq.StudentT(5.0 + 0 * loc, loc, 1.0, event_ndim=1))
        return kuq.decompose(p, kuq.LogScore(), draws=10, seed=0).total

    loc = CASES["Normal"].parameters["loc"]
    actual = jax.jit(function)(jax.numpy.asarray(loc))
    np.testing.assert_allclose(np.asarray(actual), function(loc), rtol=1e-10)
