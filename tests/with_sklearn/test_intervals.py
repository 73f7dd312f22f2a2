"""Intervals and standard deviations of scikit-learn's ensembles."""

import numpy as np
import pytest

import kuq

pytest.importorskip("sklearn")


@pytest.mark.parametrize("width", [None, 2])
def test_a_forest_predicts_intervals_and_standard_deviations(width):
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(300, 2))
    y = 0.2 * rng.normal(size=300 if width is None else (300, width))
    model = kuq.sklearn.UncertaintyRegressor(n_members=10, random_state=0).fit(x, y)
    law = model.predict_distribution(x[:9])
    mean, std = model.predict(x[:9], return_std=True)
    np.testing.assert_array_equal(mean, model.predict(x[:9]))
    np.testing.assert_allclose(std, law.std(), rtol=1e-12)
    low, high = model.predict_interval(x[:9], coverage=0.8)
    np.testing.assert_array_equal(low, law.quantile(0.1))
    assert low.shape == high.shape == y[:9].shape
    assert np.all(low < high)


def test_intervals_of_many_rows_come_in_parts():
    rng = np.random.default_rng(1)
    x = rng.uniform(size=(200, 1))
    model = kuq.sklearn.UncertaintyRegressor(n_members=5, random_state=0).fit(
        x, rng.normal(size=200)
    )
    whole = model.predict_interval(x), model.predict(x, return_std=True)
    from kuq.sklearn import regressor

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regressor, "DEFAULT_MEMORY", 2**12)
        parts = model.predict_interval(x), model.predict(x, return_std=True)
    np.testing.assert_allclose(np.array(parts), np.array(whole), rtol=1e-12)
