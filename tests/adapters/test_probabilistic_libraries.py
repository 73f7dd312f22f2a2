"""Objects of probabilistic libraries, each with the library itself where it is installed."""

import numpy as np
import pytest

import kuq

# --- skpro and sktime ----------------------------------------------------------------------------


def table(rows=60):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(size=(rows, 2)), columns=["a", "b"])
    return X, pd.DataFrame({"y": X["a"] + rng.normal(scale=0.2, size=rows)})


def test_normals_of_skpro():
    pytest.importorskip("skpro")
    from sklearn.linear_model import LinearRegression
    from skpro.regression.residual import ResidualDouble

    X, y = table()
    found = ResidualDouble(LinearRegression()).fit(X, y).predict_proba(X[:7])
    p = kuq.as_distribution(found)
    assert (type(p), p.batch_shape) == (kuq.Normal, (7,))
    np.testing.assert_allclose(p.mean(), found.mean()["y"], rtol=1e-12)
    np.testing.assert_allclose(p.variance(), found.var()["y"], rtol=1e-12)
    loss = kuq.score(p, y["y"].to_numpy()[:7], kuq.LogScore())
    np.testing.assert_allclose(loss, -found.log_pdf(y[:7])["y"], rtol=1e-9)


def test_bags_of_skpro_are_ensembles():
    pytest.importorskip("skpro")
    from sklearn.linear_model import LinearRegression
    from skpro.regression.ensemble import BaggingRegressor
    from skpro.regression.residual import ResidualDouble

    X, y = table()
    bag = BaggingRegressor(ResidualDouble(LinearRegression()), n_estimators=4, random_state=0)
    found = bag.fit(X, y).predict_proba(X[:7])
    ensemble = kuq.as_distribution(found)
    assert isinstance(ensemble, kuq.Ensemble)
    assert ensemble.member_count == 4
    np.testing.assert_allclose(ensemble.mean(), found.mean()["y"], rtol=1e-9)
    np.testing.assert_allclose(ensemble.variance(), found.var()["y"], rtol=1e-9)
    assert kuq.decompose(ensemble, kuq.CRPS()).is_split


def test_other_laws_of_skpro():
    sd = pytest.importorskip("skpro.distributions")
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    t = sd.TDistribution(mu=rng.normal(size=(3, 2)), sigma=2.0, df=5.0)
    p = kuq.as_distribution(t)
    assert (type(p), p.batch_shape) == (kuq.StudentT, (3, 2))
    np.testing.assert_allclose(p.mean(), t.mean(), rtol=1e-12)
    assert kuq.as_distribution(t, event_ndim=1).event_shape == (2,)
    np.testing.assert_allclose(
        kuq.score(p, np.zeros((3, 2)), kuq.LogScore()), -t.log_pdf(np.zeros((3, 2))), rtol=1e-6
    )
    index = pd.MultiIndex.from_product([[0, 1, 2], ["u", "v"]])
    draws = pd.DataFrame(rng.normal(size=(6, 1)), index=index, columns=["y"])
    weights = pd.Series(rng.uniform(size=6), index=index)
    for given in (None, weights):
        empirical = sd.Empirical(draws, weights=given)
        p = kuq.as_distribution(empirical)
        assert repr(p) == "Samples(batch=(2,), N=3, event=())"
        np.testing.assert_allclose(p.mean(), empirical.mean()["y"], rtol=1e-9)
    scalar = kuq.as_distribution(sd.Normal(1.0, 2.0))
    assert scalar.batch_shape == ()
    assert type(kuq.as_distribution(sd.Delta(np.zeros((3, 1))))) is kuq.Point
    with pytest.raises(kuq.ParameterError, match=r"no adapter for skpro\.distributions"):
        kuq.as_distribution(sd.Weibull(scale=1.0, k=2.0))


@pytest.mark.filterwarnings("ignore")  # of the future of sktime
def test_forecasts_of_sktime():
    pytest.importorskip("sktime")
    from sktime.datasets import load_airline
    from sktime.forecasting.naive import NaiveForecaster

    forecaster = NaiveForecaster(sp=12).fit(load_airline(), fh=[1, 2, 3])
    law = kuq.as_distribution(forecaster.predict_proba())
    assert (type(law), law.batch_shape) == (kuq.Normal, (3,))
    levels = kuq.as_distribution(forecaster.predict_quantiles(alpha=[0.1, 0.5, 0.9]))
    ends = kuq.as_distribution(forecaster.predict_interval(coverage=[0.5, 0.8]))
    for one in (levels, ends):
        assert one.batch_shape == (3,)
        np.testing.assert_allclose(one.mean(), law.mean(), rtol=1e-6)
        # Straight lines between quantiles of a normal.
        np.testing.assert_allclose(one.variance(), law.variance(), rtol=0.15)


def test_tables_of_quantiles():
    pd = pytest.importorskip("pandas")
    columns = pd.MultiIndex.from_product([["a", "b"], [0.9, 0.1]])
    found = kuq.as_distribution(pd.DataFrame([[2.0, 1.0, 9.0, 7.0]] * 3, columns=columns))
    expected = kuq.adapters.quantiles([0.1, 0.9], [[[1.0, 2.0], [7.0, 9.0]]] * 3)
    np.testing.assert_array_equal(found.mean(), expected.mean())
    one = pd.DataFrame([[1.0, 2.0]], columns=pd.MultiIndex.from_product([["a"], [0.1, 0.9]]))
    assert kuq.as_distribution(one).batch_shape == (1,)
    crossed = pd.DataFrame([[2.0, 1.0]], columns=pd.MultiIndex.from_product([["a"], [0.1, 0.9]]))
    with pytest.raises(kuq.ParameterError, match="cross"):
        kuq.as_distribution(crossed)


# --- ArviZ ---------------------------------------------------------------------------------------


def groups():
    rng = np.random.default_rng(2)
    draws = {"y": rng.normal(size=(2, 50, 7))}
    return draws, {"y": rng.normal(size=(2, 50, 3))}


@pytest.mark.filterwarnings("ignore")  # of the future of ArviZ
def test_posterior_predictive_draws_of_arviz():
    """An InferenceData up to ArviZ 0.23, a DataTree since 1.0."""
    az = pytest.importorskip("arviz")
    old = int(az.__version__.partition(".")[0]) < 1

    def from_dict(**given):
        return az.from_dict(**given) if old else az.from_dict(given)

    seen, new = groups()
    idata = from_dict(posterior={"mu": np.zeros((2, 50))}, posterior_predictive=seen)
    p = kuq.as_distribution(idata)
    assert repr(p) == "Samples(batch=(7,), N=100, event=())"
    np.testing.assert_allclose(p.mean(), seen["y"].mean(axis=(0, 1)), rtol=1e-12)
    assert kuq.as_distribution(idata, event_ndim=1).event_shape == (7,)
    both = from_dict(posterior_predictive=seen, predictions=new)
    with pytest.raises(kuq.ParameterError, match="posterior_predictive and predictions; say which"):
        kuq.as_distribution(both)
    np.testing.assert_allclose(
        kuq.as_distribution(both.predictions).variance(), new["y"].var(axis=(0, 1)), rtol=1e-12
    )
    with pytest.raises(kuq.ParameterError, match=r"kuq\.Ensemble\(kuq\.Normal\(mu, sigma\)\)"):
        kuq.as_distribution(from_dict(posterior={"mu": np.zeros((2, 50))}))
    two = from_dict(posterior_predictive={**seen, "z": seen["y"]})
    with pytest.raises(kuq.ParameterError, match=r"\['y', 'z'\]; say which"):
        kuq.as_distribution(two)


def test_trees_of_xarray_are_read_like_inference_data():
    """What newer versions of ArviZ return."""
    xr = pytest.importorskip("xarray")
    seen, _ = groups()
    draws = xr.Dataset({"y": (("chain", "draw", "site"), seen["y"])})
    tree = xr.DataTree.from_dict({"posterior_predictive": draws, "posterior": xr.Dataset()})
    for found in (tree, draws, draws["y"], draws["y"].transpose("site", "draw", "chain")):
        np.testing.assert_allclose(
            kuq.as_distribution(found).mean(), seen["y"].mean(axis=(0, 1)), rtol=1e-12
        )
    with pytest.raises(kuq.ParameterError, match=r"numbers \(DataArray"):
        kuq.as_distribution(xr.DataArray(np.zeros((2, 3)), dims=("member", "time")))


# --- GPyTorch and BoTorch ------------------------------------------------------------------------


def gpytorch_posterior(points=6):
    torch, gpytorch = pytest.importorskip("torch"), pytest.importorskip("gpytorch")

    class Model(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.RBFKernel()

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    x = torch.linspace(0.0, 1.0, 20).double()
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    model = Model(x, torch.sin(6 * x), likelihood).double()
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        return likelihood(model(torch.linspace(0.0, 2.0, points).double()))


def test_posteriors_of_gpytorch():
    posterior = gpytorch_posterior()
    joint = kuq.as_distribution(posterior)
    assert (type(joint), joint.event_shape) == (kuq.LowRankNormal, (6,))
    covariance = (joint.factor @ joint.factor.mT).numpy() + np.diag(joint.diag)
    np.testing.assert_allclose(covariance, posterior.covariance_matrix, rtol=1e-9, atol=1e-12)
    each = kuq.as_distribution(posterior, event_ndim=0)
    assert (type(each), each.batch_shape) == (kuq.Normal, (6,))
    np.testing.assert_allclose(each.mean(), posterior.mean, rtol=1e-12)
    np.testing.assert_allclose(each.variance(), posterior.variance, rtol=1e-12)


def test_several_tasks_of_gpytorch():
    gpytorch = pytest.importorskip("gpytorch")
    posterior = gpytorch_posterior()
    tasks = gpytorch.distributions.MultitaskMultivariateNormal.from_independent_mvns(
        [posterior] * 2
    )
    each = kuq.as_distribution(tasks, event_ndim=0)
    assert each.batch_shape == (6, 2)
    np.testing.assert_allclose(each.variance()[:, 1], posterior.variance, rtol=1e-9)
    with pytest.raises(kuq.ParameterError, match="event_ndim=0"):
        kuq.as_distribution(tasks)


@pytest.mark.filterwarnings("ignore")  # of inputs that are not scaled
def test_posteriors_of_botorch():
    torch, _ = pytest.importorskip("torch"), pytest.importorskip("botorch")
    from botorch.models import SingleTaskGP
    from botorch.posteriors.ensemble import EnsemblePosterior
    from botorch.posteriors.fully_bayesian import GaussianMixturePosterior
    from gpytorch.distributions import MultivariateNormal

    x = torch.linspace(0.0, 1.0, 20).double()[:, None]
    model = SingleTaskGP(x, torch.sin(6 * x))
    posterior = model.posterior(x[:5] + 1.0)
    each = kuq.as_distribution(posterior, event_ndim=0)
    np.testing.assert_allclose(
        each.mean().detach(), posterior.mean[:, 0].detach(), rtol=1e-12, atol=1e-15
    )
    assert kuq.as_distribution(posterior).event_shape == (5,)
    rng = np.random.default_rng(3)
    loc = torch.tensor(rng.normal(size=(4, 5)))
    mixture = GaussianMixturePosterior(MultivariateNormal(loc, 0.3 * torch.eye(5).expand(4, 5, 5)))
    ensemble = kuq.as_distribution(mixture)
    assert repr(ensemble) == "Ensemble of 4 × Normal(batch=(5,), event=())"
    np.testing.assert_allclose(ensemble.mean(), mixture.mixture_mean[:, 0], rtol=1e-6)
    np.testing.assert_allclose(ensemble.variance(), mixture.mixture_variance[:, 0], rtol=1e-6)
    values = torch.tensor(rng.normal(size=(6, 5, 2)))
    points = kuq.as_distribution(EnsemblePosterior(values))
    assert repr(points) == "Ensemble of 6 × Point(batch=(5, 2), event=())"
    np.testing.assert_allclose(points.mean(), values.mean(dim=0), rtol=1e-12)


# --- GluonTS and darts ---------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")  # of modules that could be faster
def test_forecasts_of_gluonts():
    pytest.importorskip("gluonts")
    pd, torch = pytest.importorskip("pandas"), pytest.importorskip("torch")
    from gluonts.model.forecast import QuantileForecast, SampleForecast
    from gluonts.torch.distributions import AffineTransformed
    from gluonts.torch.model.forecast import DistributionForecast

    start = pd.Period("2026-01-01", freq="D")
    draws = np.random.default_rng(4).normal(size=(100, 3))
    samples = kuq.as_distribution(SampleForecast(draws, start))
    np.testing.assert_allclose(samples.mean(), draws.mean(axis=0), rtol=1e-12)
    rows = np.array([[1.0, 2.0], [1.5, 3.0], [2.0, 4.0]])
    levels = kuq.as_distribution(QuantileForecast(rows, start, ["0.1", "0.5", "0.9"]))
    np.testing.assert_allclose(levels.mean(), [1.5, 3.0], rtol=1e-9)
    base = torch.distributions.StudentT(torch.tensor(5.0), torch.zeros(3), torch.ones(3))
    law = AffineTransformed(base, loc=torch.tensor(2.0), scale=torch.tensor(3.0))
    p = kuq.as_distribution(DistributionForecast(law, start))
    assert (type(p), p.batch_shape) == (kuq.StudentT, (3,))
    np.testing.assert_allclose(p.mean(), law.mean, rtol=1e-6)
    np.testing.assert_allclose(p.variance(), law.variance, rtol=1e-6)


@pytest.mark.filterwarnings("ignore")  # of optional parts that are missing
def test_forecasts_of_darts():
    darts = pytest.importorskip("darts")
    draws = np.random.default_rng(5).normal(size=(10, 2, 30))
    p = kuq.as_distribution(darts.TimeSeries.from_values(draws))
    assert repr(p) == "Samples(batch=(10, 2), N=30, event=())"
    np.testing.assert_allclose(p.mean(), draws.mean(axis=-1), rtol=1e-9)
    certain = kuq.as_distribution(darts.TimeSeries.from_values(draws[..., 0]))
    assert type(certain) is kuq.Point


@pytest.mark.filterwarnings("ignore")  # of optional parts that are missing
def test_parameters_of_darts_are_no_points():
    """Quantiles as components were taken for points."""
    darts = pytest.importorskip("darts")
    from darts.models import LinearRegressionModel

    walk = np.random.default_rng(6).normal(size=(80, 2)).cumsum(axis=0)
    model = LinearRegressionModel(
        lags=4, likelihood="quantile", quantiles=[0.1, 0.5, 0.9], output_chunk_length=3
    )
    found = model.fit(darts.TimeSeries.from_values(walk)).predict(
        3, predict_likelihood_parameters=True
    )
    p = kuq.as_distribution(found)
    values = found.all_values()[..., 0].reshape(3, 2, 3)
    expected = kuq.adapters.quantiles([0.1, 0.5, 0.9], values)
    assert p.batch_shape == (3, 2)
    np.testing.assert_array_equal(p.mean(), expected.mean())


class Series:
    """What kuq needs of a series of darts."""

    def __init__(self, values, components):
        self.values, self.components = np.asarray(values)[..., None], components

    def all_values(self):
        return self.values


def test_series_by_the_names_of_their_components():
    normal = kuq.as_distribution(Series([[1.0, 2.0], [3.0, 4.0]], ["y_mu", "y_sigma"]))
    assert repr(normal) == "Normal(batch=(2, 1), event=())"
    np.testing.assert_array_equal(normal.mean()[:, 0], [1.0, 3.0])
    np.testing.assert_array_equal(normal.variance()[:, 0], [4.0, 16.0])
    names = ["a_q0.100", "a_q0.900", "b_q0.100", "b_q0.900"]
    both = kuq.as_distribution(Series([[1.0, 2.0, 7.0, 9.0]], names))
    np.testing.assert_allclose(both.mean(), [[1.5, 8.0]], rtol=1e-12)
    for names in (["a", "b"], ["a_q0.500", "b"], ["a_mu", "b_sigma"], ["a_q0.500", "b_q0.500"]):
        assert type(kuq.as_distribution(Series([[1.0, 2.0]], names))) is kuq.Point
