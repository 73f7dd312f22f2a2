"""Kernel cards state facts; here every fact is verified by numbers, and every class has a row."""

from __future__ import annotations

import dataclasses
import inspect
import json

import numpy as np
import pytest
from cases import DISTRIBUTIONS, KERNELS, SECOND_ORDER, KernelCase

import kuq

EXTRA = [
    KernelCase(
        "convex sum", None, lambda g: kuq.SquaredError() + kuq.Energy(), lambda r, g: r**2 + r,
        convex=True,
    ),
    KernelCase(
        "same degree", None, lambda g: kuq.Energy(0.5) + 3.0 * kuq.Energy(0.5),
        lambda r, g: 4 * np.sqrt(r), degree=0.5,
    ),
    KernelCase(
        "bounded and not", None, lambda g: 5.0 * kuq.Gaussian(g) + kuq.SquaredError(),
        lambda r, g: r**2 - 5 * np.exp(-((r / g) ** 2)),
    ),
]  # fmt: skip
ALL = KERNELS + EXTRA
kernels = pytest.mark.parametrize("kernel", ALL, ids=str)
dimensions = pytest.mark.parametrize("dimension", [1, 3])


def gram(kernel, x):
    return np.asarray(kernel.build(1.0)(x[:, None], x[None, :]))


def centred(k):
    """−CKC: positive semidefinite where k is conditionally negative definite."""
    c = np.eye(len(k)) - 1 / len(k)
    return -c @ k @ c


@kernels
@dimensions
def test_values_are_those_of_the_formula(kernel, dimension):
    """k(x, y), from SciPy alone, at distances from 1e-3 to 1e3."""
    rng = np.random.default_rng(11)
    x, y = rng.normal(size=(2, 60, dimension))
    x *= np.logspace(-3, 3, 60)[:, None]
    y *= np.logspace(-3, 3, 60)[:, None]
    for bandwidth in (0.5, 40.0):
        expected = kernel.k(x, y, bandwidth)
        values = kernel.build(bandwidth)(x, y)
        # Where k is near −1 the formula of the reference cancels.
        np.testing.assert_allclose(values, expected, rtol=1e-11, atol=1e-12)


@kernels
@dimensions
def test_symmetric_and_conditionally_negative_definite(kernel, dimension):
    rng = np.random.default_rng(11)
    x = rng.normal(size=(12, dimension)) * rng.choice([0.1, 1.0, 10.0], size=(12, 1))
    k = gram(kernel, x)
    np.testing.assert_allclose(k, k.T, rtol=1e-14)
    assert np.linalg.eigvalsh(centred(k))[0] > -1e-12 * np.abs(k).max()


@kernels
def test_strictly_proper_exactly_as_claimed(kernel):
    """Σ c_i c_j k(x_i, x_j) < 0 for all c with sum zero, on a grid that tests dependence too."""
    rng = np.random.default_rng(11)
    assert kernel.build(1.0).card.strictly_proper == kernel.strictly_proper
    grid = np.stack(np.meshgrid([0.0, 1.0], [0.0, 1.0]), axis=-1).reshape(-1, 2)
    for x in (grid, rng.normal(size=(7, 2))):
        second = np.linalg.eigvalsh(centred(gram(kernel, x)))[1]  # the first is the constant
        if kernel.strictly_proper:
            assert second > 1e-4
        elif x is grid:
            assert abs(second) < 1e-12


@kernels
def test_strictly_proper_scores_tell_apart_what_others_do_not(kernel):
    """Bivariate normals of correlation 0.9 and 0, and normals of one mean and two variances."""
    rho = 0.9
    correlated = kuq.LowRankNormal([0.0, 0.0], [[rho**0.5], [rho**0.5]], [1 - rho, 1 - rho])
    d = float(kuq.divergence(correlated, kuq.Normal([0.0, 0.0], 1.0, 1), kernel.build(1.0)))
    assert d == pytest.approx(0.0, abs=1e-15) if not kernel.strictly_proper else d > 1e-3
    if kernel.name == "energy":
        assert d == pytest.approx(0.0359, abs=5e-5)
    d = float(kuq.divergence(kuq.Normal(0.0, 1.0), kuq.Normal(0.0, 3.0), kernel.build(1.0)))
    assert d == 0.0 if kernel.name == "squared" else d > 1e-2


@kernels
@dimensions
def test_bounded_exactly_as_claimed(kernel, dimension):
    assert kernel.build(1.0).card.bounded == kernel.bounded
    x = np.zeros((13, dimension))
    y = np.logspace(0, 12, 13)[:, None] * np.ones(dimension)
    values = np.abs(kernel.build(1.0)(x, y))
    if kernel.bounded:
        assert values.max() <= 2.5
    else:
        assert np.all(np.diff(values) > 0)
        assert values[-1] > 1e5


@kernels
@dimensions
def test_translation_invariant(kernel, dimension):
    rng = np.random.default_rng(11)
    assert kernel.build(1.0).card.translation_invariant
    x, y = rng.normal(size=(2, 40, dimension)).round(3) * 1024
    values = [kernel.build(1.0)(x + c, y + c) for c in (0.0, 2.0**20, -(2.0**30))]
    np.testing.assert_allclose(values[1], values[0], rtol=1e-9)
    np.testing.assert_allclose(values[2], values[0], rtol=1e-6)


@kernels
@dimensions
def test_homogeneous_of_the_claimed_degree(kernel, dimension):
    rng = np.random.default_rng(11)
    card = kernel.build(1.0).card
    assert card.homogeneous_degree == kernel.degree
    x, y = rng.normal(size=(2, 40, dimension))
    k = kernel.build(1.0)
    for c in (0.3, 3.0):
        ratio = k(c * x, c * y) / k(x, y)
        if kernel.degree is not None:
            np.testing.assert_allclose(ratio, c**kernel.degree, rtol=1e-12)
        else:  # no degree fits all pairs of points
            assert np.ptp(ratio) > 1e-3


@kernels
@dimensions
def test_convex_exactly_as_claimed(kernel, dimension):
    """ψ(x − y) at midpoints of random differences of all sizes."""
    rng = np.random.default_rng(11)
    assert kernel.build(1.0).card.convex == kernel.convex
    a, b = rng.normal(size=(2, 4000, dimension)) * np.logspace(-2, 2, 4000)[:, None]
    zero = np.zeros(dimension)
    k = kernel.build(1.0)
    excess = (k(a, zero) + k(b, zero)) / 2 - k((a + b) / 2, zero)
    if kernel.convex:
        assert excess.min() > -1e-12
    else:
        assert excess.min() < -1e-2


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_counterexample_in_the_convex_order(kernel):
    """U{−3,−1,1,3} ≤cx U{−3,3}: kernels that are not convex order AU the other way round."""
    narrow, wide = (
        float(kuq.entropy(kuq.Samples(x), kernel.build(0.5), unbiased=False))
        for x in ([-3.0, -1.0, 1.0, 3.0], [-3.0, 3.0])
    )
    assert (narrow < wide) == kernel.build(0.5).card.aleatoric_grows_with_spread


@kernels
def test_propositions_follow_from_the_facts(kernel):
    card = kernel.build(1.0).card
    assert card.epistemic_zero_only_if_members_agree == kernel.strictly_proper
    assert card.aleatoric_grows_with_spread == (kernel.convex and kernel.translation_invariant)
    assert card.robust == kernel.bounded
    assert not (card.robust and card.aleatoric_grows_with_spread)


# Cards of kernels with weights, of transforms, and of the log score.


@pytest.mark.parametrize("maker", [kuq.Energy, lambda weights: kuq.Gaussian(1.0, weights=weights)])
def test_a_zero_weight_ends_strictness(maker):
    seen, unseen = maker(weights=[1.0, 2.0]), maker(weights=[1.0, 0.0])
    assert (seen.card.strictly_proper, unseen.card.strictly_proper) == (True, False)
    pair = kuq.Point([0.0, 0.0], 1), kuq.Point([0.0, 5.0], 1)
    assert float(kuq.divergence(*pair, unseen)) == 0.0
    assert float(kuq.divergence(*pair, seen)) > 0.1


def test_transforms_promise_only_what_they_can():
    clipped = kuq.Energy().on(lambda x: np.maximum(x, 0.0))
    assert clipped.card == kuq.KernelCard(clipped.card.name, clipped.card.formula)
    assert float(kuq.divergence(kuq.Point(-3.0), kuq.Point(-1.0), clipped)) == 0.0
    assert kuq.Gaussian(1.0).on(np.abs).card.bounded


def test_the_card_of_the_log_score():
    card, score = kuq.LogScore().card, kuq.LogScore()
    facts = (card.strictly_proper, card.bounded, card.translation_invariant, card.convex)
    assert facts == (True, False, True, False)
    assert card.homogeneous_degree is None
    p, q = kuq.Normal([0.0, 1e4], 1.0), kuq.Normal([0.0, 1e4], [1.0 + 1e-6, 2.0])
    assert np.all(kuq.divergence(p, q, score) > 0)
    assert np.ptp(kuq.entropy(p, score)) == 0
    far = kuq.divergence(kuq.Normal(0.0, 1.0), kuq.Normal(1e6, 1.0), score)
    assert float(far) == pytest.approx(5e11)


# The table, and completeness of the tables of cases.


def test_table_prints_and_gives_records():
    cards = kuq.kernel_cards()
    lines = repr(cards).splitlines()
    assert len(lines) == len(cards) + 2
    for word in ("strictly proper", "bounded", "degree", "convex", "Prop. 1", "Prop. 2", "Prop. 3"):
        assert word in lines[0]
    records = cards.records()
    assert json.loads(json.dumps(records)) == records
    assert [r["name"] for r in records] == [card.name for card in cards]
    for record, card in zip(records, cards, strict=True):
        assert dataclasses.asdict(card).items() <= record.items()
    only = kuq.kernel_cards([kuq.Gaussian(2.0), kuq.LogScore()])
    assert [card.robust for card in only] == [True, False]


def test_table_holds_every_kernel_that_is_exported():
    names = " ".join(card.name for card in kuq.kernel_cards())
    names = names.replace("CRPS", "Marginal")  # which it is
    for maker in _exported(kuq.Kernel):
        assert maker.__name__ in names
    assert "LogScore" in names


def _exported(base):
    members = [getattr(kuq, name) for name in kuq.__all__]
    classes = [m for m in members if inspect.isclass(m) and issubclass(m, base)]
    return [c for c in classes if not inspect.isabstract(c)]


@pytest.mark.parametrize("maker", [*_exported(kuq.Kernel), kuq.CRPS, kuq.InverseMultiquadric])
def test_every_kernel_has_a_row(maker):
    assert maker in [case.maker for case in KERNELS], f"add {maker.__name__} to KERNELS in cases.py"


@pytest.mark.parametrize("maker", _exported(kuq.Prediction))
def test_every_distribution_has_a_row(maker):
    rows = [case.maker for case in DISTRIBUTIONS + SECOND_ORDER]
    assert maker in rows, f"add {maker.__name__} to DISTRIBUTIONS in cases.py"


@pytest.mark.parametrize("case", DISTRIBUTIONS + SECOND_ORDER, ids=str)
def test_rows_build_what_they_say(case):
    law = case.build(np.random.default_rng(0), (4, 3), (2,))
    assert isinstance(law, case.maker)
    assert (law.batch_shape, law.event_shape) == ((4, 3), (2,))
    if case.scalar_event:
        assert case.build(np.random.default_rng(0), (4,), ()).event_shape == ()
