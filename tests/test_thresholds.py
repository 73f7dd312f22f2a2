"""Thresholds of a tail that differ between inputs: each input sees its own, whatever the law."""

import numpy as np
import pytest

import kuq

N = 5  # inputs, and draws as well: a threshold must not run along the draws


def draws(rng, *shape):
    return rng.normal(size=shape)


#: A law for some of N inputs, by its name: (kuq's object, the options of the call)
def laws(rng):
    loc, scale = rng.normal(size=(3, N)), rng.uniform(0.5, 1.5, size=(3, N))
    values = draws(rng, 3, N, N)
    weights = rng.dirichlet(np.ones(N), size=(3, N))
    return {
        "normals": (lambda i: kuq.Ensemble(kuq.Normal(loc[:, i], scale[:, i])), {}),
        "draws": (lambda i: kuq.Ensemble(kuq.Samples(values[:, i])), {}),
        "weighted draws": (
            lambda i: kuq.Ensemble(kuq.Samples(values[:, i], weights=weights[:, i])),
            {},
        ),
        "points": (lambda i: kuq.Ensemble(kuq.Point(loc[:, i])), {}),
        "list": (
            lambda i: kuq.Ensemble([kuq.Samples(values[0, i]), kuq.Point(loc[0, i])]),
            {"unbiased": "members"},
        ),
    }


@pytest.mark.parametrize("name", ["normals", "draws", "weighted draws", "points", "list"])
@pytest.mark.parametrize("kernel", [kuq.CRPS(), kuq.Energy(), kuq.Marginal(kuq.Energy(), "sum")])
def test_one_threshold_per_input(name, kernel):
    rng = np.random.default_rng(3)
    build, options = laws(rng)[name]
    low = rng.normal(size=N)
    high = low + rng.uniform(0.5, 2.0, size=N)
    whole = slice(None)
    u = kuq.decompose(build(whole), kuq.tail(kernel, low, below=high), **options)
    for i in range(N):
        own = kuq.tail(kernel, float(low[i]), below=float(high[i]))
        wanted = kuq.decompose(build(slice(i, i + 1)), own, **options)
        # The quadrature of all inputs at once has nodes of its own, to the accuracy rtol.
        np.testing.assert_allclose(u.total[i], wanted.total[0], rtol=1e-7)
        np.testing.assert_allclose(u.epistemic[i], wanted.epistemic[0], rtol=1e-7, atol=1e-12)


def test_score_against_brute_force():
    """tw-CRPS of draws: E|v(X) − v(y)| − ½E|v(X) − v(X')| with v(x) = max(x, threshold)."""
    rng = np.random.default_rng(4)
    values, y, low = draws(rng, N, N), rng.normal(size=N), rng.normal(size=N)
    found = kuq.score(kuq.Samples(values), y, kuq.tail(kuq.CRPS(), low), unbiased=False)
    for i in range(N):
        x, z = np.maximum(values[i], low[i]), max(y[i], low[i])
        pairs = np.abs(x[:, None] - x).mean() / 2
        np.testing.assert_allclose(found[i], np.abs(x - z).mean() - pairs, rtol=1e-12)


def test_fields():
    """(n, 1) is one per input, (d,) one per coordinate, (n, d) both."""
    rng = np.random.default_rng(5)
    values = draws(rng, 3, N, N, 4)
    low = rng.normal(size=(N, 4))

    def at(i, threshold):
        return kuq.decompose(
            kuq.Ensemble(kuq.Samples(values[:, i : i + 1], event_ndim=1)),
            kuq.tail(kuq.Energy(), threshold),
        ).total[0]

    ensemble = kuq.Ensemble(kuq.Samples(values, event_ndim=1))
    for threshold, own in (
        (low, lambda i: low[i]),
        (low[:, :1], lambda i: float(low[i, 0])),
        (low[0], lambda i: low[0]),
    ):
        u = kuq.decompose(ensemble, kuq.tail(kuq.Energy(), threshold))
        wanted = [at(i, own(i)) for i in range(N)]
        np.testing.assert_allclose(u.total, wanted, rtol=1e-12)


def test_drawn_by_kuq():
    """Monte Carlo of laws without a route: as many draws as inputs, thresholds per input."""
    rng = np.random.default_rng(6)
    low = rng.normal(size=N)
    law = kuq.StudentT(5.0, rng.normal(size=N), 1.0)
    kernel = kuq.tail(kuq.Gaussian(1.0), low)
    found = kuq.entropy(law, kernel, draws=N, seed=7)
    values = law.sample(N, np.random.default_rng([7, 0]))
    wanted = kuq.entropy(kuq.Samples(np.maximum(values, low[:, None])), kuq.Gaussian(1.0))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("law", [kuq.Samples(np.zeros((N, 7))), kuq.Normal(np.zeros(N), 1.0)])
def test_threshold_of_another_shape(law):
    for shape in ((7,), (N, 7), (1, N, 1)):
        with pytest.raises(kuq.ShapeError, match="threshold must broadcast"):
            kuq.entropy(law, kuq.tail(kuq.CRPS(), np.zeros(shape)))


@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
def test_other_libraries(library):
    xp = pytest.importorskip(library)
    rng = np.random.default_rng(8)
    values, low = draws(rng, 3, N, N), rng.normal(size=N)
    kernel = kuq.tail(kuq.CRPS(), xp.asarray(low))
    u = kuq.decompose(kuq.Ensemble(kuq.Samples(xp.asarray(values))), kernel)
    wanted = kuq.decompose(kuq.Ensemble(kuq.Samples(values)), kuq.tail(kuq.CRPS(), low))
    np.testing.assert_allclose(np.asarray(u.total), wanted.total, rtol=1e-5)
