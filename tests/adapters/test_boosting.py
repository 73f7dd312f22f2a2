"""Fitted gradient boosting as ensembles: members are models that stopped earlier."""

import numpy as np
import pytest

import kuq

sklearn = pytest.importorskip("sklearn")
from sklearn.ensemble import (  # noqa: E402
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

virtual_ensemble = kuq.adapters.virtual_ensemble


def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(300, 2))
    return X, X[:, 0] ** 2 + rng.normal(scale=0.3, size=300)


def hist(trees):
    return HistGradientBoostingRegressor(max_iter=trees, early_stopping=False, random_state=0)


def exact(trees):
    return GradientBoostingRegressor(n_estimators=trees, random_state=0)


def xgboost(trees):
    library = pytest.importorskip("xgboost")
    return library.XGBRegressor(n_estimators=trees, learning_rate=0.1, n_jobs=1)


def lightgbm(trees):
    library = pytest.importorskip("lightgbm")
    return library.LGBMRegressor(n_estimators=trees, verbose=-1, n_jobs=1)


MODELS = {"hist": hist, "exact": exact, "xgboost": xgboost, "lightgbm": lightgbm}


@pytest.mark.parametrize("name", MODELS)
def test_members_are_models_that_stopped_earlier(name):
    """Boosting adds trees one after the other: the same model with fewer trees is fitted anew."""
    X, y = data()
    model = MODELS[name](40).fit(X[:200], y[:200])
    ensemble = virtual_ensemble(model, X[200:], n_members=5)
    assert isinstance(ensemble.members, kuq.Point)
    for mean, trees in zip(ensemble.member_means(), (20, 25, 30, 35, 40), strict=True):
        again = MODELS[name](trees).fit(X[:200], y[:200])
        np.testing.assert_allclose(mean, again.predict(X[200:]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_noise_is_that_of_held_out_residuals(name):
    X, y = data()
    model = MODELS[name](40).fit(X[:200], y[:200])
    ensemble = virtual_ensemble(model, X[200:], n_members=4, held_out=(X[200:], y[200:]))
    residuals = y[200:] - model.predict(X[200:])
    np.testing.assert_allclose(ensemble.members.scale, np.sqrt(np.mean(residuals**2)), rtol=1e-5)
    u = kuq.decompose(ensemble, kuq.CRPS())
    assert u.is_split
    assert virtual_ensemble(model, X[200:], 4).members.value.shape == (4, 100)


@pytest.mark.parametrize("wrap", ["pipeline", "search", "search of pipelines"])
def test_models_inside_of_pipelines_and_searches(wrap):
    X, y = data()
    inner = hist(20)
    by_hand = virtual_ensemble(inner.fit(X, y), X[:9], 3).member_means()
    if wrap == "pipeline":
        model = make_pipeline(StandardScaler(), hist(20))
    elif wrap == "search":
        model = GridSearchCV(hist(20), {"max_depth": [None]}, cv=2)
    else:
        pipeline = make_pipeline(StandardScaler(), hist(20))
        model = GridSearchCV(pipeline, {"histgradientboostingregressor__max_depth": [None]}, cv=2)
    found = virtual_ensemble(model.fit(X, y), X[:9], 3).member_means()
    np.testing.assert_allclose(found, by_hand, rtol=1e-9)


def test_boosters_without_a_wrapper_and_early_stopping():
    X, y = data()
    xgb = pytest.importorskip("xgboost")
    rows = xgb.DMatrix(X[:200], y[:200])
    booster = xgb.train({"eta": 0.1, "nthread": 1}, rows, num_boost_round=30)
    found = virtual_ensemble(booster, X[200:], 3, held_out=(X[200:], y[200:]))
    np.testing.assert_array_equal(
        found.member_means()[-1].astype(np.float32), booster.predict(xgb.DMatrix(X[200:]))
    )
    stopped = xgb.XGBRegressor(n_estimators=500, early_stopping_rounds=3, n_jobs=1)
    stopped.fit(X[:200], y[:200], eval_set=[(X[200:], y[200:])], verbose=False)
    assert stopped.best_iteration < 400
    last = virtual_ensemble(stopped, X[200:], 2).member_means()[-1]
    np.testing.assert_array_equal(last.astype(np.float32), stopped.predict(X[200:]))


def test_lightgbm_boosters_and_early_stopping():
    X, y = data()
    lgb = pytest.importorskip("lightgbm")
    train, held_out = lgb.Dataset(X[:200], y[:200]), lgb.Dataset(X[200:], y[200:])
    settings = {"verbose": -1, "num_threads": 1}
    stop = lgb.early_stopping(3, verbose=False)
    booster = lgb.train(settings, train, 500, valid_sets=[held_out], callbacks=[stop])
    assert booster.best_iteration < 400
    last = virtual_ensemble(booster, X[200:], 2).member_means()[-1]
    np.testing.assert_array_equal(last, booster.predict(X[200:]))


def test_what_is_no_boosted_regressor_is_refused():
    X, y = data()
    with pytest.raises(kuq.ParameterError, match=r"RandomForestRegressor; bag other models"):
        virtual_ensemble(RandomForestRegressor(3).fit(X, y), X)
    with pytest.raises(kuq.ParameterError, match="needs a fitted regressor"):
        virtual_ensemble(GradientBoostingClassifier(n_estimators=3).fit(X, y > 1), X)
    with pytest.raises(kuq.ParameterError, match="not fitted"):
        virtual_ensemble(hist(3), X)
    with pytest.raises(kuq.ParameterError, match=r"6 trees .* n_members=3 at most"):
        virtual_ensemble(hist(6).fit(X, y), X, n_members=10)
    with pytest.raises(kuq.ShapeError, match=r"held_out .* \(300,\)"):
        virtual_ensemble(hist(6).fit(X, y), X, 2, held_out=(X, y[:, None]))
    search = GridSearchCV(hist(3), {"max_depth": [1]}, cv=2, refit=False).fit(X, y)
    with pytest.raises(kuq.ParameterError, match="refit=False"):
        virtual_ensemble(search, X)
