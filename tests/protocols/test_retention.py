"""Selective prediction against brute force, the definition of retention, and its limits."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kuq
from kuq.protocols import selective_prediction


def by_definition(u, e, low, high):
    """Areas by a plain loop over k, with cases in the given order of uncertainty (no ties)."""
    n = len(e)

    def curve(order):
        by = sorted(range(n), key=lambda i: order[i])
        return [(k / n, sum(e[i] for i in by[:k]) / k) for k in range(1, n + 1)]

    def area(points):
        inside = [p for p in points if low - 1e-12 <= p[0] <= high + 1e-12]
        return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in itertools.pairwise(inside))

    mine, best = area(curve(u)), area(curve(e))
    chance = area([(k / n, sum(e) / n) for k in range(1, n + 1)])
    return (mine - best) / (chance - best)


@pytest.mark.parametrize("n", [6, 7, 31, 200])
@pytest.mark.parametrize(("low", "high"), [(0.5, 1.0), (0.0, 1.0), (0.2, 0.9)])
def test_ratio_is_that_of_the_definition(n, low, high):
    rng = np.random.default_rng(n)
    e = rng.gamma(1.0, size=n)
    u = e + rng.normal(size=n)
    r = selective_prediction(u, e, retention=(low, high))
    assert r.prr == pytest.approx(by_definition(u, e, low, high), rel=1e-12)
    assert r.prr_full == pytest.approx(by_definition(u, e, 0.0, 1.0), rel=1e-12)
    assert (r.prr_positive, r.prr_full_positive) == (1 - r.prr, 1 - r.prr_full)


def test_curve_is_the_mean_error_of_the_least_uncertain():
    rng = np.random.default_rng(0)
    u, e = rng.normal(size=40), rng.gamma(1.0, size=40)
    r = selective_prediction(u, e)
    order = np.argsort(u)
    assert r.retention.tolist() == [k / 40 for k in range(20, 41)]
    for share, risk, oracle in zip(r.retention, r.risk, r.oracle, strict=True):
        k = math.ceil(share * 40 - 1e-9)
        assert risk == pytest.approx(e[order[:k]].mean())
        assert oracle == pytest.approx(np.sort(e)[:k].mean())
    assert r.random == pytest.approx(np.full(21, e.mean()))
    assert r.random_area == pytest.approx(0.5 * e.mean())


def test_ties_count_as_the_mean_over_all_their_orders():
    u, e = [1, 2, 2, 2, 3], [0.3, 0.1, 2.0, 0.7, 1.0]
    orders = []
    for places in itertools.permutations(range(3)):
        broken = [1, *(2 + 0.1 * place for place in places), 3]
        orders.append(selective_prediction(broken, e, retention=(0.0, 1.0)))
    r = selective_prediction(u, e, retention=(0.0, 1.0))
    assert r.risk == pytest.approx(np.mean([o.risk for o in orders], axis=0))
    assert r.prr == pytest.approx(np.mean([o.prr for o in orders]))


@given(st.lists(st.floats(0, 100), min_size=4, max_size=40))
def test_ends_of_the_scale(errors):
    e = np.asarray(errors)
    assert np.ptp(e) < 1e-3 or selective_prediction(e, e).prr == pytest.approx(0.0, abs=1e-9)
    constant = selective_prediction(np.ones_like(e), e)
    assert np.ptp(e) < 1e-3 or constant.prr == pytest.approx(1.0)
    assert np.ptp(e) < 1e-3 or selective_prediction(-e, e).prr >= 1.0 - 1e-9


def test_order_of_uncertainty_is_all_that_counts():
    rng = np.random.default_rng(1)
    u, e = rng.normal(size=50), rng.gamma(1.0, size=50)
    plain = selective_prediction(u, e)
    assert selective_prediction(np.exp(3 * u), 7 * e + 2).prr == pytest.approx(plain.prr)
    u[np.argmax(u)] = np.inf
    assert selective_prediction(u, e).prr == plain.prr


def test_equal_errors_have_no_ratio():
    assert math.isnan(selective_prediction([1, 2, 3, 4], np.full(4, 0.1)).prr)


def test_torch_tensors_are_read():
    torch = pytest.importorskip("torch")
    u = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    assert selective_prediction(u, torch.tensor([0.0, 1.0, 5.0, 2.0])).prr == pytest.approx(4 / 7)


@pytest.mark.parametrize(
    ("u", "e", "retention", "error", "text"),
    [
        ([1, 2], [1, 2, 3], (0.5, 1), kuq.ShapeError, "2 and 3"),
        ([1, np.nan], [1, 2], (0.5, 1), kuq.ParameterError, "uncertainty has NaN in 1 of 2"),
        ([1, 2], [1, np.inf], (0.5, 1), kuq.ParameterError, "error has NaN or infinite"),
        ([[1, 2]], [[1, 2]], (0.5, 1), kuq.ShapeError, "one number per case"),
        ([], [], (0.5, 1), kuq.InsufficientDataError, "empty"),
        ([1], [1], (0.5, 1), kuq.InsufficientDataError, "two cases"),
        ([1, 2, 3], [1, 2, 3], (0.9, 1), kuq.InsufficientDataError, "fewer than two of 3"),
        ([1, 2, 3], [1, 2, 3], (1, 0.5), kuq.ParameterError, "low < high"),
        (["a", "b"], [1, 2], (0.5, 1), kuq.ParameterError, "real numbers"),
        (np.ma.masked_array([1, 2]), [1, 2], (0.5, 1), kuq.ParameterError, "masked"),
    ],
)
def test_bad_input_is_named(u, e, retention, error, text):
    with pytest.raises(error, match=text):
        selective_prediction(u, e, retention)
