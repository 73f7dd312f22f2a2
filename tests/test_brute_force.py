"""The full product kernels × laws × laws against quadrature in 1-D and draws in 3-D."""

from __future__ import annotations

import functools
from itertools import combinations_with_replacement

import numpy as np
import pytest
from brute_force import R_WEIGHTS, R, distance, scalar_law, squared_cdf_distance, z_value
from cases import DISTRIBUTIONS, KERNELS, SECOND_ORDER, sample
from scipy import stats

import kuq

LAWS = DISTRIBUTIONS + SECOND_ORDER
BY_NAME = {case.name: case for case in LAWS}
PAIRS = [(p.name, q.name) for p, q in combinations_with_replacement(LAWS, 2)]
DRAWS = 25_000
kernels = pytest.mark.parametrize("kernel", KERNELS, ids=str)
pairs = pytest.mark.parametrize(("p", "q"), PAIRS)
laws = pytest.mark.parametrize("name", BY_NAME)


@functools.cache
def build(name: str, side: int, event: tuple[int, ...]) -> kuq.Prediction:
    """A law of this row; the two sides of a pair differ."""
    rng = np.random.default_rng([side, list(BY_NAME).index(name), *event])
    return BY_NAME[name].build(rng, (), event)


# One dimension: the law of |X − Y| on a grid, for all kernels at once.


@functools.cache
def scalar_distance(p: str, side_p: int, q: str, side_q: int):
    return distance(scalar_law(build(p, side_p, (1,))), scalar_law(build(q, side_q, (1,))))


def scalar_expectations(p: str, q: str, kernel):
    """a(P, Q), a(P, P), a(Q, Q)."""
    sides = [(p, 0, q, 1), (p, 0, p, 0), (q, 1, q, 1)]
    return [scalar_distance(*side).mean(kernel.formula) for side in sides]


def accuracy(*names: str) -> dict[str, float]:
    """Student-t laws are mixtures of many normals: less is asked of them, to save time."""
    return {"rtol": 1e-6 if {"student", "evidential"} & set(names) else 1e-8}


@kernels
@pairs
def test_scalar_pairs(p, q, kernel):
    cross, self_p, self_q = scalar_expectations(p, q, kernel)
    left, right, score = build(p, 0, (1,)), build(q, 1, (1,)), kernel.build(1.0)
    options = accuracy(p, q)
    size = 5 * options["rtol"] * (abs(cross) + abs(self_p) + abs(self_q))
    a = float(kuq.expected_kernel(left, right, score, **options))
    assert a == pytest.approx(cross, abs=size)
    d = float(kuq.divergence(right, left, score, unbiased=False, **options))
    assert d == pytest.approx(cross - self_p / 2 - self_q / 2, abs=size)


@kernels
@laws
def test_scalar_entropies_and_scores(name, kernel):
    law, score, options = build(name, 0, (1,)), kernel.build(1.0), accuracy(name)
    self_p = scalar_distance(name, 0, name, 0).mean(kernel.formula)
    diagonal = float(kernel.formula(np.zeros(1), 1.0)[0])
    size = 5 * options["rtol"] * abs(self_p)
    h = float(kuq.entropy(law, score, unbiased=False, **options))
    assert h == pytest.approx((self_p - diagonal) / 2, abs=size)
    for y in (0.1, 12.0):
        cross = distance(scalar_law(law), scalar_law(kuq.Point([y], 1))).mean(kernel.formula)
        s = float(kuq.score(law, [y], score, unbiased=False, **options))
        size = 5 * options["rtol"] * (abs(cross) + abs(self_p))
        assert s == pytest.approx(cross - self_p / 2 - diagonal / 2, abs=size)


@kernels
def test_student_and_normal_at_the_default_accuracy(kernel):
    cross, self_p, self_q = scalar_expectations("normal", "student", kernel)
    left, right = build("normal", 0, (1,)), build("student", 1, (1,))
    d = float(kuq.divergence(left, right, kernel.build(1.0)))
    assert d == pytest.approx(cross - self_p / 2 - self_q / 2, abs=3e-8 * abs(cross))


@pairs
def test_crps_divergence_is_the_distance_of_cdfs(p, q):
    left, right = build(p, 0, (1,)), build(q, 1, (1,))
    expected = squared_cdf_distance(scalar_law(left), scalar_law(right))
    for score in (kuq.CRPS(), kuq.Energy()):
        d = float(kuq.divergence(left, right, score, unbiased=False, **accuracy(p, q)))
        assert d == pytest.approx(expected, rel=10 * accuracy(p, q)["rtol"], abs=1e-14)


@pytest.mark.parametrize("kernel", [k for k in KERNELS if not k.marginal], ids=str)
@pytest.mark.parametrize("dimension", [2, 3, 7])
def test_isotropic_normals_by_the_noncentral_chi_law(kernel, dimension):
    rng = np.random.default_rng(dimension)
    loc, scales = rng.normal(size=(2, dimension)), (0.6, 1.1)
    p, q = (kuq.Normal(m, s, event_ndim=1) for m, s in zip(loc, scales, strict=True))

    def expectation(gap2, variance):
        law = stats.ncx2(dimension, gap2 / variance) if gap2 else stats.chi2(dimension)
        density = law.pdf(R * R / variance) * 2 * R / variance
        return (R_WEIGHTS * density * kernel.formula(R, 1.0)).sum()

    gap2 = ((loc[0] - loc[1]) ** 2).sum()
    cross = expectation(gap2, scales[0] ** 2 + scales[1] ** 2)
    selves = [expectation(0.0, 2 * s * s) for s in scales]
    score = kernel.build(1.0)
    assert float(kuq.expected_kernel(p, q, score)) == pytest.approx(cross, rel=2e-8)
    d = cross - selves[0] / 2 - selves[1] / 2
    assert float(kuq.divergence(p, q, score)) == pytest.approx(d, abs=2e-8 * abs(cross))


# Three dimensions: independent draws X, X', Y, Y' and their kernel values.


def without_route(p: str, q: str, kernel) -> bool:
    """Low-rank normals against products of mixtures, under a kernel of the whole distance."""
    products = {"mixture", "student", "evidential"}
    needs_moments_only = kernel.marginal or kernel.name == "squared"
    return "low-rank" in (p, q) and bool(products & {p, q}) and not needs_moments_only


@functools.cache
def draws(name: str, side: int):
    rng = np.random.default_rng([7, side, list(BY_NAME).index(name)])
    values = sample(build(name, side, (3,)), 2 * DRAWS, rng)
    return values[:DRAWS], values[DRAWS:]


@functools.cache
def inside(name: str, side: int, kernel):
    """k(X, X') for independent draws of one law."""
    return kernel.k(*draws(name, side), 2.0)


def kernel_values(p: str, q: str, kernel):
    """k(X, Y), and independent draws whose mean is D(P, Q)."""
    cross = kernel.k(draws(p, 0)[0], draws(q, 1)[0], 2.0)
    return cross, cross - inside(p, 0, kernel) / 2 - inside(q, 1, kernel) / 2


@kernels
@pairs
def test_pairs_in_three_dimensions(p, q, kernel):
    left, right, score = build(p, 0, (3,)), build(q, 1, (3,)), kernel.build(2.0)
    if without_route(p, q, kernel):
        for function in (kuq.divergence, kuq.expected_kernel):
            with pytest.raises(kuq.NoClosedFormError, match="draws"):
                function(left, right, score)
        return
    cross, between = kernel_values(p, q, kernel)
    d = float(kuq.divergence(left, right, score, unbiased=False, rtol=1e-4))
    assert z_value(d, between) < 5
    assert z_value(float(kuq.expected_kernel(left, right, score, rtol=1e-4)), cross) < 5


@kernels
@laws
def test_entropy_and_score_in_three_dimensions(name, kernel):
    law, score = build(name, 0, (3,)), kernel.build(2.0)
    y = np.array([0.5, -1.0, 2.0])
    zero = kernel.k(y, y, 2.0)
    spread = (inside(name, 0, kernel) - zero) / 2
    assert z_value(float(kuq.entropy(law, score, unbiased=False, rtol=1e-4)), spread) < 5
    fit = kernel.k(draws(name, 0)[0], y, 2.0) - inside(name, 0, kernel) / 2 - zero / 2
    assert z_value(float(kuq.score(law, y, score, unbiased=False, rtol=1e-4)), fit) < 5


@pytest.mark.parametrize("name", ["mixture", "student", "evidential"])
@pytest.mark.parametrize("kernel", [k for k in KERNELS if without_route("low-rank", "mixture", k)],
                         ids=str)  # fmt: skip
def test_draws_open_the_pairs_without_a_route(name, kernel):
    left, right, score = build("low-rank", 0, (3,)), build(name, 1, (3,)), kernel.build(2.0)
    between = kernel_values("low-rank", name, kernel)[1]
    values = [float(kuq.divergence(left, right, score, draws=120, seed=i)) for i in range(12)]
    again = float(kuq.divergence(left, right, score, draws=120, seed=0))
    assert again == values[0]
    assert len(set(values)) == len(values)
    spread = np.var(values, ddof=1) / len(values) + between.var() / between.size
    assert abs(np.mean(values) - between.mean()) < 5 * np.sqrt(spread)
    a = float(kuq.expected_kernel(left, right, score, draws=300, seed=1))
    assert a == pytest.approx(kernel_values("low-rank", name, kernel)[0].mean(), rel=0.1)


@laws
def test_moments_in_three_dimensions(name):
    """mean() and variance() against draws; their sum is the entropy of the squared error."""
    law, x = build(name, 0, (3,)), np.concatenate(draws(name, 0))
    mean, variance = np.asarray(law.mean()), np.asarray(law.variance())
    for j in range(3):
        assert z_value(float(mean[j]), x[:, j]) < 5
        assert z_value(float(variance[j]), (x[:, j] - mean[j]) ** 2) < 5
    h = kuq.entropy(law, kuq.SquaredError(), unbiased=False)
    assert float(h) == pytest.approx(variance.sum(), rel=1e-8)


@kernels
@pytest.mark.parametrize("event", [(1,), (2,)])
def test_evidential_laws_against_drawn_members(kernel, event):
    """AU and EU of the second-order law are the means over pairs of members drawn from it."""
    law, score = build("evidential", 0, event), kernel.build(1.5)
    rng = np.random.default_rng(31)
    shape = (2, 4000, *event)
    variance = law.beta / rng.standard_gamma(np.broadcast_to(law.alpha, shape))
    loc = law.loc + np.sqrt(variance / law.nu) * rng.standard_normal(shape)
    members = kuq.Ensemble(kuq.Normal(loc, np.sqrt(variance), event_ndim=1))
    drawn = kuq.decompose(members, score, rtol=1e-4)
    u = kuq.decompose(law, score)
    assert z_value(float(u.aleatoric), drawn.aleatoric) < 5
    assert z_value(float(u.epistemic), drawn.epistemic) < 5


# The log score: densities from SciPy on a fine grid.

SMOOTH = ["normal", "mixture", "low-rank", "student", "ensemble", "evidential"]
GRID = np.sinh(np.linspace(-8.0, 8.0, 20_001))
GRID_WEIGHTS = 16 / 20_000 * np.cosh(np.linspace(-8.0, 8.0, 20_001))


def log_density(name: str, side: int) -> np.ndarray:
    law = scalar_law(build(name, side, (1,)))
    return np.log(np.maximum(law.pdf(GRID), 1e-300))


@pytest.mark.parametrize("name", SMOOTH)
def test_log_entropy_and_score(name):
    law, log_p = build(name, 0, (1,)), log_density(name, 0)
    h = -(GRID_WEIGHTS * np.exp(log_p) * log_p).sum()
    assert float(kuq.entropy(law, kuq.LogScore())) == pytest.approx(h, rel=1e-8)
    for y in (-2.0, 0.3, 5.0):
        expected = -np.log(scalar_law(law).pdf(np.array([y])))[0]
        assert float(kuq.score(law, [y], kuq.LogScore())) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("q", SMOOTH)
@pytest.mark.parametrize("p", SMOOTH)
def test_log_divergence(p, q):
    left, right = build(p, 0, (1,)), build(q, 1, (1,))
    log_p, log_q = log_density(p, 0), log_density(q, 1)
    if {"student", "evidential"} & {p, q}:
        with pytest.raises(kuq.NoClosedFormError, match="draws"):
            kuq.divergence(left, right, kuq.LogScore())
        x = sample(right, 20_000, np.random.default_rng(3))[:, 0]
        ratio = np.log(scalar_law(right).pdf(x) / scalar_law(left).pdf(x))
        d = float(kuq.divergence(left, right, kuq.LogScore(), draws=1000, seed=0))
        assert abs(d - ratio.mean()) < 5 * np.sqrt(ratio.var() * (1 / ratio.size + 1 / 1000))
        return
    expected = (GRID_WEIGHTS * np.exp(log_q) * (log_q - log_p)).sum()
    assert float(kuq.divergence(left, right, kuq.LogScore())) == pytest.approx(expected, rel=1e-7)
