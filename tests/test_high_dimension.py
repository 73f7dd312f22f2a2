"""Power series in the scale, products of factors and long windows: against plain sums."""

import math

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist

import kuq
from kuq._special import sum_log1p
from kuq.distributions.atoms import Normals
from kuq.expectations import expansion, normal


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.fixture(autouse=True)
def generic():
    with kuq.compiled(False):
        yield


@pytest.mark.parametrize("d", [1, 2, 3, 7, 8, 9, 64, 1001])
@pytest.mark.parametrize("size", [1e-20, 1e-8, 1.0, 1e12, 1e60])
def test_sums_of_logarithms(d, size, rng):
    x = size * rng.uniform(0.1, 2, size=(3, d))
    wanted = [math.fsum(math.log1p(v) for v in row) for row in x]
    np.testing.assert_allclose(sum_log1p(x), wanted, rtol=1e-14)


def test_sums_of_logarithms_of_both_signs(rng):
    x = rng.uniform(-0.99, 5, size=(4, 333))
    wanted = [math.fsum(math.log1p(v) for v in row) for row in x]
    np.testing.assert_allclose(sum_log1p(x, doublings=2), wanted, rtol=1e-12)


def laws(rng, kind, d):
    scale = rng.uniform(0.5, 2, size=(2, 1, 1, 1, d))
    loc = rng.normal(size=scale.shape)
    if kind == "close":
        scale[1] = scale[0] * (1 + 1e-7 * rng.normal(size=d))
        loc[1] = loc[0] + 1e-7 * rng.normal(size=d)
    if kind == "point":
        scale[1] = 0
    if kind == "narrow":
        scale[1] *= 1e-3
    return [Normals(loc[k], scale[k]) for k in range(2)]


@pytest.mark.parametrize("kind", ["distinct", "close", "point", "narrow"])
@pytest.mark.parametrize("d", [800, 4070])
def test_series_is_the_overlap(kind, d, rng):
    p, q = laws(rng, kind, d)
    rtol = 1e-8
    count = expansion.terms(rtol, p, q)
    assert 3 <= count <= 12
    own = [expansion.LogAffinity.of(expansion.self_sums(law, count), rtol) for law in (p, q)]
    cross, gap, tilt, shift = expansion.pair_sums(p, q, count)
    between = expansion.LogAffinity.of(cross, rtol)
    series = expansion.Expansion(*own, between, gap, tilt, shift)
    moment = np.sum(p.scale**2 + q.scale**2 + (p.loc - q.loc) ** 2)
    t = np.geomspace(1e-6, 3.0, 12).reshape(-1, 1, 1, 1, 1) / moment
    got, wanted = series.overlap(t), normal.overlap(t, p, q)
    gap, tilt = normal._carefully(t[..., None], p.scale, q.scale)
    wanted = wanted._replace(gap=gap, tilt=tilt)  # with all digits, also where the shift is larger
    for name in got._fields:
        a, b = getattr(got, name), getattr(wanted, name)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-300, err_msg=name)


def test_series_is_refused_where_one_coordinate_dominates(rng):
    scale = np.full((1, 1, 1, 1, 400), 1e-2)
    scale[..., 0] = 1.0
    law = Normals(np.zeros_like(scale), scale)
    assert expansion.terms(1e-8, law) is None
    assert expansion.terms(1e-8, Normals(law.loc[..., :8], law.scale[..., :8])) is None


KERNELS = [kuq.Energy(), kuq.Energy(0.3), kuq.Laplace(30.0), kuq.Matern(30.0, 1.5)]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("dominated", [False, True])
@pytest.mark.parametrize("d", [2, 5, 40, 400])
def test_requested_accuracy_is_reached(kernel, dominated, d, rng):
    """Few dimensions decay slowly, one wide coordinate among many as well."""
    scale = rng.uniform(0.5, 2, size=(3, 2, d))
    if dominated:
        scale[..., 1:] *= 1e-3
    members = kuq.Normal(rng.normal(size=scale.shape) * scale, scale, event_ndim=1)
    exact = kuq.decompose(kuq.Ensemble(members), kernel, rtol=1e-12)
    for rtol in (1e-5, 1e-8):
        u = kuq.decompose(kuq.Ensemble(members), kernel, rtol=rtol)
        np.testing.assert_allclose(u.epistemic, exact.epistemic, rtol=rtol)
        np.testing.assert_allclose(u.aleatoric, exact.aleatoric, rtol=rtol)


def test_scales_that_differ_by_any_factor(rng):
    """Coordinates wider in one law and narrower in the other: the direct form is needed."""
    scale = np.array([[1e-20, 3.0, 6e-7], [1.5, 8e-10, 3e-23]])
    p, q = (kuq.Normal(np.zeros(3), s, event_ndim=1) for s in scale)
    value = float(kuq.divergence(p, q, kuq.Gaussian(1.0)))
    affinities = [
        math.prod(1 / math.sqrt(1 + 2 * (a * a + b * b)) for a, b in zip(x, y, strict=True))
        for x, y in ((scale[0], scale[0]), (scale[1], scale[1]), (scale[0], scale[1]))
    ]
    assert value == pytest.approx((affinities[0] + affinities[1]) / 2 - affinities[2], rel=1e-13)


@pytest.mark.parametrize("dimension", [800, 4070])
def test_draws_of_one_large_law(dimension):
    """So many numbers that products are made for one entry at a time where there are members."""
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(2, 90, dimension)) for _ in range(2))
    outcome = rng.normal(size=(2, dimension))
    inside = np.asarray([pdist(a).sum() / 90**2 for a in x])
    other = np.asarray([pdist(a).sum() / 90**2 for a in y])
    across = np.asarray([cdist(a, b).mean() for a, b in zip(x, y, strict=True)])
    p, q = kuq.Samples(x, event_ndim=1), kuq.Samples(y, event_ndim=1)
    entropy = kuq.entropy(p, kuq.Energy(), unbiased=False)
    np.testing.assert_allclose(entropy, inside, rtol=1e-12)
    divergence = kuq.divergence(p, q, kuq.Energy(), unbiased=False)
    np.testing.assert_allclose(divergence, across - inside - other, rtol=1e-9)
    score = kuq.score(p, outcome, kuq.Energy(), unbiased=False)
    distance = np.linalg.norm(x - outcome[:, None], axis=-1).mean(-1)
    np.testing.assert_allclose(score, distance - inside, rtol=1e-11)
    alone = kuq.decompose(
        kuq.Ensemble(kuq.Samples(x[None], event_ndim=1)), kuq.Energy(), unbiased=False
    )
    np.testing.assert_allclose(alone.aleatoric, inside, rtol=1e-12)
    np.testing.assert_array_equal(alone.epistemic, 0.0)
