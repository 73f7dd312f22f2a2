"""Members are independent of each other, of their number, and of everything but the seed."""

import numpy as np
import pytest
from nn.problems import functions, sine

pytest.importorskip("torch")

import torch

import kuq

SHORT = {"max_epochs": 4, "batch_size": 32, "n_train_samples": 4, "n_samples": 5}


class Trunk(torch.nn.Module):
    """A module of a user, with dropout and tracked statistics."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 8), torch.nn.BatchNorm1d(8)

    def forward(self, x):
        return torch.nn.functional.dropout(self.second(self.first(x)).tanh(), 0.2, self.training)


CASES = {
    "normal": ("normal", {}, sine),
    "bootstrap": ("normal", {"bootstrap": True}, sine),
    "evidential": ("evidential", {}, sine),
    "mixture": ("mixture", {}, sine),
    "low-rank": ("low-rank", {"rank": 2}, sine),
    "sampler": ("sampler", {}, sine),
    "flow": ("flow", {}, sine),
    "own module": ("normal", {"backbone": Trunk}, sine),
    "fno": ("sampler", {"backbone": kuq.nn.FNO(6, 4, 8, 8, 2)}, functions),
}


def trained(name, n_members, seed=0):
    representation, options, problem = CASES[name]
    model = kuq.nn.Regressor(representation, n_members=n_members, seed=seed, **options, **SHORT)
    return model.fit(*problem())


def parameters(model, x):
    return model._parameters(x)


@pytest.mark.parametrize("name", CASES)
def test_a_member_does_not_depend_on_how_many_there_are(name):
    x, _ = CASES[name][2]()
    many, few = (parameters(trained(name, m), x) for m in (5, 2))
    for a, b in zip(many, few, strict=True):
        np.testing.assert_allclose(a[:2], b, rtol=2e-3, atol=2e-4)
        assert np.abs(a[0] - a[1]).max() > 1e-3  # and members differ


@pytest.mark.parametrize("name", ["bootstrap", "sampler", "flow", "own module"])
def test_the_seed_decides_everything(name):
    x, _ = CASES[name][2]()
    torch.manual_seed(1)
    first = parameters(trained(name, 3), x)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    second, other = parameters(trained(name, 3), x), parameters(trained(name, 3, seed=1), x)
    assert torch.equal(torch.get_rng_state(), state)  # nobody else's random numbers are touched
    for a, b, c in zip(first, second, other, strict=True):
        np.testing.assert_array_equal(a, b)
        assert np.abs(a - c).max() > 1e-3


@pytest.mark.parametrize("representation", ["sampler", "flow", "evidential"])
def test_a_prediction_depends_on_its_own_input_alone(representation):
    x, y = sine()
    model = kuq.nn.Regressor(representation, n_members=2, **SHORT).fit(x, y)
    whole, part = (model.predict_uncertainty(rows, kuq.CRPS()) for rows in (x, x[5:9]))
    np.testing.assert_allclose(whole.epistemic[5:9], part.epistemic, rtol=1e-4)


def test_bootstrap_draws_rows_with_replacement():
    """A member never sees about e⁻¹ of the rows: their targets do not matter."""
    x, y = sine(60)
    from kuq.nn.rows import Rows
    from kuq.nn.trainer import Trainer

    network = kuq.nn.Network(kuq.nn.MLP((4,)), kuq.nn.NormalHead, (3,), n_members=2)
    rows = Rows.checked(network, x, y)
    training = kuq.nn.Training(bootstrap=True, max_epochs=1)
    drawn = Trainer(network, rows, None, kuq.LogScore(), training).learned
    missing = [set(range(60)) - set(row.tolist()) for row in drawn]
    assert missing[0] != missing[1]
    assert all(10 < len(m) < 35 for m in missing)


def test_members_may_see_different_targets():
    x, y = sine(300)
    own = np.stack([y, y, y + 5.0])
    options = {"max_epochs": 60, "learning_rate": 5e-3, "patience": None, "restore_best": False}
    model = kuq.nn.Regressor(n_members=3, validation_fraction=0.0, **options)
    model.fit(x, y, member_targets=own)
    means = model.predict_distribution(x).member_means().mean(-1)
    np.testing.assert_allclose(means - y.mean(), [0.0, 0.0, 5.0], atol=0.3)
    clean = kuq.nn.Regressor(n_members=2, validation_fraction=0.0, **options).fit(x, y)
    np.testing.assert_allclose(
        clean.predict_distribution(x).member_means(),
        model.predict_distribution(x).member_means()[:2],
        atol=0.02,
    )
    with pytest.raises(kuq.ShapeError, match="member_targets must have shape"):
        model.fit(x, y, member_targets=own[:2])
