"""Scalar mixtures with components from 1e-3 to 1e3 wide, by plain sums over pairs of components."""

from __future__ import annotations

import math

import numpy as np
import pytest

import kuq

STEP = 0.05
V = np.arange(-420, 120, STEP)


def over_scales(log_density):
    """E (k − k₀) of N(δ, variance) as a sum over Gaussian kernels; every term is positive."""
    weight = STEP * np.exp(log_density(V))
    t, weight = np.exp(V[weight > 1e-300]), weight[weight > 1e-300]

    def expected(delta, variance):
        c = 2 * t * variance[..., None]
        return -np.expm1(-t * delta[..., None] ** 2 / (1 + c) - np.log1p(c) / 2) @ weight

    return expected


def gamma(alpha):
    return over_scales(lambda v: alpha * v - np.exp(v) - math.lgamma(alpha))


def inverse_gamma(nu):
    def log_density(v):
        x = math.log(nu / 2) - v
        with np.errstate(over="ignore"):
            return nu * x - np.exp(x) - math.lgamma(nu)

    return over_scales(log_density)


def power(beta):
    """E|Z|^β: r^β = b/Γ(1−b) ∫ (1 − e^{−tr²}) t^{−b} dv, b = β/2."""
    b = beta / 2
    return over_scales(lambda v: math.log(b) - math.lgamma(1 - b) - b * v)


def gaussian(delta, variance):
    return -np.expm1(-(delta**2) / (1 + 2 * variance) - np.log1p(2 * variance) / 2)


KERNELS = {
    "gaussian": (kuq.Gaussian(1.0), gaussian),
    "imq": (kuq.InverseMultiquadric(1.0), gamma(0.5)),
    "rational": (kuq.RationalQuadratic(1.0, 2.0), gamma(2.0)),
    "laplace": (kuq.Laplace(1.0), inverse_gamma(0.5)),
    "matern-1.5": (kuq.Matern(1.0, 1.5), inverse_gamma(1.5)),
    "matern-3.3": (kuq.Matern(1.0, 3.3), inverse_gamma(3.3)),
    "energy-0.7": (kuq.Energy(0.7), power(0.7)),
    "energy-1.6": (kuq.Energy(1.6), power(1.6)),
}


def law(rng, count):
    scale = 10 ** rng.uniform(-3, 3, count)
    return rng.dirichlet(np.ones(count)), rng.normal(size=count) * 10 ** rng.uniform(-2, 2), scale


@pytest.mark.parametrize("name", KERNELS)
def test_mixtures(name, trials):
    kernel, expected = KERNELS[name]

    def mean(p, q):
        (w, m, s), (v, n, t) = p, q
        pairs = expected(m[:, None] - n, s[:, None] ** 2 + t**2)
        return float(w @ pairs @ v)

    for i in range(trials(100)):
        rng = np.random.default_rng(i)
        count = int(rng.integers(1, 4))
        p, q = law(rng, count), law(rng, count)
        y = rng.normal()
        at = (np.ones(1), np.array([y]), np.zeros(1))
        pp, qq, pq = mean(p, p), mean(q, q), mean(p, q)
        wanted = {
            "entropy": pp / 2,
            "divergence": pq - pp / 2 - qq / 2,
            "score": mean(p, at) - pp / 2,
            "aleatoric": (pp + qq) / 4,
            "epistemic": pq - pp / 2 - qq / 2,
        }
        left, right = kuq.NormalMixture(*p), kuq.NormalMixture(*q)
        both = kuq.NormalMixture(*(np.stack(x) for x in zip(p, q, strict=True)))
        u = kuq.decompose(kuq.Ensemble(both), kernel)
        found = {
            "entropy": kuq.entropy(left, kernel),
            "divergence": kuq.divergence(left, right, kernel),
            "score": kuq.score(left, y, kernel),
            "aleatoric": u.aleatoric,
            "epistemic": u.epistemic,
        }
        for part, value in wanted.items():
            # rtol is 1e-8; the sums cancel in differences of them.
            room = 1e-13 * max(pp, qq, pq)
            assert float(found[part]) == pytest.approx(value, rel=1e-8, abs=room), (i, part)
