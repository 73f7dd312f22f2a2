"""What the experiments compute, against formulas and kuq's own functions on kept predictions."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from numpy.random import default_rng

import kuq
from kuq.errors import ParameterError
from kuq_study import Cell, Context, Store, read_experiment, run
from kuq_study.arrays import load_arrays
from kuq_study.bandwidths import bandwidth_of
from kuq_study.kept import from_arrays, to_arrays
from kuq_study.procedures import active_learning, fitted
from kuq_study.procedures.known_ensembles import KnownLaw

ROOT = Path(__file__).parents[2]
LOC = default_rng(21).normal(size=(4, 5, 3))


def chances(seed, *shape):
    weights = default_rng(seed).random(shape)
    return weights / weights.sum(-1, keepdims=True)


PREDICTIONS = {
    "normals": kuq.Ensemble(kuq.Normal(LOC[..., 0], 0.5)),
    "weighted members": kuq.Ensemble(kuq.Normal(LOC, 0.5, event_ndim=1), [1.0, 2.0, 3.0, 4.0]),
    "mixtures": kuq.Ensemble(kuq.NormalMixture(chances(1, 4, 5, 3), LOC, 0.3)),
    "low rank": kuq.Ensemble(
        kuq.LowRankNormal(
            LOC, default_rng(22).normal(size=(4, 5, 3, 2)), default_rng(23).random((4, 5, 3))
        )
    ),
    "draws": kuq.Ensemble(kuq.Samples(LOC, weights=chances(2, 4, 5, 3))),
    "whole laws": kuq.Ensemble(kuq.Samples(LOC, weights=chances(2, 4, 5, 3), whole=True)),
    "students": kuq.Ensemble(kuq.StudentT(4.0, LOC[..., 0], 0.5)),
    "different kinds": kuq.Ensemble(
        [
            kuq.Normal(LOC[0], 1.0, event_ndim=1),
            kuq.Samples(default_rng(24).normal(size=(5, 7, 3)), 1),
        ]
    ),
    "evidential": kuq.NormalInverseGamma(LOC[0], 1.5, 2.5, 0.5, event_ndim=1),
}


def test_every_row_is_predicted_once(monkeypatch):
    """Draws are what takes time: a second look at the same rows would double it."""
    asked = []

    class Identity:
        def fit(self, x, y, validation=None):
            return self

        def predict_distribution(self, x):
            asked.append(np.asarray(x))
            return kuq.Ensemble(kuq.Normal(np.stack([x[:, 0], x[:, 0] + 2.0]), 1.0))

    monkeypatch.setattr(fitted, "fit_model", lambda *_: Identity())
    cell = Cell("e", "g", "diabetes", "own", 0, "p", ("squared",))
    arrays = fitted.predict(cell, Context(None, None, lambda *_: None))
    test = kuq.datasets.load("diabetes", seed=0).test
    assert len(asked) == 1
    np.testing.assert_array_equal(asked[0], test.x)
    np.testing.assert_allclose(arrays["test.mean"], np.asarray(test.x)[:, 0] + 1.0, rtol=1e-12)


@pytest.mark.parametrize("prediction", PREDICTIONS.values(), ids=PREDICTIONS)
def test_predictions_are_kept(prediction):
    back = from_arrays(to_arrays(prediction, "test"), "test")
    assert repr(back) == repr(prediction)
    before, after = (kuq.decompose(p, kuq.Energy()) for p in (prediction, back))
    np.testing.assert_allclose(after.total, before.total, rtol=1e-13)
    # A difference of sums over up to 144 pairs of draws; rounding is relative to these.
    atol = 10 * 144 * np.finfo(float).eps * np.max(before.total)
    np.testing.assert_allclose(after.epistemic, before.epistemic, rtol=0, atol=atol)


def test_what_cannot_be_kept_is_refused():
    with pytest.raises(ParameterError, match="must give an Ensemble or a NormalInverseGamma"):
        to_arrays(kuq.Normal(0.0, 1.0), "test")
    holes = kuq.Samples(np.array([[np.nan, 1.0, 2.0]]), nan_policy="omit")
    with pytest.raises(ParameterError, match="missing draws"):
        to_arrays(kuq.Ensemble(holes), "test")


def test_bandwidths_come_from_what_is_named():
    scale = default_rng(25).random((4, 5)) + 0.5
    prediction = kuq.Ensemble(kuq.Normal(LOC[..., 0], scale))
    assert bandwidth_of("training-targets", "a", 0.7, prediction) == 0.7
    assert bandwidth_of(0.3, "a", 0.7, prediction) == 0.3
    assert bandwidth_of({"a": 0.2, "b": "training-targets"}, "a", 0.7, prediction) == 0.2
    assert bandwidth_of("predicted-scale", "a", 0.7, prediction) == np.median(scale)
    squares = [
        (LOC[i, :, 0] - LOC[j, :, 0]) ** 2 + scale[i] ** 2 + scale[j] ** 2
        for i in range(4)
        for j in range(i)
    ]
    expected = np.median(np.sqrt(squares))
    np.testing.assert_allclose(bandwidth_of("members", "a", 0.7, prediction), expected, rtol=1e-9)
    for option, message in (("median", "must be a number or one of"), ({"b": 1.0}, "no entry for")):
        with pytest.raises(ParameterError, match=message):
            bandwidth_of(option, "a", 0.7, prediction)


@pytest.mark.parametrize("points", [1, 3])
def test_known_ensembles_are_known(points):
    law = KnownLaw(points, spread=0.7, scales=(0.5, 1.0))
    squared = kuq.SquaredError()
    assert law.aleatoric(squared) == pytest.approx(points * (0.25 + 1.0) / 2)
    assert law.epistemic(squared) == pytest.approx(points * 2 * 0.49)
    assert law.aleatoric(kuq.CRPS()) == pytest.approx(0.75 / np.sqrt(np.pi))
    members = law.members(np.random.default_rng(0), 2, 4000)
    for score in (kuq.LogScore(), kuq.Energy(), kuq.Gaussian(1.0), kuq.CRPS()):
        u = kuq.decompose(kuq.Ensemble(members), score)
        for value, exact in (
            (u.aleatoric, law.aleatoric(score)),
            (u.epistemic, law.epistemic(score)),
        ):
            error = np.std(value) / np.sqrt(len(value))
            assert abs(np.mean(value) - exact) < 4 * error


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The whole study at smoke size, in this process, with every warning an error."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUQ_CACHE", str(folder / "cache"))
        patch.delenv("KUQ_DATA", raising=False)  # the preset needs no download
        files = sorted((ROOT / "study" / "experiments").glob("*.toml"))
        summary = run([read_experiment(path, "smoke") for path in files], folder, jobs=0)
    assert summary.failed == {}
    return folder


@pytest.fixture(scope="module")
def records(study):
    with Store(study) as store:
        return store.records()


def kept(study, key):
    with Store(study) as store:
        state = next(cell for cell in store.cells() if cell.key == key)
    arrays = load_arrays(study / "predictions" / f"{state.predictions}.npz", state.predictions)
    return state, arrays


def values(records, experiment, quantity, **wanted):
    return {
        (r.dataset, r.representation, r.score, r.component, r.x): r.value
        for r in records
        if (r.experiment, r.quantity) == (experiment, quantity)
        and all(getattr(r, name) == value for name, value in wanted.items())
    }


def test_every_experiment_has_its_quantities(records):
    found = {}
    for record in records:
        found.setdefault(record.experiment, set()).add(record.quantity)
    assert found["selective_prediction"] >= {"prr", "mse", "risk", "risk_oracle", "bandwidth"}
    assert found["ood_detection"] >= {"auroc", "aupr", "fpr95", "component_correlation"}
    assert found["active_learning"] >= {"mse"}
    assert found["runtime"] == {"seconds_members", "seconds_samples"}
    assert found["approximation"] >= {"error_members", "error_samples", "bias_members"}
    assert found["robustness"] >= {"mape_M5_appendix", "mape_M5_overfitted"}
    assert all(np.isfinite(record.value) for record in records)


def test_prr_is_that_of_the_kept_predictions(study, records):
    _, arrays = kept(study, "selective_prediction/tables-small/diabetes/mixture/0")
    u = kuq.decompose(from_arrays(arrays, "test"), kuq.CRPS())
    mean = (arrays["test.weights"] * arrays["test.loc"]).sum(-1).mean(0)
    error = (mean - arrays["test.y"]) ** 2
    expected = kuq.protocols.selective_prediction(u.total, error).prr
    found = values(records, "selective_prediction", "prr", representation="mixture", score="crps")
    # The mean of a mixture from float32 weights, whose sum is one up to their rounding.
    assert list(found.values()) == [pytest.approx(expected, rel=1e-6)]
    assert not values(records, "selective_prediction", "prr", representation="mixture", score="log")
    assert values(records, "selective_prediction", "prr", representation="evidential", score="log")


@pytest.mark.parametrize("setting", ["appendix", "overfitted"])
def test_robustness_is_that_of_member_variances(study, records, setting):
    """Under squared error AU is the mean of variances, EU twice the variance of means."""
    _, arrays = kept(study, f"robustness/{setting}/diabetes/normal/0")
    loc, scale = arrays["loc"], arrays["scale"]
    base = range(3)
    for position, delta in enumerate((0.0, 1.0, 5.0)):
        both = [*base, 5 + position]
        au = [np.mean(scale[list(m)] ** 2, 0) for m in (base, both)]
        eu = [2 * np.var(loc[list(m)], 0, ddof=1) for m in (base, both)]
        for component, (before, after) in (("aleatoric", au), ("epistemic", eu)):
            expected = 100 * np.mean(np.abs(after / before - 1))
            found = values(
                records,
                "robustness",
                f"mape_M3_{setting}",
                score="squared",
                component=component,
                x=delta,
            )
            assert list(found.values()) == [pytest.approx(expected, rel=1e-9)]


def test_plug_in_statistics_are_short_by_one_over_members(records):
    fair = values(records, "approximation", "bias_members_unbiased", component="epistemic")
    plug_in = values(records, "approximation", "bias_members", component="epistemic")
    assert fair.keys() == plug_in.keys()
    for key, bias in plug_in.items():
        assert 1 + bias == pytest.approx((1 - 1 / key[-1]) * (1 + fair[key]), rel=1e-9)


def test_a_setting_ends_the_names_of_quantities(study):
    """Two grids over one data set would else give records of the same name."""
    _, arrays = kept(study, "active_learning/tables/diabetes/normal/0")
    [cell] = read_experiment(
        ROOT / "study" / "experiments" / "active_learning.toml", "smoke"
    ).cells()
    plain = list(active_learning.evaluate(cell, arrays, None))
    named = dataclasses.replace(cell, evaluation={**cell.evaluation, "setting": "long"})
    for before, after in zip(plain, active_learning.evaluate(named, arrays, None), strict=True):
        assert after == dataclasses.replace(before, quantity=f"{before.quantity}_long")


def test_acquisitions_begin_alike(records):
    curves = {}
    for record in records:
        if (record.experiment, record.quantity) == ("active_learning", "mse"):
            curves.setdefault(record.score, {})[record.x] = record.value
    assert set(curves) == {"crps", "random"}
    labels = [sorted(curve) for curve in curves.values()]
    assert labels[0] == labels[1]
    assert np.allclose(np.diff(labels[0]), 4)  # 1 % of 358 rows
    assert curves["crps"][labels[0][0]] == curves["random"][labels[0][0]]
    assert curves["crps"] != curves["random"]


def test_detection_and_rejection_share_their_training(study):
    with Store(study) as store:
        cells = {cell.key: cell for cell in store.cells()}
    for dataset, method in (("kuramoto-sivashinsky", "sampler"), ("depth-synthetic", "normal")):
        detection, rejection = (
            cells[f"{experiment}/{dataset}/{dataset}/{method}/0"].predictions
            for experiment in ("ood_detection", "selective_prediction")
        )
        assert detection == rejection


def test_examples_are_kept_for_pictures(study, monkeypatch):
    for name in ("kuramoto-sivashinsky-sampler", "depth-synthetic-normal-shifted"):
        with np.load(study / "fields" / f"{name}.npz", allow_pickle=False) as file:
            maps = {part: file[part] for part in ("truth", "prediction", "aleatoric", "epistemic")}
        shapes = {array.shape for array in maps.values()}
        assert shapes == {(48, 32) if "sampler" in name else (16, 20)}
        assert np.all(np.isfinite(maps["epistemic"]))
    # A trajectory: the state that is predicted is the state before plus an increment.
    monkeypatch.setenv("KUQ_CACHE", str(study / "cache"))
    sizes = {"trajectories": 20, "points": 32, "pairs": 48}
    data = kuq.datasets.load("kuramoto-sivashinsky", own_simulations=True, **sizes)
    with np.load(study / "fields" / "kuramoto-sivashinsky-sampler.npz") as file:
        np.testing.assert_allclose(file["truth"], data.test.x[:48, 1] + data.test.y[:48])
