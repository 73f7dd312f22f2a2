"""A set of quantiles as a distribution: its rule, its accuracy, its errors."""

import numpy as np
import pytest
import scipy.stats

import kuq

LEVELS = {
    "quartiles": [0.25, 0.5, 0.75],
    "deciles": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9],
    "with the ends": [0.0, 0.3, 1.0],
    "one end": [0.05, 0.5, 1.0],
}


def draws(levels, values, count=50_000):
    """The law that is documented, by its quantile function at equally likely levels."""
    u, v = np.asarray(levels), np.asarray(values)
    x = (np.arange(count) + 0.5) / count
    out = np.interp(x, u, v)
    z = scipy.stats.norm.ppf
    if u[0] > 0:
        slope = (v[1] - v[0]) / (z(u[1]) - z(u[0]))
        out = np.where(x < u[0], v[0] + slope * (z(x) - z(u[0])), out)
    if u[-1] < 1:
        slope = (v[-1] - v[-2]) / (z(u[-1]) - z(u[-2]))
        out = np.where(x > u[-1], v[-1] + slope * (z(x) - z(u[-1])), out)
    return out


@pytest.mark.parametrize("name", LEVELS)
def test_the_law_is_the_documented_one(name):
    rng = np.random.default_rng(3)
    levels = LEVELS[name]
    values = np.cumsum(rng.exponential(size=(3, len(levels))), axis=-1) - 5.0
    p = kuq.adapters.quantiles(levels, values)
    limit = 1e-3 if len(levels) < 9 else 2e-4
    for k, row in enumerate(values):
        q = kuq.Samples(draws(levels, row))
        h = float(kuq.entropy(q, kuq.CRPS(), unbiased=False))
        np.testing.assert_allclose(p.mean()[k], q.mean(), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(p.variance()[k], q.variance(), rtol=1e-3)
        np.testing.assert_allclose(kuq.entropy(p, kuq.CRPS())[k], h, rtol=limit)
        gap = kuq.divergence(p.member(k), q, kuq.CRPS(), unbiased=False)
        assert float(gap) < limit * h


def test_quantiles_of_a_normal_give_the_tails_of_the_normal():
    levels = np.arange(1, 20) / 20
    law = scipy.stats.norm(3.0, 2.0)
    p = kuq.adapters.quantiles(levels, law.ppf(levels))
    truth = kuq.Normal(3.0, 2.0)
    np.testing.assert_allclose(p.variance(), 4.0, rtol=0.01)
    np.testing.assert_allclose(
        kuq.entropy(p, kuq.CRPS()), kuq.entropy(truth, kuq.CRPS()), rtol=0.006
    )
    assert float(kuq.divergence(p, truth, kuq.CRPS())) < 1e-4


def test_equals_the_mixture_built_by_hand():
    p = kuq.adapters.quantiles([0.0, 0.5, 1.0], [1.0, 2.0, 6.0])
    loc = [1.125, 1.375, 1.625, 1.875, 2.5, 3.5, 4.5, 5.5]
    scale = np.repeat([0.25, 1.0], 4) / np.sqrt(12)
    by_hand = kuq.NormalMixture(np.full(8, 0.125), loc, scale)
    assert float(kuq.divergence(p, by_hand, kuq.Energy())) < 1e-15
    assert float(kuq.divergence(p, kuq.Point(2.0), kuq.Energy())) > 0.1


def test_equal_quantiles_are_a_point():
    p = kuq.adapters.quantiles([0.1, 0.9], np.full((2, 2), 7.0))
    np.testing.assert_allclose(kuq.score(p, [7.0, 9.0], kuq.CRPS()), [0.0, 2.0], atol=1e-14)


def test_a_large_offset_costs_no_digits():
    values = np.asarray([0.0, 1.0, 3.0])
    levels = LEVELS["quartiles"]
    near, far = (kuq.adapters.quantiles(levels, values + c) for c in (0.0, 2.0**30))
    np.testing.assert_allclose(far.variance(), near.variance(), rtol=1e-6)


def test_gradients_flow_to_the_quantiles():
    torch = pytest.importorskip("torch")
    values = torch.tensor([[0.0, 1.0, 3.0]], dtype=torch.float64, requires_grad=True)
    p = kuq.adapters.quantiles(LEVELS["quartiles"], values)
    kuq.score(p, torch.tensor([0.5], dtype=torch.float64), kuq.CRPS()).sum().backward()
    step = 1e-6
    for k in range(3):
        bump = np.eye(3)[k] * step
        up, down = (
            kuq.score(
                kuq.adapters.quantiles(LEVELS["quartiles"], [[0.0, 1.0, 3.0] + s * bump]),
                [0.5],
                kuq.CRPS(),
            )[0]
            for s in (1, -1)
        )
        np.testing.assert_allclose(values.grad[0, k], (up - down) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize(
    ("levels", "values", "kind", "message"),
    [
        ([0.1, 0.9], [1.0, 0.0], kuq.ParameterError, "cross"),
        ([0.1, 0.9], [0.0, np.nan], kuq.ParameterError, "finite"),
        ([0.9, 0.1], [0.0, 1.0], kuq.ParameterError, "increase"),
        ([0.1, 1.1], [0.0, 1.0], kuq.ParameterError, "increase"),
        ([0.1, np.nan], [0.0, 1.0], kuq.ParameterError, "increase"),
        ([0.5], [0.0], kuq.ShapeError, "two"),
        ([0.1, 0.9], [0.0, 1.0, 2.0], kuq.ShapeError, "last axis"),
        ([0.0, 0.9], [0.0, 1.0], kuq.ParameterError, "no slope"),
    ],
)
def test_bad_quantiles_are_refused(levels, values, kind, message):
    with pytest.raises(kind, match=message):
        kuq.adapters.quantiles(levels, values)
