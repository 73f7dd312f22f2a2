"""Heavy tails, and components whose scales differ by any factor, against independent values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from high_precision import mp, mpf
from libraries import opened, to_numpy
from scipy import integrate, special, stats

import kuq


def test_a_mixture_does_not_depend_on_the_order_of_its_components():
    p = kuq.NormalMixture([0.5, 0.5], [0.0, 0.0], [100.0, 0.1])
    q = kuq.NormalMixture([0.5, 0.5], [0.0, 0.0], [0.1, 100.0])
    assert abs(float(kuq.divergence(p, q, kuq.Gaussian(1.0)))) < 1e-15


def characteristic(df, x):
    """E cos(xT) of a Student-t law."""
    z = mp.sqrt(df) * x
    return mp.besselk(df / 2, z) * z ** (df / 2) / (mp.gamma(df / 2) * 2 ** (df / 2 - 1))


@pytest.mark.parametrize("df", [1.5, 3.0])
def test_student_t_under_the_gaussian_kernel(df):
    """−exp(−r²) is a mean of −cos(ωr) over ω ~ N(0, 2)."""
    y = 0.3

    def integrand(omega):
        c = characteristic(mpf(df), omega)
        return mp.npdf(omega, 0, mp.sqrt(2)) * ((c * c + 1) / 2 - c * mp.cos(omega * mpf(y)))

    with mp.workdps(20):
        nodes = [mpf("1e-8"), mpf("1e-4"), mpf("0.01"), mpf("0.1"), 1, 3, 9]
        wanted = float(2 * mp.quad(integrand, nodes))
    found = float(kuq.score(kuq.StudentT(df, 0.0, 1.0), y, kuq.Gaussian(1.0)))
    assert found == pytest.approx(wanted, rel=1e-8, abs=0)


def test_tilts_that_cancel_between_coordinates():
    """P and Q agree up to a factor where they overlap: large tilts, no gap, in both coordinates."""

    def coordinate(share):  # mostly one point, or mostly far away
        return [share, 1 - share], [0.0, 0.0], [1e-3, 1e9]

    def law(*shares):
        rows = [coordinate(share) for share in shares]
        return kuq.NormalMixture(*map(np.array, zip(*rows, strict=True)), event_ndim=1)

    def affinity(p, q):  # the wide parts do not overlap with anything
        c = 1 / math.sqrt(1 + 4e-6)
        return math.prod(a * b * c for a, b in zip(p, q, strict=True))

    p, q = (1.0, 0.1), (2e-3, 1.0)
    wanted = affinity(p, p) / 2 + affinity(q, q) / 2 - affinity(p, q)
    found = float(kuq.divergence(law(*p), law(*q), kuq.Gaussian(1.0)))
    assert found == pytest.approx(wanted, rel=1e-6)  # 1e9 bandwidths leave 1e-9 of the wide parts


@pytest.mark.parametrize("order", [1, -1])
def test_a_list_of_student_t_laws(order):
    laws = [kuq.StudentT(50.0, 0.0, 1.0), kuq.StudentT(1.5, 0.0, 1.0)][::order]
    kernel = kuq.Laplace(1.0) + kuq.Energy(0.7) + kuq.InverseMultiquadric(2.0)
    together = kuq.Ensemble(kuq.StudentT([50.0, 1.5][::order], 0.0, 1.0))
    found, wanted = kuq.decompose(kuq.Ensemble(laws), kernel), kuq.decompose(together, kernel)
    assert float(found.aleatoric) == pytest.approx(float(wanted.aleatoric), rel=1e-12)
    alone = sum(float(kuq.entropy(law, kernel)) for law in laws) / 2
    assert float(found.aleatoric) == pytest.approx(alone, rel=1e-8)
    assert float(kuq.entropy(kuq.Ensemble(laws), kernel)) == pytest.approx(
        float(kuq.entropy(together, kernel)), rel=1e-12
    )


def absolute_moment(df, beta):
    """E|X − X'|^β of a standard Student-t law, by gamma functions."""
    a, b = mpf(df) / 2, mpf(beta) / 2
    front = 2**b * mp.gamma(b + mpf(1) / 2) / mp.sqrt(mp.pi) * a**b
    return (
        front
        * mp.gamma(2 * a - b)
        * mp.gamma(a - b) ** 2
        / (mp.gamma(2 * a - 2 * b) * mp.gamma(a) ** 2)
    )


@pytest.mark.parametrize(("df", "beta"), [(1.05, 1.0), (1.001, 1.0), (3.0, 1.0), (0.75, 0.7)])
def test_entropy_close_to_the_pole(df, beta):
    wanted = float(absolute_moment(df, beta)) * 2.0**beta / 2
    found = float(kuq.entropy(kuq.StudentT(df, 3.0, 2.0), kuq.Energy(beta)))
    assert found == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize(("df", "rtol"), [(1.001, 1e-9), (1.05, 1e-9), (1.3, 1e-9), (4.0, 1e-9)])
def test_crps_close_to_the_pole(df, rtol):
    """E|T − y| in closed form, less half of E|T − T'|: both are large, their difference is not."""
    y = 0.3
    reach = 2 * stats.t.pdf(y, df) * (df + y * y) / (df - 1)
    wanted = y * (2 * stats.t.cdf(y, df) - 1) + reach - float(absolute_moment(df, 1.0)) / 2
    found = float(kuq.score(kuq.StudentT(df, 0.0, 1.0), y, kuq.CRPS()))
    assert found == pytest.approx(wanted, rel=rtol)


def lack(df, z):
    """1 − E cos(ωT), z = √df ω; the series at small z keeps its digits unless df is even."""
    a, near = df / 2, np.minimum(z, 1.5)
    q = (near / 2) ** 2
    series = sum(
        q**k
        / math.factorial(k)
        * (q**a / special.gamma(k + 1 + a) - (k > 0) / special.gamma(k + 1 - a))
        for k in range(25)
    )
    far = np.maximum(z, 1.5)
    bessel = special.kve(a, far) * np.exp(-far) * far**a / (special.gamma(a) * 2 ** (a - 1))
    return np.where(z < 1.5, special.gamma(1 - a) * series, 1 - bessel)


def energy_divergence(p, q, beta):
    """Γ(1+β) sin(πβ/2)/π ∫ |φ_P − φ_Q|² ω^(−1−β) dω of (df, loc, scale); a point has scale zero."""
    end = math.log(50 / min(law[2] for law in (p, q) if law[2] > 0))
    ends = np.concatenate([np.arange(-90, -3, 0.5), np.linspace(-3, end, 300)])
    nodes, rule = np.polynomial.legendre.leggauss(20)
    half, middle = np.diff(ends)[:, None] / 2, (ends[1:] + ends[:-1])[:, None] / 2
    u = (middle + half * nodes).ravel()
    x, y = (lack(df, math.sqrt(df) * scale * np.exp(u)) for df, _, scale in (p, q))
    turn = 4 * np.sin((p[1] - q[1]) * np.exp(u) / 2) ** 2
    values = ((x - y) ** 2 + (1 - x) * (1 - y) * turn) * np.exp(-beta * u)
    tail = math.exp(-beta * end) / beta if min(p[2], q[2]) == 0 else 0.0
    front = math.gamma(1 + beta) * math.sin(math.pi * beta / 2) / math.pi
    return front * (np.sum(values * (half * rule).ravel()) + tail)


@pytest.mark.parametrize("beta", [0.4, 1.0, 1.5])
@pytest.mark.parametrize("above", [0.001, 0.15])
@pytest.mark.parametrize("other", [(1.5, 0.3, 0.0), (1.0, 0.7, 1.6), (2.3, 0.2, 1.0)])
def test_divergences_close_to_the_pole(beta, above, other):
    """They have no pole: only the moments of which they are differences have."""
    df = beta + above
    q = (df * other[0], *other[1:])
    found = kuq.divergence(
        kuq.StudentT(df, 0.0, 1.0),
        kuq.StudentT(*q) if q[2] else kuq.Point(q[1]),
        kuq.Energy(beta),
    )
    assert float(found) == pytest.approx(energy_divergence((df, 0.0, 1.0), q, beta), rel=1e-8)


def test_scores_of_ensembles_without_moments_are_infinite():
    """And no NaN: both terms of a difference are."""
    ensemble = kuq.Ensemble(kuq.StudentT([[0.8, 3.0], [4.0, 5.0]], 0.0, 1.0))
    found = kuq.score(ensemble, np.array([0.3, 0.1]), kuq.CRPS())
    assert math.isinf(found[0])
    assert math.isfinite(found[1])


@pytest.mark.parametrize(("df", "beta"), [(1.001, 1.0), (1.57, 1.5), (0.9, 0.8), (0.75, 0.7)])
def test_vectors_close_to_the_pole(df, beta):
    """One coordinate has a closed form, and one of scale 1e-40 does not matter beside it."""
    kernel, y = kuq.Energy(beta), 0.3
    vector = kuq.StudentT(df, np.zeros(2), np.array([2.0, 1e-40]), 1)
    alone = kuq.StudentT(df, 0.0, 2.0)
    assert float(kuq.entropy(vector, kernel)) == pytest.approx(
        float(kuq.entropy(alone, kernel)), rel=1e-9
    )
    assert float(kuq.score(vector, np.array([y, 0.0]), kernel)) == pytest.approx(
        float(kuq.score(alone, y, kernel)), rel=1e-8
    )


def test_vectors_without_moments_leave_others_alone():
    law = kuq.StudentT(np.array([[0.9], [3.0]]), np.zeros((2, 2)), 1.0, 1)
    for measure in (kuq.entropy, lambda p, k: kuq.score(p, np.full(p.loc.shape, 0.3), k)):
        found = measure(law, kuq.Energy())
        wanted = measure(kuq.StudentT(3.0, np.zeros((1, 2)), 1.0, 1), kuq.Energy())
        assert math.isinf(found[0])
        assert found[1] == pytest.approx(wanted[0], rel=1e-8)


def test_variance_close_to_the_pole():
    law = kuq.StudentT([2.05, 2.0, 5.0], 0.0, 3.0)
    wanted = [9 * 2.05 / 0.05, math.inf, 15.0]
    np.testing.assert_allclose(kuq.entropy(law, kuq.SquaredError()), wanted, rtol=1e-11)


# Evidential vectors.


def planar_energy(alpha, beta):
    """½E‖Z‖^β of two draws of one member with two coordinates, by a sum over a tensor grid.

    Both coordinates of Z are √(2/α) times a Student-t variate. What the norm lacks of the sum of
    the coordinates converges quickly, and the sum is known.
    """
    step = 0.08
    x = np.exp(np.arange(-40, 200, step))
    share = 2 * stats.t.pdf(x, 2 * alpha) * x * step
    x, share = x[share > 0], share[share > 0]
    small, large = np.minimum.outer(x, x), np.maximum.outer(x, x)
    ratio = small / large
    lack = large**beta * (np.expm1(beta / 2 * np.log1p(ratio * ratio)) - ratio**beta)
    b = beta / 2
    one = 4**b * math.gamma(b + 0.5) / math.sqrt(math.pi)
    one *= math.exp(special.gammaln(alpha - b) - special.gammaln(alpha))
    return one + (2 / alpha) ** b * float(share @ lack @ share) / 2


@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.501, 1.0), (0.55, 1.0), (1.05, 1.0), (1.0, 1.99), (0.3, 0.5)]
)
def test_evidential_vectors_close_to_the_pole(alpha, beta):
    law = kuq.NormalInverseGamma(np.zeros(2), 1.0, alpha, 1.0, 1)
    found = kuq.decompose(law, kuq.Energy(beta))
    assert float(found.aleatoric) == pytest.approx(planar_energy(alpha, beta), rel=1e-8)
    alone = kuq.decompose(kuq.NormalInverseGamma(0.0, 1.0, alpha, 1.0), kuq.Energy(beta))
    assert float(alone.epistemic) < float(found.epistemic) < 2 * float(alone.epistemic)


@pytest.mark.parametrize("d", [1, 2, 4])
def test_a_negligible_coordinate_changes_nothing(d):
    """One coordinate has a closed form, and others of scale 1e-9 do not matter beside it."""
    beta = np.array([1.0] + [1e-18] * (d - 1))
    found = kuq.decompose(
        kuq.NormalInverseGamma(np.zeros(d), 1.0, np.full(d, 0.52), beta, 1), kuq.Energy()
    )
    wanted = kuq.decompose(kuq.NormalInverseGamma(0.0, 1.0, 0.52, 1.0), kuq.Energy())
    for part in ("aleatoric", "epistemic"):
        assert float(getattr(found, part)) == pytest.approx(float(getattr(wanted, part)), rel=1e-7)


@pytest.mark.parametrize("alpha", [0.001, 0.02, 0.1])
def test_evidential_laws_of_small_alpha(alpha):
    """F₁ = Γ(α+½)/Γ(α) U(½, 1−α, 4) at β = 1, γ = 1; F₂ is a mean of ψ² over ω ~ N(0, 4)."""
    with mp.workdps(20):
        a = mpf(alpha)
        f1 = mp.gamma(a + mpf(1) / 2) / mp.gamma(a) * mp.hyperu(mpf(1) / 2, 1 - a, 4)

        def psi(omega):
            return 2 * (omega**2 / 2) ** (a / 2) * mp.besselk(a, mp.sqrt(2) * omega) / mp.gamma(a)

        ends = [mpf(10) ** -k for k in (30, 20, 15, 10, 6, 3, 1)] + [1, 3, 9]
        f2 = 2 * mp.quad(lambda omega: mp.npdf(omega, 0, 2) * psi(omega) ** 2, ends)
    found = kuq.decompose(kuq.NormalInverseGamma(0.0, 1.0, alpha, 1.0), kuq.Gaussian(1.0))
    assert float(found.aleatoric) == pytest.approx(float((1 - f1) / 2), rel=1e-8)
    assert float(found.epistemic) == pytest.approx(float(f1 - f2), rel=1e-7)


# Compiled by JAX, where no value can be read.

KERNELS = {
    "imq": kuq.InverseMultiquadric(1.0),
    "rational": kuq.RationalQuadratic(1.0, 0.1),
    "matern": kuq.Matern(1.0, 1.5),
    "energy": kuq.Energy(0.7),
}


@pytest.mark.parametrize("name", KERNELS)
def test_compiled_evidential_laws(name):
    alpha = np.array([[0.36, 0.8], [2.0, 3.0]])

    def parts(alpha):
        u = kuq.decompose(kuq.NormalInverseGamma(0 * alpha, 1.0, alpha, 1.0, 1), KERNELS[name])
        return u.aleatoric, u.epistemic

    with opened("jax") as jax:
        found = jax.module.jit(parts)(jax.array(alpha))
        for value, wanted in zip(found, parts(alpha), strict=True):
            np.testing.assert_allclose(to_numpy(value), wanted, rtol=1e-8)


@pytest.mark.parametrize("name", ["imq", "energy"])
def test_compiled_student_t_laws(name):
    df = np.array([1.1, 3.0])

    def parts(df):
        p, q = kuq.StudentT(df, 0 * df, 1.0), kuq.StudentT(df + 1, 0 * df + 0.3, 1.5)
        return (
            kuq.entropy(p, KERNELS[name], rtol=1e-5),
            kuq.divergence(p, q, KERNELS[name], rtol=1e-5),
        )

    with opened("jax") as jax:
        found = jax.module.jit(parts)(jax.array(df))
        for value, wanted in zip(found, parts(df), strict=True):
            np.testing.assert_allclose(to_numpy(value), wanted, rtol=1e-5)


@pytest.mark.parametrize(("df", "width"), [(1.0, 1e3), (1.0, 1e5), (3.0, 1e3)])
def test_kernels_far_wider_than_a_heavy_tailed_law(df, width):
    """H = ½ ∫ (1 − cf(w/width)²) dw by the spectral density (2/π)·3^{3/2}/(3 + w²)² of Matérn 3/2.

    Quadratures are asked for 1e-8; ten times that is room for other machines.
    """

    def lack(w: float) -> float:  # 1 − cf² without cancellation, by cf = 1 − lack of cf
        x = math.sqrt(df) * w / width
        if df == 1.0:
            return -math.expm1(-2 * x)
        return -math.expm1(-2 * x + 2 * math.log1p(x))  # (1 + x) e^{−x} for df = 3

    def integrand(v: float) -> float:
        w = math.exp(v)
        return w * 3**1.5 / (3 + w * w) ** 2 * lack(w)

    value, _ = integrate.quad(integrand, -30.0, 40.0, limit=500, epsabs=0, epsrel=1e-11)
    h = kuq.entropy(kuq.StudentT(df, 0.0, 1.0), kuq.Matern(width, 1.5))
    np.testing.assert_allclose(float(h), 2 / math.pi * value, rtol=1e-7)
