"""Numbers at the ends of the range of floats, and kernels at the ends of their parameters."""

from __future__ import annotations

import numpy as np
import pytest
from high_precision import absolute_power, divergence, exact, mp, mpf

import kuq

SIZES = (1e-300, 1e-200, 1e160, 1e300)


@pytest.mark.parametrize("size", SIZES)
def test_log_score_of_normals(size):
    """KL does not depend on the unit; powers of two would, too, but are no test of rounding."""

    def epistemic(c):
        ensemble = kuq.Ensemble(kuq.Normal(np.array([0.0, 1.0, 3.0]) * c, np.array([1, 2, 5]) * c))
        return float(kuq.decompose(ensemble, kuq.LogScore()).epistemic)

    assert epistemic(size) == pytest.approx(epistemic(1.0), rel=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_median_bandwidths(size):
    assert kuq.median_bandwidth(np.array([0.0, 1.0, 3.0]) * size) == pytest.approx(
        2 * size, rel=1e-12, abs=0
    )
    ensemble = kuq.Ensemble(kuq.Normal(np.array([0.0, 1.0]) * size, size))
    found = kuq.decompose(ensemble, kuq.Gaussian("median")).score.bandwidth
    assert found == pytest.approx(3**0.5 * size, rel=1e-12, abs=0)


def test_variance_of_a_mixture_far_from_zero():
    law = kuq.NormalMixture([0.3, 0.7], np.array([7e13, 7e13 + 1]), [1.0, 2.0])
    wanted = 0.3 + 0.7 * 4 + 0.21
    assert float(law.variance()) == pytest.approx(wanted, rel=1e-14)
    assert float(kuq.entropy(law, kuq.SquaredError())) == pytest.approx(wanted, rel=1e-14)


@pytest.mark.parametrize("beta", [1.99, 1.999999, 1.999999999, 1e-3])
def test_energy_at_the_ends_of_its_power(beta):
    def expectation(delta, variance):
        return absolute_power(exact(beta), delta, variance)

    kernel = kuq.Energy(beta)
    entropy = float(expectation(0, 2) / 2)
    assert float(kuq.entropy(kuq.Normal(0.0, 1.0), kernel)) == pytest.approx(entropy, rel=1e-8)
    for q in ((1.0, 1.0), (0.0, 2.0)):
        wanted = float(divergence(expectation, (0.0, 1.0), q))
        found = float(kuq.divergence(kuq.Normal(0.0, 1.0), kuq.Normal(*q), kernel))
        assert found == pytest.approx(wanted, rel=1e-8, abs=0)


@pytest.mark.parametrize("alpha", [300.0, 3000.0, 1e6])
def test_narrow_kernels(alpha):
    """(1 + z²/α)^(−α) of a normal variate by mpmath; a Matérn kernel is close to exp(−r²/2)."""
    with mp.workdps(25):

        def lack(z):
            return (1 - (1 + z * z / mpf(alpha)) ** (-mpf(alpha))) * mp.npdf(z, 0, mp.sqrt(2))

        wanted = float(mp.quad(lack, [-20, -5, -1, 0, 1, 5, 20]) / 2)
    rational = kuq.RationalQuadratic(alpha**0.5, alpha)
    found = float(kuq.entropy(kuq.Normal(0.0, 1.0), rational))
    assert found == pytest.approx(wanted, rel=1e-9)
    for law in (kuq.Normal(0.0, 1.0), kuq.NormalMixture([0.5, 0.5], [0.0, 1.0], 1.0)):
        found = float(kuq.entropy(law, kuq.Matern(1.0, alpha)))
        limit = float(kuq.entropy(law, kuq.Gaussian(2**0.5)))
        assert found == pytest.approx(limit, rel=2 / alpha)


NARROW = {
    "gaussian": kuq.Gaussian,
    "laplace": kuq.Laplace,
    "imq": kuq.InverseMultiquadric,
    "matern-0.3": lambda g: kuq.Matern(g, 0.3),
    "matern-1.5": kuq.Matern,
}
WEIGHTS = np.array([[0.5, 0.5], [0.3, 0.7]])
CORNERS = np.array([[0.0, 1.0], [1.0, 0.5]])
WIDTHS = np.array([[1.0, 2.0], [0.5, 1.0]])
LAWS = {
    "normal": lambda: kuq.Ensemble(kuq.Normal(CORNERS[0], WIDTHS[0])),
    "normal vector": lambda: kuq.Ensemble(kuq.Normal(CORNERS, WIDTHS, 1)),
    "mixture": lambda: kuq.Ensemble(kuq.NormalMixture(WEIGHTS, CORNERS, WIDTHS)),
    "student-t": lambda: kuq.Ensemble(kuq.StudentT([1.5, 3.0], CORNERS[0], WIDTHS[0])),
    "low rank": lambda: kuq.Ensemble(kuq.LowRankNormal(CORNERS, CORNERS[..., None], WIDTHS)),
    "evidential": lambda: kuq.NormalInverseGamma(0.0, 1.0, 2.0, 1.0),
    "evidential vector": lambda: kuq.NormalInverseGamma(np.zeros(2), 1.0, 2.0, 1.0, 1),
}


@pytest.mark.parametrize("ratio", [1e100, 1e160, 1e300])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("law", LAWS)
def test_laws_much_wider_or_narrower_than_the_kernel(law, compiled, ratio):
    """No affinity is left, or nothing but it."""
    with kuq.compiled(compiled):
        for kernel in NARROW.values():
            narrow = kuq.decompose(LAWS[law](), kernel(1 / ratio), rtol=1e-6)
            assert float(narrow.aleatoric) == pytest.approx(0.5, rel=1e-6)  # rtol
            assert 0 <= float(narrow.epistemic) < 1e-12
            wide = kuq.decompose(LAWS[law](), kernel(ratio), rtol=1e-6)
            assert abs(float(wide.aleatoric)) < 1e-15  # sums over components round to this
            assert abs(float(wide.epistemic)) < 1e-15
