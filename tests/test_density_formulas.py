"""Entropies and relative entropies for the log score, against mpmath and finite differences."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate

from kuq.distributions.log_densities import mixture_log_density
from kuq.expectations.densities import low_rank_entropy, low_rank_kl, normal_entropy, normal_kl
from kuq.expectations.relative_entropy import mixture_entropy, mixture_kl, mutual_information

pytestmark = pytest.mark.filterwarnings("error")

DIGITS = 50
Law = Sequence[np.ndarray]


def exact(values: Any) -> Any:
    return [exact(v) for v in values] if np.ndim(values) else mp.mpf(float(values))


def relative_error(value: Any, truth: Any) -> float:
    return float(abs((mp.mpf(float(value)) - truth) / truth))


# References in high precision.


def normal_kl_reference(p_loc: float, p_scale: float, q_loc: float, q_scale: float) -> Any:
    mu, sigma, nu, tau = (mp.mpf(float(v)) for v in (p_loc, p_scale, q_loc, q_scale))
    return mp.log(sigma / tau) + (tau**2 + (mu - nu) ** 2) / (2 * sigma**2) - mp.mpf(1) / 2


def covariance_reference(factor: np.ndarray, diag: np.ndarray) -> Any:
    factor = mp.matrix(exact(factor))
    return factor * factor.T + mp.diag(exact(diag))


def half_log_determinant(covariance: Any) -> Any:
    root = mp.cholesky(covariance)
    return mp.fsum(mp.log(root[i, i]) for i in range(root.rows))


def low_rank_kl_reference(
    p_loc: Any, p_factor: Any, p_diag: Any, q_loc: Any, q_factor: Any, q_diag: Any
) -> Any:
    p, q = covariance_reference(p_factor, p_diag), covariance_reference(q_factor, q_diag)
    shift = mp.matrix(exact(q_loc)) - mp.matrix(exact(p_loc))
    inverse = p**-1
    product = inverse * q
    trace = mp.fsum(product[i, i] for i in range(p.rows))
    quadratic = (shift.T * inverse * shift)[0]
    return (trace - p.rows + quadratic) / 2 + half_log_determinant(p) - half_log_determinant(q)


def density_reference(law: list[list[Any]], x: Any) -> Any:
    terms = (w * mp.exp(-(((x - m) / s) ** 2) / 2) / s for w, m, s in zip(*law, strict=True))
    return mp.fsum(terms) / mp.sqrt(2 * mp.pi)


def panel_integral(f: Callable[[Any], Any], laws: list[list[list[Any]]], points: int = 12) -> Any:
    offsets = (0, 0.7, 1.4, 2.1, 2.8, 3.5, 4.2, 5, 6, 7.2, 9)
    ends = sorted(
        {
            m + sign * mp.mpf(o) * s
            for law in laws
            for _, m, s in zip(*law, strict=True)
            for o in offsets
            for sign in (1, -1)
        }
    )
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return mp.fsum(
        float(w) * (b - a) / 2 * f(a + (b - a) * (1 + mp.mpf(float(x))) / 2)
        for a, b in pairwise(ends)
        for x, w in zip(nodes, weights, strict=True)
    )


def mixture_kl_reference(p: Law, q: Law) -> Any:
    p_law, q_law = exact(p), exact(q)

    def integrand(x: Any) -> Any:
        a, b = density_reference(p_law, x), density_reference(q_law, x)
        return b * mp.log(b / a) - b + a

    return panel_integral(integrand, [p_law, q_law])


def mutual_information_reference(share: np.ndarray, members: list[Law]) -> Any:
    total = mp.fsum(exact(share))
    shares = [s / total for s in exact(share)]
    laws = exact(members)

    def integrand(x: Any) -> Any:
        values = [density_reference(law, x) for law in laws]
        mean = mp.fsum(s * v for s, v in zip(shares, values, strict=True))
        return mp.fsum(
            s * (v * mp.log(v / mean) - v + mean) for s, v in zip(shares, values, strict=True)
        )

    return panel_integral(integrand, laws)


def adaptive_kl(p: Law, q: Law) -> float:
    """KL(Q‖P) by adaptive quadrature, which needs no knowledge of where log p bends."""

    def log_density(law: Law, x: float) -> Any:
        weights, loc, scale = law
        exponents = -(((x - loc) / scale) ** 2) / 2
        top = exponents.max()
        total = np.sum(weights / scale * np.exp(exponents - top))
        return top + np.log(total / math.sqrt(2 * math.pi))

    def integrand(x: float) -> Any:
        log_p, log_q = log_density(p, x), log_density(q, x)
        return np.exp(log_q) * (log_q - log_p - 1) + np.exp(log_p)

    ends = [law[1] + e * law[2] for law in (p, q) for e in (-9, -4, -1, 0, 1, 4, 9)]
    ends = np.unique(np.concatenate(ends))
    options = {"epsabs": 0, "epsrel": 1e-10, "limit": 100}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", integrate.IntegrationWarning)  # rounding at its tolerance
        return math.fsum(integrate.quad(integrand, a, b, **options)[0] for a, b in pairwise(ends))


# Laws to compare.


def random_mixture(
    rng: np.random.Generator, shape: tuple[int, ...], ratio: float, spread: float = 2.0
) -> list[np.ndarray]:
    weights = rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])
    return [weights, spread * rng.normal(size=shape), ratio ** rng.uniform(-1, 0, size=shape)]


def perturbed(rng: np.random.Generator, law: Law, gap: float) -> list[np.ndarray]:
    weights, loc, scale = (np.asarray(a) for a in law)
    moved = weights * (1 + gap * rng.normal(size=weights.shape))
    return [
        moved / moved.sum(-1, keepdims=True),
        loc + gap * scale * rng.normal(size=loc.shape),
        scale * (1 + gap * rng.normal(size=scale.shape)),
    ]


def low_rank_pair(
    d: int, rank: int, variance: float, gap: float, seed: int = 0
) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    p = [rng.normal(size=d), rng.normal(size=(d, rank)), variance * rng.uniform(0.5, 2, size=d)]
    q = [a * (1 + gap * rng.normal(size=a.shape)) for a in p]
    return [*p, *q[:2], np.abs(q[2])]


# Normal laws.


@pytest.mark.parametrize("gap", [1.0, 1e-1, 1e-3, 1e-6, 1e-9, 1e-12])
def test_normal_kl_keeps_its_digits_for_close_laws(gap: float) -> None:
    rng = np.random.default_rng(3)
    p_loc, p_scale = rng.normal(size=40), np.exp(rng.normal(size=40))
    q_loc = p_loc + gap * p_scale * rng.normal(size=40) * (np.arange(40) % 3 > 0)
    q_scale = p_scale * np.exp(gap * rng.normal(size=40) * (np.arange(40) % 3 < 2))
    values = normal_kl(p_loc, p_scale, q_loc, q_scale)
    with mp.workdps(DIGITS):
        for value, *law in zip(values, p_loc, p_scale, q_loc, q_scale, strict=True):
            assert relative_error(value, normal_kl_reference(*law)) < 1e-13


@pytest.mark.parametrize("exponent", [-14, -7, -3, -1, -0.3, 0.3, 1, 3, 7, 14])
@pytest.mark.parametrize("unit", [1e-150, 1.0, 1e150])
def test_normal_kl_with_extreme_scale_ratios(exponent: float, unit: float) -> None:
    law = [np.asarray(v) for v in (0.0, unit, 0.3 * unit, unit * 10.0**exponent)]
    with mp.workdps(DIGITS):
        assert relative_error(normal_kl(*law), normal_kl_reference(*law)) < 1e-13


def test_point_masses_are_equal_or_infinitely_far() -> None:
    p_scale, q_scale = np.asarray([0.0, 0.0, 0.0, 1.0]), np.asarray([0.0, 0.0, 1.0, 0.0])
    q_loc = np.asarray([0.0, 1.0, 0.0, 0.0])
    value = normal_kl(np.zeros(4), p_scale, q_loc, q_scale)
    np.testing.assert_array_equal(value, [0.0, math.inf, math.inf, math.inf])
    np.testing.assert_array_equal(normal_entropy(np.asarray([0.0])), [-math.inf])
    assert normal_entropy(np.asarray(1.2)) == pytest.approx(1.6012600899986273, rel=1e-15)


def test_values_beyond_the_float_range_are_infinite_without_a_warning() -> None:
    one, zero = np.asarray(1.0), np.asarray(0.0)
    assert normal_kl(zero, np.asarray(1e-200), zero, one) == math.inf
    assert normal_kl(np.asarray(1e300), one, zero, one) == math.inf
    assert np.isnan(normal_kl(zero, np.asarray(np.nan), zero, one))


# Low-rank covariances.


@pytest.mark.parametrize(("d", "rank"), [(3, 2), (7, 2), (2, 3)])
@pytest.mark.parametrize("variance", [1.0, 1e-4, 1e-8])
@pytest.mark.parametrize("gap", [3.0, 0.3, 1e-2, 1e-5, 1e-9])
def test_low_rank_kl(d: int, rank: int, variance: float, gap: float) -> None:
    laws = low_rank_pair(d, rank, variance, gap)
    with mp.workdps(DIGITS):
        assert relative_error(low_rank_kl(*laws), low_rank_kl_reference(*laws)) < 1e-10


@pytest.mark.parametrize("part", [0, 1, 2])
@pytest.mark.parametrize("gap", [0.4, 1e-3, 1e-9])
def test_low_rank_laws_that_differ_in_one_parameter(part: int, gap: float) -> None:
    laws = low_rank_pair(7, 2, 0.1, gap)
    laws[3:] = [laws[3 + i] if i == part else laws[i] for i in range(3)]
    with mp.workdps(DIGITS):
        assert relative_error(low_rank_kl(*laws), low_rank_kl_reference(*laws)) < 1e-12


def test_low_rank_factor_that_grows_from_nothing() -> None:
    laws = low_rank_pair(5, 2, 1.0, 0.0)
    laws[1], laws[4] = 0 * laws[1], 1e-6 * laws[4]
    with mp.workdps(DIGITS):
        assert relative_error(low_rank_kl(*laws), low_rank_kl_reference(*laws)) < 1e-12


@pytest.mark.parametrize("variance", [1.0, 1e-8])
def test_low_rank_entropy_with_collinear_columns(variance: float) -> None:
    _, factor, diag, *_ = low_rank_pair(7, 3, variance, 0.0)
    factor[:, 1] = factor[:, 0] * (1 + 1e-6 * factor[:, 2])
    with mp.workdps(DIGITS):
        log_determinant = half_log_determinant(covariance_reference(factor, diag))
        truth = log_determinant + mp.mpf(7) / 2 * mp.log(2 * mp.pi * mp.e)
        assert relative_error(low_rank_entropy(factor, diag), truth) < 1e-12


def test_low_rank_batches_agree_with_single_laws() -> None:
    single = [low_rank_pair(5, 2, 0.3, gap, seed) for seed, gap in enumerate([1.0, 1e-6, 0.0])]
    p = [np.stack([s[i] for s in single])[:, None] for i in range(3)]
    q = [np.stack([s[3 + i] for s in single])[None] for i in range(3)]
    table = low_rank_kl(*p, *q)
    assert table.shape == (3, 3)
    for i, j in np.ndindex(3, 3):
        expected = low_rank_kl(*single[i][:3], *single[j][3:])
        np.testing.assert_allclose(table[i, j], expected, rtol=1e-12)
    assert table[2, 2] == 0
    assert low_rank_entropy(p[1], p[2]).shape == (3, 1)


def test_low_rank_without_factor_is_a_sum_over_coordinates() -> None:
    p_loc, p_factor, p_diag, q_loc, q_factor, q_diag = low_rank_pair(7, 2, 1.0, 0.7)
    value = low_rank_kl(p_loc, 0 * p_factor, p_diag, q_loc, 0 * q_factor, q_diag)
    expected = normal_kl(p_loc, np.sqrt(p_diag), q_loc, np.sqrt(q_diag)).sum()
    np.testing.assert_allclose(value, expected, rtol=1e-13)
    entropy = low_rank_entropy(0 * p_factor, p_diag)
    np.testing.assert_allclose(entropy, normal_entropy(np.sqrt(p_diag)).sum(), rtol=1e-13)


def test_low_rank_laws_with_a_zero_variance() -> None:
    p_loc, p_factor, p_diag, *_ = low_rank_pair(3, 2, 1.0, 0.0)
    flat = p_diag * np.asarray([1.0, 0.0, 1.0])
    assert low_rank_entropy(p_factor, flat) == -math.inf
    assert low_rank_kl(p_loc, p_factor, flat, p_loc, p_factor, p_diag) == math.inf
    assert low_rank_kl(p_loc, p_factor, flat, p_loc, p_factor, flat) == 0


def test_a_rotated_factor_is_the_same_law() -> None:
    p_loc, factor, diag, *_ = low_rank_pair(5, 3, 1.0, 0.0)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    assert 0 <= low_rank_kl(p_loc, factor, diag, p_loc, factor @ turn, diag) < 1e-13


# Mixtures.

REFERENCE_P = [np.asarray(a) for a in ([0.25, 0.75], [-1.0, 0.5], [0.5, 1.0])]
REFERENCE_Q = [np.asarray(a) for a in ([0.5, 0.125, 0.375], [0.0, 3.0, -2.0], [0.75, 0.25, 1.5])]


def test_stored_reference_values() -> None:
    density = mixture_log_density(np.asarray(0.1), *REFERENCE_P)
    assert density == pytest.approx(-1.224379948693679, rel=1e-14)
    assert mixture_entropy(*REFERENCE_P) == pytest.approx(1.5004678201599095, rel=1e-12)
    assert mixture_kl(*REFERENCE_P, *REFERENCE_Q) == pytest.approx(1.1326682987498282, rel=1e-12)
    loc = np.asarray([0.0, 0.4, -0.3, 1.1, 0.2])[:, None]
    scale = np.asarray([1.0, 0.8, 1.5, 0.5, 2.0])[:, None]
    information = mutual_information(np.full(5, 0.2), np.ones((5, 1)), loc, scale)
    assert information == pytest.approx(0.23113110394769706, rel=1e-12)


@pytest.mark.parametrize("ratio", [1.0, 30.0, 1e3])
@pytest.mark.parametrize("components", [(1, 1), (2, 2), (2, 3)])
def test_mixture_kl(ratio: float, components: tuple[int, int]) -> None:
    rng = np.random.default_rng(5)
    p, q = (random_mixture(rng, (k,), ratio) for k in components)
    assert mixture_kl(*p, *q) == pytest.approx(adaptive_kl(p, q), rel=3e-10)


@pytest.mark.parametrize("ratio", [1e-6, 1e-3, 0.5, 3.0, 1e3, 1e6])
@pytest.mark.parametrize("distance", [0.0, 1.0, 1e3])
def test_one_component_agrees_with_the_normal_closed_form(ratio: float, distance: float) -> None:
    one, zero = np.ones(1), np.zeros(1)
    p_scale, q_loc = np.asarray([ratio]), np.asarray([distance])
    expected = normal_kl(zero, p_scale, q_loc, one)[0]
    value = mixture_kl(one, zero, p_scale, one, q_loc, one)
    assert value == pytest.approx(expected, rel=1e-11)
    split = np.asarray([0.25, 0.75])
    pair = [np.repeat(a, 2) for a in (zero, p_scale, q_loc, one)]
    value = mixture_kl(split, pair[0], pair[1], split[::-1], pair[2], pair[3])
    assert value == pytest.approx(expected, rel=1e-10)


def test_a_wide_law_sees_the_bend_between_narrow_components() -> None:
    p = [np.asarray(a) for a in ([0.3, 0.7], [-1.0, 1.0], [0.01, 0.011])]
    wide = [np.ones(1), np.asarray([0.1]), np.asarray([10.0])]
    assert mixture_kl(*p, *wide) == pytest.approx(adaptive_kl(p, wide), rel=1e-11)


@pytest.mark.parametrize("gap", [1e-2, 1e-5, 1e-9])
@pytest.mark.parametrize("ratio", [1.0, 1e3])
def test_close_mixtures_keep_their_digits(gap: float, ratio: float) -> None:
    rng = np.random.default_rng(7)
    p = random_mixture(rng, (2,), ratio)
    q = perturbed(rng, p, gap)
    with mp.workdps(28):
        truth = mixture_kl_reference(p, q)
        assert relative_error(mixture_kl(*p, *q), truth) < 1e-9
        reordered = mixture_kl(*p, *(a[::-1] for a in q))
        assert relative_error(reordered, truth) < max(1e-9, 3e-15 / gap)


@pytest.mark.parametrize(("gap", "ratio"), [(1e-2, 1.0), (1e-6, 1e3), (1e-9, 1.0), (1e-9, 1e3)])
def test_close_members_keep_their_digits(gap: float, ratio: float) -> None:
    rng = np.random.default_rng(11)
    centre = random_mixture(rng, (2,), ratio)
    members = [perturbed(rng, centre, gap) for _ in range(2)]
    stacked = [np.stack(a) for a in zip(*members, strict=True)]
    share = np.asarray([0.7, 0.3])
    with mp.workdps(28):
        truth = mutual_information_reference(share, members)
        assert relative_error(mutual_information(share, *stacked), truth) < 1e-8


@pytest.mark.parametrize("ratio", [1.0, 1e3, 1e6])
def test_entropy_and_mutual_information_of_mixed_scales(ratio: float) -> None:
    rng = np.random.default_rng(13)
    members = random_mixture(rng, (3, 2), ratio)
    share = np.asarray([0.5, 0.2, 0.3])
    value = mutual_information(share, *members)
    assert value == pytest.approx(float(mutual_information(share, *members, points=24)), rel=1e-9)
    # The decomposition of the log score: H(P̄) = Σ ω_m H(P_m) + mutual information.
    pooled = [(share[:, None] * members[0]).ravel(), members[1].ravel(), members[2].ravel()]
    total, within = mixture_entropy(*pooled), mixture_entropy(*members)
    assert total - share @ within == pytest.approx(value, abs=1e-10)


@pytest.mark.parametrize("offset", [1e6, 1e9])
def test_laws_far_from_zero(offset: float) -> None:
    rng = np.random.default_rng(17)
    p, q = random_mixture(rng, (2,), 2.0), random_mixture(rng, (2,), 2.0)
    p[1], q[1] = np.round(p[1] * 1024) / 1024, np.round(q[1] * 1024) / 1024
    near = mixture_kl(*p, *q)
    far = mixture_kl(p[0], p[1] + offset, p[2], q[0], q[1] + offset, q[2])
    assert far == pytest.approx(float(near), rel=1e-11)


def test_mixture_batches_agree_with_single_laws() -> None:
    rng = np.random.default_rng(19)
    p, q = random_mixture(rng, (2, 3, 5), 10.0), random_mixture(rng, (3, 5), 10.0)
    share = rng.dirichlet(np.ones(2), size=3).T
    table, entropies = mixture_kl(*p, *q), mixture_entropy(*p)
    information = mutual_information(share, *p)
    assert (table.shape, entropies.shape, information.shape) == ((2, 3), (2, 3), (3,))
    for i, j in np.ndindex(2, 3):
        left, right = [a[i, j] for a in p], [a[j] for a in q]
        np.testing.assert_allclose(table[i, j], mixture_kl(*left, *right), rtol=1e-12)
        np.testing.assert_allclose(entropies[i, j], mixture_entropy(*left), rtol=1e-12)
    for j in range(3):
        single = mutual_information(share[:, j], *(a[:, j] for a in p))
        np.testing.assert_allclose(information[j], single, rtol=1e-12)
    shared = mutual_information(share[:, 0], *p)
    np.testing.assert_allclose(shared[0], information[0], rtol=1e-12)
    x = rng.normal(size=(2, 3))
    np.testing.assert_allclose(
        mixture_log_density(x, *p)[1, 2],
        mixture_log_density(x[1, 2], *(a[1, 2] for a in p)),
        rtol=1e-14,
    )


def test_information_is_bounded_by_the_number_of_members() -> None:
    rng = np.random.default_rng(23)
    members = random_mixture(rng, (5, 1), 1e3, spread=1e3)
    value = mutual_information(np.full(5, 0.2), *members)
    assert 0.9 * math.log(5) < value < math.log(5) * (1 + 1e-12)
    one = [a[:1] for a in members]
    assert mutual_information(np.ones(1), *one) == 0
    copies = [np.repeat(a, 3, axis=0) for a in one]
    assert mutual_information(np.full(3, 1 / 3), *copies) == 0


def test_point_masses_among_members() -> None:
    share, ones = np.asarray([0.5, 0.25, 0.25]), np.ones((3, 1))

    def information(loc: list[float], scale: list[float]) -> float:
        arrays = np.asarray(loc)[:, None], np.asarray(scale)[:, None]
        return float(mutual_information(share, ones, *arrays))

    assert information([0.0, 0.0, 1.0], [0.0, 0.0, 0.0]) == pytest.approx(
        -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
    )
    assert information([0.0, 0.0, 0.0], [0.0, 1.0, 1.0]) == pytest.approx(math.log(2))
    assert information([0.0, 0.0, 0.0], [0.0, 0.0, 0.0]) == 0
    almost = information([0.0, 0.0, 0.0], [1e-12, 1e-12, 1.0])
    assert information([0.0, 0.0, 0.0], [0.0, 0.0, 1.0]) == pytest.approx(almost, rel=1e-9)


def test_mixtures_with_point_masses() -> None:
    half, loc = np.asarray([0.5, 0.5]), np.asarray([0.0, 1.0])
    dirac = np.asarray([0.0, 1.0])
    assert mixture_entropy(half, loc, dirac) == -math.inf
    assert mixture_kl(half, loc, dirac + 1, half, loc, dirac) == math.inf
    quarter = np.asarray([0.25, 0.75])
    expected = 0.25 * math.log(0.5) + 0.75 * math.log(1.5)
    assert mixture_kl(half, loc, dirac, quarter, loc, dirac) == pytest.approx(expected)
    only_continuous = np.ones(1), loc[1:], dirac[1:]
    assert mixture_kl(half, loc, dirac, *only_continuous) == pytest.approx(math.log(2))
    x = np.asarray([0.0, 0.5])
    values = mixture_log_density(x, half, loc, 0 * dirac)
    np.testing.assert_array_equal(values, [math.inf, -math.inf])


def test_absent_components_change_nothing() -> None:
    rng = np.random.default_rng(29)
    p, q = random_mixture(rng, (2,), 10.0), random_mixture(rng, (2,), 10.0)
    absent = np.asarray([0.0, 0.0]), np.asarray([3.0, -40.0]), np.asarray([0.0, 1e-4])
    padded = [np.concatenate(pair) for pair in zip(p, absent, strict=True)]
    other = [np.concatenate(pair) for pair in zip(q, absent[::1], strict=True)]
    assert mixture_kl(*padded, *other) == pytest.approx(float(mixture_kl(*p, *q)), rel=1e-11)
    assert mixture_entropy(*padded) == pytest.approx(float(mixture_entropy(*p)), rel=1e-11)


# Array libraries and gradients. Every function has one set of shapes, so jax compiles it once.


def normal_case(rng: np.random.Generator, gap: float) -> list[np.ndarray]:
    loc, scale = rng.normal(size=5), np.exp(rng.normal(size=5))
    return [loc, scale, loc + gap * rng.normal(size=5), scale * np.exp(gap * rng.normal(size=5))]


def mixture_pair(rng: np.random.Generator, gap: float) -> list[np.ndarray]:
    p = random_mixture(rng, (2, 3), 3.0)
    return [*p, *(perturbed(rng, p, gap) if gap < 1 else random_mixture(rng, (2, 3), 3.0))]


def ensemble(rng: np.random.Generator, gap: float) -> list[np.ndarray]:
    centre = [np.repeat(a, 3, axis=0) for a in random_mixture(rng, (1, 2, 2), 3.0)]
    members = perturbed(rng, centre, gap) if gap < 1 else random_mixture(rng, (3, 2, 2), 3.0)
    return [rng.dirichlet(np.ones(3)), *members]


def low_rank(rng: np.random.Generator, gap: float) -> list[np.ndarray]:
    return low_rank_pair(5, 2, 0.3, gap, int(rng.integers(9)))


Maker = Callable[[np.random.Generator, float], list[np.ndarray]]
CASES: dict[Callable[..., Any], Maker] = {
    normal_kl: normal_case,
    normal_entropy: lambda rng, gap: normal_case(rng, gap)[1:2],
    low_rank_kl: low_rank,
    low_rank_entropy: lambda rng, gap: low_rank(rng, gap)[1:3],
    mixture_log_density: lambda rng, gap: [rng.normal(size=2), *mixture_pair(rng, gap)[:3]],
    mixture_entropy: lambda rng, gap: mixture_pair(rng, gap)[:3],
    mixture_kl: mixture_pair,
    mutual_information: ensemble,
}
COMPARISONS = [normal_kl, low_rank_kl, mixture_kl, mutual_information]


def assert_gradients(
    f: Callable[..., Any], arguments: list[np.ndarray], gradients: list[np.ndarray]
) -> None:
    """Compare each gradient with a central difference along one random direction."""
    rng, step = np.random.default_rng(53), 2e-4
    for position, (argument, gradient) in enumerate(zip(arguments, gradients, strict=True)):
        direction = rng.normal(size=argument.shape)
        values = []
        for factor in (-2, -1, 1, 2):
            moved = [*arguments]
            moved[position] = argument + factor * step * direction
            values.append(f(*moved).sum())
        slope = (8 * (values[2] - values[1]) - values[3] + values[0]) / (12 * step)
        assert np.sum(direction * gradient) == pytest.approx(slope, rel=1e-6, abs=1e-9)


def torch_gradient(f: Callable[..., Any], arguments: list[np.ndarray]) -> list[np.ndarray]:
    torch = pytest.importorskip("torch")
    tensors = [torch.tensor(a, requires_grad=True) for a in arguments]
    f(*tensors).sum().backward()
    return [t.grad.numpy() for t in tensors]


@cache
def compiled_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    import jax

    arguments = CASES[f](np.random.default_rng(0), 1.0)
    total = jax.value_and_grad(lambda *a: f(*a).sum(), argnums=tuple(range(len(arguments))))
    # Compiling costs far more than running here.
    return jax.jit(total).lower(*arguments).compile({"xla_backend_optimization_level": 0})


def jax_gradient(f: Callable[..., Any], arguments: list[np.ndarray]) -> list[np.ndarray]:
    jax = pytest.importorskip("jax")
    double = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    with double(True):
        value, gradients = compiled_gradient(f)(*arguments)
        np.testing.assert_allclose(value, f(*arguments).sum(), rtol=1e-11)
        return [np.asarray(g) for g in gradients]


@pytest.mark.parametrize("f", CASES)
@pytest.mark.parametrize("gap", [1.0, 1e-2])
def test_torch_gradients(f: Callable[..., Any], gap: float) -> None:
    arguments = CASES[f](np.random.default_rng(31), gap)
    assert_gradients(f, arguments, torch_gradient(f, arguments))


@pytest.mark.parametrize("f", COMPARISONS)
def test_jax_gradients(f: Callable[..., Any]) -> None:
    for gap in (1.0, 1e-2):
        arguments = CASES[f](np.random.default_rng(31), gap)
        assert_gradients(f, arguments, jax_gradient(f, arguments))


@pytest.mark.parametrize("f", CASES)
@pytest.mark.parametrize("gap", [1.0, 1e-2])
def test_single_precision(f: Callable[..., Any], gap: float) -> None:
    arguments = [a.astype(np.float32) for a in CASES[f](np.random.default_rng(37), gap)]
    value = f(*arguments)
    assert value.dtype == np.float32
    np.testing.assert_allclose(value, f(*(a.astype(float) for a in arguments)), rtol=2e-4)


@pytest.mark.parametrize("f", CASES)
def test_torch_values(f: Callable[..., Any]) -> None:
    torch = pytest.importorskip("torch")
    arguments = CASES[f](np.random.default_rng(37), 1.0)
    value = f(*map(torch.asarray, arguments))
    np.testing.assert_allclose(value.numpy(), f(*arguments), rtol=1e-11)
    assert f(*(torch.asarray(a, dtype=torch.float32) for a in arguments)).dtype == torch.float32


@pytest.mark.parametrize("f", CASES)
def test_jax_keeps_single_precision(f: Callable[..., Any]) -> None:
    jax = pytest.importorskip("jax")
    arguments = CASES[f](np.random.default_rng(37), 1.0)
    result = jax.eval_shape(f, *(jax.ShapeDtypeStruct(a.shape, np.float32) for a in arguments))
    assert result.dtype == np.float32


def finite_gradient(
    f: Callable[..., Any], arguments: list[np.ndarray], atol: float = 1e-12
) -> list[np.ndarray]:
    found = torch_gradient(f, arguments)
    for torch_part, jax_part in zip(found, jax_gradient(f, arguments), strict=True):
        assert np.all(np.isfinite(torch_part))
        np.testing.assert_allclose(torch_part, jax_part, rtol=1e-7, atol=atol)
    return found


def test_gradients_at_a_weight_of_zero() -> None:
    rng = np.random.default_rng(41)
    p, q = (random_mixture(rng, (2, 3), 2.0, spread=0.3) for _ in range(2))
    p[0][:], q[0][:] = [0.4, 0.0, 0.6], [0.7, 0.3, 0.0]
    p[2] += 1  # else ∫ q n_k / p, the slope in an absent weight of P, may diverge
    step = 1e-7 * np.eye(3)[[1]]

    gradients = finite_gradient(mixture_kl, [*p, *q])
    slope = (mixture_kl(p[0] + step, *p[1:], *q) - mixture_kl(*p, *q)) / 1e-7
    np.testing.assert_allclose(gradients[0][:, 1], slope, rtol=1e-4)
    assert not gradients[1][:, 1].any()

    entropy_gradient = torch_gradient(mixture_entropy, p)[0]
    slope = (mixture_entropy(p[0] + step, *p[1:]) - mixture_entropy(*p)) / 1e-7
    np.testing.assert_allclose(entropy_gradient[:, 1], slope, rtol=1e-4)

    share, *members = ensemble(rng, 1.0)
    members[0][0], share = [0.0, 1.0], np.asarray([0.0, 0.3, 0.7])
    finite_gradient(mutual_information, [share, *members])


def test_gradients_at_equal_laws_vanish() -> None:
    rng = np.random.default_rng(43)
    share, *members = ensemble(rng, 0.0)
    members = [np.repeat(a[:1], 3, axis=0) for a in members]
    points = [np.ones(5), np.zeros(5)]
    for f, laws in (
        (normal_kl, 2 * normal_case(rng, 0.0)[:2]),
        (normal_kl, 2 * points),
        (low_rank_kl, 2 * low_rank(rng, 0.0)[:3]),
        (mixture_kl, 2 * mixture_pair(rng, 0.0)[:3]),
        (mutual_information, [share, *members]),
    ):
        for gradient in finite_gradient(f, laws):
            np.testing.assert_allclose(gradient, 0, atol=1e-15)


def test_gradients_are_finite_in_hard_places() -> None:
    weights = np.full((2, 3), 1 / 3)
    loc = np.asarray([[0.0, 0.0, 1.0], [0.0, 50.0, 60.0]])
    narrow = np.asarray([[1e-5, 1e-4, 1e-5], [1.0, 1e-5, 1.0]])
    wide, atoms = np.full((2, 3), 7.0), np.asarray([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    for p_scale, q_scale in ((narrow, wide), (wide, narrow), (atoms, atoms)):
        finite_gradient(mixture_kl, [weights, loc, p_scale, weights, loc, q_scale], 1e-3)

    share, weights, loc, scale = ensemble(np.random.default_rng(47), 1.0)
    scale[0], scale[1, :, 0] = 0.0, 1e-6
    finite_gradient(mutual_information, [share, weights, loc, scale], 1e-6)

    extreme = np.asarray([1e-14, 1e14, 1e-100, 1e100, 1.0])
    finite_gradient(normal_kl, [np.zeros(5), extreme, np.ones(5), np.ones(5)])


@pytest.mark.parametrize("spread", [1.0, 1e-4, 1e-9])
def test_dispersion_of_normals_is_the_sum_over_pairs(spread):
    from kuq.expectations.densities import normal_dispersion, normal_kl

    rng = np.random.default_rng(8)
    loc, scale = 3 + spread * rng.normal(size=(6, 4)), 2 * np.exp(spread * rng.normal(size=(6, 4)))
    w = rng.dirichlet(np.ones(6))
    wanted = sum(
        w[i] * w[j] * normal_kl(loc[i], scale[i], loc[j], scale[j])
        for i in range(6)
        for j in range(6)
    )
    np.testing.assert_allclose(normal_dispersion(loc, scale, w), wanted, rtol=1e-12)


def test_dispersion_with_point_masses_and_extreme_scales():
    from kuq.expectations.densities import normal_dispersion

    loc = np.array([[0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0]])
    scale = np.array([[0.0, 0.0, 1.0, 1e150], [0.0, 1.0, 1e-200, 1e150]])
    value = normal_dispersion(loc, scale, np.array([0.5, 0.5]))
    np.testing.assert_array_equal(value, [0.0, math.inf, math.inf, 0.0])
