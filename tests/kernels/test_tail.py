"""Tail focus: the threshold-weighted CRPS of normals against mpmath, scoringrules and draws."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import kuq

scoringrules = pytest.importorskip("scoringrules")

BOUNDS = [(1.0, None), (None, -0.5), (-0.3, 1.2)]
bounds = pytest.mark.parametrize(("low", "high"), BOUNDS, ids=["upper", "lower", "interval"])


def ends(low, high):
    return (-np.inf if low is None else low), (np.inf if high is None else high)


@bounds
def test_score_of_draws_is_the_threshold_weighted_crps(low, high):
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(6, 30)), rng.normal(size=6)
    a, b = ends(low, high)
    ours = kuq.score(kuq.Samples(x), y, kuq.tail(kuq.CRPS(), low, below=high), unbiased=False)
    theirs = scoringrules.twcrps_ensemble(y, x, a, b, estimator="nrg")
    np.testing.assert_allclose(ours, theirs, rtol=1e-11)


@bounds
def test_score_of_normals_is_the_crps_of_censored_normals(low, high):
    rng = np.random.default_rng(3)
    loc, scale, y = rng.normal(size=9), rng.uniform(0.2, 3, size=9), 2 * rng.normal(size=9)
    a, b = ends(low, high)
    kernel = kuq.tail(kuq.CRPS(), low, below=high)
    ours = kuq.score(kuq.Normal(loc, scale), y, kernel)
    theirs = scoringrules.crps_cnormal(np.clip(y, a, b), loc, scale, a, b)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=4e-15)  # theirs cancels


@pytest.mark.parametrize(
    ("low", "high", "law", "other"),
    [
        (1.0, None, (0.2, 1.3), (0.5, 0.4)),
        (None, 0.0, (0.2, 1.3), (0.2 + 1e-6, 1.3 + 1e-7)),  # close members
        (7.0, None, (0.0, 1.0), (0.1, 1.05)),  # far tails, where 1 − F is 1e-12
        (-0.5, 0.5, (0.0, 1e-3), (0.4, 30.0)),  # scales apart
        (-2.0, -1.9, (5.0, 1.0), (4.0, 2.0)),  # an interval in the lower tail
    ],
)
def test_entropy_and_divergence_of_normals_by_high_precision(low, high, law, other):
    kernel = kuq.tail(kuq.Energy(), low, below=high)
    (m, s), (n, t) = law, other
    with mpmath.workdps(30):
        ends_ = sorted({v + k * w for v, w in (law, other) for k in range(-12, 13, 4)})
        a = ends_[0] if low is None else low
        b = ends_[-1] if high is None else high
        knots = [a, *(v for v in ends_ if a < v < b), b]

        def mass(x, loc, scale):
            return mpmath.ncdf((x - mpmath.mpf(loc)) / mpmath.mpf(scale))

        d = mpmath.quad(lambda x: (mass(x, m, s) - mass(x, n, t)) ** 2, knots)
        h = mpmath.quad(lambda x: mass(x, m, s) * mass(2 * mpmath.mpf(m) - x, m, s), knots)
    p, q = kuq.Normal(*law), kuq.Normal(*other)
    assert float(kuq.divergence(p, q, kernel)) == pytest.approx(float(d), rel=2e-8)
    assert float(kuq.entropy(p, kernel)) == pytest.approx(float(h), rel=1e-10)


def test_mixtures_points_and_draws_in_one_ensemble():
    """The exact route against the same members as many draws."""
    rng = np.random.default_rng(0)
    laws = [
        kuq.Normal([0.0, 1.0], [1.0, 0.5]),
        kuq.NormalMixture([[0.3, 0.7]] * 2, [[-1.0, 2.0], [0.0, 1.5]], [[0.5, 1.0], [1.0, 0.2]]),
        kuq.Samples(rng.normal(size=(2, 50))),
        kuq.Point([0.8, 2.0]),
    ]
    kernel = kuq.tail(kuq.Energy(), 0.5, below=3.0)
    exact = kuq.decompose(kuq.Ensemble(laws), kernel, unbiased=False)
    many = [p if isinstance(p, kuq.Samples) else kuq.Samples(p.sample(10000, rng)) for p in laws]
    drawn = kuq.decompose(kuq.Ensemble(many), kernel, unbiased=False)
    np.testing.assert_allclose(exact.aleatoric, drawn.aleatoric, rtol=0.03)
    np.testing.assert_allclose(exact.epistemic, drawn.epistemic, rtol=0.03)
    assert exact.method == "samples"  # the worst among its parts


def test_a_threshold_per_coordinate():
    rng = np.random.default_rng(3)
    loc, scale = rng.normal(size=(3, 4, 2)), rng.uniform(0.5, 1.5, size=(3, 4, 2))
    field = kuq.Ensemble(kuq.Normal(loc, scale, event_ndim=1))
    limits = np.array([0.3, 1.0])
    u = kuq.decompose(field, kuq.tail(kuq.CRPS(reduce=None), limits))
    for j, limit in enumerate(limits):
        one = kuq.Ensemble(kuq.Normal(loc[..., j], scale[..., j]))
        alone = kuq.decompose(one, kuq.tail(kuq.CRPS(), limit))
        np.testing.assert_allclose(u.epistemic[:, j], alone.epistemic, rtol=1e-12)
        np.testing.assert_allclose(u.aleatoric[:, j], alone.aleatoric, rtol=1e-12)
    with pytest.raises(kuq.ShapeError, match="threshold"):
        kuq.decompose(field, kuq.tail(kuq.CRPS(), [0.0, 1.0, 2.0]))


def test_low_rank_marginals_are_normals():
    rng = np.random.default_rng(3)
    loc, factor = rng.normal(size=(3, 2)), rng.normal(size=(3, 2, 1))
    kernel = kuq.tail(kuq.CRPS(), 0.4)
    low_rank = kuq.Ensemble(kuq.LowRankNormal(loc, factor, np.ones((3, 2))))
    normal = kuq.Ensemble(kuq.Normal(loc, np.sqrt(1 + factor[..., 0] ** 2), event_ndim=1))
    np.testing.assert_allclose(
        kuq.decompose(low_rank, kernel).total, kuq.decompose(normal, kernel).total, rtol=1e-12
    )


def test_both_tails_and_the_middle_are_the_whole():
    """|x−y| is the sum of what happens below a, between a and b, and above b."""
    rng = np.random.default_rng(3)
    p = kuq.Ensemble(kuq.Normal(rng.normal(size=(4, 6)), rng.uniform(0.3, 2, size=(4, 6))))
    parts = [
        kuq.tail(kuq.CRPS(), below=-0.4),
        kuq.tail(kuq.CRPS(), -0.4, below=0.9),
        kuq.tail(kuq.CRPS(), 0.9),
    ]
    whole = kuq.decompose(p, kuq.CRPS())
    together = kuq.decompose(p, sum(parts))
    np.testing.assert_allclose(together.aleatoric, whole.aleatoric, rtol=1e-11)
    np.testing.assert_allclose(together.epistemic, whole.epistemic, rtol=1e-11)
    assert together.method == "quadrature"


def test_units_do_not_matter():
    rng = np.random.default_rng(3)
    loc, scale = rng.normal(size=(3, 5)), rng.uniform(0.5, 2, size=(3, 5))
    one = kuq.decompose(kuq.Ensemble(kuq.Normal(loc, scale)), kuq.tail(kuq.CRPS(), 0.7))
    for unit in (1e-120, 1e120):
        other = kuq.decompose(
            kuq.Ensemble(kuq.Normal(unit * loc, unit * scale)), kuq.tail(kuq.CRPS(), 0.7 * unit)
        )
        np.testing.assert_allclose(other.epistemic / unit, one.epistemic, rtol=1e-11)


def test_moments_of_clipped_mixtures():
    from kuq.distributions.clipped import ClippedMixtures

    loc, scale, weights = np.array([0.0, 2.0]), np.array([1.0, 0.3]), np.array([0.6, 0.4])
    rng = np.random.default_rng(2)
    component = rng.choice(2, p=weights, size=400_000)
    x = np.clip(loc[component] + scale[component] * rng.standard_normal(component.size), 0.5, 2.1)
    atoms = ClippedMixtures(loc, scale, weights, np.array([0.5]), np.array([2.1]))
    assert float(atoms.mean()) == pytest.approx(x.mean(), abs=5 * x.std() / 600)
    assert float(atoms.variance()) == pytest.approx(x.var(), rel=0.02)


def test_what_has_no_closed_form_says_so_and_takes_draws():
    rng = np.random.default_rng(3)
    p = kuq.Ensemble(kuq.Normal(rng.normal(size=(3, 4)), 1.0))
    for kernel in (kuq.tail(kuq.Gaussian(1.0), 0.5), kuq.tail(kuq.SquaredError(), 0.5)):
        with pytest.raises(kuq.NoClosedFormError, match="draws=2000"):
            kuq.decompose(p, kernel)
        assert kuq.decompose(p, kernel, draws=200, seed=0).method == "monte-carlo"
    exact = kuq.decompose(p, kuq.tail(kuq.CRPS(), 0.5), draws=200, seed=0)
    assert exact.method == "quadrature"


@pytest.mark.parametrize("low", [0.4, 6.0])
def test_gradients_by_torch(low):
    torch = pytest.importorskip("torch")
    loc = torch.tensor([[0.1, 0.2], [0.9, 0.2]], dtype=torch.float64, requires_grad=True)
    scale = torch.tensor([[1.0, 1.0], [0.7, 1.0]], dtype=torch.float64, requires_grad=True)
    kernel = kuq.tail(kuq.CRPS(), low)

    def total(a, b):
        return kuq.decompose(kuq.Ensemble(kuq.Normal(a, b)), kernel).total

    assert torch.autograd.gradcheck(total, (loc, scale), eps=1e-5, atol=1e-9)
