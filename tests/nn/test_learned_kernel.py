"""Learned kernels: gradients, the power on blobs, the level, and use as a score."""

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import kuq
from kuq.nn.learned_kernel import _signal_over_noise

KERNELS = {
    "gaussian": kuq.Gaussian,
    "laplace": kuq.Laplace,
    "imq": kuq.InverseMultiquadric,
    "matern": lambda width, weights: kuq.Matern(width, 1.5, weights),
}


def blobs(rng, n, turned):
    """Nine clusters far apart, round or with a correlation: the difference is inside of them."""
    centres = 10.0 * rng.integers(0, 3, size=(n, 2))
    covariance = [[1.0, 0.8], [0.8, 1.0]] if turned else np.eye(2)
    return centres + rng.multivariate_normal([0.0, 0.0], covariance, size=n)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("asked", ["decompose", "divergence", "score"])
def test_bandwidths_and_weights_have_gradients(name, asked):
    rng = np.random.default_rng(0)
    draws = torch.as_tensor(rng.normal(size=(3, 4, 8, 2)))
    y = torch.as_tensor(rng.normal(size=(4, 2)))

    def value(width, weights):
        kernel = KERNELS[name](width, weights)
        members = kuq.Ensemble(kuq.Samples(draws, event_ndim=1))
        if asked == "decompose":
            return kuq.decompose(members, kernel).epistemic.sum()
        if asked == "score":
            return kuq.score(members, y, kernel).sum()
        p, q = (kuq.Samples(draws[k], event_ndim=1) for k in (0, 1))
        return kuq.divergence(p, q, kernel).sum()

    width = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([0.7, 1.6], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(value, (width, weights), rtol=1e-5, atol=1e-7)


def test_features_have_gradients():
    rng = np.random.default_rng(1)
    draws = torch.as_tensor(rng.normal(size=(3, 5, 6, 2)))
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh()).double()
    kernel = kuq.Gaussian(1.0).on(kuq.nn.FeatureMap(module))
    members = kuq.Ensemble(kuq.Samples(draws, event_ndim=1))
    found = kuq.decompose(members, kernel).epistemic.sum()
    found.backward()
    mapped = kuq.Ensemble(kuq.Samples(module(draws).detach(), event_ndim=1))
    assert float(found.detach()) == pytest.approx(
        float(kuq.decompose(mapped, kuq.Gaussian(1.0)).epistemic.sum())
    )
    weight = module[0].weight
    slope = weight.grad[0, 0].item()
    with torch.no_grad():
        values = []
        for step in (1e-5, -2e-5):
            weight[0, 0] += step
            values.append(float(kuq.decompose(members, kernel).epistemic.sum()))
    assert slope == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-5)


def test_the_ratio_is_the_divergence_over_its_spread():
    """Signal: the unbiased divergence. Noise: the spread over repeated draws."""
    rng = np.random.default_rng(2)
    kernel = kuq.Gaussian(1.5)
    found, ratios = [], []
    for _ in range(300):
        x, y = (torch.as_tensor(rng.normal(size=(60, 2)) + shift) for shift in (0.0, 0.6))
        found.append(float(kuq.divergence(*(kuq.Samples(a, event_ndim=1) for a in (x, y)), kernel)))
        ratios.append(float(_signal_over_noise(kernel, x, y)))
    # The standard deviation of 300 values is known to 4 %; that of U-statistics has terms of
    # second order, of about 1/√n of it.
    assert np.median(ratios) == pytest.approx(np.mean(found) / np.std(found), rel=0.25)


def test_power_on_blobs_and_level():
    """Above the median bandwidth, which hardly sees anything; about 0.05 where nothing is."""
    learned, median, level = [], [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x, y, z = blobs(rng, 400, False), blobs(rng, 400, True), blobs(rng, 400, False)
        learned.append(kuq.nn.learn_kernel(x, y, steps=40, permutations=99, seed=seed).p_value)
        level.append(kuq.nn.learn_kernel(x, z, steps=40, permutations=99, seed=seed).p_value)
        pair = kuq.Ensemble([kuq.Samples(a, event_ndim=1) for a in (x, y)])
        test = kuq.member_test(pair, kuq.Gaussian("median"), permutations=99, seed=seed)
        median.append(float(test.p_value))
    assert np.mean(np.array(learned) <= 0.05) > 0.7
    assert np.mean(np.array(median) <= 0.05) < 0.4
    assert np.sum(np.array(level) <= 0.05) <= 4  # more have a chance of 2e-4


def test_weights_find_the_coordinate():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 800, 5))
    y[:, 2] *= 2.0
    found = kuq.nn.learn_kernel(x, y, weights=True, steps=100, permutations=99)
    assert found.kernel.weights.argmax() == 2
    assert found.kernel.weights.sum() == pytest.approx(5.0)
    assert found.p_value <= 0.05


def test_features_are_a_copy_and_the_kernel_is_a_score():
    rng = np.random.default_rng(4)
    angle = rng.uniform(0, 2 * np.pi, size=(2, 300))
    radius = np.stack([np.full(300, 1.0), np.full(300, 1.3)]) + 0.1 * rng.normal(size=(2, 300))
    x, y = np.moveaxis(radius[..., None] * np.stack([np.cos(angle), np.sin(angle)], -1), 0, 0)
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.GELU(), torch.nn.Linear(16, 2))
    before = [p.detach().clone() for p in module.parameters()]
    found = kuq.nn.learn_kernel(x, y, features=module, steps=60, permutations=99)
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))
    assert found.p_value <= 0.05
    members = rng.normal(size=(3, 4, 20, 2))
    plain = kuq.decompose(kuq.Ensemble(kuq.Samples(members, event_ndim=1)), found.kernel)
    other = kuq.decompose(
        kuq.Ensemble(kuq.Samples(torch.as_tensor(members), event_ndim=1)), found.kernel
    )
    assert (plain.total > 0).all()
    np.testing.assert_allclose(other.epistemic.numpy(), plain.epistemic, rtol=1e-8, atol=1e-12)


def test_the_same_seed_learns_the_same():
    x, y = (blobs(np.random.default_rng(5), 100, turned) for turned in (False, True))
    first, second = (kuq.nn.learn_kernel(x, y, steps=10, permutations=19, seed=3) for _ in range(2))
    assert first.kernel == second.kernel
    assert first.history == second.history


@pytest.mark.parametrize(
    ("x", "y", "options", "error", "words"),
    [
        (np.zeros((50, 2)), np.zeros((50, 3)), {}, kuq.ShapeError, "one shape"),
        (np.zeros((15, 2)), np.zeros((50, 2)), {}, kuq.InsufficientDataError, "10 draws"),
        (np.full((50, 2), np.nan), np.zeros((50, 2)), {}, kuq.ParameterError, "finite"),
        (np.arange(50.0), np.arange(50.0), {"weights": True}, kuq.ParameterError, "coordinates"),
        (np.arange(50.0), np.arange(50.0), {"steps": 0}, kuq.ParameterError, "steps"),
        (np.arange(50.0), np.arange(50.0), {"test_share": 1}, kuq.ParameterError, "test_share"),
        (
            np.random.default_rng(6).normal(size=(50, 2)),
            np.random.default_rng(7).normal(size=(50, 2)),
            {"features": torch.nn.Flatten(0)},
            kuq.ShapeError,
            "features must map",
        ),
    ],
)
def test_refused(x, y, options, error, words):
    with pytest.raises(error, match=words):
        kuq.nn.learn_kernel(x, y, **options)
