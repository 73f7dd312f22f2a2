"""NGBoost, CatBoost, and forecasts with draws: the numbers of the libraries themselves."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.random import default_rng

import kuq

catboost = pytest.importorskip("catboost")
ngboost = pytest.importorskip("ngboost")

X = default_rng(1).uniform(-2.0, 2.0, size=(200, 2))
Y = X[:, 0] ** 2 + default_rng(2).normal(scale=0.1 + 0.4 * (X[:, 1] > 0), size=200)


def fitted_ngboost(law, y=Y):
    return ngboost.NGBRegressor(
        Dist=law, n_estimators=15, verbose=False, random_state=0, natural_gradient=True
    ).fit(X, y)


@pytest.mark.parametrize("name", ["Normal", "NormalFixedVar", "TFixedDf", "T"])
def test_ngboost_predictions(name):
    law = getattr(ngboost.distns, name)
    found = fitted_ngboost(law).pred_dist(X[:7])
    p = kuq.as_distribution(found)
    if name.startswith("T"):
        by_hand = kuq.StudentT(found.df, found.loc, found.scale)
    else:
        by_hand = kuq.Normal(found.loc, found.scale)
    assert type(p) is type(by_hand)
    np.testing.assert_array_equal(p.mean(), found.loc)
    np.testing.assert_allclose(
        kuq.score(p, Y[:7], kuq.LogScore()), -found.dist.logpdf(Y[:7]), rtol=1e-10
    )
    np.testing.assert_array_equal(
        kuq.entropy(p, kuq.Gaussian(1.0)), kuq.entropy(by_hand, kuq.Gaussian(1.0))
    )


def test_ngboost_vectors():
    law = ngboost.distns.MultivariateNormal(2)
    found = fitted_ngboost(law, np.stack([Y, Y - X[:, 1]], axis=1)).pred_dist(X[:5])
    p = kuq.as_distribution(found)
    assert (p.batch_shape, p.event_shape) == ((5,), (2,))
    covariance = p.factor @ p.factor.transpose(0, 2, 1) + p.diag[:, :, None] * np.eye(2)
    np.testing.assert_allclose(covariance, found.cov, rtol=1e-9, atol=1e-12)
    outcomes = np.stack([Y, Y - X[:, 1]], axis=1)[:5]
    np.testing.assert_allclose(
        kuq.score(p, outcomes, kuq.LogScore()), -found.logpdf(outcomes), rtol=1e-9
    )


def test_ngboost_laws_without_a_form_are_refused():
    found = fitted_ngboost(ngboost.distns.LogNormal, np.exp(Y)).pred_dist(X[:3])
    with pytest.raises(kuq.ParameterError, match="no adapter for ngboost"):
        kuq.as_distribution(found)


@pytest.fixture(scope="module")
def boosted():
    def fit(loss):
        return catboost.CatBoostRegressor(
            loss_function=loss,
            iterations=60,
            posterior_sampling=True,
            random_seed=0,
            verbose=False,
            allow_writing_files=False,
            thread_count=1,
        ).fit(X, Y)

    return fit


def test_catboost_with_residual_noise_and_in_a_pipeline(boosted):
    pipeline = pytest.importorskip("sklearn.pipeline")
    model = boosted("RMSE")
    alone = kuq.adapters.virtual_ensemble(model, X[:20], n_members=4)
    assert not kuq.decompose(alone, kuq.CRPS()).is_split
    found = kuq.adapters.virtual_ensemble(model, X[:20], n_members=4, held_out=(X[100:], Y[100:]))
    spread = np.sqrt(np.mean((Y[100:] - model.predict(X[100:])) ** 2))
    np.testing.assert_allclose(found.members.scale, spread, rtol=1e-9)
    steps = pipeline.make_pipeline("passthrough", model)
    inside = kuq.adapters.virtual_ensemble(steps, X[:20], n_members=4)
    np.testing.assert_array_equal(inside.member_means(), alone.member_means())
    with pytest.raises(kuq.ParameterError, match="predicts its noise"):
        kuq.adapters.virtual_ensemble(boosted("RMSEWithUncertainty"), X, held_out=(X, Y))


def test_catboost_virtual_ensembles(boosted):
    model = boosted("RMSEWithUncertainty")
    ensemble = kuq.adapters.virtual_ensemble(model, X[:20], n_members=6)
    raw = model.virtual_ensembles_predict(
        X[:20], prediction_type="VirtEnsembles", virtual_ensembles_count=6
    )
    by_hand = kuq.Ensemble(kuq.Normal(raw[..., 0].T, np.sqrt(raw[..., 1].T)))
    for score in (kuq.CRPS(), kuq.Gaussian(0.5)):
        found, expected = (kuq.decompose(e, score) for e in (ensemble, by_hand))
        np.testing.assert_array_equal(found.total, expected.total)
    # CatBoost's own split is that of the variance, with members as they are and the mixture.
    own = model.virtual_ensembles_predict(
        X[:20], prediction_type="TotalUncertainty", virtual_ensembles_count=6
    )
    split = kuq.decompose(ensemble, kuq.SquaredError(), estimator="bma", unbiased=False)
    np.testing.assert_allclose(ensemble.mean(), own[:, 0], rtol=1e-10)
    np.testing.assert_allclose(split.epistemic, own[:, 1], rtol=1e-8, atol=1e-14)
    np.testing.assert_allclose(split.aleatoric, own[:, 2], rtol=1e-10)


def test_catboost_without_noise_gives_points(boosted):
    ensemble = kuq.adapters.virtual_ensemble(boosted("RMSE"), X[:5], n_members=4)
    u = kuq.decompose(ensemble, kuq.CRPS())
    assert np.all(u.aleatoric == 0)
    assert np.all(u.epistemic > 0)


def test_models_are_sent_to_the_right_function(boosted):
    with pytest.raises(kuq.ParameterError, match="virtual_ensemble"):
        kuq.as_distribution(boosted("RMSE"))
    with pytest.raises(kuq.ParameterError, match="pred_dist"):
        kuq.as_distribution(fitted_ngboost(ngboost.distns.Normal))
    with pytest.raises(kuq.ParameterError, match="CatBoost"):
        kuq.adapters.virtual_ensemble(object(), X)
    with pytest.raises(kuq.ParameterError, match="n_members"):
        kuq.adapters.virtual_ensemble(boosted("RMSE"), X, n_members=0)


DRAWS = default_rng(3).normal(size=(50, 6, 2))


@pytest.mark.parametrize("event_ndim", [None, 1, 2])
def test_draws_first_as_in_gluonts(event_ndim):
    p = kuq.as_distribution(SimpleNamespace(samples=DRAWS), event_ndim=event_ndim)
    by_hand = kuq.Samples(np.moveaxis(DRAWS, 0, 2 - (event_ndim or 0)), event_ndim or 0)
    assert p.draw_count == 50
    np.testing.assert_array_equal(kuq.entropy(p, kuq.Energy()), kuq.entropy(by_hand, kuq.Energy()))


def test_draws_last_as_in_darts():
    series = SimpleNamespace(all_values=lambda: np.moveaxis(DRAWS, 0, -1))
    p = kuq.as_distribution(series, event_ndim=1)
    by_hand = kuq.Samples(np.moveaxis(DRAWS, 0, 1), event_ndim=1)
    np.testing.assert_array_equal(kuq.entropy(p, kuq.Energy()), kuq.entropy(by_hand, kuq.Energy()))
    deterministic = SimpleNamespace(all_values=lambda: DRAWS[0][..., None])
    np.testing.assert_array_equal(kuq.as_distribution(deterministic).mean(), DRAWS[0])
    assert isinstance(kuq.as_distribution(deterministic), kuq.Point)


def test_quantile_rows_as_in_gluonts():
    rng = np.random.default_rng(1)
    levels = [0.1, 0.5, 0.9]
    values = np.sort(rng.normal(size=(6, 3)), axis=-1)
    rows = np.stack([values[:, 2], values.mean(axis=1), values[:, 0], values[:, 1]])
    forecast = SimpleNamespace(forecast_array=rows, forecast_keys=["0.9", "mean", "0.1", "0.5"])
    p, q = kuq.as_distribution(forecast), kuq.adapters.quantiles(levels, values)
    np.testing.assert_array_equal(kuq.entropy(p, kuq.CRPS()), kuq.entropy(q, kuq.CRPS()))
