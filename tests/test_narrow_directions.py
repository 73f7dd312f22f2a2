"""Laws that are much narrower in one direction than in another, or have no width there at all.

Kernels without a closed form are integrals over scales, which have to reach the narrowest one: a
width, or the distance of two point masses.
"""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gamma, hyp1f1

import kuq

BETA = 0.7
#: Ten times the relative accuracy that is asked for by default.
RTOL = 1e-7


def absolute_moment(distance, scale):
    """E|X − y|^BETA for a normal X at this distance from y."""
    if scale == 0:
        return abs(distance) ** BETA
    constant = (np.sqrt(2) * scale) ** BETA * gamma((1 + BETA) / 2) / np.sqrt(np.pi)
    return constant * hyp1f1(-BETA / 2, 0.5, -((distance / scale) ** 2) / 2)


def expected(p, q):
    pairs = ((a, b) for a in zip(*p, strict=True) for b in zip(*q, strict=True))
    return sum(v * w * absolute_moment(x - y, np.hypot(s, t)) for (v, x, s), (w, y, t) in pairs)


@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-6])
def test_mixtures_with_point_masses(gap):
    p = ([0.4, 0.3, 0.3], [0.0, 0.0, gap], [1.0, 0.0, 0.0])
    law, score = kuq.NormalMixture(*map(np.asarray, p)), kuq.Energy(BETA)
    entropy = expected(p, p) / 2
    np.testing.assert_allclose(kuq.entropy(law, score), entropy, rtol=RTOL)
    for y in (gap / 3, 2 * gap):
        want = expected(p, ([1.0], [y], [0.0])) - entropy
        np.testing.assert_allclose(kuq.score(law, y, score), want, rtol=RTOL)


def energy_divergence(gap):
    """D of two normals with scales (1, 0) at this distance along the second coordinate."""

    def integrand(u):  # over the logarithm of |Z|; the difference of roots without cancellation
        z = np.exp(u)
        roots = np.sqrt(2 * z * z + gap * gap) + np.sqrt(2) * z
        return z * np.exp(-z * z / 2) * np.sqrt(2 / np.pi) * gap * gap / roots

    return quad(integrand, -40, 3, points=[np.log(gap), 0], epsabs=0, epsrel=1e-11, limit=500)[0]


@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("kind", ["normal", "low-rank"])
def test_directions_without_width(kind, gap):
    def law(loc):
        if kind == "normal":
            return kuq.Normal(loc, np.asarray([1.0, 0.0]), event_ndim=1)
        return kuq.LowRankNormal(loc, np.asarray([[1.0], [0.0]]), np.zeros(2))

    p, q = law(np.zeros(2)), law(np.asarray([0.0, gap]))
    np.testing.assert_allclose(
        kuq.divergence(p, q, kuq.Energy()), energy_divergence(gap), rtol=RTOL
    )


@pytest.mark.parametrize("width", [1e-1, 1e-3, 1e-5])
@pytest.mark.parametrize("score", [kuq.Energy(0.7), kuq.Laplace(0.5), kuq.Laplace(1e-3)], ids=repr)
def test_factors_alone_are_as_normals(width, score):
    scale, loc = np.asarray([1.0, width]), np.asarray([0.0, width])
    low_rank = [kuq.LowRankNormal(x, np.diag(scale), np.zeros(2)) for x in (0 * loc, loc)]
    normal = [kuq.Normal(x, scale, event_ndim=1) for x in (0 * loc, loc)]
    for measure in (lambda p, _: kuq.entropy(p, score), lambda p, q: kuq.divergence(p, q, score)):
        np.testing.assert_allclose(measure(*low_rank), measure(*normal), rtol=RTOL)
