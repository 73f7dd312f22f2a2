"""Fitted gradient boosting as ensembles: members are models that stopped earlier."""

import numpy as np
import pytest

import kuq

sklearn = pytest.importorskip("sklearn")
from sklearn.datasets import load_diabetes  # noqa: E402
from sklearn.ensemble import (  # noqa: E402
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression  # noqa: E402
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


@pytest.mark.parametrize("wrap", ["alone", "pipeline", "search of pipelines"])
@pytest.mark.parametrize("name", ["hist", "xgboost", "lightgbm"])
def test_patients_as_a_table(name, wrap):
    """The last member is what the library predicts, noise is its error, and intervals hold."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    train, held_out, test = slice(0, 222), slice(222, 332), slice(332, None)
    model = MODELS[name](30)
    if wrap != "alone":
        model = make_pipeline(StandardScaler().set_output(transform="pandas"), model)
    if wrap == "search of pipelines":
        step = model.steps[-1][0]
        model = GridSearchCV(model, {f"{step}__learning_rate": [0.05, 0.1]}, cv=2)
    model.fit(X[train], y[train])
    found = virtual_ensemble(model, X[test], 5, held_out=(X[held_out], y[held_out]))
    np.testing.assert_array_equal(found.member_means()[-1], model.predict(X[test]))
    u = kuq.decompose(found, "variance")
    error = np.sqrt(np.mean((model.predict(X[held_out]) - y[held_out]) ** 2))
    np.testing.assert_allclose(np.sqrt(u.aleatoric), error, rtol=1e-6)
    assert np.all((u.epistemic > 0) & (u.epistemic < u.aleatoric))
    low, high = found.interval(0.9)
    # Of 110 outcomes 90 % have a standard deviation of 3 %.
    assert 0.8 < np.mean((low <= y[test]) & (y[test] <= high)) <= 1.0


def test_models_without_stages_are_refused():
    """A linear booster ignores where it should stop: its members were equal, and EU zero."""
    X, y = data()
    linear = pytest.importorskip("xgboost").XGBRegressor(
        n_estimators=9, booster="gblinear", n_jobs=1
    )
    with pytest.raises(kuq.ParameterError, match=r"gblinear.* bag it"):
        virtual_ensemble(linear.fit(X, y), X, 3)


def test_averaged_trees_are_refused():
    X, y = data()
    settings = {"bagging_freq": 1, "bagging_fraction": 0.6, "verbose": -1, "n_jobs": 1}
    forest = pytest.importorskip("lightgbm").LGBMRegressor(
        n_estimators=9, boosting_type="rf", **settings
    )
    with pytest.raises(kuq.ParameterError, match=r"rf.* bag it"):
        virtual_ensemble(forest.fit(X, y), X, 3)


@pytest.mark.parametrize("name", MODELS)
def test_what_wants_a_bag_points_to_virtual_ensembles(name):
    X, y = data()
    model = MODELS[name](4).fit(X, y)
    for ask in (kuq.sklearn.forest_ensemble, kuq.sklearn.bagging_ensemble):
        with pytest.raises(kuq.ParameterError, match=r"kuq\.adapters\.virtual_ensemble\(model"):
            ask(model, X, y, X)


def test_bags_of_models_in_single_precision_are_computed_in_double():
    X, y = data()
    model = kuq.sklearn.UncertaintyRegressor(SinglePrecision(), n_members=4, random_state=0)
    assert model.fit(X, y).predict_uncertainty(X[:5]).epistemic.dtype == np.float64


class SinglePrecision(LinearRegression):
    """Predicts as XGBoost does."""

    def predict(self, X):
        return super().predict(X).astype(np.float32)


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
