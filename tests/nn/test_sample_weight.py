"""Rows that count more or less: a weight of two is a row that is there twice.

But for the number of rows, by which the size of batches goes, and the share of a penalty: where
rows are repeated here, both are out of it.
"""

import numpy as np
import pytest
from nn.problems import functions, sine

pytest.importorskip("torch")
pytest.importorskip("sklearn")

import torch

import kuq
from kuq.nn.adam import Adam

#: Sums of a few hundred terms of size one in single precision, with a factor of ten of room.
ROUNDING = 10 * 200 * np.finfo(np.float32).eps
HEADS = {
    "normal": (kuq.nn.NormalHead, None),
    "normal by CRPS": (kuq.nn.NormalHead, kuq.CRPS()),
    "evidential": (kuq.nn.EvidentialHead, None),
    "mixture": (kuq.nn.MixtureHead, None),
    "low-rank": (kuq.nn.LowRankHead, kuq.Gaussian(1.0)),
}


def whole_weights(n, seed=1):
    """Weights 0 to 3."""
    return np.random.default_rng(seed).integers(0, 4, n)


def repeated(weights, *arrays):
    return [np.repeat(array, weights, axis=0) for array in arrays]


def network(head, x_shape=(3,), event=(), backbone=None):
    free = {"shape_penalty": 0} if head in (kuq.nn.NormalHead, kuq.nn.MixtureHead) else {}
    return kuq.nn.Network(backbone or kuq.nn.MLP((8,)), head, x_shape, event, n_members=3, **free)


@pytest.fixture
def gradients(monkeypatch):
    """The gradients of all optimiser steps."""
    found, step = [], Adam.step

    def watched(self, gradients, rates, rows=None):
        found.append(gradients.clone())
        step(self, gradients, rates, rows)

    monkeypatch.setattr(Adam, "step", watched)
    return found


@pytest.mark.parametrize("burn_in", [0, 1])
@pytest.mark.parametrize("name", HEADS)
def test_whole_weights_are_repeated_rows(name, burn_in, gradients):
    head, loss = HEADS[name]
    x, y = sine(60)
    if head is kuq.nn.LowRankHead:
        y = np.stack([y, y**2], axis=1)
    w = whole_weights(60)
    training = kuq.nn.Training(max_epochs=1, batch_size=1000, burn_in=burn_in)
    pair = {"loss": loss, "training": training}
    event = y.shape[1:]
    weighted = kuq.nn.fit(network(head, event=event), x, y, (x, y, w), sample_weight=w, **pair)
    rows = repeated(w, x, y)
    plain = kuq.nn.fit(network(head, event=event), *rows, rows, **pair)
    np.testing.assert_allclose(weighted.train_loss, plain.train_loss, rtol=ROUNDING)
    np.testing.assert_allclose(weighted.validation_loss, plain.validation_loss, rtol=ROUNDING)
    first, second = gradients
    size = second.abs().max()
    assert size > 1e-3
    torch.testing.assert_close(first / size, second / size, rtol=0, atol=ROUNDING)
    unweighted = kuq.nn.fit(network(head, event=event), x, y, **pair)
    assert np.abs(unweighted.train_loss / plain.train_loss - 1).max() > 10 * ROUNDING


def test_members_that_are_taken_in_turn_have_weights_too(gradients):
    x, y = sine(40)
    w = whole_weights(40)
    trunk = lambda: torch.nn.Linear(3, 6)  # noqa: E731
    training = kuq.nn.Training(max_epochs=1, batch_size=1000)
    make = lambda: network(kuq.nn.NormalHead, backbone=trunk)  # noqa: E731
    weighted = kuq.nn.fit(make(), x, y, sample_weight=w, training=training)
    plain = kuq.nn.fit(make(), *repeated(w, x, y), training=training)
    np.testing.assert_allclose(weighted.train_loss, plain.train_loss, rtol=ROUNDING)
    torch.testing.assert_close(*gradients, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("problem", [sine, functions])
def test_scaling_and_training_of_a_regressor_follow_weights(problem):
    x, y = problem(30)
    w = whole_weights(30)
    settings = {"n_members": 2, "max_epochs": 3, "batch_size": 1000, "shape_penalty": 0}
    held_out = problem(20, seed=7)
    one = kuq.nn.Regressor(**settings).fit(x, y, held_out, sample_weight=w)
    other = kuq.nn.Regressor(**settings).fit(*repeated(w, x, y), held_out)
    for name in ("x_scaling_", "y_scaling_"):
        for part in ("shift", "scale"):
            values = [getattr(getattr(model, name), part) for model in (one, other)]
            np.testing.assert_allclose(*values, rtol=1e-12, atol=1e-12)
    # Three steps of Adam, which divides gradients by their size and so their rounding, too.
    np.testing.assert_allclose(one.history_.best_loss, other.history_.best_loss, rtol=1e-3)
    np.testing.assert_allclose(one.predict(x), other.predict(x), rtol=0, atol=1e-3)


@pytest.mark.parametrize("bootstrap", [False, True])
def test_a_weight_of_zero_is_absence(bootstrap):
    x, y = sine(60)
    w = np.random.default_rng(0).uniform(0.5, 2, 60)
    w[::3] = 0
    x_wild, y_wild = x.copy(), y.copy()
    x_wild[::3], y_wild[::3] = 1e6, -1e6
    own = np.stack([y, 2 * y])
    settings = {"n_members": 2, "max_epochs": 3, "bootstrap": bootstrap}
    with_them = kuq.nn.Regressor(**settings).fit(
        x_wild, y_wild, sample_weight=w, member_targets=own
    )
    there = w > 0
    without = kuq.nn.Regressor(**settings).fit(
        x[there], y[there], sample_weight=w[there], member_targets=own[:, there]
    )
    np.testing.assert_array_equal(with_them.predict(x), without.predict(x))
    np.testing.assert_array_equal(with_them.history_.train_loss, without.history_.train_loss)


def test_only_ratios_matter():
    x, y = sine(50)
    w = np.random.default_rng(0).uniform(0, 2, 50)
    settings = {"n_members": 2, "max_epochs": 3}
    one, other = (kuq.nn.Regressor(**settings).fit(x, y, sample_weight=f * w) for f in (1, 2**40))
    np.testing.assert_array_equal(one.predict(x), other.predict(x))
    alike = kuq.nn.Regressor(**settings).fit(x, y, sample_weight=np.full(50, 3.0))
    np.testing.assert_allclose(
        alike.history_.train_loss, kuq.nn.Regressor(**settings).fit(x, y).history_.train_loss, 1e-4
    )


def test_losses_are_weighted_means():
    x, y = sine(60)
    held_out = sine(30, seed=3)
    w = np.random.default_rng(0).uniform(0, 2, 30)
    model = kuq.nn.Regressor(n_members=2, max_epochs=2).fit(x, y, validation=(*held_out, w))
    law = model.predict_distribution(held_out[0])
    scores = kuq.score(law.members, held_out[1], kuq.CRPS()) / float(model.y_scaling_.scale)
    expected = np.average(scores, axis=1, weights=w)
    np.testing.assert_allclose(model.history_.best_loss, expected, rtol=1e-4)
    assert np.abs(expected - scores.mean(1)).max() > 1e-3


def test_the_loss_of_drawn_rows_is_a_weighted_mean_as_well():
    """All rows are alike, so that the mean is the same whatever a member draws."""
    x, y = np.zeros((20, 3)), np.zeros(20)
    training = kuq.nn.Training(max_epochs=1, learning_rate=1e-12, bootstrap=True)
    w = np.where(np.arange(20) == 0, 1000.0, 1.0)
    weighted = kuq.nn.fit(network(kuq.nn.NormalHead), x, y, sample_weight=w, training=training)
    plain = kuq.nn.fit(network(kuq.nn.NormalHead), x, y, training=training)
    np.testing.assert_allclose(weighted.train_loss, plain.train_loss, rtol=1e-5)


def test_the_optimum_is_that_of_the_weighted_data():
    """±1 with weights 3 and 1 at one input: mean 1/2 and variance 3/4."""
    x = np.zeros((400, 1))
    y = np.where(np.arange(400) % 2 == 0, 1.0, -1.0)
    w = np.where(y > 0, 3.0, 1.0)
    model = kuq.nn.Regressor(n_members=2, max_epochs=200, batch_size=400, learning_rate=1e-2)
    # Of two points only the log score has the normal of the same mean and variance as its optimum.
    model.set_params(patience=None, plateau=None, validation_fraction=0.0, loss="log")
    law = model.fit(x, y, sample_weight=w).predict_distribution(x[:1]).members
    # Over seeds, 200 steps end within 3e-4 of the optimum.
    np.testing.assert_allclose(law.loc, 0.5, atol=5e-3)
    np.testing.assert_allclose(law.scale**2, 0.75, atol=5e-3)


@pytest.mark.parametrize("head", [kuq.nn.NormalHead, kuq.nn.SamplerHead])
def test_compiled_steps_know_weights(head):
    x, y = sine(120)
    w = np.random.default_rng(0).uniform(0.1, 2, 120)
    found = []
    for compiled in (False, "eager"):
        training = kuq.nn.Training(
            max_epochs=3, batch_size=50, burn_in=1, n_samples=3, compile=compiled
        )
        made = network(head)
        kuq.nn.fit(made, x, y, sample_weight=w, training=training)
        found.append(torch.cat([p.detach().flatten(1) for p in made.parameters()], dim=1))
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-5)


WRONG = {
    "too few": (np.ones(5), "one number for each row, shape \\(20,\\), got \\(5,\\)"),
    "two axes": (np.ones((20, 1)), "one number for each row"),
    "a number": (1.0, "one number for each row"),
    "negative": (np.arange(20.0) - 1, "must not be negative, got -1"),
    "NaN": (np.full(20, np.nan), "contains NaN"),
    "infinite": (np.full(20, np.inf), "contains NaN or infinity"),
    "zeros": (np.zeros(20), "all are zero"),
    "words": (["a"] * 20, "must hold numbers"),
    "one row": (np.eye(20)[0], "at least two rows"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_weights(case):
    x, y = sine(20)
    weights, message = WRONG[case]
    with pytest.raises(kuq.KuqError, match=message):
        kuq.nn.Regressor(n_members=2, max_epochs=1).fit(x, y, sample_weight=weights)
    if case != "one row":
        with pytest.raises(kuq.KuqError, match=message):
            kuq.nn.fit(network(kuq.nn.NormalHead), x, y, sample_weight=weights)
        with pytest.raises(kuq.KuqError, match=message):
            kuq.nn.Regressor(n_members=2).fit(x, y, validation=(x, y, weights))


def test_a_checkpoint_of_other_weights_is_refused(tmp_path):
    x, y = sine(30)
    training = kuq.nn.Training(max_epochs=1, checkpoint=tmp_path / "state")
    w = np.arange(1.0, 31)
    kuq.nn.fit(network(kuq.nn.NormalHead), x, y, sample_weight=w, training=training)
    with pytest.raises(kuq.ParameterError, match="belongs to other data"):
        kuq.nn.fit(network(kuq.nn.NormalHead), x, y, sample_weight=w[::-1], training=training)
    kuq.nn.fit(network(kuq.nn.NormalHead), x, y, sample_weight=w, training=training)
