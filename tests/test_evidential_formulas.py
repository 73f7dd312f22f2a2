"""Normal-inverse-gamma formulas against mpmath, at the extremes, and in every array library."""

from __future__ import annotations

import functools
import importlib
import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuq._array import from_numpy
from kuq.distributions.atoms import NormalInverseGammas
from kuq.expectations import evidential
from kuq.expectations.gamma import log_duplication_ratio, log_gamma_ratio, precision_information

HALF = mp.mpf(1) / 2


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(50):
        yield


def relative_errors(got: Any, exact: list[Any]) -> float:
    return max(float(abs(mp.mpf(float(g)) / e - 1)) for g, e in zip(got, exact, strict=True))


# Gamma functions.

WIDE = np.concatenate([10.0 ** np.arange(-4, 13), [0.3, 1.7, 9.99, 10.01, 37.5]])


@pytest.mark.parametrize("a", [-0.95, -0.5, 0.125, 0.5, 0.95, 2.5])
def test_gamma_ratio(a):
    z = np.concatenate([WIDE[a + WIDE > 0], max(0.0, -a) + 10.0 ** -np.arange(1.0, 9.0)])
    exact = [mp.loggamma(mp.mpf(x) + mp.mpf(a)) - mp.loggamma(mp.mpf(x)) for x in z]
    for got, value in zip(log_gamma_ratio(z, a), exact, strict=True):
        assert abs(float(mp.mpf(got) - value)) < 4e-15 * max(1, abs(float(value)) / 4)


def exact_duplication(z, b):
    z, b = mp.mpf(float(z)), mp.mpf(b)
    pairs = mp.loggamma(2 * z + b) - mp.loggamma(2 * z) + mp.loggamma(z) - mp.loggamma(z + b)
    return pairs - b * mp.log(2)


@pytest.mark.parametrize("b", [0.05, 0.5, 0.75, 0.95])
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-15), (np.float32, 4e-7)])
def test_duplication_ratio_is_relatively_accurate(b, dtype, rtol):
    z = WIDE.astype(dtype)
    got = log_duplication_ratio(z, b)
    assert got.dtype == dtype
    assert relative_errors(got, [exact_duplication(x, b) for x in z]) < rtol


def exact_information(alpha):
    a = mp.mpf(float(alpha))
    ratio = mp.loggamma(a) + mp.log(mp.pi) / 2 - mp.loggamma(a + HALF)
    gap = mp.digamma(a + HALF) - mp.digamma(a)
    return (mp.digamma(a) - mp.log(mp.pi) - 1) / 2 + ratio + (a + HALF) * gap


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 2e-14), (np.float32, 6e-6)])
def test_precision_information(dtype, rtol):
    alpha = np.asarray([0.05, 0.3, *WIDE[(WIDE > 0.5) & (WIDE <= 1e10)]], dtype=dtype)
    assert relative_errors(precision_information(alpha), list(map(exact_information, alpha))) < rtol


# Closed forms.


def exact_energy(nu, alpha, beta, power):
    nu, alpha, beta, b = mp.mpf(nu), mp.mpf(alpha), mp.mpf(beta), mp.mpf(power) / 2
    c = 2**b * mp.gamma(b + HALF) / mp.sqrt(mp.pi)
    log = mp.loggamma
    within = c * (2 * beta) ** b * mp.exp(log(alpha - b) - log(alpha))
    moments = log(2 * alpha - b) + 2 * log(alpha - b) - log(2 * alpha - 2 * b) - 2 * log(alpha)
    between = c * ((1 + 1 / nu) * beta) ** b * mp.exp(moments)
    return within / 2, between - within


CLOSED_CASES = [
    (1.7, 3.2, 2.1),
    (1e12, 1e8, 0.3),
    (1e12, 1.5, 1e-3),
    (1e-6, 1e8, 40.0),
    (30.0, 0.9500001, 1.0),
    (1e9, 0.96, 1e6),
]


@pytest.mark.parametrize("power", [0.1, 0.5, 1.0, 1.5, 1.9])
def test_energy(power):
    nu, alpha, beta = np.asarray(CLOSED_CASES).T
    exact = [exact_energy(*case, power) for case in CLOSED_CASES]
    au, eu = evidential.energy(nu, alpha, beta, power)
    assert relative_errors(au, [e[0] for e in exact]) < 1e-13  # eps·β^b, β^b up to 1e6
    assert relative_errors(eu, [e[1] for e in exact]) < 1e-13


def test_log_score():
    cases = [*CLOSED_CASES, (1e12, 1e10, 1.0), (1e-6, 0.05, 1.0), (1e12, 0.05, 2.0)]
    nu, alpha, beta = np.asarray(cases).T
    au, pairwise, bma = evidential.log(nu, alpha, beta)
    for i, (n, a, b) in enumerate(cases):
        m = mp.mpf(a)
        assert au[i] == pytest.approx(
            float((mp.log(2 * mp.pi * mp.e * mp.mpf(b)) - mp.digamma(m)) / 2), rel=1e-13
        )
        exact = mp.log1p(1 / mp.mpf(n)) / 2 + exact_information(a)
        assert bma[i] == pytest.approx(float(exact), rel=1e-13)
        wanted = (mp.mpf(n) + 2 * m - 1) / (2 * mp.mpf(n) * (m - 1)) if a > 1 else math.inf
        assert pairwise[i] == pytest.approx(float(wanted), rel=1e-14)


def test_squared_error_and_second_moment():
    nu, alpha, beta = np.asarray([0.5, 1e12]), np.asarray([3.0, 2.0]), np.asarray([4.0, 1.0])
    au, eu = evidential.squared(nu, alpha, beta)
    np.testing.assert_allclose(au, [2.0, 1.0], rtol=1e-15)
    np.testing.assert_allclose(eu, [8.0, 2e-12], rtol=1e-15)
    variance = NormalInverseGammas(nu, nu, alpha, beta).variance()
    np.testing.assert_allclose(2 * variance.sum(), 14.0, rtol=1e-11)


def test_moments_that_do_not_exist_are_infinite():
    nu, beta = np.ones(3), np.ones(3)
    alpha = np.asarray([0.3, 0.5, 0.6])
    for part in evidential.energy(nu, alpha, beta, 1.0):
        assert np.isinf(part[:2]).all()
        assert np.isfinite(part[2])
    for part in evidential.squared(nu, alpha, beta):
        assert np.isinf(part).all()
    au, pairwise, bma = evidential.log(nu, alpha, beta)
    assert np.isfinite(au).all()
    assert np.isinf(pairwise).all()
    assert np.isfinite(bma).all()
    assert np.isinf(NormalInverseGammas(nu, nu, alpha, beta).variance()).all()


# Gaussian kernels at a scale.

# 2βt, α, ν, 1 − F₁, F₁, F₁ − F₂, by Mellin-Barnes integrals at 60 digits, x = 4βt:
#   F₁ = 1/2πi ∫ Γ(s) Γ(½−s)/√π x^(−s) Γ(α+s)/Γ(α) ds,  0 < Re s < ½, and −min(1, α) < Re s < 0
#   for F₁ − 1; F₂ has (2κ)^(−s) Γ(2α+s)/Γ(2α) Γ(α+s)/Γ(α) Γ(α+½)/Γ(α+½+s) for Γ(α+s)/Γ(α).
AT_SCALE = [
    (2e-12, 0.55, 1.7, 6.5480309300329378e-7, 0.999999345196907, 4.9885592403639899e-7),
    (2e-12, 1.0, 1.7, 5.2107610902215353e-11, 0.99999999994789239, 3.1383787441284457e-11),
    (1e-9, 1.05, 30.0, 1.2564735646484388e-8, 0.99999998743526435, 6.6836191288615876e-10),
    (1e-9, 2.0, 30.0, 9.9999997049120398e-10, 0.99999999900000003, 3.3333345758041601e-11),
    (2e-12, 3.2, 1e4, 9.0909090908863627e-13, 0.99999999999909091, 9.0909091425268568e-17),
    (1e-6, 40.0, 1e4, 2.5641024628879936e-8, 0.99999997435897537, 2.5641153404844787e-12),
    (0.3, 0.8, 1e9, 0.37544313628082237, 0.62455686371917763, 0.061364620862709604),
    (1.0, 1.5, 1e-3, 0.41284288573329293, 0.58715711426670707, 0.56487449345844671),
    (3.0, 3.2, 0.1, 0.44004637577762308, 0.55995362422237692, 0.3646039736161521),
    (10.0, 12.0, 1e4, 0.39604872942839869, 0.60395127057160131, 0.0039290442138637866),
    (100.0, 1e6, 1e9, 9.998510245467747e-5, 0.99990001489754532, 1.0746638870932183e-13),
    (1e4, 1e4, 1e4, 0.42265935323466829, 0.57734064676533171, 2.4055359093688531e-5),
    (2e7, 0.55, 30.0, 0.99990475699145725, 9.5243008542745389e-5, 2.7093982765423245e-5),
    (2e7, 300.0, 1e9, 0.99726253834548462, 0.0027374616545153767, 1.7103541543584035e-6),
    (2e12, 2.05, 1.7, 0.99999932607435014, 6.7392564985613318e-7, 1.8559814242819817e-7),
    (2e12, 1e6, 1e-3, 0.99950000012500001, 0.00049999987499999219, 0.00048419639140952969),
]


@pytest.mark.parametrize(
    ("rtol", "dtype"),
    [(1e-5, np.float64), (1e-8, np.float64), (1e-11, np.float64), (0, np.float32)],
)
def test_at_scale_keeps_its_relative_accuracy(rtol, dtype):
    x, alpha, nu, lack, f1, gap = (column.astype(dtype) for column in np.asarray(AT_SCALE).T)
    beta = dtype(2.0)
    t = x / (2 * beta)
    params = nu[:, None], alpha[:, None], np.full_like(nu, beta)[:, None]
    au, eu, affinity = evidential.at_scale(t[None], *params, rtol)
    assert au.dtype == eu.dtype == affinity.dtype == dtype
    tolerance = max(rtol, 20 * float(np.finfo(dtype).eps))
    np.testing.assert_allclose(au[0], lack / 2, rtol=tolerance)
    np.testing.assert_allclose(eu[0], gap, rtol=tolerance)
    np.testing.assert_allclose(affinity[0], f1, rtol=tolerance)


@pytest.mark.parametrize("rtol", [1e-5, 1e-8, 1e-11])
def test_pairs_of_nodes_keep_their_relative_accuracy(rtol):
    pytest.importorskip("numba")
    twin = importlib.import_module("kuq.forms.evidential_compiled")
    x, alpha, nu, *wanted = np.asarray(AT_SCALE).T
    found = twin.coordinates(2 * x / alpha, nu, alpha, rtol)
    within = ~np.isnan(found[0])  # others need more nodes than are worth it
    assert within.sum() >= len(AT_SCALE) - 1
    for got, value in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got[within], value[within], rtol=rtol)


# 4βt, α, ν, 1 − F₁, F₁ − F₂ below the scales of the tables, by the same integrals at 30 digits.
FAR_BELOW = [
    (8e-19, 0.56, 0.02, 9.0789555986923868e-11, 1.0228082712937137e-9),
    (1e-15, 0.4, 1.7, 1.0119286538462952e-6, 8.336542095818977e-7),
    (1e-15, 0.6, 0.1, 1.332465867178795e-9, 6.0789861702908561e-9),
    (1e-18, 0.95, 0.1, 6.886556943034537e-17, 6.1777421987713936e-16),
    (1e-18, 1.1, 3.0, 4.9184130765609637e-18, 1.6437935550292239e-18),
    (1e-20, 0.3, 10000.0, 9.5002858203705362e-7, 5.9334296002325484e-7),
]


def test_far_below_the_tables_powers_of_the_scale_continue():
    x, alpha, nu, lack, gap = np.asarray(FAR_BELOW).T
    parts = evidential.at_scale(x[None] / 4, nu[:, None], alpha[:, None], np.ones((len(x), 1)))
    np.testing.assert_allclose(2 * parts.aleatoric[0], lack, rtol=1e-8)
    np.testing.assert_allclose(parts.epistemic[0], gap, rtol=1e-8)


def exact_transforms(t, nu, alpha, beta):
    """F₁ by Tricomi's function, F₂ by Bessel's, neither of which the code knows."""
    t, nu, alpha, beta = map(mp.mpf, (t, nu, alpha, beta))
    f1 = mp.gamma(alpha + HALF) / mp.gamma(alpha) * mp.hyperu(HALF, 1 - alpha, 4 * beta * t)
    x = 2 * beta * t * (1 + 1 / nu)

    def integrand(u):
        z = x * u * u
        psi = 2 * z ** (alpha / 2) * mp.besselk(alpha, 2 * mp.sqrt(z)) / mp.gamma(alpha)
        return mp.exp(-u * u) * psi**2

    return f1, 2 / mp.sqrt(mp.pi) * mp.quad(integrand, [mp.mpf(10) ** -12, 0.3, 1, 3, 6])


def test_independent_coordinates_multiply():
    nu, alpha, beta, t = [1.7, 0.5], [3.25, 2.5], [2.0, 0.5], 0.25
    with mp.workdps(18):
        transforms = [exact_transforms(t, *p) for p in zip(nu, alpha, beta, strict=True)]
        within, between = (float(mp.fprod(column)) for column in zip(*transforms, strict=True))
    parts = evidential.at_scale(np.asarray([t]), *map(np.asarray, (nu, alpha, beta)), 1e-10)
    np.testing.assert_allclose(
        [p[0] for p in parts], [(1 - within) / 2, within - between, within], rtol=1e-10
    )


def test_small_scales_reach_the_moments():
    # E‖X−X'‖² within a member is 2β/(α−1); it grows by 1 + 1/ν between members.
    nu, alpha, beta = np.asarray([0.5, 30.0]), np.asarray([5.0, 1e5]), np.asarray([2.0, 3e5])
    t = np.asarray([1e-13, 1e-30, 1e-200])
    au, eu, _ = evidential.at_scale(t, nu, alpha, beta, 1e-10)
    within = 2 * beta / (alpha - 1)
    np.testing.assert_allclose(au, t * np.sum(within) / 2, rtol=1e-10)
    np.testing.assert_allclose(eu, t * np.sum(within / nu), rtol=1e-10)


@given(log_t=st.floats(-40, 40), log_nu=st.floats(-6, 20), log_alpha=st.floats(-0.59, 13.8))
def test_preset_tolerances_agree(log_t, log_nu, log_alpha):
    t, nu, alpha = (np.exp(np.asarray([v])) for v in (log_t, log_nu, log_alpha))
    fine = evidential.at_scale(t, nu, alpha, np.ones(1), 1e-12)
    for rtol in (1e-5, 1e-8):
        for got, wanted in zip(
            evidential.at_scale(t, nu, alpha, np.ones(1), rtol), fine, strict=True
        ):
            np.testing.assert_allclose(got, wanted, rtol=1.5 * rtol)


def test_shapes_and_shared_tables():
    rng = np.random.default_rng(0)
    nu, alpha, beta = rng.exponential(size=(3, 2, 5, 7)) + 0.6
    t = rng.exponential(size=(11, 2, 5))
    parts = evidential.at_scale(t, nu, alpha, beta)
    assert [p.shape for p in parts] == [(11, 2, 5)] * 3
    shared = evidential.at_scales(nu, alpha, beta)
    for got, wanted in zip(shared(t[4:]), parts, strict=True):
        np.testing.assert_allclose(got, wanted[4:], rtol=1e-13)
    single = evidential.at_scale(t[:, 1, 2], nu[1, 2], alpha[1, 2], beta[1, 2])
    for got, wanted in zip(single, parts, strict=True):
        np.testing.assert_allclose(got, wanted[:, 1, 2], rtol=1e-13)


# Array libraries and gradients.

NU = np.asarray([[1.7, 1e9, 0.1], [30.0, 1e-3, 2.0]])
ALPHA = np.asarray([[3.2, 1.5, 1.2], [1e6, 40.0, 2.0]])
BETA = np.asarray([[2.0, 0.5, 1.0], [3e5, 1e-3, 7.0]])
SCALES = np.asarray([[1e-14, 1e-9], [0.3, 2.0], [1e4, 1e17]])


def at_scale(nu, alpha, beta):
    return evidential.at_scale(from_numpy(SCALES, nu), nu, alpha, beta, 1e-10)


def energy(nu, alpha, beta):
    return evidential.energy(nu, alpha, beta, 1.3)


FORMULAS = [at_scale, energy, evidential.squared, evidential.log]


@pytest.fixture
def jax():
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield jax
    jax.config.update("jax_enable_x64", before)


@functools.cache
def logarithmic_differences(formula) -> list[np.ndarray]:
    """d Σ log part / d log parameter by central differences, for NU, ALPHA and BETA."""
    like = formula(NU, ALPHA, BETA)
    gradients = []
    for which in range(3):
        gradient = np.empty_like(NU)
        for index in np.ndindex(NU.shape):
            sides = []
            for step in (1e-5, -1e-5):
                params = [NU.copy(), ALPHA.copy(), BETA.copy()]
                params[which][index] *= math.exp(step)
                parts = zip(formula(*params), like, strict=True)
                sides.append(sum(float(np.sum(part / scale)) for part, scale in parts))
            gradient[index] = (sides[0] - sides[1]) / 2e-5
        gradients.append(gradient)
    return gradients


@pytest.mark.parametrize("formula", FORMULAS)
def test_torch_agrees_and_differentiates(formula):
    torch = pytest.importorskip("torch")
    wanted = formula(NU, ALPHA, BETA)
    params = [torch.tensor(p, requires_grad=True) for p in (NU, ALPHA, BETA)]
    parts = formula(*params)
    for got, value in zip(parts, wanted, strict=True):
        np.testing.assert_allclose(got.detach().numpy(), value, rtol=2e-13)
    total = sum((got / torch.tensor(v)).sum() for got, v in zip(parts, wanted, strict=True))
    total.backward()
    for p, numeric in zip(params, logarithmic_differences(formula), strict=True):
        np.testing.assert_allclose((p.grad * p.detach()).numpy(), numeric, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("formula", FORMULAS)
def test_jax_agrees_compiled_and_differentiates(formula, jax):
    wanted = formula(NU, ALPHA, BETA)
    params = [jax.numpy.asarray(p) for p in (NU, ALPHA, BETA)]

    def total(*parameters):
        parts = formula(*parameters)
        return sum((got / v).sum() for got, v in zip(parts, wanted, strict=True)), parts

    gradient_of_total = jax.jit(jax.value_and_grad(total, argnums=(0, 1, 2), has_aux=True))
    quickly = {"xla_backend_optimization_level": 0}
    compiled = gradient_of_total.lower(*params).compile(compiler_options=quickly)
    (_, parts), gradients = compiled(*params)
    for got, value in zip(parts, wanted, strict=True):
        # Compiled tables are longer, since alpha cannot be read: another rule of accuracy 1e-10.
        np.testing.assert_allclose(np.asarray(got), value, rtol=1e-10)
    numeric = logarithmic_differences(formula)
    for gradient, p, n in zip(gradients, params, numeric, strict=True):
        np.testing.assert_allclose(np.asarray(gradient * p), n, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("formula", FORMULAS)
def test_gradients_are_finite_where_moments_are_not(formula):
    torch = pytest.importorskip("torch")
    alpha = np.asarray([[0.2, 0.5, 0.65], [1.0, 1.3, 2.0]])  # edges of existence
    params = [torch.tensor(p, requires_grad=True) for p in (NU, alpha, BETA)]
    parts = formula(*params)
    assert not any(torch.isnan(part).any() for part in parts)
    sum(part[torch.isfinite(part)].sum() for part in parts).backward()
    for p in params:
        assert torch.isfinite(p.grad).all()


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_float32_stays_float32(formula, library):
    params = [p.astype(np.float32) for p in (NU, ALPHA, BETA)]
    wanted = formula(*(p.astype(np.float64) for p in params))
    module = pytest.importorskip(library)
    if library == "jax":  # XLA rewrites quotients, which once moved a scale off its bound
        parts = module.jit(formula)(*map(module.numpy.asarray, params))
    else:
        parts = formula(*map(module.asarray, params))
    for got, value in zip(parts, wanted, strict=True):
        assert str(got.dtype).endswith("float32")
        np.testing.assert_allclose(np.asarray(got), value, rtol=1e-5)
