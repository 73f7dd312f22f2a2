"""What a forest says of its uncertainty is the same by whichever way one asks for it."""

import re

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kuq
from kuq.sklearn import UncertaintyRegressor, forest_ensemble


def data(rows=300):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(rows, 3))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=rows)


def page_of(prediction, folder, **options):
    path = kuq.report(prediction, path=folder / "page.html", **options)
    return re.sub(r"<svg.*?</svg>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("noise", ["auto", "normal", "residuals"])
def test_prediction_decomposition_and_page_agree(noise, tmp_path):
    """Leaves were corrected for their number on the page and not by the model: .360 and .292."""
    X, y = data()
    forest = make_pipeline(StandardScaler(), RandomForestRegressor(30, min_samples_leaf=5))
    model = UncertaintyRegressor(forest, noise=noise, random_state=0).fit(X, y)
    asked = model.predict_uncertainty(X[:40])
    prediction = model.predict_distribution(X[:40])
    by_hand = kuq.decompose(prediction, kuq.CRPS())
    for key in asked:
        np.testing.assert_allclose(asked[key], by_hand[key], rtol=1e-9, atol=1e-12)
    assert asked.unbiased == by_hand.unbiased
    page = page_of(prediction, tmp_path)
    share = 100 * asked.epistemic.mean() / asked.total.mean()
    assert f"<b>{share:.0f} %</b>" in page


def test_what_trees_share_is_no_noise_of_draws():
    """Trees with one leaf of all rows agree; corrected as independent draws they were below 0."""
    X, y = data(40)
    stumps = RandomForestRegressor(5, max_leaf_nodes=2, max_depth=1, bootstrap=False)
    same = forest_ensemble(stumps.fit(X, y), X, y, X)
    u = kuq.decompose(same, kuq.CRPS())
    assert np.all(np.abs(u.epistemic) < 1e-12)
    draws = kuq.Samples(same.members.values, weights=same.members.weights)
    assert np.all(kuq.decompose(kuq.Ensemble(draws), kuq.CRPS()).epistemic < 0)


def test_a_page_of_leaves_with_one_row_explains_itself(tmp_path):
    X, y = data()
    model = UncertaintyRegressor(RandomForestRegressor(10), random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="min_samples_leaf=10"):
        prediction = model.predict_distribution(X[:30])
    page = page_of(prediction, tmp_path, y=y[:30])
    assert "spread of the members; their own noise is unknown" in page
    assert "100 % of what members predict are single values" in page
    for remedy in ("min_samples_leaf=10", "out-of-bag residuals"):
        assert remedy in page
    assert not re.search(r"\bnan\b", page, re.IGNORECASE)


def test_some_leaves_with_one_row_are_counted_on_the_page(tmp_path):
    X, y = data()
    forest = RandomForestRegressor(10, min_samples_leaf=1, max_depth=7, random_state=0).fit(X, y)
    prediction = forest_ensemble(forest, X, y, X[:30], noise="leaves")
    single = np.mean(np.max(prediction.members.weights, axis=-1) > 0.999)
    assert 0.1 < single < 0.9
    page = page_of(prediction, tmp_path)
    assert f"{100 * single:.0f} % of what members predict are single values" in page
    assert "min_samples_leaf=10" in page
    large = RandomForestRegressor(10, min_samples_leaf=5, random_state=0).fit(X, y)
    assert "single values" not in page_of(forest_ensemble(large, X, y, X[:30]), tmp_path)


@pytest.mark.parametrize("rows", [2, 5])
def test_small_leaves_are_said_to_decide_the_split(tmp_path, rows):
    """Almost pure noise was called 78 % epistemic, to be reduced by better models."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (800, 2))
    y = X[:, 0] + rng.normal(size=800)
    forest = RandomForestRegressor(10, min_samples_leaf=rows, random_state=0).fit(X, y)
    model = UncertaintyRegressor.from_fitted(forest, X, y)
    prediction = model.predict_distribution(X[:50])
    typical = np.median(np.count_nonzero(prediction.members.weights, axis=-1))
    asked, by_hand = model.predict_uncertainty(X[:50]), kuq.decompose(prediction, "crps")
    median = model.predict_uncertainty(X[:50], kuq.Gaussian("median"))
    page = page_of(prediction, tmp_path)
    for said in (asked.note, by_hand.note, median.note, repr(asked)):
        assert f"typically {typical:g} values" in said
        assert 'from_fitted(…, noise="normal")' in said
    assert asked.is_split
    assert f"typically {typical:g} values" in page
    assert "better models can reduce it" not in page
    out_of_bag = UncertaintyRegressor.from_fitted(forest, X, y, noise="normal")
    assert out_of_bag.predict_uncertainty(X[:50]).note == ""
    large = RandomForestRegressor(10, min_samples_leaf=20, random_state=0).fit(X, y)
    assert UncertaintyRegressor.from_fitted(large, X, y).predict_uncertainty(X[:50]).note == ""
