"""Mixtures, low-rank normals and draws that agree to 1e-9, and draws far from the origin."""

from __future__ import annotations

import itertools

import high_precision as hp
import numpy as np
import pytest
from cases import DISTRIBUTIONS, KERNELS, moved
from high_precision import exact, mp, mpf
from numpy.random import default_rng
from scipy import integrate

import kuq

SCALAR = ["squared", "energy", "energy-1.6", "crps", "gaussian", "laplace", "matern-1.5", "imq",
          "rational", "matern-0.8"]  # fmt: skip
BY_NAME = {case.name: case for case in KERNELS}
GAPS = (1e-4, 1e-9)
scalar_kernels = pytest.mark.parametrize("name", SCALAR)
kernels = pytest.mark.parametrize("kernel", KERNELS, ids=str)


def expectation(name):
    return hp.closed(name) if name in hp.CLOSED else hp.on_grid(name)


# Mixtures with matched components, to 1e-6.

WEIGHTS, LOC, SCALE = (
    np.array([0.2, 0.5, 0.3]),
    np.array([-1.0, 0.2, 1.5]),
    np.array([0.5, 0.8, 1.1]),
)
CHANGES = {
    "loc": (0.0, 1.0, 0.0),
    "scale": (0.0, 0.0, 1.0),
    "all": (1.0, 1.0, 1.0),
    "weights": (1.0, 0.0, 0.0),
}


def changed(gap, kind):
    """Parameters of a mixture that differ by about ``gap``."""
    a, b, c = (gap * x for x in CHANGES[kind])
    weights = WEIGHTS + a * np.array([0.3, -0.5, 0.2])
    return weights, LOC + b * np.array([0.7, -0.4, 0.5]), SCALE + c * np.array([-0.6, 0.3, 0.9])


def signed_form(e, first, second):
    """D = −½ Σ c_i c_j a_ij over the components of both, with weights c = (w, −v)."""
    total = [sum(map(exact, law[0])) for law in (first, second)]
    rows = [
        (sign * exact(w) / whole, exact(m), exact(s))
        for sign, whole, law in ((1, total[0], first), (-1, total[1], second))
        for w, m, s in zip(*law, strict=True)
    ]
    pairs = itertools.product(rows, rows)
    return -sum(c * k * e(abs(m - n), s * s + t * t) for (c, m, s), (k, n, t) in pairs) / 2


@scalar_kernels
@pytest.mark.parametrize("kind", CHANGES)
def test_mixtures_that_nearly_agree(name, kind):
    if name == "squared" and kind == "scale":
        return
    first = (WEIGHTS, LOC, SCALE)
    for gap in GAPS if name in hp.CLOSED else GAPS[1:]:
        second = changed(gap, kind)
        expected = signed_form(expectation(name), first, second)
        p, q = kuq.NormalMixture(*first), kuq.NormalMixture(*second)
        d = float(kuq.divergence(p, q, BY_NAME[name].build(1.0)))
        np.testing.assert_allclose(d, float(expected), rtol=1e-6)
        eu = float(kuq.decompose(kuq.Ensemble([p, q]), BY_NAME[name].build(1.0)).epistemic)
        np.testing.assert_allclose(eu, float(expected), rtol=1e-6)


def test_product_mixtures_that_nearly_agree():
    """Two coordinates, the Gaussian kernel: affinities multiply."""
    for gap in GAPS:
        laws = [[(WEIGHTS, LOC, SCALE)] * 2, [changed(gap, "all"), changed(gap, "loc")]]
        affinity = {
            (i, j): mp.fprod(-_pair_sum(laws[i][k], laws[j][k]) for k in range(2))
            for i, j in ((0, 0), (0, 1), (1, 1))
        }
        expected = (affinity[0, 0] + affinity[1, 1]) / 2 - affinity[0, 1]
        p, q = (
            kuq.NormalMixture(*(np.stack(x) for x in zip(*law, strict=True)), event_ndim=1)
            for law in laws
        )
        d = float(kuq.divergence(p, q, kuq.Gaussian(1.0)))
        np.testing.assert_allclose(d, float(expected), rtol=1e-6)


def _pair_sum(first, second):
    rows = [[tuple(map(exact, row)) for row in zip(*law, strict=True)] for law in (first, second)]
    whole = [sum(row[0] for row in law) for law in rows]
    return sum(
        w * v * hp.gaussian(m - n, s * s + t * t)
        for (w, m, s), (v, n, t) in itertools.product(*rows)
    ) / (whole[0] * whole[1])


@pytest.mark.parametrize("gap", [1e-5, 1e-9])
def test_log_score_of_mixtures_that_nearly_agree(gap):
    """KL of a small translation is ½ δ² ∫ f'²/f."""

    def fisher(x):
        z = (x - LOC) / SCALE
        parts = WEIGHTS * np.exp(-z * z / 2) / SCALE / np.sqrt(2 * np.pi)
        return (parts * z / SCALE).sum() ** 2 / parts.sum()

    information = integrate.quad(fisher, -9, 9, epsabs=0, limit=200, points=list(LOC))[0]
    p, q = (kuq.NormalMixture(WEIGHTS, LOC + x, SCALE) for x in (0.0, gap))
    steps = (LOC + gap) - LOC
    assert np.ptp(steps) < 1e-6 * gap
    d = float(kuq.divergence(p, q, kuq.LogScore()))
    np.testing.assert_allclose(d, gap**2 * information / 2, rtol=1e-4)


# Low-rank normals, to 1e-6.

PLACE, FACTOR, DIAG = (
    default_rng(8).normal(size=3),
    default_rng(9).normal(size=(3, 2)),
    np.array([0.3, 0.5, 0.2]),
)


def low_rank(gap, kind):
    steps = {"loc": (1, 0, 0), "factor": (0, 1, 0), "diag": (0, 0, 1), "all": (1, 1, 1)}[kind]
    rng = np.random.default_rng(4)
    return (
        PLACE + gap * steps[0] * rng.normal(size=3),
        FACTOR + gap * steps[1] * rng.normal(size=(3, 2)),
        DIAG + gap * steps[2] * rng.uniform(size=3),
    )


def _covariance(factor, diag):
    u = mp.matrix(3, 2)
    for i, j in np.ndindex(3, 2):
        u[i, j] = exact(factor[i, j])
    out = u * u.T
    for i in range(3):
        out[i, i] += exact(diag[i])
    return out


def _spectrum(p, q):
    """Eigenvalues of the sum of covariances, and the squared gap along each eigenvector."""
    values, vectors = mp.eigsy(_covariance(*p[1:]) + _covariance(*q[1:]))
    gap = [exact(a) - exact(b) for a, b in zip(p[0], q[0], strict=True)]
    return [(values[k], sum(vectors[i, k] * gap[i] for i in range(3)) ** 2) for k in range(3)]


def _affinity(t, spectrum):
    log = -sum(mp.log1p(2 * t * v) / 2 + t * g / (1 + 2 * t * v) for v, g in spectrum)
    return mp.exp(log)


@pytest.mark.parametrize("kind", ["loc", "factor", "diag", "all"])
@pytest.mark.parametrize("gap", [1e-5, 1e-9])
def test_low_rank_normals_that_nearly_agree(gap, kind):
    first, second = (PLACE, FACTOR, DIAG), low_rank(gap, kind)
    p, q = kuq.LowRankNormal(*first), kuq.LowRankNormal(*second)
    spectra = [_spectrum(first, second), _spectrum(first, first), _spectrum(second, second)]

    def divergence_at(t):
        cross, self_p, self_q = (_affinity(t, s) for s in spectra)
        return self_p / 2 + self_q / 2 - cross

    expected = float(divergence_at(mpf(1)))
    np.testing.assert_allclose(float(kuq.divergence(p, q, kuq.Gaussian(1.0))), expected, rtol=1e-6)
    # |x| = ∫ (1 − e^{−t x²}) t^{−½} d(log t) / (2√π)
    step = mpf("0.4")
    nodes = [mp.exp(step * n) for n in range(-110, 110)]
    expected = step * sum(divergence_at(t) / mp.sqrt(t) for t in nodes) / (2 * mp.sqrt(mp.pi))
    np.testing.assert_allclose(
        float(kuq.divergence(p, q, kuq.Energy())), float(expected), rtol=1e-6
    )
    u = kuq.decompose(kuq.Ensemble([p, q]), kuq.Energy())
    np.testing.assert_allclose(float(u.epistemic), float(expected), rtol=1e-6)


# Draws.


def _k(name, r):
    return {
        "squared": lambda: r * r,
        "energy": lambda: r,
        "energy-0.5": lambda: mp.sqrt(r),
        "energy-1.6": lambda: r ** mpf(1.6),
        "gaussian": lambda: -mp.exp(-r * r),
        "laplace": lambda: -mp.exp(-r),
        "matern-1.5": lambda: -(1 + mp.sqrt(3) * r) * mp.exp(-mp.sqrt(3) * r),
        "imq": lambda: -1 / mp.sqrt(1 + r * r),
        "rational": lambda: -((1 + r * r) ** mpf(-1.3)),
    }[name]()


def _mean_kernel(name, x, y):
    total = mpf(0)
    for a, b in itertools.product(x, y):
        r2 = sum((exact(s) - exact(t)) ** 2 for s, t in zip(a, b, strict=True))
        total += _k(name, mp.sqrt(r2))
    return total / (len(x) * len(y))


@pytest.mark.parametrize("dimension", [1, 2])
@pytest.mark.parametrize("gap", [1e-5, 1e-9])
@pytest.mark.parametrize("name", ["squared", "energy", "energy-0.5", "energy-1.6", "gaussian",
                                  "laplace", "matern-1.5", "imq", "rational"])  # fmt: skip
def test_draws_that_nearly_agree(name, gap, dimension):
    """Plug-in D of two sets of draws that differ by about ``gap``."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(6, dimension))
    y = x + gap * rng.normal(size=x.shape)
    a, b, c = (_mean_kernel(name, *pair) for pair in ((x, x), (y, y), (x, y)))
    expected = float(c - a / 2 - b / 2)
    p, q = kuq.Samples(x, 1), kuq.Samples(y, 1)
    d = float(kuq.divergence(p, q, BY_NAME[name].build(1.0), unbiased=False))
    rtol = max(1e-6, 1e-14 / gap)  # differences of numbers near one, to ten times the precision
    np.testing.assert_allclose(d, expected, rtol=rtol)
    for members in ([p, q], kuq.Samples(np.stack([x, y]), 1)):
        u = kuq.decompose(kuq.Ensemble(members), BY_NAME[name].build(1.0), unbiased="members")
        np.testing.assert_allclose(float(u.epistemic), expected, rtol=rtol)


@kernels
@pytest.mark.parametrize("unbiased", [True, False])
def test_draws_at_an_offset_of_a_billion(kernel, unbiased):
    """x − 1e9 is exact in float64, so the same draws near the origin give the same digits."""
    rng = np.random.default_rng(8)
    far = 1e9 + rng.normal(size=(3, 4, 7, 2))
    results = [
        kuq.decompose(kuq.Ensemble(kuq.Samples(v, 1)), kernel.build(1.0), unbiased=unbiased)
        for v in (far, far - 1e9)
    ]
    np.testing.assert_allclose(results[0].aleatoric, results[1].aleatoric, rtol=1e-11)
    np.testing.assert_allclose(results[0].epistemic, results[1].epistemic, rtol=1e-10)


@kernels
@pytest.mark.parametrize("law", DISTRIBUTIONS, ids=str)
def test_every_law_at_an_offset_of_a_billion(kernel, law):
    """Parameters that are multiples of 2^-20 move by 1e9 without rounding."""
    rng = np.random.default_rng(6)
    batch = (2, 1) if law.name == "student" else (3, 2)
    near = law.build(rng, batch, (2,))
    name = next(n for n in ("loc", "values", "value") if hasattr(near, n))
    setattr(near, name, np.round(getattr(near, name) * 2**20) / 2**20)
    options = {"unbiased": False, "rtol": 1e-3 if law.name == "student" else 1e-8}
    here, there = (
        kuq.decompose(kuq.Ensemble(moved(near, shift=s)), kernel.build(1.0), **options)
        for s in (0.0, 1e9)
    )
    np.testing.assert_allclose(there.aleatoric, here.aleatoric, rtol=1e-10)
    np.testing.assert_allclose(there.epistemic, here.epistemic, rtol=1e-10)


@kernels
def test_equal_draws_and_ties(kernel):
    """Draws that coincide, within a member and between members."""
    x = np.zeros((3, 5, 1))
    x[2, 3:] = 2.0
    u = kuq.decompose(kuq.Ensemble(kuq.Samples(x, 1)), kernel.build(1.0), unbiased=False)
    same = kuq.decompose(kuq.Ensemble(kuq.Samples(x[:2], 1)), kernel.build(1.0))
    assert (float(same.aleatoric), float(same.epistemic)) == (0.0, 0.0)
    assert float(u.epistemic) > 0


@pytest.mark.parametrize("nu", [1.5, 2.5])
def test_draws_that_are_close_for_a_matern_kernel(nu):
    """1 − k is (ν / (2ν − 2)) r² there, in compiled code and outside."""
    values = np.asarray([0.0, 1.0, 3.0, 7.0])
    want = nu / (2 * nu - 2) * np.mean((values[:, None] - values) ** 2) / 2 * 1e-20
    for mode in (True, False):
        with kuq.compiled(mode):
            found = kuq.entropy(kuq.Samples(values), kuq.Matern(1e10, nu), unbiased=False)
        np.testing.assert_allclose(found, want, rtol=2e-9)
