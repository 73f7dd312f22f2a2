"""The laws of the theory as properties, over all kernels and all distributions."""

from __future__ import annotations

import numpy as np
import pytest
from cases import DISTRIBUTIONS, KERNELS, moved
from hypothesis import given, settings
from hypothesis import strategies as st

import kuq

EVENT = (2,)
kernels = pytest.mark.parametrize("kernel", KERNELS, ids=str)
laws = pytest.mark.parametrize("law", [c for c in DISTRIBUTIONS if c.multivariate], ids=str)
seeds = st.integers(0, 2**32 - 1)
factors = st.floats(-3.0, 3.0).map(lambda x: 10.0**x)
#: Each of about a hundred cases has some examples of its own: three in the suite.
few = settings(max_examples=settings.default.max_examples // 16)


def accuracy(law) -> float:
    """Student-t laws are quadratures over many normals: less is asked of them, to save time."""
    return 1e-3 if law.name == "student" else 1e-6


def members(law, seed, count=3, batch=None, factor=1.0):
    """An ensemble of random laws of one kind, at a random scale."""
    rng = np.random.default_rng(seed)
    batch = (1 if law.name == "student" else 2,) if batch is None else batch
    return moved(law.build(rng, (count, *batch), EVENT), factor=factor)


def mix_weights(seed, count=3):
    return np.random.default_rng([seed, 1]).uniform(0.2, 1.0, size=count)


def v_statistics(prediction, score, **options):
    return kuq.decompose(prediction, score, unbiased=False, **options)


@kernels
@laws
@few
@given(seed=seeds, factor=factors)
def test_total_is_the_sum_and_bma_is_half_of_pairwise(kernel, law, seed, factor):
    """TU = AU + EU, EU_bma = ½ EU_pairwise, each also from its own definition."""
    score, options = kernel.build(factor), {"unbiased": False, "rtol": accuracy(law)}
    prediction = kuq.Ensemble(members(law, seed, factor=factor), weights=mix_weights(seed))
    w = np.asarray(prediction.member_weights())
    pairwise = kuq.decompose(prediction, score, **options)
    bma = kuq.decompose(prediction, score, estimator="bma", **options)
    for u in (pairwise, bma):
        np.testing.assert_array_equal(u.total, u.aleatoric + u.epistemic)
    np.testing.assert_array_equal(bma.aleatoric, pairwise.aleatoric)
    np.testing.assert_allclose(bma.epistemic, pairwise.epistemic / 2, rtol=1e-12)
    one_by_one = prediction.member_list()
    h = [kuq.entropy(m, score, **options) for m in one_by_one]
    matrix = kuq.member_divergences(prediction, score, **options)
    from_mixture = [kuq.divergence(m, prediction, score, **options) for m in one_by_one]
    pairs = [
        (np.tensordot(w, h, 1), pairwise.aleatoric),
        (np.einsum("i,j,ij...->...", w, w, matrix), pairwise.epistemic),
        (kuq.entropy(prediction, score, **options), bma.total),
        (np.tensordot(w, from_mixture, 1), bma.epistemic),
    ]
    for value, expected in pairs:
        assert np.all(np.abs(value - expected) <= 5 * accuracy(law) * pairwise.total)


@kernels
@laws
@few
@given(seed=seeds, factor=factors)
def test_epistemic_is_zero_exactly_if_members_agree(kernel, law, seed, factor):
    score, rng = kernel.build(factor), np.random.default_rng(seed)
    one, other = (moved(law.build(rng, (1,), EVENT), factor=factor) for _ in range(2))
    same = kuq.decompose(kuq.Ensemble([one, one, one]), score, unbiased=False, rtol=accuracy(law))
    assert np.all(np.abs(same.epistemic) <= 1e-14 * same.aleatoric)
    assert np.all(same.aleatoric > 0) or law.name == "point"
    apart = kuq.decompose(kuq.Ensemble([one, one, other]), score, unbiased=False, rtol=1e-3)
    assert np.all(apart.epistemic > 1e-6 * apart.total)


@kernels
@few
@given(seed=seeds)
def test_members_that_differ_in_shape_only(kernel, seed):
    """Strictly proper scores tell them apart; the squared error sees means only."""
    rng = np.random.default_rng(seed)
    loc = rng.normal(size=2)
    narrow, wide = rng.uniform(0.5, 1.0), rng.uniform(1.5, 2.0)
    pair = kuq.Ensemble([kuq.Normal(loc, s, event_ndim=1) for s in (narrow, wide)])
    eu = float(kuq.decompose(pair, kernel.build(1.0)).epistemic)
    assert eu == 0 if kernel.name == "squared" else eu > 1e-4


@kernels
@few
@given(rho=st.floats(0.3, 0.95))
def test_members_that_differ_in_dependence_only(kernel, rho):
    """Marginal kernels do not see it in more than one dimension."""
    pair = kuq.Ensemble(
        [
            kuq.LowRankNormal([0.0, 0.0], [[rho**0.5], [rho**0.5]], [1 - rho, 1 - rho]),
            kuq.Normal([0.0, 0.0], 1.0, event_ndim=1),
        ]
    )
    eu = float(kuq.decompose(pair, kernel.build(1.0)).epistemic)
    assert eu == pytest.approx(0, abs=1e-15) if not kernel.strictly_proper else eu > 1e-5


# Epistemic uncertainty in the convex order of Q.


@kernels
@laws
@few
@given(seed=seeds)
def test_splitting_a_member_raises_epistemic_uncertainty(kernel, law, seed):
    """½P1 + ½P2 in place of a member: D(P̄, R) = ½D(P1, R) + ½D(P2, R) − ¼D(P1, P2)."""
    score = kernel.build(1.5)
    laws = members(law, seed).member
    whole, rest = kuq.Ensemble([laws(0), laws(1)]), laws(2)

    def d(p, q):
        return kuq.divergence(p, q, score, unbiased=False, rtol=accuracy(law))

    halves = (d(laws(0), rest) + d(laws(1), rest)) / 2
    between = d(laws(0), laws(1))
    joined = d(whole, rest)
    tolerance = 5 * accuracy(law) * (halves + between)
    assert np.all(np.abs(joined - (halves - between / 4)) <= tolerance)
    split = v_statistics(
        kuq.Ensemble([*map(laws, range(3))], weights=[1, 1, 2]), score, rtol=accuracy(law)
    )
    assert np.all(split.epistemic > joined / 2)  # EU of two members of weight ½ each


@kernels
@few
@given(seed=seeds, share=st.floats(0.0, 1.0))
def test_spreading_members_in_the_space_of_laws(kernel, seed, share):
    """(1−λ)·P̄ + λ·P_m: the same mixture and TU_bma, and EU falls like λ²."""
    rng = np.random.default_rng(seed)
    places, weights = rng.normal(size=(5, 2)), rng.uniform(0.1, 1.0, size=(4, 5))
    weights /= weights.sum(axis=-1, keepdims=True)
    drawn_in = (1 - share) * weights.mean(axis=0) + share * weights
    score = kernel.build(1.0)
    results = [
        v_statistics(
            kuq.Ensemble([kuq.Samples(places, 1, weights=row) for row in w]), score, estimator="bma"
        )
        for w in (weights, drawn_in)
    ]
    wide, narrow = (float(u.epistemic) for u in results)
    assert narrow == pytest.approx(share**2 * wide, rel=1e-9, abs=1e-15)
    assert float(results[1].total) == pytest.approx(float(results[0].total), rel=1e-12)


@kernels
@laws
@few
@given(seed=seeds, push=st.floats(1.0, 50.0))
def test_moving_members_apart_raises_epistemic_uncertainty(kernel, law, seed, push):
    rng = np.random.default_rng(seed)
    law_ = law.build(rng, (), EVENT)
    eus = [
        v_statistics(
            kuq.Ensemble([moved(law_, shift=-a), moved(law_, shift=a)]),
            kernel.build(2.0),
            rtol=accuracy(law),
        )
        for a in (0.3, 0.3 * push, 0.4 * push)
    ]
    values = [float(u.epistemic) for u in eus]
    slack = 1 + 2 * accuracy(law)
    assert values[0] <= values[1] * slack
    assert values[1] <= values[2] * slack
    assert values[2] > values[0]


# Aleatoric uncertainty in the convex order.


@kernels
@laws
@few
@given(seed=seeds, stretch=st.floats(1.01, 30.0))
def test_convex_kernels_grow_with_spread(kernel, law, seed, stretch):
    if not kernel.convex or law.name == "point":
        return
    p = law.build(np.random.default_rng(seed), (3,), EVENT)
    wide = moved(p, factor=stretch)  # x → mean + c(x − mean) up to a translation
    h = [kuq.entropy(x, kernel.build(1.0), unbiased=False, rtol=accuracy(law)) for x in (p, wide)]
    assert np.all(h[1] > h[0])


@kernels
@few
@given(seed=seeds)
def test_mean_preserving_spreads_of_draws(kernel, seed):
    """Every draw becomes a pair around it: H grows for convex kernels."""
    rng = np.random.default_rng(seed)
    x, step = rng.normal(size=(30, 5, 2)), rng.normal(size=(30, 5, 2))
    spread = np.concatenate([x + step, x - step], axis=1)
    h = [
        kuq.entropy(kuq.Samples(v, 1), kernel.build(1.0), unbiased=False)
        for v in (x, np.concatenate([x, x], axis=1), spread)
    ]
    np.testing.assert_allclose(h[1], h[0], rtol=1e-12)
    if kernel.convex:
        assert np.all(h[2] > h[0])


@pytest.mark.parametrize(
    ("score", "narrow", "wide"),
    [
        (kuq.Gaussian(0.5), 0.375, 0.25),
        (kuq.Laplace(0.5), 0.372, 0.250),
        (kuq.Energy(0.2), 0.470, 0.358),
        (kuq.CRPS(), 1.25, 1.5),
        (kuq.SquaredError(), 5.0, 9.0),
    ],
    ids=repr,
)
def test_counterexample_to_monotone_aleatoric_uncertainty(score, narrow, wide):
    """U{−3,−1,1,3} ≤cx U{−3,3}, yet kernels that are not convex say the reverse."""
    h = [
        float(kuq.entropy(kuq.Samples(x), score, unbiased=False))
        for x in ([-3.0, -1.0, 1.0, 3.0], [-3.0, 3.0])
    ]
    assert h == pytest.approx([narrow, wide], abs=6e-4)
    assert (h[0] < h[1]) == score.card.aleatoric_grows_with_spread


# Robustness, invariances, metric.


@kernels
@laws
@few
@given(seed=seeds)
def test_influence_of_a_wrong_member(kernel, law, seed):
    """One member at distance 10^k: bounded kernels bound its influence, others do not."""
    score = kernel.build(1.0)
    good = members(law, seed, count=4, batch=()).member
    supremum = 2.5 if kernel.name == "scaled" else 2.0 if kernel.name == "sum" else 1.0
    eus = []
    for far in (1e2, 1e4, 1e6):
        wrong = moved(good(0), shift=far)
        prediction = kuq.Ensemble([wrong, good(1), good(2), good(3)])
        influence = kuq.member_influence(prediction, score, unbiased=False, rtol=accuracy(law))
        eus.append(float(influence["epistemic"][0]))
        if kernel.bounded:
            assert abs(eus[-1]) <= supremum
    if kernel.bounded:
        assert eus[2] == pytest.approx(eus[1], rel=0.05)
    else:
        assert eus[2] / eus[1] == pytest.approx(100**kernel.degree, rel=0.2)


@kernels
@few
@given(seed=seeds)
def test_influence_of_a_vague_member(kernel, seed):
    scale = np.random.default_rng(seed).uniform(0.5, 2.0, size=(4, 1))
    parts = []
    for wide in (1e3, 1e6):
        scale[0] = wide
        prediction = kuq.Ensemble(kuq.Normal(np.zeros((4, 1)), scale, event_ndim=1))
        parts.append(kuq.member_influence(prediction, kernel.build(1.0), unbiased=False))
    au, eu = (np.array([float(p[key][0]) for p in parts]) for key in ("aleatoric", "epistemic"))
    if kernel.bounded:
        assert np.all(np.abs(au) <= 2.5)
        assert np.all(np.abs(eu) <= 2.5)
    else:
        assert au[1] / au[0] == pytest.approx(1000**kernel.degree, rel=0.2)


@kernels
@laws
@few
@given(seed=seeds, shift=st.floats(-100.0, 100.0))
def test_translation_invariance(kernel, law, seed, shift):
    assert kernel.translation_invariant
    laws, score = members(law, seed), kernel.build(1.0)
    rtol, y = accuracy(law), np.array([0.5, -0.5])
    here, there = (
        v_statistics(kuq.Ensemble(moved(laws, s)), score, rtol=rtol) for s in (0.0, shift)
    )
    np.testing.assert_allclose(there.aleatoric, here.aleatoric, rtol=rtol)
    np.testing.assert_allclose(there.epistemic, here.epistemic, rtol=rtol)
    scores = [
        kuq.score(moved(laws, s), y[None] + s, score, unbiased=False, rtol=rtol)
        for s in (0.0, shift)
    ]
    np.testing.assert_allclose(scores[1], scores[0], rtol=rtol)


@kernels
@laws
@few
@given(seed=seeds, factor=factors)
def test_homogeneity(kernel, law, seed, factor):
    """AU and EU scale like c^degree; kernels with a bandwidth do not change if it scales too."""
    laws = members(law, seed)
    rtol, power = accuracy(law), factor ** (kernel.degree or 0.0)
    one = v_statistics(kuq.Ensemble(laws), kernel.build(1.0), rtol=rtol)
    scaled = v_statistics(kuq.Ensemble(moved(laws, 0.0, factor)), kernel.build(factor), rtol=rtol)
    np.testing.assert_allclose(scaled.aleatoric, power * one.aleatoric, rtol=rtol)
    np.testing.assert_allclose(scaled.epistemic, power * one.epistemic, rtol=rtol)


@kernels
@laws
@few
@given(seed=seeds, factor=factors)
def test_root_of_the_divergence_is_a_metric(kernel, law, seed, factor):
    prediction, rtol = kuq.Ensemble(members(law, seed, count=4, factor=factor)), accuracy(law)
    matrix = kuq.member_divergences(prediction, kernel.build(factor), unbiased=False, rtol=rtol)
    np.testing.assert_array_equal(matrix, np.swapaxes(matrix, 0, 1))
    assert np.all(matrix[range(4), range(4)] == 0)
    root = np.sqrt(matrix)
    detour = root[:, :, None] + root[None, :, :]
    assert np.all(root[:, None, :] <= detour * (1 + rtol))


def test_the_divergence_itself_is_not_a_metric():
    points = kuq.member_divergences(kuq.Ensemble(kuq.Point([0.0, 1.0, 2.0])), kuq.Gaussian(3.0))
    assert points[0, 2] == pytest.approx(0.359, abs=1e-3)
    assert points[0, 2] > points[0, 1] + points[1, 2]
    normals = kuq.Ensemble(kuq.Normal(np.zeros(3), [1.0, 1.5, 2.0]))
    d = kuq.member_divergences(normals, kuq.CRPS())
    assert d[0, 2] == pytest.approx(0.0916, abs=1e-4)
    assert d[0, 2] > d[0, 1] + d[1, 2]


# Second-order laws without members, and the log score.


@kernels
@few
@given(seed=seeds, shift=st.floats(-50.0, 50.0))
def test_evidential_laws(kernel, seed, shift):
    """TU = AU + EU; EU_bma = ½ EU_pairwise; TU_bma = H(Student-t); location plays no part."""
    rng = np.random.default_rng(seed)
    loc, (nu, alpha, beta) = rng.normal(size=2), rng.uniform(1.5, 4.0, size=(3, 2))
    score = kernel.build(1.0)
    law = kuq.NormalInverseGamma(loc, nu, alpha, beta, event_ndim=1)
    pairwise = kuq.decompose(law, score, rtol=1e-6)
    bma = kuq.decompose(law, score, estimator="bma", rtol=1e-6)
    np.testing.assert_array_equal(pairwise.total, pairwise.aleatoric + pairwise.epistemic)
    np.testing.assert_allclose(bma.epistemic, pairwise.epistemic / 2, rtol=1e-12)
    assert pairwise.epistemic > 0
    np.testing.assert_allclose(bma.total, kuq.entropy(law, score, rtol=1e-5), rtol=5e-5)
    far = kuq.NormalInverseGamma(loc + shift, nu, alpha, beta, event_ndim=1)
    np.testing.assert_allclose(kuq.decompose(far, score, rtol=1e-6).total, pairwise.total)


@pytest.mark.parametrize("name", ["normal", "mixture", "low-rank"])
@few
@given(seed=seeds, shift=st.floats(-50.0, 50.0))
def test_log_score(name, seed, shift):
    """TU = AU + EU, EU = 0 iff equal, and EU_bma ≤ min(log M, EU_pairwise), not a half of it."""
    law = next(case for case in DISTRIBUTIONS if case.name == name)
    rng = np.random.default_rng(seed)
    laws = law.build(rng, (3, 2), (1,))
    pairwise = kuq.decompose(kuq.Ensemble(laws), kuq.LogScore(), unbiased=False)
    bma = kuq.decompose(kuq.Ensemble(laws), kuq.LogScore(), estimator="bma")
    for u in (pairwise, bma):
        np.testing.assert_array_equal(u.total, u.aleatoric + u.epistemic)
        assert np.all(u.epistemic > 0)
    assert np.all(bma.epistemic < np.minimum(np.log(3), pairwise.epistemic))
    np.testing.assert_allclose(
        bma.total, kuq.entropy(kuq.Ensemble(laws), kuq.LogScore()), rtol=1e-8
    )
    there = kuq.decompose(kuq.Ensemble(moved(laws, shift)), kuq.LogScore(), unbiased=False)
    np.testing.assert_allclose(there.total, pairwise.total, rtol=1e-8)
    same = kuq.decompose(kuq.Ensemble([laws.member(0)] * 3), kuq.LogScore())
    np.testing.assert_allclose(same.epistemic, 0, atol=1e-15)
