"""Fitted ensembles of scikit-learn as kuq ensembles: the right targets, the right weights."""

import numpy as np
import pytest
from numpy.random import default_rng
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import kuq
from kuq.sklearn import bagging_ensemble, forest_ensemble, normal_ensemble

X = default_rng(0).uniform(size=(150, 4))
SCALAR = X[:, 0] + np.sin(5 * X[:, 1]) + default_rng(1).normal(scale=0.2, size=150)
VECTOR = np.stack([SCALAR, X[:, 2] - SCALAR, X[:, 3] ** 2], axis=1)
NEW = default_rng(2).uniform(size=(20, 4))

FORESTS = {
    "forest": RandomForestRegressor(8, random_state=1),
    "large leaves": RandomForestRegressor(8, min_samples_leaf=7, random_state=1),
    "small bags": RandomForestRegressor(8, max_samples=0.4, min_samples_leaf=2, random_state=1),
    "no bootstrap": RandomForestRegressor(
        8, bootstrap=False, max_features=2, max_depth=3, random_state=1
    ),
    "extra trees": ExtraTreesRegressor(8, min_samples_leaf=3, random_state=1),
    "extra trees, bootstrap": ExtraTreesRegressor(8, bootstrap=True, max_depth=4, random_state=1),
    "poisson": RandomForestRegressor(8, criterion="poisson", max_depth=3, random_state=1),
    "bagging": BaggingRegressor(DecisionTreeRegressor(max_depth=4), 8, random_state=1),
    "bagging of columns": BaggingRegressor(
        DecisionTreeRegressor(max_depth=4), 8, max_features=0.5, max_samples=0.7, random_state=1
    ),
    "bagging without bootstrap": BaggingRegressor(
        DecisionTreeRegressor(max_depth=4), 8, bootstrap=False, max_samples=60, random_state=1
    ),
}


def tree_predictions(forest, x):
    columns = getattr(forest, "estimators_features_", [slice(None)] * len(forest.estimators_))
    pairs = zip(forest.estimators_, columns, strict=True)
    return np.stack([tree.predict(x[:, c]) for tree, c in pairs])


@pytest.mark.parametrize("name", FORESTS)
@pytest.mark.parametrize("vector", [False, True])
def test_the_mean_of_a_leaf_is_the_prediction_of_the_tree(name, vector):
    y = np.exp(VECTOR if vector else SCALAR)
    forest = FORESTS[name].fit(X, y)
    ensemble = forest_ensemble(forest, X, y, NEW, noise="leaves")
    assert ensemble.batch_shape == (20,)
    assert ensemble.event_shape == ((3,) if vector else ())
    means = ensemble.member_means()
    np.testing.assert_allclose(means, tree_predictions(forest, NEW), rtol=1e-12)
    np.testing.assert_allclose(ensemble.mean(), forest.predict(NEW), rtol=1e-12)


@pytest.mark.parametrize(
    "name", ["large leaves", "small bags", "bagging of columns", "extra trees"]
)
def test_equals_the_ensemble_built_by_hand(name):
    """Each leaf by searching all training rows, each drawn row repeated as often as drawn."""
    forest = FORESTS[name].fit(X, SCALAR)
    members = []
    columns = getattr(forest, "estimators_features_", [slice(None)] * 8)
    parts = zip(forest.estimators_, forest.estimators_samples_, columns, strict=True)
    for tree, rows, chosen in parts:
        at, leaf = tree.apply(X[:, chosen])[rows], tree.apply(NEW[:, chosen])
        members.append([SCALAR[rows[at == one]] for one in leaf])
    ensemble = forest_ensemble(forest, X, SCALAR, NEW)
    for score in (kuq.CRPS(), kuq.Gaussian(0.5), kuq.SquaredError()):
        found = kuq.decompose(ensemble, score)
        for k in range(4):
            single = kuq.Ensemble([kuq.Samples(member[k]) for member in members])
            expected = kuq.decompose(single, score, unbiased="members")
            np.testing.assert_allclose(found.aleatoric[k], expected.aleatoric, rtol=1e-10)
            np.testing.assert_allclose(found.epistemic[k], expected.epistemic, rtol=1e-9)


def test_variance_of_a_leaf_is_the_impurity_of_the_tree():
    forest = FORESTS["large leaves"].fit(X, SCALAR)
    variance = forest_ensemble(forest, X, SCALAR, NEW).members.variance()
    leaf = forest.apply(NEW)
    impurity = [t.tree_.impurity[leaf[:, m]] for m, t in enumerate(forest.estimators_)]
    np.testing.assert_allclose(variance, impurity, rtol=1e-9)


def test_sample_weights_without_bootstrap():
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.1, 2.0, size=150)
    forest = ExtraTreesRegressor(5, max_depth=3, random_state=0)
    forest.fit(X, SCALAR, sample_weight=weights)
    ensemble = forest_ensemble(forest, X, SCALAR, NEW, sample_weight=weights)
    np.testing.assert_allclose(ensemble.member_means(), tree_predictions(forest, NEW), rtol=1e-12)
    with pytest.raises(kuq.ParameterError, match="sample_weight"):
        forest_ensemble(forest, X, SCALAR, NEW)
    with pytest.raises(kuq.ShapeError, match="sample_weight"):
        forest_ensemble(forest, X, SCALAR, NEW, sample_weight=weights[:5])


def test_missing_inputs_go_where_the_trees_send_them():
    holes = X.copy()
    holes[::7, 1] = np.nan
    forest = RandomForestRegressor(5, random_state=0).fit(holes, SCALAR)
    ensemble = forest_ensemble(forest, holes, SCALAR, holes[:10], noise="leaves")
    np.testing.assert_allclose(ensemble.mean(), forest.predict(holes[:10]), rtol=1e-12)


def test_the_median_criterion_keeps_its_targets():
    forest = RandomForestRegressor(
        3, criterion="absolute_error", min_samples_leaf=5, bootstrap=False, random_state=0
    )
    forest.fit(X, SCALAR)
    ensemble = forest_ensemble(forest, X, SCALAR, NEW)
    median = [np.median(v[w > 0]) for v, w in zip(*_first_member(ensemble), strict=True)]
    np.testing.assert_allclose(median, forest.estimators_[0].predict(NEW), rtol=1e-12)


def _first_member(ensemble):
    return ensemble.members.values[0], ensemble.members.weights[0]


def test_other_data_than_those_of_the_fit_are_refused():
    forest = FORESTS["forest"].fit(X, SCALAR)
    with pytest.raises(kuq.ParameterError, match="fitted on"):
        forest_ensemble(forest, X, SCALAR + 1.0, NEW)
    with pytest.raises(kuq.ParameterError, match="fitted on"):
        forest_ensemble(forest, X[::-1], SCALAR[::-1], NEW)
    with pytest.raises(kuq.ShapeError, match="fitted on 150 rows"):
        forest_ensemble(forest, X[:100], SCALAR[:100], NEW)
    with pytest.raises(kuq.ShapeError, match="equally many"):
        forest_ensemble(forest, X, SCALAR[:100], NEW)
    with pytest.raises(kuq.ParameterError, match="GradientBoosting"):
        forest_ensemble(GradientBoostingRegressor(n_estimators=2).fit(X, SCALAR), X, SCALAR, NEW)


@pytest.mark.parametrize("vector", [False, True])
def test_noise_from_out_of_bag_residuals(vector):
    y = VECTOR if vector else SCALAR

    def bagged(y, oob_score=False):
        regressor = KNeighborsRegressor(3)
        return BaggingRegressor(
            regressor, 40, max_features=3, oob_score=oob_score, random_state=0
        ).fit(X, y)

    bagging = bagged(y)
    # scikit-learn computes the same average of unseen rows by itself, for one output at a time.
    outputs = y.reshape(150, -1).T
    average = np.stack([bagged(column, oob_score=True).oob_prediction_ for column in outputs], 1)
    residuals = y - average.reshape(y.shape)
    means = tree_predictions(bagging, NEW)
    as_normal = bagging_ensemble(bagging, X, y, NEW)
    np.testing.assert_allclose(as_normal.member_means(), means, rtol=1e-12)
    scale = np.sqrt(np.mean(residuals**2, axis=0))
    np.testing.assert_allclose(as_normal.members.scale, np.broadcast_to(scale, means.shape))
    as_drawn = bagging_ensemble(bagging, X, y, NEW, noise="residuals")
    by_hand = kuq.Samples(means[:, :, None] + residuals, event_ndim=int(vector))
    score = kuq.CRPS(reduce="sum")
    found = kuq.decompose(as_drawn, score)
    expected = kuq.decompose(kuq.Ensemble(by_hand), score, unbiased="members")
    np.testing.assert_allclose(found.total, expected.total, rtol=1e-12)


def test_noise_needs_rows_outside_of_some_bag():
    bagging = BaggingRegressor(LinearRegression(), bootstrap=False).fit(X, SCALAR)
    with pytest.raises(kuq.InsufficientDataError, match="not seen"):
        bagging_ensemble(bagging, X, SCALAR, NEW)
    with pytest.raises(kuq.ParameterError, match="noise"):
        bagging_ensemble(bagging, X, SCALAR, NEW, noise="gamma")
    with pytest.raises(kuq.ParameterError, match="BaggingRegressor"):
        bagging_ensemble(LinearRegression().fit(X, SCALAR), X, SCALAR, NEW)
    bagging = BaggingRegressor(LinearRegression()).fit(X, SCALAR)
    with pytest.raises(kuq.ShapeError, match="y_train"):
        bagging_ensemble(bagging, X, VECTOR, NEW)


def probabilistic():
    process = GaussianProcessRegressor(RBF(0.5) + WhiteKernel(0.05), optimizer=None)
    return {
        "bagging": BaggingRegressor(BayesianRidge(), 4, random_state=0),
        "bagged pipelines": BaggingRegressor(
            make_pipeline(StandardScaler(), BayesianRidge()), 4, max_features=2, random_state=0
        ),
        "voting": VotingRegressor([("process", process), ("ridge", BayesianRidge())]),
        "weighted voting": VotingRegressor(
            [("process", process), ("gone", "drop"), ("ridge", BayesianRidge())],
            weights=[1.0, 5.0, 3.0],
        ),
    }


@pytest.mark.parametrize("name", probabilistic())
def test_regressors_with_deviations_are_normals(name):
    fitted = probabilistic()[name].fit(X, SCALAR)
    ensemble = normal_ensemble(fitted, NEW)
    columns = getattr(fitted, "estimators_features_", [slice(None)] * len(fitted.estimators_))
    pairs = zip(fitted.estimators_, columns, strict=True)
    found = [part.predict(NEW[:, c], return_std=True) for part, c in pairs]
    weights = [0.25, 0.75] if name == "weighted voting" else None
    by_hand = kuq.Ensemble([kuq.Normal(mean, std) for mean, std in found], weights)
    np.testing.assert_allclose(ensemble.mean(), fitted.predict(NEW), rtol=1e-10)
    first, second = (kuq.decompose(e, kuq.CRPS()) for e in (ensemble, by_hand))
    np.testing.assert_allclose(first.epistemic, second.epistemic, rtol=1e-10)
    np.testing.assert_allclose(first.aleatoric, second.aleatoric, rtol=1e-10)


def test_regressors_without_deviations_are_refused():
    voting = VotingRegressor([("a", LinearRegression()), ("b", BayesianRidge())]).fit(X, SCALAR)
    with pytest.raises(kuq.ParameterError, match="return_std"):
        normal_ensemble(voting, NEW)
