"""UncertaintyRegressor keeps the conventions of scikit-learn."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor, RandomForestRegressor, VotingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import kuq
from kuq.sklearn import UncertaintyRegressor, forest_ensemble, scorer
from kuq.sklearn.probabilistic import NormalMembers
from kuq.sklearn.residuals import ResidualMembers
from kuq.sklearn.trees import TreeMembers

X = default_rng(0).uniform(-1.0, 1.0, size=(120, 3))
Y = X[:, 0] + X[:, 1] ** 2 + default_rng(1).normal(scale=0.1, size=120)

KINDS = {
    "default": (None, TreeMembers),
    "forest": (RandomForestRegressor(n_estimators=7, min_samples_leaf=3), TreeMembers),
    "tree": (DecisionTreeRegressor(min_samples_leaf=3), TreeMembers),
    "line": (LinearRegression(), ResidualMembers),
    "ridge": (BayesianRidge(), NormalMembers),
    "bagging": (BaggingRegressor(BayesianRidge()), NormalMembers),
}


@parametrize_with_checks(
    [
        UncertaintyRegressor(n_members=5),
        UncertaintyRegressor(LinearRegression(), n_members=5),
    ],
    # As for scikit-learn's own bags: weights and repeated rows draw differently.
    expected_failed_checks=lambda model: {
        "check_sample_weight_equivalence_on_dense_data": "equal on average only"
    },
)
def test_conventions_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", KINDS)
def test_members_by_kind(name):
    estimator, kind = KINDS[name]
    model = UncertaintyRegressor(estimator, n_members=6, random_state=0).fit(X, Y)
    assert isinstance(model.members_, kind)
    p = model.predict_distribution(X[:9])
    assert p.member_count == 6
    np.testing.assert_allclose(model.predict(X[:9]), p.mean(), rtol=1e-10)
    found = model.predict_uncertainty(X[:9], kuq.Gaussian(0.5))
    expected = kuq.decompose(p, kuq.Gaussian(0.5))
    np.testing.assert_allclose(found.total, expected.total, rtol=1e-12)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        again.predict_uncertainty(X[:9]).total, model.predict_uncertainty(X[:9]).total
    )


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("unbiased", [True, "members", "samples", False])
def test_leaves_that_rows_share_are_measured_once_with_the_same_result(vector, unbiased):
    y = np.stack([Y, -X[:, 2]], axis=1) if vector else Y
    model = UncertaintyRegressor(n_members=6, random_state=0).fit(X, y)
    for score in (kuq.CRPS(), kuq.Energy(), kuq.CRPS(reduce=None), 2.0 * kuq.Laplace(0.3)):
        for estimator in ("pairwise", "bma"):
            options = {"estimator": estimator, "unbiased": unbiased}
            found = model.predict_uncertainty(X, score, **options)
            expected = kuq.decompose(model.predict_distribution(X), score, **options)
            for key in found:
                np.testing.assert_allclose(found[key], expected[key], rtol=1e-9, atol=1e-12)
            assert (found.method, found.units) == (expected.method, expected.units)


def test_residuals_as_noise():
    model = UncertaintyRegressor(LinearRegression(), noise="residuals", random_state=0).fit(X, Y)
    assert isinstance(model.predict_distribution(X).members, kuq.Samples)


def test_score_is_a_parameter_and_a_method():
    model = UncertaintyRegressor(n_members=5, score=kuq.Gaussian(2.0), random_state=0).fit(X, Y)
    assert model.get_params()["score"] == kuq.Gaussian(2.0)
    assert model.score(X, Y) == pytest.approx(r2_score(Y, model.predict(X)), rel=1e-14)
    assert model.predict_uncertainty(X).score == kuq.Gaussian(2.0)
    assert model.predict_uncertainty(X, kuq.Energy()).score == kuq.Energy()
    copy = clone(model)
    assert copy.get_params()["score"] == kuq.Gaussian(2.0)
    assert copy.set_params(score=kuq.Energy()).get_params()["score"] == kuq.Energy()
    assert "score=Gaussian" in repr(model)


def test_sits_in_a_pipeline_and_in_a_search():
    pipeline = make_pipeline(
        StandardScaler(),
        UncertaintyRegressor(RandomForestRegressor(8), noise="leaves", random_state=0),
    )
    grid = {"uncertaintyregressor__estimator__min_samples_leaf": [1, 5, 60]}
    by_mean = GridSearchCV(pipeline, grid, cv=3).fit(X, Y)
    by_law = GridSearchCV(pipeline, grid, cv=3, scoring=scorer(kuq.CRPS())).fit(X, Y)
    for search in (by_mean, by_law):
        assert search.best_params_ != {"uncertaintyregressor__estimator__min_samples_leaf": 60}
    step = by_law.best_estimator_[-1]
    inputs = by_law.best_estimator_[:-1].transform(X)
    expected = kuq.score(step.predict_distribution(inputs), Y, kuq.CRPS(), unbiased=False)
    found = scorer(kuq.CRPS())(by_law.best_estimator_, X, Y)
    assert found == pytest.approx(-np.mean(expected), rel=1e-12)


def test_a_fitted_forest_needs_no_retraining():
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    forest = RandomForestRegressor(9, min_samples_leaf=4, random_state=0).fit(table, Y)
    model = UncertaintyRegressor.from_fitted(forest, table, Y, score=kuq.Energy())
    assert model.estimator_ is forest
    np.testing.assert_array_equal(model.predict(table), forest.predict(table))
    found = model.predict_uncertainty(table)
    expected = kuq.decompose(forest_ensemble(forest, table, Y, table), kuq.Energy())
    np.testing.assert_allclose(found.total, expected.total, rtol=1e-12)


def test_sparse_inputs_of_a_fitted_forest():
    sparse = csr_array(np.where(X > 0, X, 0.0))
    forest = RandomForestRegressor(5, min_samples_leaf=3, random_state=0).fit(sparse, Y)
    found = UncertaintyRegressor.from_fitted(forest, sparse, Y).predict_uncertainty(sparse)
    dense = UncertaintyRegressor.from_fitted(forest, sparse.toarray(), Y)
    np.testing.assert_array_equal(found.total, dense.predict_uncertainty(sparse.toarray()).total)


@pytest.mark.parametrize("score", [kuq.CRPS(), kuq.Energy(), kuq.CRPS(reduce=None)])
def test_rows_go_in_parts_with_the_same_result(score):
    y = np.stack([Y, -X[:, 2]], axis=1)
    model = UncertaintyRegressor(n_members=5, random_state=0).fit(X, y)
    whole = model.predict_uncertainty(X, score)
    parts = model.predict_uncertainty(X, score, max_memory=2e4)
    assert len(list(model.members_.parts(X, 2e4))) > 5
    for key in whole:
        np.testing.assert_allclose(parts[key], whole[key], rtol=1e-12)


def test_a_median_bandwidth_is_that_of_all_rows():
    model = UncertaintyRegressor(n_members=5, random_state=0).fit(X, Y)
    whole = model.predict_uncertainty(X, kuq.Gaussian("median"))
    parts = model.predict_uncertainty(X, kuq.Gaussian("median"), max_memory=2e4)
    assert parts.score == whole.score
    np.testing.assert_allclose(parts.total, whole.total, rtol=1e-12)


def test_leaves_of_one_target_know_no_noise():
    model = UncertaintyRegressor(RandomForestRegressor(5), random_state=0).fit(X, Y)
    with pytest.warns(UserWarning, match="min_samples_leaf=10"):
        assert np.all(model.predict_uncertainty(X).aleatoric == 0)


def test_wrong_use_is_refused():
    with pytest.raises(NotFittedError):
        UncertaintyRegressor().predict_uncertainty(X)
    voting = VotingRegressor([("a", BayesianRidge()), ("b", BayesianRidge(tol=0.1))])
    with pytest.raises(kuq.ParameterError, match="leave n_members out"):
        UncertaintyRegressor(voting, n_members=3).fit(X, Y)
    assert UncertaintyRegressor(voting).fit(X, Y).predict_uncertainty(X).total.shape == (120,)
    with pytest.raises(kuq.ParameterError, match="noise must be"):
        UncertaintyRegressor(noise="gamma").fit(X, Y)
    with pytest.raises(kuq.ParameterError, match="predicts no distributions"):
        scorer(kuq.CRPS())(LinearRegression().fit(X, Y), X, Y)
    with pytest.raises(kuq.ParameterError, match="one of crps, energy"):
        scorer("crsp")
