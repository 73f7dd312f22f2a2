"""A score may be given by its name wherever a score is expected."""

import numpy as np
import pytest

import kuq
from kuq.kernels.names import NAMES

SCORES = {
    "crps": kuq.CRPS(),
    "energy": kuq.Energy(),
    "energy:1.5": kuq.Energy(1.5),
    "squared": kuq.SquaredError(),
    "variance": kuq.SquaredError(),
    "log": kuq.LogScore(),
    "gaussian:0.5": kuq.Gaussian(0.5),
    "gaussian:median": kuq.Gaussian("median"),
    "laplace:0.5": kuq.Laplace(0.5),
    "imq:2": kuq.InverseMultiquadric(2.0),
    "rational:2:1.5": kuq.RationalQuadratic(2.0, 1.5),
    "matern:2:2.5": kuq.Matern(2.0, 2.5),
}


def ensemble():
    rng = np.random.default_rng(0)
    return kuq.Ensemble(kuq.Normal(rng.normal(size=(4, 6)), rng.gamma(2, size=(4, 6))))


def test_every_name_is_tried():
    assert {name.split(":")[0] for name in SCORES} == set(NAMES)


@pytest.mark.parametrize("name", SCORES)
def test_a_name_means_its_score(name):
    estimator = "bma" if name == "variance" else "pairwise"
    by_name = kuq.decompose(ensemble(), name)
    by_score = kuq.decompose(ensemble(), SCORES[name], estimator=estimator)
    assert by_name == by_score


def test_the_variance_is_the_familiar_one():
    prediction = ensemble()
    u = kuq.decompose(prediction, "variance")
    means = prediction.members.loc
    np.testing.assert_allclose(u.epistemic, means.var(axis=0, ddof=1), rtol=1e-12)
    np.testing.assert_allclose(u.aleatoric, (prediction.members.scale**2).mean(axis=0), rtol=1e-12)


FUNCTIONS = {
    "decompose": lambda p, score: kuq.decompose(p, score).total,
    "entropy": kuq.entropy,
    "divergence": lambda p, score: kuq.divergence(p, kuq.Normal(np.zeros(6), 1.0), score),
    "score": lambda p, score: kuq.score(p, np.zeros(6), score),
    "expected_kernel": lambda p, score: kuq.expected_kernel(p, p, score),
    "member_divergences": kuq.member_divergences,
    "member_influence": lambda p, score: kuq.member_influence(p, score).total,
    "robustness": lambda p, score: np.array(
        kuq.protocols.robustness(p, p, [score])[0].epistemic_mape
    ),
    "influence": lambda p, score: (
        kuq.protocols.influence_curves(p, kuq.Normal(np.full((2, 6), 9.0), 1.0), score).epistemic
    ),
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_take_names(function):
    call = FUNCTIONS[function]
    np.testing.assert_array_equal(call(ensemble(), "crps"), call(ensemble(), kuq.CRPS()))


def test_xarray_takes_names():
    xarray = pytest.importorskip("xarray")
    values = np.random.default_rng(1).normal(size=(3, 5, 8))
    data = xarray.DataArray(values, dims=("member", "sample", "time"))
    found = kuq.xarray.decompose(data, "energy")
    wanted = kuq.xarray.decompose(data, kuq.Energy())
    xarray.testing.assert_identical(found["total"], wanted["total"])


def test_scikit_learn_takes_names():
    pytest.importorskip("sklearn")
    x = np.arange(60.0)[:, None]
    y = x[:, 0] % 3
    models = [
        kuq.sklearn.UncertaintyRegressor(n_members=3, random_state=0, score=score).fit(x, y)
        for score in ("energy", kuq.Energy())
    ]
    found, wanted = (model.predict_uncertainty(x[:5]).total for model in models)
    np.testing.assert_array_equal(found, wanted)
    by_name, by_score = (kuq.sklearn.scorer(score) for score in ("crps", kuq.CRPS()))
    assert by_name(models[0], x, y) == by_score(models[0], x, y)


def test_training_takes_names():
    torch = pytest.importorskip("torch")
    x = torch.linspace(-1, 1, 32)[:, None]
    losses = []
    for loss in ("crps", kuq.CRPS()):
        network = kuq.nn.Network(kuq.nn.MLP((4,)), kuq.nn.NormalHead, (1,), n_members=2, seed=0)
        training = kuq.nn.Training(max_epochs=2)
        losses.append(kuq.nn.fit(network, x, x[:, 0], loss=loss, training=training).train_loss)
    np.testing.assert_array_equal(*losses)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("crsp", "one of crps, energy"),
        ("gaussian", "gaussian:0.5, gaussian:median or gaussian:multi"),
        ("gaussian:wide", "not a number"),
        ("crps:1", "is written crps"),
    ],
)
def test_a_wrong_name_says_what_is_known(name, message):
    with pytest.raises(kuq.ParameterError, match=message):
        kuq.decompose(ensemble(), name)


def test_a_class_is_not_a_score():
    with pytest.raises(kuq.ParameterError, match=r"an instance is needed: CRPS\(\), not CRPS"):
        kuq.decompose(ensemble(), kuq.CRPS)
