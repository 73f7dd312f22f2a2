"""Extremes against mpmath: members that agree to 1e-9, scales of 1e±12, gaps and offsets of 1e9.

Warnings are errors in this project, so every test here also says that there is none.
"""

from __future__ import annotations

import copy
import itertools
import pickle

import high_precision as hp
import numpy as np
import pytest
from cases import DISTRIBUTIONS, KERNELS, moved
from high_precision import closed, exact, mp, mpf, on_grid
from scipy import integrate, stats

import kuq

BY_NAME = {case.name: case for case in KERNELS}
#: Closed forms in one dimension are right to rounding, quadratures to their tolerance.
TIGHT = {"squared", "crps", "energy", "gaussian", "marginal-gaussian", "sum", "scaled"}
kernels = pytest.mark.parametrize("kernel", KERNELS, ids=str)
with_closed_form = pytest.mark.parametrize(
    "kernel", [k for k in KERNELS if k.name in hp.CLOSED], ids=str
)


def tolerance(kernel) -> float:
    return 1e-11 if kernel.name in TIGHT else 1e-8


def expectation(kernel):
    return closed(kernel.name) if kernel.name in hp.CLOSED else on_grid(kernel.name)


def floats(values) -> np.ndarray:
    return np.array([float(v) for v in values])


def pairs_of(rows):
    """Rows of (loc, scale, loc', scale') as two batches of normals."""
    columns = np.array(rows).T
    return kuq.Normal(columns[0], columns[1]), kuq.Normal(columns[2], columns[3])


def references(kernel_expectation, rows):
    return floats(hp.divergence(kernel_expectation, r[:2], r[2:]) for r in rows)


# Normals.

NEAR = [
    (0.3, 0.7, 0.3 + gap * a, 0.7 + gap * b)
    for gap in (1e-3, 1e-6, 1e-9)
    for a, b in ((1.0, 0.0), (0.0, 1.0), (1.0, -0.5))
]


@kernels
def test_normals_that_nearly_agree(kernel):
    rows = NEAR if kernel.name in hp.CLOSED else NEAR[-6:]
    if kernel.name == "squared":
        rows = [row for row in NEAR if row[0] != row[2]]
    d = kuq.divergence(*pairs_of(rows), kernel.build(1.0))
    np.testing.assert_allclose(d, references(expectation(kernel), rows), rtol=tolerance(kernel))


@kernels
def test_ensembles_that_nearly_agree(kernel):
    """EU of order 1e-18 beside an AU of order one, also with weights; TU = AU to rounding."""
    rng = np.random.default_rng(3)
    loc, scale = 0.2 + 1e-9 * rng.normal(size=4), 0.8 + 1e-9 * rng.normal(size=4)
    weights = np.array([1.0, 2.0, 3.0, 4.0])
    w = weights / 10
    e = expectation(kernel)
    members = list(zip(loc, scale, strict=True))
    spread = sum(
        2 * exact(w[i]) * exact(w[j]) * hp.divergence(e, members[i], members[j])
        for i, j in itertools.combinations(range(4), 2)
    )
    prediction = kuq.Ensemble(kuq.Normal(loc, scale), weights=weights)
    plug_in = kuq.decompose(prediction, kernel.build(1.0), unbiased=False)
    np.testing.assert_allclose(float(plug_in.epistemic), float(spread), rtol=tolerance(kernel))
    assert float(plug_in.total) == float(plug_in.aleatoric)
    u = kuq.decompose(prediction, kernel.build(1.0))
    np.testing.assert_allclose(float(u.epistemic), float(spread) / (1 - (w**2).sum()), rtol=1e-8)


SCALES = [10.0**k for k in (-12, -9, -6, -3, 0, 3, 6, 9, 12)]
SCALED = [
    (c * a, c * s, c * b, c * t)
    for c in SCALES
    for a, s, b, t in ((0.0, 1.0, 1.5, 0.4), (0.0, 1.0, 0.0, 1.001), (0.0, 1.0, 1e-4, 1.0))
]


@with_closed_form
def test_scales_from_tiny_to_huge_at_one_bandwidth(kernel):
    """The bandwidth stays one, so this is also every ratio of scale to bandwidth."""
    rows = [r for r in SCALED if kernel.name != "squared" or r[0] != r[2]]
    p, q = pairs_of(rows)
    rtol, e = tolerance(kernel), expectation(kernel)
    wanted = references(e, rows)
    np.testing.assert_allclose(kuq.divergence(p, q, kernel.build(1.0)), wanted, rtol=rtol)
    alone = [
        kuq.divergence(kuq.Normal(*r[:2]), kuq.Normal(*r[2:]), kernel.build(1.0)) for r in rows
    ]
    np.testing.assert_allclose(alone, wanted, rtol=rtol)
    zero = e(0, mpf(0))
    h = [(e(0, 2 * exact(s) ** 2) - zero) / 2 for s in p.scale]
    np.testing.assert_allclose(kuq.entropy(p, kernel.build(1.0)), floats(h), rtol=rtol)
    a = [
        e(exact(m) - exact(n), exact(s) ** 2 + exact(t) ** 2)
        for m, s, n, t in rows
    ]  # fmt: skip
    np.testing.assert_allclose(
        kuq.expected_kernel(p, q, kernel.build(1.0)), floats(a), rtol=10 * rtol, atol=1e-290
    )


@kernels
@pytest.mark.parametrize("law", DISTRIBUTIONS, ids=str)
def test_scales_and_bandwidths_together(kernel, law):
    """Powers of two change no digit: 2^±40 is 1e±12, 2^±400 is 1e±120."""
    batch = (2, 1) if law.name == "student" else (3, 2)
    laws = law.build(np.random.default_rng(1), batch, (2,))
    options = {"unbiased": False, "rtol": 1e-3 if law.name == "student" else 1e-8}
    one = kuq.decompose(kuq.Ensemble(laws), kernel.build(1.0), **options)
    for power in (-400, -40, 40, 400):
        if abs(power) == 400 and (kernel.degree or 0) > 1.0:
            continue  # the squares are out of range
        c = 2.0**power
        u = kuq.decompose(kuq.Ensemble(moved(laws, factor=c)), kernel.build(c), **options)
        factor = c ** (kernel.degree or 0.0)
        np.testing.assert_allclose(u.aleatoric / factor, one.aleatoric, rtol=1e-10)
        np.testing.assert_allclose(u.epistemic / factor, one.epistemic, rtol=1e-10)


WIDTHS = [10.0**k for k in (-9, -6, -4, -2, -1, 0, 1, 2, 4, 6, 9)]


@pytest.mark.parametrize(
    ("make", "reference"),
    [
        (kuq.InverseMultiquadric, None),
        (kuq.Gaussian, hp.gaussian),
        (kuq.Laplace, hp.laplace),
        (lambda g: kuq.Matern(g, 1.5), hp.matern_three_halves),
        (lambda g: kuq.RationalQuadratic(g, 1.0), hp.rational),
    ],
    ids=["imq", "gaussian", "laplace", "matern", "rational"],
)
def test_extreme_bandwidths(make, reference):
    """Entropy and divergence at bandwidths from 1e-9 to 1e9, as one array of bandwidths."""
    width, one = np.array(WIDTHS), np.ones(len(WIDTHS))
    wanted = []
    for g in map(exact, WIDTHS):
        self_affinity = (
            reference(0, 2, g) if reference else hp.inverse_multiquadric_of_centred(2, g)
        )
        wanted.append((1 + self_affinity) / 2)
    h = kuq.entropy(kuq.Normal(0 * one, one), make(width))
    np.testing.assert_allclose(h, floats(wanted), rtol=1e-8)
    if reference is None:
        return
    p = (0.0, 1.0)
    for q in ((0.5, 1.3), (0.0, 1.3), (0.0, 1.001), (1e-5, 1.001)):  # also of equal means
        d = kuq.divergence(kuq.Normal(0 * one, one), kuq.Normal(q[0] * one, q[1]), make(width))
        wanted = [hp.divergence(lambda x, v, g=g: reference(x, v, exact(g)), p, q) for g in WIDTHS]
        np.testing.assert_allclose(d, floats(wanted), rtol=1e-8, err_msg=str(q))
        alone = [kuq.divergence(kuq.Normal(*p), kuq.Normal(*q), make(g)) for g in WIDTHS]
        np.testing.assert_allclose(alone, floats(wanted), rtol=1e-8, err_msg=str(q))


FAR = [
    (0.0, s, gap, t)
    for gap in (10.0, 1e3, 1e6, 1e9)
    for s, t in ((1.0, 2.0), (1e-6, 1.0), (0.0, 1.0), (0.0, 0.0), (1e-12, 1e-9))
]


@with_closed_form
@pytest.mark.parametrize("gap", [0.0, 1e-6, 1.0])
def test_a_point_mass_against_normals_of_all_scales(kernel, gap):
    rows = [(0.0, 0.0, gap * c, c) for c in SCALES]
    if kernel.name == "squared" and gap == 0:
        return
    wanted = references(expectation(kernel), rows)
    for point in (kuq.Point(0.0), kuq.Normal(0.0, 0.0)):
        d = [kuq.divergence(point, kuq.Normal(*r[2:]), kernel.build(1.0)) for r in rows]
        np.testing.assert_allclose(d, wanted, rtol=tolerance(kernel))
    y = np.zeros(len(rows))
    s = kuq.score(pairs_of(rows)[1], y, kernel.build(1.0))
    np.testing.assert_allclose(s, wanted, rtol=tolerance(kernel))


@with_closed_form
def test_mean_gaps_up_to_a_billion(kernel):
    d = kuq.divergence(*pairs_of(FAR), kernel.build(1.0))
    np.testing.assert_allclose(d, references(expectation(kernel), FAR), rtol=tolerance(kernel))


@with_closed_form
def test_offsets_of_a_billion(kernel):
    """Normals far from the origin but near to each other; digits of the gap are given exactly."""
    rows = [(1e9, 1.0, 1e9 + gap, 1.0) for gap in (2.0**-20, 2.0**-10, 1.0, 8.0)]
    d = kuq.divergence(*pairs_of(rows), kernel.build(1.0))
    np.testing.assert_allclose(d, references(expectation(kernel), rows), rtol=tolerance(kernel))


@with_closed_form
def test_a_point_mass_among_the_members(kernel):
    members = [(0.2, 1.0), (0.5, 0.0), (0.5 + 1e-9, 1e-12), (-1.0, 2.0)]
    e = expectation(kernel)
    expected = sum(hp.divergence(e, p, q) for p, q in itertools.combinations(members, 2)) / 6
    listed = [kuq.Normal(*m) if m[1] else kuq.Point(m[0]) for m in members]
    stacked = kuq.Normal(*np.array(members).T)
    for ensemble in (kuq.Ensemble(listed), kuq.Ensemble(stacked)):
        u = kuq.decompose(ensemble, kernel.build(1.0))
        np.testing.assert_allclose(float(u.epistemic), float(expected), rtol=tolerance(kernel))
        matrix = kuq.member_divergences(ensemble, kernel.build(1.0))
        close = hp.divergence(e, members[1], members[2])
        np.testing.assert_allclose(float(matrix[1, 2]), float(close), rtol=tolerance(kernel))


@with_closed_form
def test_members_of_very_different_scales(kernel):
    members = [(0.0, 1e-12), (1e-6, 1e-6), (0.3, 1.0), (-1e3, 1e6), (1e9, 1e12)]
    e = expectation(kernel)
    expected = [[hp.divergence(e, p, q) for q in members] for p in members]
    ensemble = kuq.Ensemble(kuq.Normal(*np.array(members).T))
    matrix = kuq.member_divergences(ensemble, kernel.build(1.0))
    off = ~np.eye(5, dtype=bool)
    wanted = np.array(expected, dtype=float)
    np.testing.assert_allclose(matrix[off], wanted[off], rtol=tolerance(kernel))
    u = kuq.decompose(ensemble, kernel.build(1.0))
    np.testing.assert_allclose(u.epistemic, wanted.sum() / 20, rtol=tolerance(kernel))


@kernels
@pytest.mark.parametrize("law", DISTRIBUTIONS, ids=str)
def test_one_member_and_equal_members(kernel, law):
    one = law.build(np.random.default_rng(2), (1,), (2,))
    options = {"unbiased": False, "rtol": 1e-3}
    u = kuq.decompose(kuq.Ensemble([one]), kernel.build(1.0), **options)
    assert u.epistemic.tolist() == [0.0]
    h = kuq.entropy(one, kernel.build(1.0), **options)
    np.testing.assert_allclose(u.total, h, rtol=1e-12)
    same = kuq.decompose(kuq.Ensemble([one] * 3), kernel.build(1.0), **options)
    np.testing.assert_allclose(same.total, h, rtol=1e-12)


@pytest.mark.parametrize("dimension", [2, 3, 30])
@pytest.mark.parametrize("beta", [1.0, 0.5, 1.6])
def test_isotropic_normals_in_more_dimensions(dimension, beta):
    """Energy by 1F1 in d dimensions: near members, far members, points, small scales."""
    rows = [
        *((0.0, 0.7, gap, 0.7 + gap) for gap in (1e-3, 1e-6, 1e-9)),
        (0.0, 1.0, 0.0, 1.0 + 1e-9),
        (0.0, 1.0, 1e9, 2.0),
        (0.0, 0.0, 1e-3, 1.0),
        (0.0, 1e-12, 1e-12, 2e-12),
        (0.0, 1e12, 3e11, 2e12),
    ]
    columns = np.array(rows).T
    loc = np.zeros((2, len(rows), dimension))
    loc[1, :, 0] = columns[2]
    p, q = (
        kuq.Normal(m, np.broadcast_to(s[:, None], m.shape), event_ndim=1)
        for m, s in zip(loc, columns[[1, 3]], strict=True)
    )
    for score, e in (
        (kuq.Energy(beta), lambda d, v: hp.absolute_power(beta, d, v, dimension)),
        (kuq.Gaussian(1.0), lambda d, v: hp.gaussian(d, v, 1, dimension)),
    ):
        np.testing.assert_allclose(kuq.divergence(p, q, score), references(e, rows), rtol=1e-8)


def test_log_score_of_normals():
    """KL(Q‖P) = log(σ/τ) + (τ² + δ²)/(2σ²) − ½, from gaps of 1e-9 to scales of 1e±12."""
    rows = NEAR + SCALED + [(0.0, 1.0, 1e9, 1.0), (0.0, 1.0, 0.0, 1e-12), (0.0, 1e-6, 0.0, 1e6)]
    wanted = []
    for m, s, n, t in (map(exact, row) for row in rows):
        wanted.append(mp.log(s / t) + (t * t + (m - n) ** 2) / (2 * s * s) - mpf(1) / 2)
    d = kuq.divergence(*pairs_of(rows), kuq.LogScore())
    np.testing.assert_allclose(d, floats(wanted), rtol=1e-11)


def test_log_score_of_point_masses():
    normal, point = kuq.Normal(0.0, 1.0), kuq.Point(0.3)
    u = kuq.decompose(kuq.Ensemble([normal, point]), kuq.LogScore())
    assert (u.aleatoric, u.epistemic, u.total) == (-np.inf, np.inf, np.inf)
    u = kuq.decompose(kuq.Ensemble([point, point]), kuq.LogScore())
    assert float(u.aleatoric) == -np.inf
    assert float(u.epistemic) == 0.0


# Student-t laws that nearly agree: D of a small change is a quadratic form of the derivative of F.


@pytest.mark.parametrize("df", [3.0, 8.0, 200.0])
@pytest.mark.parametrize("gap", [1e-6, 1e-9])
def test_student_laws_that_nearly_agree(df, gap):
    f = stats.t(df).pdf
    by_loc = integrate.quad(lambda x: f(x) ** 2, -np.inf, np.inf, epsabs=0)[0]
    by_scale = integrate.quad(lambda x: (x * f(x)) ** 2, -np.inf, np.inf, epsabs=0)[0]
    p = kuq.StudentT(df, [0.0, 0.0], [1.0, 1.0])
    q = kuq.StudentT(df, [gap, 0.0], [1.0, 1.0 + gap])
    step = np.array([gap, (1.0 + gap) - 1.0])
    d = kuq.divergence(p, q, kuq.CRPS())
    np.testing.assert_allclose(d, step**2 * [by_loc, by_scale], rtol=1e-5)


@pytest.mark.parametrize(("score", "df"), [(kuq.Energy(), 1.0), (kuq.SquaredError(), 2.0),
                                           (kuq.Energy(0.5), 0.5), (kuq.CRPS(), 0.7)])  # fmt: skip
def test_moments_that_do_not_exist_are_infinite(score, df):
    heavy = kuq.StudentT([df, 5.0], [0.0, 0.0], 1.0)
    h = kuq.entropy(heavy, score)
    assert h[0] == np.inf
    assert np.isfinite(h[1])
    prediction = kuq.Ensemble([heavy, kuq.Normal([0.0, 0.0], 1.0)])
    u = kuq.decompose(prediction, score)
    assert u.aleatoric[0] == u.total[0] == np.inf
    assert np.isfinite(u.total[1])
    assert not np.isnan(u.epistemic).any()
    evidential = kuq.NormalInverseGamma(0.0, 1.0, df / 2, 1.0)
    u = kuq.decompose(evidential, score)
    assert u.aleatoric == u.epistemic == np.inf


@pytest.mark.parametrize("size", [1e308, 1e-300])
def test_only_ratios_of_weights_count(size):
    ratios = np.array([1.0, 0.25, 1.0])
    loc = np.array([[0.0, 1.0], [2.0, 1.0], [5.0, 0.0]])
    rows = ratios * np.array([[size], [1.0]])  # one of which must not spoil the other

    def results(of_members, of_draws, of_cells):
        members = kuq.decompose(kuq.Ensemble(kuq.Normal(loc, 1.0), of_members), kuq.CRPS())
        draws = kuq.Samples([loc[:, 0], loc[:, 1]], weights=of_draws)
        field = kuq.Normal(loc[:, 0], [1.0, 2.0, 3.0], event_ndim=1)
        return [
            members.aleatoric,
            members.epistemic,
            kuq.entropy(draws, kuq.CRPS(), unbiased=False),
            kuq.entropy(field, kuq.CRPS(weights=of_cells)),
        ]

    wanted = results(ratios, ratios, ratios)
    with np.errstate(all="raise", under="ignore"):
        found = results(size * ratios, rows, size * ratios)
    for actual, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-14)


@pytest.mark.parametrize("unit", [1e150, 1e-150])
@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_a_copy_of_the_energy_kernel_is_as_homogeneous(unit, beta):
    plain = kuq.Energy(beta)
    one, law = (kuq.Normal([0.0, 0.0], [u, 2 * u], event_ndim=1) for u in (1.0, unit))
    wanted = float(kuq.entropy(one, plain)) * unit**beta
    weighted = kuq.Energy(beta, weights=[1.0, 1.0])
    for kernel in (plain, pickle.loads(pickle.dumps(plain)), copy.copy(plain), weighted):
        assert float(kuq.entropy(law, kernel)) == pytest.approx(wanted, rel=1e-10)
