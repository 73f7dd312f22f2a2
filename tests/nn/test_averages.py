"""Averages of weights over the last epochs, and defaults of training that depend on the data."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from nn.problems import sine  # noqa: E402

import kuq  # noqa: E402
from kuq.nn.adam import Adam  # noqa: E402

X, Y = sine(64)


def weights(network):
    return torch.cat([p.detach().flatten(1) for p in network.parameters()], 1)


def test_the_last_averages_are_those_by_hand(monkeypatch):
    """Equal shares of the first steps, then exponentially falling ones."""
    seen = []
    original = Adam.step

    def step(self, *arguments):
        original(self, *arguments)
        seen.append(self.values.clone())

    monkeypatch.setattr(Adam, "step", step)
    network = kuq.nn.Network(kuq.nn.MLP((4,)), kuq.nn.NormalHead, (3,), n_members=2)
    training = kuq.nn.Training(max_epochs=4, batch_size=16, averaging=2, restore_best=False)
    kuq.nn.fit(network, X, Y, training=training)
    assert len(seen) == 16  # four steps an epoch: a horizon of eight
    by_hand = torch.stack(seen[:8]).double().mean(0)
    for values in seen[8:]:
        by_hand = 7 / 8 * by_hand + values / 8
    found = weights(network).double()
    # A row of all weights has gaps between its parameters, which hold zeros.
    for row, expected in zip(found, by_hand, strict=True):
        kept = expected[expected != 0]
        torch.testing.assert_close(row, kept, rtol=1e-4, atol=1e-6)


def test_what_is_validated_is_what_is_kept():
    x_val, y_val = (torch.from_numpy(a).float() for a in sine(40, seed=5))
    for restore_best in (True, False):
        network = kuq.nn.Network(kuq.nn.MLP((8,)), kuq.nn.NormalHead, (3,), n_members=3)
        training = kuq.nn.Training(
            learning_rate=0.1, max_epochs=12, margin=0, restore_best=restore_best
        )
        history = kuq.nn.fit(network, X, Y, (x_val, y_val), training=training)
        now = kuq.score(network(x_val), y_val, kuq.CRPS()).mean(1).detach()
        kept = history.best_loss if restore_best else history.validation_loss[-1]
        np.testing.assert_allclose(now, kept, rtol=1e-4)


def test_modules_that_track_numbers_have_these_averaged_too():
    def make():
        return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU())

    x_val, y_val = (torch.from_numpy(a).float() for a in sine(40, seed=5))
    network = kuq.nn.Network(make, kuq.nn.NormalHead, (3,), n_members=2)
    training = kuq.nn.Training(max_epochs=5, learning_rate=0.1, restore_best=False)
    history = kuq.nn.fit(network, X, Y, (x_val, y_val), training=training)
    now = kuq.score(network(x_val), y_val, kuq.CRPS()).mean(1).detach()
    np.testing.assert_allclose(now, history.validation_loss[-1], rtol=1e-4)


def test_rate_and_batch_follow_the_data():
    training = kuq.nn.Training()
    assert [training.rows_in_a_batch(n, (3,)) for n in (10, 256, 900, 40000)] == [16, 16, 30, 200]
    assert training.rows_in_a_batch(40000, (2, 64)) == 32
    assert [training.rate(shape) for shape in ((3,), (2, 64), (1, 8, 8))] == [1e-2, 1e-3, 1e-3]
    given = kuq.nn.Training(learning_rate=0.2, batch_size=7)
    assert (given.rate((3,)), given.rows_in_a_batch(100, (3,))) == (0.2, 7)
    for wrong in ({"averaging": 0}, {"batch_size": 0}, {"learning_rate": 0.0}):
        with pytest.raises(kuq.ParameterError):
            kuq.nn.Training(**wrong)
