"""Models as people have them: in pipelines and searches, with small leaves, Gaussian processes."""

import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import ARDRegression, BayesianRidge, LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor

import kuq
from kuq.files.words import in_words
from kuq.sklearn import (
    UncertaintyRegressor,
    bagging_ensemble,
    forest_ensemble,
    normal_ensemble,
    posterior_ensemble,
)


def data(rows=200):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(rows, 3))
    return X, X[:, 0] ** 2 + rng.normal(scale=0.3, size=rows)


def forest(**settings):
    return RandomForestRegressor(8, **{"min_samples_leaf": 5, "random_state": 1, **settings})


# --- pipelines and searches ----------------------------------------------------------------------


def wrapped(kind, inner):
    name = type(inner).__name__.lower()
    if kind == "pipeline":
        return make_pipeline(StandardScaler(), "passthrough", inner)
    if kind == "grid":
        return GridSearchCV(inner, {"min_samples_leaf": [5]}, cv=2)
    if kind == "random":
        return RandomizedSearchCV(inner, {"min_samples_leaf": [5]}, n_iter=1, cv=2)
    if kind == "grid of pipelines":
        pipeline = make_pipeline(StandardScaler(), inner)
        return GridSearchCV(pipeline, {f"{name}__min_samples_leaf": [5]}, cv=2)
    return make_pipeline(StandardScaler(), GridSearchCV(inner, {"min_samples_leaf": [5]}, cv=2))


KINDS = ["pipeline", "grid", "random", "grid of pipelines", "pipeline of a grid"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise", ["auto", "normal", "residuals"])
def test_forests_inside_of_pipelines_and_searches(kind, noise):
    """Trees do not see the scale of their inputs, so the forest alone says the same."""
    X, y = data()
    model = wrapped(kind, forest()).fit(X, y)
    inner = forest().fit(X, y)
    found = forest_ensemble(model, X, y, X[:30], noise=noise)
    expected = forest_ensemble(inner, X, y, X[:30], noise=noise)
    by_hand = kuq.decompose(expected, kuq.CRPS())
    ours = UncertaintyRegressor.from_fitted(model, X, y, noise=noise)
    for u in (
        kuq.decompose(found, kuq.CRPS()),
        ours.predict_uncertainty(X[:30]),
    ):
        np.testing.assert_allclose(u.aleatoric, by_hand.aleatoric, rtol=1e-9)
        np.testing.assert_allclose(u.epistemic, by_hand.epistemic, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(ours.predict(X), model.predict(X))
    again = pickle.loads(pickle.dumps(ours)).predict_uncertainty(X[:30])
    np.testing.assert_array_equal(again.total, ours.predict_uncertainty(X[:30]).total)


def test_tables_with_words_in_them():
    """A forest behind an encoder, the usual way to have one."""
    X, y = data()
    table = pd.DataFrame(X, columns=list("abc")).assign(kind=np.where(X[:, 1] > 0, "up", "down"))
    encoder = make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough")
    model = make_pipeline(encoder, forest()).fit(table, y)
    u = UncertaintyRegressor.from_fitted(model, table, y).predict_uncertainty(table[:20])
    assert np.all(u.aleatoric > 0)
    fitted = UncertaintyRegressor(make_pipeline(encoder, forest()), n_members=6, random_state=1)
    fitted.fit(table, y)
    assert fitted.predict_distribution(table[:20]).member_count == 6  # not bags of forests
    assert fitted.predict_uncertainty(table[:20]).to_frame(table.index[:20]).shape == (20, 3)


@pytest.mark.parametrize("noise", ["auto", "normal"])
def test_names_of_columns_make_no_difference(noise):
    X, y = data()
    table, target = pd.DataFrame(X, columns=list("abc")), pd.Series(y, name="y")
    expected = forest_ensemble(forest().fit(X, y), X, y, X[:9], noise=noise).member_means()
    named = forest().fit(table, target)
    found = forest_ensemble(named, table, target, table[:9], noise=noise)
    np.testing.assert_allclose(found.member_means(), expected, rtol=1e-12)
    steps = make_pipeline("passthrough", forest()).fit(X, y)
    model = UncertaintyRegressor.from_fitted(steps, X, y, noise=noise)
    listed = model.predict_distribution(X[:9].tolist())
    np.testing.assert_allclose(listed.member_means(), expected, rtol=1e-12)
    process = GaussianProcessRegressor(alpha=0.1).fit(table, target)
    assert posterior_ensemble(process, table[:9]).batch_shape == (9,)


def test_bags_and_votes_inside_of_pipelines():
    X, y = data()
    bag = BaggingRegressor(LinearRegression(), random_state=0)
    found = bagging_ensemble(make_pipeline(StandardScaler(), bag).fit(X, y), X, y, X[:5])
    alone = bagging_ensemble(bag.fit(X, y), X, y, X[:5])
    np.testing.assert_allclose(found.member_means(), alone.member_means(), rtol=1e-9)
    bayes = make_pipeline(StandardScaler(), BaggingRegressor(BayesianRidge(), random_state=0))
    assert normal_ensemble(bayes.fit(X, y), X[:5]).member_count == 10


def test_what_cannot_be_unwrapped_says_why():
    X, y = data()
    search = GridSearchCV(forest(), {"max_depth": [2]}, cv=2, refit=False).fit(X, y)
    with pytest.raises(kuq.ParameterError, match="refit=False"):
        forest_ensemble(search, X, y, X)
    target = TransformedTargetRegressor(forest(), func=np.log1p, inverse_func=np.expm1)
    with pytest.raises(kuq.ParameterError, match=r"model\.regressor_"):
        forest_ensemble(target.fit(X, y**2), X, y**2, X)
    boosted = make_pipeline(StandardScaler(), HistGradientBoostingRegressor(max_iter=3)).fit(X, y)
    for call in (forest_ensemble, bagging_ensemble):
        with pytest.raises(kuq.ParameterError, match=r"virtual_ensemble\(model, X, held_out"):
            call(boosted, X, y, X)
    with pytest.raises(kuq.ParameterError, match="virtual_ensemble"):
        UncertaintyRegressor.from_fitted(boosted, X, y)
    own = make_pipeline(StandardScaler(), UncertaintyRegressor(forest())).fit(X, y)
    with pytest.raises(kuq.ParameterError, match=r"itself: model\.predict_uncertainty\(X\)"):
        UncertaintyRegressor.from_fitted(own, X, y)


# --- leaves of one row ---------------------------------------------------------------------------


def test_leaves_of_one_row_are_explained_with_the_remedy():
    X, y = data()
    plain = RandomForestRegressor(10, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match='min_samples_leaf=10 .*from_fitted.*"normal"'):
        trees = forest_ensemble(plain, X, y, X[:5])
    assert not kuq.decompose(trees, kuq.CRPS()).is_split
    for ask in ("predict_uncertainty", "predict_distribution"):
        model = UncertaintyRegressor.from_fitted(plain.fit(X, y), X, y)
        with pytest.warns(UserWarning, match="one training row"):
            getattr(model, ask)(X[:5])
    assert not model.predict_uncertainty(X[:5]).is_split
    quiet = forest_ensemble(plain, X, y, X[:5], noise="leaves")
    assert not kuq.decompose(quiet, kuq.CRPS()).is_split


def test_a_few_larger_leaves_give_no_nan():
    """Rows that are alike share a leaf; the others were filled up with targets of weight zero."""
    X, y = data()
    X[1] = X[0]
    plain = RandomForestRegressor(10, random_state=0).fit(X, y)
    trees = forest_ensemble(plain, X, y, X[:5], noise="leaves")
    assert np.all(np.isfinite(kuq.decompose(trees, kuq.CRPS()).total))


@pytest.mark.parametrize("noise", ["normal", "residuals"])
@pytest.mark.parametrize("vector", [False, True])
def test_out_of_bag_noise_of_a_forest(noise, vector):
    """scikit-learn's own out-of-bag predictions give the residuals."""
    X, y = data()
    y = np.stack([y, 2 * y], axis=1) if vector else y
    plain = RandomForestRegressor(60, oob_score=True, random_state=0).fit(X, y)
    residuals = y - plain.oob_prediction_
    trees = forest_ensemble(plain, X, y, X[:5], noise=noise)
    np.testing.assert_allclose(trees.mean(), plain.predict(X[:5]) + (
        residuals.mean(axis=0) if noise == "residuals" else 0.0
    ), rtol=1e-6)  # fmt: skip
    within = trees.members.variance()[0, 0]
    expected = np.mean(residuals**2, axis=0) if noise == "normal" else np.var(residuals, axis=0)
    np.testing.assert_allclose(within, expected, rtol=1e-6)


def test_the_split_does_not_hang_on_leaves_with_out_of_bag_noise():
    """Leaves of 1 and of 10 rows: the aleatoric part is near the true noise 0.3²."""
    X, y = data(1000)
    found = {}
    for rows in (1, 10):
        trees = RandomForestRegressor(60, min_samples_leaf=rows, random_state=0).fit(X, y)
        for noise in ("leaves", "normal"):
            ensemble = forest_ensemble(trees, X, y, X[:200], noise=noise)
            u = kuq.decompose(ensemble, kuq.SquaredError())
            found[rows, noise] = u.aleatoric.mean()
    assert found[1, "leaves"] < 0.01
    assert 0.05 < found[10, "leaves"] < 0.18
    for rows in (1, 10):  # 0.09, and what the forest gets wrong
        assert 0.08 < found[rows, "normal"] < 0.15


def test_trees_without_a_bag_have_no_residuals():
    X, y = data()
    extra = ExtraTreesRegressor(5, random_state=0).fit(X, y)
    with pytest.raises(kuq.InsufficientDataError, match="bootstrap=True"):
        forest_ensemble(extra, X, y, X, noise="normal")
    with pytest.raises(kuq.ParameterError, match="noise must be one of"):
        forest_ensemble(extra, X, y, X, noise="gamma")
    bag = BaggingRegressor(LinearRegression()).fit(X, y)
    with pytest.raises(kuq.ParameterError, match="is needed, got BaggingRegressor"):
        UncertaintyRegressor.from_fitted(bag, X, y, noise="leaves")


# --- Gaussian processes --------------------------------------------------------------------------


def by_hand(X, y, new, length, signal, white, alpha):
    """Mean and variance of the function, with a plain inverse."""

    def k(a, b):
        squares = ((a[:, None] - b[None]) ** 2).sum(axis=-1)
        return signal * np.exp(-0.5 * squares / length**2)

    unit = y.std()
    inverse = np.linalg.inv(k(X, X) + (white + alpha) * np.eye(len(X)))
    mean = k(new, X) @ inverse @ ((y - y.mean()) / unit) * unit + y.mean()
    variance = signal - np.einsum("ij,jk,ik->i", k(new, X), inverse, k(new, X))
    return mean, variance * unit**2, (white + alpha) * unit**2


@pytest.mark.parametrize("wrap", [False, True])
def test_a_gaussian_process_is_split_exactly(wrap):
    X, y = data(60)
    new = np.concatenate([X[:3], [[9.0, 9.0, 9.0]]])
    kernel = ConstantKernel(2.0, "fixed") * RBF(1.5, "fixed") + WhiteKernel(0.05, "fixed")
    process = GaussianProcessRegressor(kernel, alpha=0.02, normalize_y=True)
    model = make_pipeline("passthrough", process) if wrap else process
    ensemble = posterior_ensemble(model.fit(X, y), new)
    mean, function, noise = by_hand(X, y, new, 1.5, 2.0, 0.05, 0.02)
    u = kuq.decompose(ensemble, kuq.SquaredError())
    np.testing.assert_allclose(ensemble.mean(), mean, rtol=1e-9)
    np.testing.assert_allclose(u.aleatoric, noise, rtol=1e-9)
    np.testing.assert_allclose(u.epistemic, 2 * function, rtol=1e-7)  # of two functions
    # E|N(0, 2σ² + 2s²)| − E|N(0, 2σ²)| for functions and noise of standard deviations s and σ
    crps = kuq.decompose(ensemble, kuq.CRPS()).epistemic
    expected = 2 / np.sqrt(np.pi) * (np.sqrt(noise + function) - np.sqrt(noise))
    np.testing.assert_allclose(crps, expected, rtol=6e-3)
    assert crps[-1] > 3 * crps[:3].max()


def test_white_noise_is_found_in_products_and_vectors():
    X, y = data(40)
    Y = np.stack([y, 10 * y], axis=1)
    kernel = RBF(1.0, "fixed") + RBF(50.0, "fixed") * WhiteKernel(0.1, "fixed")
    process = GaussianProcessRegressor(kernel, normalize_y=True).fit(X, Y)
    ensemble = posterior_ensemble(process, X[:4], n_members=8)
    assert ensemble.event_shape == (2,)
    noise = (0.1 + 1e-10) * Y.var(axis=0)
    np.testing.assert_allclose(ensemble.members.variance()[0], np.tile(noise, (4, 1)), rtol=1e-9)


@pytest.mark.parametrize("kind", [BayesianRidge, ARDRegression])
def test_bayesian_linear_models(kind):
    X, y = data()
    model = kind().fit(X, y)
    _, deviation = model.predict(X[:5], return_std=True)
    u = kuq.decompose(posterior_ensemble(model, X[:5]), kuq.SquaredError())
    np.testing.assert_allclose(u.aleatoric, 1 / model.alpha_, rtol=1e-9)
    np.testing.assert_allclose(u.aleatoric + u.epistemic / 2, deviation**2, rtol=1e-9)
    again = UncertaintyRegressor.from_fitted(model, X, y).predict_uncertainty(
        X[:5], kuq.SquaredError()
    )
    np.testing.assert_allclose(again.total, u.total, rtol=1e-12)


def test_processes_that_are_refused():
    X, y = data(40)
    with pytest.raises(kuq.ParameterError, match="posterior_ensemble"):
        normal_ensemble(GaussianProcessRegressor().fit(X, y), X)
    each = GaussianProcessRegressor(alpha=np.full(40, 0.1)).fit(X, y)
    with pytest.raises(kuq.ParameterError, match="alpha for every training row"):
        posterior_ensemble(each, X)
    with pytest.raises(kuq.ParameterError, match=r"GaussianProcessRegressor.* is needed, got Lin"):
        posterior_ensemble(LinearRegression().fit(X, y), X)
    with pytest.raises(kuq.ParameterError, match="n_members"):
        posterior_ensemble(GaussianProcessRegressor().fit(X, y), X, n_members=7)


# --- tables with text ----------------------------------------------------------------------------


def flats(rows=90):
    """A table with a column of text, one of whole numbers and one of categories."""
    rng = np.random.default_rng(4)
    table = pd.DataFrame({
        "size": rng.normal(size=rows),
        "town": rng.choice(["Bonn", "Celle", "Ulm"], rows),
        "rooms": rng.integers(1, 6, rows),
    }, index=[f"flat-{k}" for k in range(rows)])  # fmt: skip
    price = table["size"] + (table["town"] == "Bonn") + 0.1 * rng.normal(size=rows)
    return table, price


def with_text(last):
    towns = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    return make_pipeline(towns, last)


def test_a_pipeline_that_encodes_text_is_bagged():
    """It failed with "could not convert string to float": the table became numbers too early."""
    X, y = flats()
    model = UncertaintyRegressor(with_text(Ridge()), n_members=4, random_state=0).fit(X, y)
    found = model.predict_distribution(X[:7]).member_means()
    bags = model.estimator_.estimators_samples_
    for mean, rows in zip(found, bags, strict=True):
        by_hand = with_text(Ridge()).fit(X.iloc[rows], y.iloc[rows])
        np.testing.assert_allclose(mean, by_hand.predict(X[:7]), rtol=1e-9)
    np.testing.assert_allclose(model.predict(X[:7]), found.mean(axis=0), rtol=1e-9)
    u = model.predict_uncertainty(X[:7])
    assert (u.epistemic > 0).all()
    low, high = model.predict_interval(X[:7])
    assert (low < high).all()
    weighted = UncertaintyRegressor(with_text(Ridge()), n_members=4, random_state=0)
    weighted.fit(X, y, sample_weight=np.r_[np.zeros(20), np.ones(70)])
    again = pickle.loads(pickle.dumps(model)).predict_distribution(X[:7]).member_means()
    np.testing.assert_array_equal(again, found)


def test_searches_categories_and_standard_deviations_of_tables():
    X, y = flats()
    search = GridSearchCV(with_text(Ridge()), {"ridge__alpha": [0.1, 1.0]}, cv=2)
    assert UncertaintyRegressor(search, n_members=2, random_state=0).fit(X, y).score(X, y) > 0.9
    kinds = X.astype({"town": "category"})
    hist = HistGradientBoostingRegressor(max_iter=3, categorical_features="from_dtype")
    seen = UncertaintyRegressor(hist, n_members=2, random_state=0).fit(kinds, y)
    assert seen.estimator_.estimators_[0].estimator_.is_categorical_.tolist() == [
        False,
        True,
        False,
    ]
    ridge = UncertaintyRegressor(with_text(BayesianRidge()), n_members=3, random_state=0)
    assert isinstance(ridge.fit(X, y).predict_distribution(X[:5]).members, kuq.Normal)


def test_a_table_of_numbers_gives_bagged_trees_their_leaves():
    X, y = flats()
    numbers = X[["size", "rooms"]]
    tree = DecisionTreeRegressor(min_samples_leaf=5)
    table, array = (
        UncertaintyRegressor(tree, n_members=3, random_state=0)
        .fit(inputs, y)
        .predict_uncertainty(inputs)
        for inputs in (numbers, numbers.to_numpy())
    )
    np.testing.assert_allclose(table.aleatoric, array.aleatoric, rtol=1e-12)


# --- words ---------------------------------------------------------------------------------------


def test_leaves_of_one_row_are_warned_of_once():
    """Row by row, or in every call, the same warning came again."""
    X, y = data(60)
    model = RandomForestRegressor(5, random_state=0).fit(X, y)
    ours = UncertaintyRegressor.from_fitted(model, X, y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for row in X[:3]:
            ours.predict_uncertainty(row[None])
        ours.predict_distribution(X[:2])
        forest_ensemble(model, X, y, X[:2])
        assert len(caught) == 1
        other = RandomForestRegressor(5, random_state=0).fit(X, y)
        forest_ensemble(other, X, y, X[:2])
        forest_ensemble(model.fit(X, y), X, y, X[:2])
        assert len(caught) == 3


def test_leaves_of_one_row_are_single_values_in_words():
    """The page began with "each up to 1 values with weights"."""
    X, y = data(40)
    model = RandomForestRegressor(5, bootstrap=False, max_features=1, random_state=0).fit(X, y)
    one = forest_ensemble(model, X, y, X[:6], noise="leaves")
    assert in_words(one, {"row": 6}) == "5 members, each a single value; 6 predictions by row"
    some = forest_ensemble(forest().fit(X, y), X, y, X[:6])
    assert re.match(r"8 members, each a law of up to \d+ values; 6", in_words(some, {"row": 6}))
    draws = kuq.Ensemble(kuq.Samples(np.zeros((3, 6, 1))))
    assert in_words(draws, {"row": 6}).startswith("3 members, each with one draw;")


def test_a_vote_of_others_is_pointed_to_a_bag():
    """The error printed the whole estimator over several lines, and no way out."""
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30.0)
    vote = VotingRegressor([("a", Ridge()), ("b", RandomForestRegressor(3))]).fit(X, y)
    with pytest.raises(kuq.ParameterError) as error:
        kuq.sklearn.UncertaintyRegressor.from_fitted(vote, X, y)
    said = str(error.value)
    assert "got VotingRegressor of Ridge, RandomForestRegressor; bag the regressor" in said
    assert "\n" not in said
