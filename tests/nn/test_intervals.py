"""Intervals and standard deviations of trained networks."""

import numpy as np
import pytest

import kuq

pytest.importorskip("torch")


SCALAR = ["normal", "evidential", "mixture", "low-rank", "sampler", "flow"]


@pytest.mark.parametrize(
    ("kind", "width"), [*((kind, None) for kind in SCALAR), ("normal", 2), ("low-rank", 2)]
)
def test_intervals_and_standard_deviations_have_the_shape_of_the_target(kind, width):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3))
    y = rng.normal(size=40 if width is None else (40, width))
    model = kuq.nn.Regressor(kind, n_members=2, max_epochs=2, hidden_sizes=(8,)).fit(x, y)
    mean, std = model.predict(x[:7], return_std=True)
    law = model.predict_distribution(x[:7])
    assert mean.shape == std.shape == y[:7].shape
    np.testing.assert_array_equal(mean, model.predict(x[:7]))
    np.testing.assert_array_equal(std, law.std().reshape(std.shape))
    low, high = model.predict_interval(x[:7], coverage=0.8)
    np.testing.assert_allclose(low, law.quantile(0.1).reshape(low.shape), atol=1e-12)
    assert low.shape == y[:7].shape
    assert np.all(low < high)
    wide = model.predict_interval(x[:7])
    assert np.all(wide[0] <= low)
    assert np.all(wide[1] >= high)


def test_intervals_of_fields_are_fields():
    """The low-rank law is one of vectors."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(20, 1, 4, 4))
    model = kuq.nn.Regressor("low-rank", n_members=2, max_epochs=30, hidden_sizes=(4,), rank=2)
    model.fit(x, x[:, 0])
    assert model.predict_interval(x)[0].shape == model.predict(x).shape == (20, 4, 4)
    assert model.predict(x, return_std=True)[1].shape == (20, 4, 4)


def test_intervals_of_a_model_that_knows_the_noise_cover_what_they_say():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, size=(3000, 1))
    y = x[:, 0] + 0.3 * rng.normal(size=3000)
    model = kuq.nn.Regressor("normal", n_members=2, max_epochs=60, learning_rate=1e-2, seed=0)
    model.fit(x[:1500], y[:1500])
    low, high = model.predict_interval(x[1500:], coverage=0.8)
    inside = np.mean((y[1500:] >= low) & (y[1500:] <= high))
    assert abs(inside - 0.8) < 0.05  # five standard deviations of a share of 1500


def test_coverage_outside_of_zero_to_one_is_refused():
    rng = np.random.default_rng(2)
    model = kuq.nn.Regressor("normal", n_members=2, max_epochs=1, hidden_sizes=(4,))
    model.fit(rng.normal(size=(20, 1)), rng.normal(size=20))
    with pytest.raises(kuq.ParameterError, match="coverage must be between 0 and 1, got 95"):
        model.predict_interval([[0.0]], coverage=95)
