"""Evidential laws of vectors and fields: patches, weights of the event, vmap."""

import numpy as np
import pytest

import kuq


def parameters(rng, shape):
    return (
        rng.normal(size=shape),
        rng.uniform(0.5, 3.0, size=shape),
        rng.uniform(2.5, 6.0, size=shape),
        rng.uniform(0.5, 2.0, size=shape),
    )


@pytest.mark.parametrize(
    "kernel", [kuq.Energy(), kuq.Gaussian(2.0), kuq.CRPS(), kuq.SquaredError(), kuq.Laplace(2.0)]
)
def test_patches_are_laws_of_their_coordinates(kernel):
    """The mean over the boxes of what each box says when it is a prediction of its own."""
    given = parameters(np.random.default_rng(0), (3, 4, 6))
    law = kuq.NormalInverseGamma(*given, event_ndim=2)
    u = kuq.decompose(law, kuq.patches(kernel, shape=(4, 6), size=(2, 3)))
    parts = [
        kuq.decompose(
            kuq.NormalInverseGamma(*(x[:, a : a + 2, b : b + 3] for x in given), event_ndim=2),
            kernel,
        )
        for a in (0, 2)
        for b in (0, 3)
    ]
    for name in ("aleatoric", "epistemic"):
        wanted = np.mean([part[name] for part in parts], axis=0)
        np.testing.assert_allclose(u[name], wanted, rtol=1e-12)
    assert u.method == parts[0].method


def test_patches_of_one_cell_are_scalars():
    law = kuq.NormalInverseGamma(*parameters(np.random.default_rng(1), (3, 4)), event_ndim=1)
    u = kuq.decompose(law, kuq.patches(kuq.Energy(), shape=(4,), size=1))
    assert u.method == "exact"
    np.testing.assert_allclose(u.total, kuq.decompose(law, kuq.CRPS()).total, rtol=1e-13)


def test_patches_of_another_field():
    law = kuq.NormalInverseGamma(*parameters(np.random.default_rng(2), (3, 4)), event_ndim=1)
    with pytest.raises(kuq.ShapeError, match=r"patches are of fields of shape \(5,\)"):
        kuq.decompose(law, kuq.patches(kuq.Energy(), shape=(5,), size=1))
    with pytest.raises(kuq.NoClosedFormError, match="draws=2000"):
        kuq.decompose(law, kuq.spectral(kuq.Gaussian("median"), event_ndim=1))


def test_median_bandwidth_sees_the_weights():
    """√E‖X−Y‖² of two members with Σ w_j (x_j−y_j)²: var X_j = β(1+1/ν)/(α−1) each."""
    loc, nu, alpha, beta = parameters(np.random.default_rng(3), (7, 3))
    weights = np.array([4.0, 0.0, 0.25])
    law = kuq.NormalInverseGamma(loc, nu, alpha, beta, event_ndim=1)
    u = kuq.decompose(law, kuq.Gaussian("median", weights=weights))
    squares = (weights * 2 * beta * (1 + 1 / nu) / (alpha - 1)).sum(axis=-1)
    assert u.score.bandwidth == pytest.approx(np.median(np.sqrt(squares)), rel=1e-12)


def test_median_bandwidth_is_that_of_many_members():
    """Members drawn from the law have the same median distance, with weights and in patches."""
    rng = np.random.default_rng(4)
    loc, nu, alpha, beta = (x[None] for x in parameters(rng, (4,)))
    weights = np.array([4.0, 0.0, 0.25, 1.0])
    variance = beta / rng.gamma(alpha, size=(4000, 4))
    mean = loc + np.sqrt(variance / nu) * rng.normal(size=variance.shape)
    x = mean + np.sqrt(variance) * rng.normal(size=variance.shape)
    y = rng.permutation(x)
    law = kuq.NormalInverseGamma(loc, nu, alpha, beta, event_ndim=1)
    found = kuq.decompose(law, kuq.Gaussian("median", weights=weights)).score.bandwidth
    assert found**2 == pytest.approx((weights * (x - y) ** 2).sum(axis=-1).mean(), rel=0.15)
    halves = kuq.decompose(law, kuq.patches(kuq.Gaussian("median"), shape=(4,), size=2)).score
    widths = [term.kernel.bandwidth for term in halves.terms()]
    squares = (2 * beta * (1 + 1 / nu) / (alpha - 1))[0]
    np.testing.assert_allclose(widths, np.sqrt([squares[:2].sum(), squares[2:].sum()]), rtol=1e-12)


@pytest.mark.parametrize(
    "kernel",
    [kuq.CRPS(), kuq.Energy(), kuq.Gaussian(1.0), kuq.Laplace(1.0), kuq.LogScore()],
)
def test_vmap(kernel):
    torch = pytest.importorskip("torch")
    given = [torch.asarray(x) for x in parameters(np.random.default_rng(5), (3, 2, 3))]

    def total(*arrays):
        return kuq.decompose(kuq.NormalInverseGamma(*arrays, event_ndim=1), kernel).total

    wanted = torch.stack([total(*(x[i] for x in given)) for i in range(3)])
    # Traced quadratures take a fixed window, to the accuracy rtol.
    torch.testing.assert_close(torch.func.vmap(total)(*given), wanted, rtol=1e-7, atol=0.0)


def test_vmap_of_draws():
    torch = pytest.importorskip("torch")
    values = torch.asarray(np.random.default_rng(6).normal(size=(3, 4, 2, 5, 3)))

    def total(x):
        ensemble = kuq.Ensemble(kuq.Samples(x, event_ndim=1, sample_axis=2))
        return kuq.decompose(ensemble, kuq.CRPS()).total

    wanted = torch.stack([total(x) for x in values])
    torch.testing.assert_close(torch.func.vmap(total)(values), wanted, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("kernel", [kuq.Energy, kuq.Gaussian, kuq.Laplace, kuq.SquaredError])
@pytest.mark.parametrize("alpha", [1.2, 4.0])
def test_a_coordinate_without_weight_has_no_gradient(kernel, alpha):
    """It was NaN under the energy score; the others are those of the law without it."""
    torch = pytest.importorskip("torch")
    given = [torch.asarray(x) for x in parameters(np.random.default_rng(0), 3)]
    given[2] = torch.full((3,), alpha, dtype=torch.float64)

    def gradients(arrays, weights):
        arrays = [array.clone().requires_grad_() for array in arrays]
        width = () if kernel in (kuq.Energy, kuq.SquaredError) else (2.0,)
        score = kernel(*width, weights=torch.asarray(weights, dtype=torch.float64))
        kuq.decompose(kuq.NormalInverseGamma(*arrays, event_ndim=1), score).total.backward()
        return [array.grad for array in arrays[1:]]  # the location has no part in it

    found = gradients(given, [0.0, 1.0, 2.0])
    wanted = gradients([array[1:] for array in given], [1.0, 2.0])
    for actual, expected in zip(found, wanted, strict=True):
        assert abs(float(actual[0])) < 1e-12
        np.testing.assert_allclose(actual[1:], expected, rtol=1e-6)
