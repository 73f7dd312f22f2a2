"""UncertaintyRegressor with rows that count more or less."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import kuq
from kuq.sklearn import UncertaintyRegressor


def data(n=150):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (n, 2))
    return x, x[:, 0] + 0.3 * rng.normal(size=n), rng.uniform(0.5, 3, n)


ESTIMATORS = {
    "forest": RandomForestRegressor(8, min_samples_leaf=5, random_state=0),
    "extra trees": ExtraTreesRegressor(8, min_samples_leaf=5, random_state=0),
    "bag of trees": BaggingRegressor(DecisionTreeRegressor(min_samples_leaf=5), random_state=0),
    "parts of trees": BaggingRegressor(
        DecisionTreeRegressor(min_samples_leaf=5), max_samples=80, bootstrap=False, random_state=0
    ),
    "lines": BaggingRegressor(LinearRegression(), random_state=0),
    "ridges": VotingRegressor([("a", BayesianRidge()), ("b", BayesianRidge(alpha_1=1.0))]),
    "pipeline": make_pipeline(StandardScaler(), RandomForestRegressor(8, random_state=0)),
}


@pytest.mark.filterwarnings("ignore:When fitting BaggingRegressor with sample_weight")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_weights_are_those_of_the_estimator(name):
    x, y, w = data()
    noise = "normal" if name == "pipeline" else "auto"
    model = UncertaintyRegressor(ESTIMATORS[name], noise=noise).fit(x, y, sample_weight=w)
    key = "randomforestregressor__sample_weight" if name == "pipeline" else "sample_weight"
    alone = ESTIMATORS[name].fit(x, y, **{key: w})
    np.testing.assert_array_equal(model.predict(x), alone.predict(x))
    around = UncertaintyRegressor.from_fitted(alone, x, y, noise=noise, sample_weight=w)
    for part in ("aleatoric", "epistemic"):
        found, expected = (m.predict_uncertainty(x)[part] for m in (model, around))
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(model.predict_distribution(x).mean(), model.predict(x), rtol=1e-8)
    unweighted = UncertaintyRegressor(ESTIMATORS[name], noise=noise).fit(x, y)
    assert np.abs(unweighted.predict(x) - model.predict(x)).max() > 1e-4


def test_weights_of_zero_are_absence():
    x, y, w = data()
    w[::2] = 0
    wild = np.where(w == 0, 1e6, y)
    for estimator in (None, LinearRegression()):
        model = UncertaintyRegressor(estimator, n_members=6, random_state=0)
        found = model.fit(x, wild, sample_weight=w).predict_uncertainty(x)
        there = w > 0
        expected = model.fit(x[there], y[there], sample_weight=w[there]).predict_uncertainty(x)
        np.testing.assert_array_equal(found.total, expected.total)


@pytest.mark.parametrize("noise", ["normal", "residuals"])
def test_residuals_count_by_the_weights_of_their_rows(noise):
    """A bag of means; noise is that of the heavy rows."""
    rng = np.random.default_rng(0)
    x, heavy = np.zeros((2000, 1)), np.arange(2000) < 1000
    y = rng.normal(size=2000) * np.where(heavy, 1.0, 10.0)
    w = np.where(heavy, 1.0, 0.01)
    bag = BaggingRegressor(LinearRegression(), 20, random_state=0)
    model = UncertaintyRegressor(bag, noise=noise).fit(x, y, sample_weight=w)
    variance = float(model.predict_distribution(x[:1]).member_list()[0].variance()[0])
    # (1 + 0.01 · 100) / 1.01, by 1000 rows of each kind: within some standard errors of 5 %.
    assert abs(variance / (2 / 1.01) - 1) < 0.3


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(5), "sample_weight"),
        (-np.ones(150), "(?i)negative"),
        (np.full(150, np.nan), "NaN"),
        (np.zeros(150), "(?i)sample.weight"),
    ],
)
def test_wrong_weights(weights, message):
    x, y, _ = data()
    with pytest.raises(ValueError, match=message):
        UncertaintyRegressor(n_members=3).fit(x, y, sample_weight=weights)


def test_an_estimator_without_weights_says_so():
    w = data()[2]
    whole = make_pipeline(StandardScaler(), GaussianProcessRegressor())
    with pytest.raises(kuq.ParameterError, match="takes no sample_weight"):
        UncertaintyRegressor._weighted(whole, w)
