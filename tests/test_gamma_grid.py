"""The scale mixture of the Student-t against closed forms and high precision sums."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.stats

from kuq.distributions.gamma_grid import node_count, scale_mixture

DF = [0.3, 0.5, 1.2, 1.7, 2.5, 4.0, 12.0, 150.0, 3e4, 1e8]
RTOL = [1e-6, 1e-10, 1e-13]


def moment(df: float, beta: float) -> float:
    """E v^{beta/2} with v = (df/2)/G: the moment E|X|^beta over that of a standard normal."""
    with mpmath.workdps(40):
        a, b = mpmath.mpf(df) / 2, mpmath.mpf(beta) / 2
        return float(a**b * mpmath.gamma(a - b) / mpmath.gamma(a))


def kernel_means(df: float, cases: list[tuple[float, float]]) -> list[float]:
    """E exp(-t(X - d)²) by a fine trapezoid rule in log G, its error far below 1e-16."""
    with mpmath.workdps(22):
        a = mpmath.mpf(df) / 2
        step = mpmath.mpf("0.2") / mpmath.sqrt(1 + a)
        left = int((40 / a + mpmath.sqrt(100 / a)) / step)
        right = int(mpmath.log1p(mpmath.sqrt(100 / a) + 50 / a) / step)
        gs = [mpmath.exp(k * step) for k in range(-left, right)]
        constant = step * mpmath.exp(a * mpmath.log(a) - mpmath.loggamma(a))
        density = [constant * mpmath.exp(-a * (g - k * step)) for k, g in enumerate(gs, -left)]
        means = []
        for t, d in cases:
            spread = [1 + 2 * t / g for g in gs]
            terms = (
                p * mpmath.exp(-t * d * d / w) / mpmath.sqrt(w)
                for p, w in zip(density, spread, strict=True)
            )
            means.append(float(mpmath.fsum(terms)))
        return means


def mixture_kernel_mean(weights: Any, factors: Any, t: float, d: float) -> Any:
    w = 1 + 2 * t * factors**2
    return (weights * w**-0.5 * np.exp(-t * d * d / w)).sum(-1)


@pytest.mark.parametrize("rtol", RTOL)
def test_is_a_mixture(rtol: float) -> None:
    df = np.asarray([[0.01, *DF], [1e-3, 1e12, 1e30, np.inf, *DF[3:]]])
    weights, factors = scale_mixture(df, node_count(rtol))
    assert weights.shape == factors.shape == (*df.shape, node_count(rtol))
    assert np.all(weights >= 0)
    assert np.all(np.isfinite(factors**2))
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=10 * node_count(rtol) * 2.3e-16)


def test_node_count_grows_with_precision() -> None:
    counts = [node_count(r) for r in (0.5, 1e-3, 1e-6, 1e-10, 1e-13, 0.0)]
    assert counts == sorted(counts)
    assert counts[3] <= 70
    assert all(isinstance(k, int) for k in counts)


@pytest.mark.parametrize("rtol", RTOL)
@pytest.mark.parametrize("df", DF)
def test_moments(df: float, rtol: float) -> None:
    weights, factors = scale_mixture(np.asarray(df), node_count(rtol))
    for beta in (-1.0, 0.2, 1.0, 1.6):
        if df >= beta + 0.2:
            value = (weights * factors**beta).sum()
            assert value == pytest.approx(moment(df, beta), rel=rtol, abs=0), beta


@pytest.mark.parametrize("df", [0.3, 0.7, 1.2, 4.0, 1e8])
def test_kernel_means(df: float) -> None:
    cases = [(t, d) for t in (1e-8, 1e-3, 1.0, 1e8) for d in (0.0, 2.0)] + [(1e-3, 100.0)]
    exact = dict(zip(cases, kernel_means(df, cases), strict=True))
    for rtol in RTOL:
        weights, factors = scale_mixture(np.asarray(df), node_count(rtol))
        for t, d in cases:
            error = mixture_kernel_mean(weights, factors, t, d) - exact[t, d]
            assert abs(error) <= rtol * exact[t, 0.0], (t, d)


@pytest.mark.parametrize("df", [0.3, 1.0, 2.5, 30.0, 1e5])
def test_density_and_distribution_function(df: float) -> None:
    x = np.asarray([0.0, 0.3, 1.0, 3.0, 20.0])[:, None]
    weights, factors = scale_mixture(np.asarray(df), node_count(1e-12))
    mixture, exact = scipy.stats.norm(0, factors), scipy.stats.t(df)
    density = (weights * mixture.pdf(x)).sum(-1)
    np.testing.assert_allclose(density, exact.pdf(x[:, 0]), rtol=0, atol=1e-12)
    np.testing.assert_allclose((weights * mixture.cdf(x)).sum(-1), exact.cdf(x[:, 0]), rtol=1e-12)


def test_nodes_follow_df() -> None:
    df = np.asarray(DF)
    (w, f), (w1, f1) = (scale_mixture(d, node_count(1e-10)) for d in (df, df * (1 + 1e-9)))
    scale = np.abs(np.log(f)) + 1e-6
    assert np.max(np.abs(np.log(f1) - np.log(f)) / scale) < 2e-9
    # A weight moves by at most df times the change of an exponent.
    assert np.max(np.abs(w1 - w)) < 2e-9
    # At df = 1e8 the law is a normal of unit variance up to the correction 1/df.
    assert (w[-1] * f[-1] ** 2).sum() - 1 == pytest.approx(2e-8, rel=1e-6)


def absolute_mean(df: Any, nodes: int = node_count(1e-10)) -> Any:
    weights, factors = scale_mixture(df, nodes)
    return (weights * factors).sum(-1)


def slope(df: float) -> float:
    with mpmath.workdps(40):
        return float(
            mpmath.diff(
                lambda v: mpmath.sqrt(v / 2) * mpmath.gamma(v / 2 - 0.5) / mpmath.gamma(v / 2), df
            )
        )


def test_single_precision() -> None:
    df = np.asarray([1.5, 3.0, 100.0, 1e8], dtype=np.float32)
    value = absolute_mean(df, node_count(1e-7))
    assert value.dtype == np.float32
    np.testing.assert_allclose(value, [moment(float(d), 1.0) for d in df], rtol=2e-6)


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    df = torch.tensor(DF[2:], dtype=torch.float64, requires_grad=True)
    value = absolute_mean(df)
    expected = absolute_mean(np.asarray(DF[2:]))
    np.testing.assert_allclose(value.detach().numpy(), expected, rtol=1e-14)
    (gradient,) = torch.autograd.grad(value.sum(), df)
    exact = np.asarray([slope(d) for d in DF[2:]])
    np.testing.assert_allclose(gradient.numpy(), exact, rtol=1e-8, atol=1e-18)
    for dtype in (torch.float32, torch.float64):
        df = torch.tensor([0.01, *DF, 1e12, float("inf")], dtype=dtype, requires_grad=True)
        weights, factors = scale_mixture(df, 40)
        assert weights.dtype == factors.dtype == dtype
        (gradient,) = torch.autograd.grad((weights * torch.exp(-1 / factors)).sum(), df)
        assert bool(torch.isfinite(gradient).all())


def test_gradient_against_finite_differences() -> None:
    torch = pytest.importorskip("torch")
    df = torch.tensor(DF[2:8], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(absolute_mean(df).sum(), df)
    at = np.asarray(DF[2:8])
    difference = (absolute_mean(at * (1 + 1e-5)) - absolute_mean(at * (1 - 1e-5))) / (2e-5 * at)
    np.testing.assert_allclose(gradient.numpy(), difference, rtol=1e-5)


def test_jax() -> None:
    jax = pytest.importorskip("jax")
    df = jax.numpy.asarray(DF[3:], dtype=jax.numpy.float32)
    weights, factors = jax.jit(scale_mixture, static_argnums=1)(df, 40)
    assert weights.dtype == factors.dtype == df.dtype
    expected = scale_mixture(np.asarray(df), 40)
    np.testing.assert_allclose(weights, expected[0], rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(factors, expected[1], rtol=2e-5)
    gradient = jax.jit(jax.grad(lambda v: absolute_mean(v, 40).sum()))(df)
    exact = np.asarray([slope(float(d)) for d in df])
    np.testing.assert_allclose(gradient, exact, rtol=2e-3, atol=1e-7)


def test_jax_double_precision() -> None:
    jax = pytest.importorskip("jax")
    enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    with enable_x64(True):
        df = jax.numpy.asarray(DF[2:], dtype=jax.numpy.float64)
        one = jax.numpy.ones_like(df)
        value, tangent = jax.jit(lambda v: jax.jvp(absolute_mean, (v,), (one,)))(df)
    np.testing.assert_allclose(value, absolute_mean(np.asarray(DF[2:])), rtol=1e-14)
    np.testing.assert_allclose(tangent, [slope(d) for d in DF[2:]], rtol=1e-8, atol=1e-18)
