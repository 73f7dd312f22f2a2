"""Calls of new users that ended with a bare exception, or with words that did not help."""

import numpy as np
import pytest

import kuq

LAW = kuq.Ensemble(kuq.Normal(np.zeros((2, 4)), 1.0))
VECTORS = kuq.Ensemble(kuq.Normal(np.zeros((2, 4, 1)), 1.0, event_ndim=1))


class Model:
    def predict_distribution(self, X):
        return LAW


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: kuq.CRPS()(LAW, np.zeros(4)), r"kuq\.score\(prediction, y, kernel\)"),
        (lambda: kuq.Gaussian(1.0)(LAW, np.zeros(4)), r"kuq\.score\(prediction, y, kernel\)"),
        (lambda: kuq.report(LAW, index=list("abcd")), "no option 'index'; labels= names"),
        (lambda: kuq.report(LAW, path="no/such/r.html"), "folder .* does not exist"),
        (
            lambda: kuq.calibration.Recalibration(1.0, 1.0, 0.9, 10).apply(Model()),
            r"pass model\.predict_distribution\(X\)",
        ),
        (lambda: kuq.score(LAW, np.zeros((4, 1)), "crps"), r"got \(4, 1\); pass y\[:, 0\]"),
        (lambda: kuq.score(VECTORS, np.zeros(4), "crps"), r"got \(4,\); pass y\[:, None\]"),
        (lambda: kuq.report(LAW, y=np.zeros((4, 1))), r"pass y\[:, 0\]"),
        (lambda: kuq.calibration.pit(VECTORS, np.zeros(4)), r"pass y\[:, None\]"),
    ],
)
def test_what_to_do_is_said(call, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kuq.KuqError, match=said):
        call()


def test_a_short_series_is_told_by_its_length(tmp_path):
    """It was said that there were too few labels."""
    pandas = pytest.importorskip("pandas")
    y = pandas.Series(np.zeros(3), index=list("abc"))
    with pytest.raises(kuq.ShapeError, match=r"y needs the shape \(4,\).* got \(3,\)"):
        kuq.report(LAW, y=y, path=tmp_path / "page.html")


def test_no_rows(tmp_path):
    sklearn = pytest.importorskip("kuq.sklearn")
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = sklearn.UncertaintyRegressor(n_members=3, random_state=0).fit(X, X[:, 0])
    fitted = sklearn.UncertaintyRegressor.from_fitted(model.estimator_, X, X[:, 0])
    for ask in (fitted.predict_uncertainty, fitted.predict_distribution, fitted.predict):
        with pytest.raises(ValueError, match=r"no rows to predict|0 sample\(s\)"):
            ask(X[:0])


def test_torch():
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset

    x = np.linspace(-1, 1, 20)[:, None].astype(np.float32)
    model = kuq.nn.Regressor(n_members=2, max_epochs=1).fit(x, x[:, 0])
    modules = [torch.nn.Linear(1, 1), torch.nn.Linear(3, 1)]
    loader = DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(x)), batch_size=6)
    # Networks compute in single precision, and sums of 32 terms depend on the size of a batch.
    np.testing.assert_allclose(model.predict(loader), model.predict(x), rtol=1e-4, atol=1e-5)
    found, whole = (model.predict_uncertainty(X).total for X in (loader, x))
    np.testing.assert_allclose(found, whole, rtol=1e-4, atol=1e-5)
    pair = [torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)]
    for inputs in (loader, DataLoader(torch.from_numpy(x), batch_size=7)):
        found = kuq.nn.members(pair, inputs).members.value
        assert torch.allclose(found, kuq.nn.members(pair, x).members.value)
    rows = loader.dataset
    for ask in (model.predict, model.predict_distribution, lambda X: kuq.nn.members(modules, X)):
        with pytest.raises(kuq.ParameterError, match=r"the loader shuffles.*shuffle=False"):
            ask(DataLoader(rows, batch_size=5, shuffle=True))
        with pytest.raises(kuq.ParameterError, match=r"the loader shuffles.*shuffle=False"):
            ask(DataLoader(rows, batch_size=5, sampler=SubsetRandomSampler(range(9))))
        with pytest.raises(kuq.ParameterError, match=r"TensorDataset gives single rows; pass Data"):
            ask(rows)
    with pytest.raises(kuq.InsufficientDataError, match="no rows"):
        model.predict(DataLoader(TensorDataset(torch.zeros(0, 1)), batch_size=5))
    with pytest.raises(kuq.ParameterError, match=r"no device 'cuda:77' here.*device=None"):
        kuq.nn.Regressor(n_members=2, max_epochs=1, device="cuda:77").fit(x, x[:, 0])
    with pytest.raises(kuq.ParameterError, match=r"2D array, got 1D.*Reshape your data") as error:
        model.fit(x[:, 0], x[:, 0])
    assert "array=" not in str(error.value)
    with pytest.raises(kuq.ParameterError, match=r"module 1: Linear fails on rows of shape \(1,\)"):
        kuq.nn.members(modules, x)
    with pytest.raises(kuq.ParameterError, match=r"each layer: \(32,\), got 32"):
        kuq.nn.Regressor(hidden_sizes=32).fit(x, x[:, 0])


def test_tables_and_pairs_of_members():
    """A table has its rows first; pairs of means and deviations were "numbers of shape (2, 2)"."""
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"RF": [0.0, 1.0, 2.0], "GB": [1.0, 1.0, 5.0]}, index=list("abc"))
    with pytest.raises(
        kuq.ParameterError, match=r"rows first\).*kuq.Ensemble\(kuq.Point\(table.T\)\)"
    ):
        kuq.decompose(table, "crps")
    u = kuq.decompose(kuq.Ensemble(kuq.Point(table.T)), "crps")
    assert u.total.tolist() == [1.0, 0.0, 3.0]
    pairs = [(np.zeros(3), np.ones(3)), (np.ones(3), np.ones(3))]
    with pytest.raises(kuq.ParameterError, match=r"a list of 2 pairs.*for mean, std in pairs\]\)"):
        kuq.Ensemble(pairs)
    with pytest.raises(kuq.ParameterError, match=r"point predictions \(members, rows\) as"):
        kuq.Ensemble([[0.0, 1.0], [2.0, 3.0]])
    assert kuq.Ensemble([kuq.Normal(mean, std) for mean, std in pairs]).member_count == 2
