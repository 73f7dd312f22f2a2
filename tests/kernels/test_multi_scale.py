"""Multiples of the median distance as bandwidths, and the mean over several of them."""

import numpy as np
import pytest

import kuq
from kuq.kernels.names import as_score, score_name


def ensemble(rng):
    return kuq.Ensemble(kuq.Normal(rng.normal(size=(4, 20)), rng.gamma(2.0, size=(4, 20))))


@pytest.mark.parametrize("kernel", [kuq.Gaussian, kuq.Laplace, kuq.RationalQuadratic])
def test_a_multiple_of_the_median(kernel):
    prediction = ensemble(np.random.default_rng(0))
    median = kuq.decompose(prediction, kernel("median")).score.bandwidth
    for factor in ("0.5", "2", "1e-1"):
        found = kuq.decompose(prediction, kernel(f"median*{factor}"))
        assert found.score.bandwidth == pytest.approx(median * float(factor), rel=1e-15)
        expected = kuq.decompose(prediction, kernel(median * float(factor)))
        np.testing.assert_allclose(found.epistemic, expected.epistemic, rtol=1e-12)


@pytest.mark.parametrize(
    "word", ["mean", "median*", "median*0", "median*-1", "median*x", "2*median"]
)
def test_other_words_are_refused(word):
    with pytest.raises(kuq.ParameterError, match="median"):
        kuq.Gaussian(word)


@pytest.mark.parametrize("name", ["gaussian", "laplace", "imq", "rational"])
def test_the_mean_over_scales_is_the_mean_of_the_measures(name):
    prediction = ensemble(np.random.default_rng(1))
    found = kuq.decompose(prediction, f"{name}:multi")
    parts = [kuq.decompose(prediction, f"{name}:median*{f}") for f in (0.25, 0.5, 1, 2, 4)]
    for component in ("total", "aleatoric", "epistemic"):
        mean = np.mean([part[component] for part in parts], axis=0)
        np.testing.assert_allclose(found[component], mean, rtol=1e-12)


def test_around_a_number_and_under_marginals():
    prediction = ensemble(np.random.default_rng(2))
    found = kuq.decompose(prediction, "gaussian:multi:0.5").epistemic
    expected = kuq.decompose(prediction, kuq.multi_scale(kuq.Gaussian(0.5))).epistemic
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    means = np.random.default_rng(3).normal(size=(3, 5, 4))
    fields = kuq.Ensemble(kuq.Normal(means, 1.0, event_ndim=1))
    kernel = kuq.Marginal(kuq.multi_scale(kuq.Gaussian("median")), reduce=None)
    assert kuq.decompose(fields, kernel).epistemic.shape == (5, 4)


def test_names_come_back():
    for name in ("gaussian:multi", "laplace:multi", "gaussian:multi:0.5", "gaussian:median*0.5"):
        assert score_name(as_score(name)) == name
    resolved = kuq.decompose(ensemble(np.random.default_rng(4)), "gaussian:multi").score
    assert score_name(resolved).startswith("gaussian:multi:")
    assert as_score(score_name(resolved)) == resolved


def test_named_dimensions_follow():
    xr = pytest.importorskip("xarray")
    import kuq.xarray

    means = np.random.default_rng(5).normal(size=(4, 20))
    data = xr.Dataset({"loc": (("member", "x"), means), "scale": (("member", "x"), 1 + means**2)})
    plain = kuq.Ensemble(kuq.Normal(means, 1 + means**2))
    for name in ("gaussian:multi", "gaussian:median*0.5"):
        found = kuq.xarray.decompose(data, name).epistemic
        np.testing.assert_allclose(found, kuq.decompose(plain, name).epistemic, rtol=1e-12)


def test_refused():
    with pytest.raises(kuq.ParameterError, match="bandwidth"):
        kuq.multi_scale(kuq.Energy())
    with pytest.raises(kuq.ParameterError, match="factors"):
        kuq.multi_scale(kuq.Gaussian(1.0), [0.5, -1.0])
    with pytest.raises(kuq.ParameterError, match="is written"):
        as_score("energy:multi:1:2")
