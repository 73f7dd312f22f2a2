"""The loop: stopping, rates, best weights, resuming, interruption, compilation."""

import math

import numpy as np
import pytest
from nn.problems import sine

pytest.importorskip("torch")

import torch

import kuq
from kuq.nn.adam import Adam
from kuq.nn.stopping import Stopping
from kuq.nn.trainer import Trainer

X, Y = sine(120)


#: Rates that stay, and the weights of the last step.
CONSTANT = {"annealing": False, "averaging": None}


def small(n_members=3, head=kuq.nn.NormalHead, **options):
    return kuq.nn.Network(kuq.nn.MLP((8,)), head, (3,), n_members=n_members, **options)


def weights(network):
    return torch.cat([p.detach().flatten(1) for p in network.parameters()], dim=1)


def test_adam_is_that_of_torch():
    torch.manual_seed(0)
    start, rates = torch.randn(3, 5), [1e-2, 1e-3, 0.0]
    ours = Adam(start.clone())
    theirs = [row.clone().requires_grad_() for row in start]
    optimisers = [torch.optim.Adam([row], rate) for row, rate in zip(theirs, rates, strict=True)]
    for _ in range(20):
        gradients = torch.randn(3, 5)
        ours.step(gradients, torch.tensor(rates))
        for row, gradient, optimiser in zip(theirs, gradients, optimisers, strict=True):
            row.grad = gradient.clone()
            optimiser.step()
    torch.testing.assert_close(ours.values, torch.stack(theirs).detach(), rtol=1e-5, atol=1e-6)
    assert torch.equal(ours.values[2], start[2])


def test_stopping_follows_every_member():
    rule = Stopping(2, 0.8, patience=4, plateau=2)
    losses = [(3, 3), (2, 4), (1, 4), (1, 4), (1, 4), (0.5, 0.1), (0.6, 9), (0.6, 9), (0.6, 9)]
    better = [rule.update(np.array(pair, float), k).tolist() for k, pair in enumerate(losses)]
    # The second member waits 4 epochs for better than 3 and stops: its 0.1 comes too late.
    assert better == [[k in (0, 1, 2, 5), k == 0] for k in range(9)]
    assert rule.best_epoch.tolist() == [5, 0]
    assert rule.active == [0]
    # More than 2 epochs without improvement halve the rate: epochs 8 and 3.
    assert rule.rate.tolist() == [0.4, 0.4]
    assert rule.rates().tolist() == [0.4, 0.0]


def test_a_loss_that_is_not_finite_ends_a_member():
    rule = Stopping(2, 1.0, patience=None, plateau=None)
    rule.update(np.array([1.0, 1.0]), 0)
    rule.update(np.array([np.nan, 0.5]), 1)
    assert rule.active == [1]
    assert rule.best_loss.tolist() == [1.0, 0.5]


def test_each_member_keeps_its_best_weights():
    network = small(4)
    x_val, y_val = sine(40, seed=5)
    training = kuq.nn.Training(
        learning_rate=0.03,
        max_epochs=80,
        patience=6,
        plateau=5,
        batch_size=16,
        margin=0,
        **CONSTANT,
    )
    history = kuq.nn.fit(network, X, Y, (x_val, y_val), training=training)
    np.testing.assert_allclose(history.best_loss, history.validation_loss.min(0))
    assert (history.validation_loss.argmin(0) == history.best_epoch).all()
    assert len(set(history.best_epoch.tolist())) > 1
    assert history.epochs < 80
    law = network(torch.from_numpy(x_val).float())
    now = kuq.score(law, torch.from_numpy(y_val).float(), kuq.CRPS()).mean(1)
    np.testing.assert_allclose(now.detach(), history.best_loss, rtol=1e-4)


def test_last_weights_on_request():
    x_val, y_val = (torch.from_numpy(a).float() for a in sine(40, seed=5))
    network = small()
    training = kuq.nn.Training(
        learning_rate=0.3, max_epochs=20, restore_best=False, batch_size=32, **CONSTANT
    )
    history = kuq.nn.fit(network, X, Y, (x_val, y_val), training=training)
    now = kuq.score(network(x_val), y_val, kuq.CRPS()).mean(1).detach()
    np.testing.assert_allclose(now, history.validation_loss[-1], rtol=1e-4)
    assert history.epochs == 20
    assert (history.best_loss < history.validation_loss[-1]).any()


def test_annealing_takes_the_learning_rate_to_zero(monkeypatch):
    """Rates by hand: half a cosine over the epochs, on top of what plateaus do."""
    seen = []
    original = Adam.step
    monkeypatch.setattr(
        Adam, "step", lambda self, g, rates, m: (seen.append(rates), original(self, g, rates, m))
    )
    training = kuq.nn.Training(
        learning_rate=0.3, max_epochs=4, batch_size=len(X), plateau=None, annealing=True
    )
    kuq.nn.fit(small(2), X, Y, training=training)
    by_hand = [[0.15 * (1 + np.cos(np.pi * epoch / 4))] * 2 for epoch in range(4)]
    np.testing.assert_allclose(torch.stack(seen), by_hand, rtol=1e-6)


def test_annealing_ends_where_it_was_planned_to(tmp_path):
    """With another number of epochs all learning rates would have been different."""
    settings = {"annealing": True, "checkpoint": tmp_path / "state"}
    kuq.nn.fit(small(), X, Y, training=kuq.nn.Training(max_epochs=2, **settings))
    with pytest.raises(kuq.ParameterError, match="belongs to other data or settings"):
        kuq.nn.fit(small(), X, Y, training=kuq.nn.Training(max_epochs=3, **settings))


def test_burn_in_trains_the_mean_alone():
    """The loss of such an epoch is the squared error of the mean, and no epoch counts as best."""
    network = small()
    # The slower, the less does the error fall within the epoch over which the loss is a mean.
    training = kuq.nn.Training(max_epochs=6, burn_in=6, learning_rate=2e-3, **CONSTANT)
    history = kuq.nn.fit(network, X, Y, training=training)
    law = network(torch.from_numpy(X).float())
    error = (law.mean() - torch.from_numpy(Y).float()).square().mean(1)
    np.testing.assert_allclose(history.train_loss[-1], error.detach(), rtol=0.2)
    assert (history.best_epoch == -1).all()


def interrupted_after(epochs, monkeypatch):
    original = Trainer._epoch

    def epoch(self):
        if self.epoch == epochs:
            raise KeyboardInterrupt
        original(self)

    monkeypatch.setattr(Trainer, "_epoch", epoch)


@pytest.mark.parametrize("head", [kuq.nn.NormalHead, kuq.nn.SamplerHead])
def test_training_goes_on_where_it_was_interrupted(head, tmp_path, monkeypatch):
    validation = sine(40, seed=5)
    settings = {"max_epochs": 12, "batch_size": 50, "n_samples": 3, "plateau": 1, "patience": 3}
    whole = small(head=head)
    expected = kuq.nn.fit(whole, X, Y, validation, training=kuq.nn.Training(**settings))

    path = tmp_path / "state"
    resumable = kuq.nn.Training(**settings, checkpoint=path, checkpoint_every=3)
    first = small(head=head)
    with monkeypatch.context() as patch:
        interrupted_after(7, patch)
        with pytest.warns(UserWarning, match="interrupted after 7 of"):
            history = kuq.nn.fit(first, X, Y, validation, training=resumable)
        assert history.interrupted
    assert torch.isfinite(weights(first)).all()
    resumed = small(head=head)
    history = kuq.nn.fit(resumed, X, Y, validation, training=resumable)
    assert torch.equal(weights(resumed), weights(whole))
    np.testing.assert_array_equal(history.train_loss, expected.train_loss)
    np.testing.assert_array_equal(history.validation_loss, expected.validation_loss)

    # A finished run is read, not repeated.
    with monkeypatch.context() as patch:
        interrupted_after(0, patch)
        again = small(head=head)
        kuq.nn.fit(again, X, Y, validation, training=resumable)
    assert torch.equal(weights(again), weights(whole))


def test_a_checkpoint_of_other_data_is_refused(tmp_path):
    training = kuq.nn.Training(max_epochs=1, checkpoint=tmp_path / "state")
    kuq.nn.fit(small(), X, Y, training=training)
    with pytest.raises(kuq.ParameterError, match="belongs to other data or settings"):
        kuq.nn.fit(small(), X, Y + 1, training=training)
    with pytest.raises(kuq.ParameterError, match="belongs to other data or settings"):
        kuq.nn.fit(small(4), X, Y, training=training)


def test_interruption_keeps_the_best(monkeypatch):
    interrupted_after(5, monkeypatch)
    model = kuq.nn.Regressor(n_members=2, max_epochs=50)
    with pytest.warns(UserWarning, match="keeps what it has learned"):
        model.fit(X, Y)
    assert model.history_.interrupted
    assert model.history_.epochs == 5
    assert np.isfinite(model.predict(X)).all()


def test_few_members_that_are_left_train_as_all_do():
    """When most members have stopped, only the others are computed."""
    results = []
    for stopped in (0, 3):
        network = small(4)
        training = kuq.nn.Training(max_epochs=3, batch_size=40, averaging=None)
        from kuq.nn.rows import Rows

        trainer = Trainer(network, Rows.checked(network, X, Y), None, kuq.LogScore(), training)
        trainer.stopping.stopped[:stopped] = 1
        trainer.run() if stopped == 0 else [trainer._epoch() for _ in range(3)]
        trainer.weights.release()
        results.append(weights(network))
    torch.testing.assert_close(results[0][3], results[1][3], rtol=1e-4, atol=1e-5)
    start = weights(small(4))
    torch.testing.assert_close(results[1][:3], start[:3])


@pytest.mark.parametrize(
    ("head", "loss"),
    [
        (kuq.nn.NormalHead, None),
        (kuq.nn.NormalHead, kuq.LogScore()),
        (kuq.nn.MixtureHead, None),
        (kuq.nn.SamplerHead, None),
    ],
)
def test_compiled_steps_are_the_same_steps(head, loss):
    """Traced as for the compiler, run by torch itself."""
    networks = small(head=head), small(head=head)
    for network, compiled in zip(networks, (False, "eager"), strict=True):
        training = kuq.nn.Training(
            max_epochs=3, batch_size=50, burn_in=1, n_samples=3, compile=compiled
        )
        kuq.nn.fit(network, X, Y, loss=loss, training=training)
    torch.testing.assert_close(weights(networks[0]), weights(networks[1]), rtol=1e-3, atol=1e-5)


def plain_crps(outputs, y, score):
    """The CRPS of a normal as it is written in books."""
    loc, scale = outputs
    z = (y - loc) / scale
    bell = math.sqrt(2 / math.pi) * torch.exp(-z * z / 2)
    return scale * (z * torch.erf(z / math.sqrt(2)) + bell - 1 / math.sqrt(math.pi))


def test_steps_are_those_of_the_formula(monkeypatch):
    """Losses by ``kuq.score`` move weights as plain torch does; Adam divides rounding by itself."""
    ours, theirs = small(clipped_squares=False), small()
    training = kuq.nn.Training(max_epochs=3, batch_size=40)
    kuq.nn.fit(ours, X, Y, loss=kuq.CRPS(), training=training)
    monkeypatch.setattr(theirs.head, "loss", plain_crps)
    kuq.nn.fit(theirs, X, Y, loss=kuq.CRPS(), training=training)
    torch.testing.assert_close(weights(ours), weights(theirs), rtol=1e-3, atol=1e-5)


def test_a_network_that_diverges_shows_it_in_its_loss():
    head = kuq.nn.NormalHead(1)
    loc = torch.tensor([[0.0, float("nan")]], requires_grad=True)
    loss = head.loss((loc, torch.ones(1, 2)), torch.zeros(1, 2), kuq.CRPS())
    assert torch.isfinite(loss).tolist() == [[True, False]]
    loss.sum().backward()


def test_what_cannot_be_compiled_is_refused():
    training = kuq.nn.Training(compile=True)
    network = small(head=kuq.nn.EvidentialHead)
    with pytest.raises(kuq.ParameterError, match="compile=True needs"):
        kuq.nn.fit(network, X, Y, loss=kuq.CRPS(), training=training)
    trunk = kuq.nn.OneByOne(torch.nn.Linear(3, 4))
    network = kuq.nn.Network(trunk, kuq.nn.NormalHead, (3,), n_members=2)
    with pytest.raises(kuq.ParameterError, match="compile=True needs"):
        kuq.nn.fit(network, X, Y, training=training)


def test_mixed_precision_trains_too():
    full, mixed = small(), small()
    for network, wanted in ((full, False), (mixed, True)):
        training = kuq.nn.Training(max_epochs=30, learning_rate=1e-2, mixed_precision=wanted)
        history = kuq.nn.fit(network, X, Y, training=training)
    assert (history.train_loss[-1] < 0.5 * history.train_loss[0]).all()
    assert not torch.equal(weights(full), weights(mixed))
    assert all(p.dtype == torch.float32 for p in mixed.parameters())


def test_progress_shows_the_loss_of_every_member(capsys):
    history = kuq.nn.fit(small(), X, Y, training=kuq.nn.Training(max_epochs=2, progress=True))
    shown = capsys.readouterr().err
    assert "2/2" in shown
    assert all(f"{loss:.3g}" in shown for loss in history.train_loss[-1])


def test_members_without_a_finite_loss_are_named():
    training = kuq.nn.Training(learning_rate=1e30, max_epochs=2)
    network = kuq.nn.Network(kuq.nn.MLP((8,)), kuq.nn.NormalHead, (3,), n_members=2)
    with pytest.raises(kuq.ParameterError, match=r"loss of members \[0, 1\] was never finite"):
        kuq.nn.fit(network, X, Y, training=training)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"batch_size": 0}, "batch_size must be an integer ≥ 1"),
        ({"max_epochs": 2.5}, "max_epochs must be an integer ≥ 1"),
        ({"patience": 0}, "patience must be an integer ≥ 1"),
        ({"burn_in": -1}, "burn_in must be an integer ≥ 0"),
        ({"n_samples": 1}, "at least two draws"),
    ],
)
def test_wrong_settings(change, message):
    with pytest.raises(kuq.ParameterError, match=message):
        kuq.nn.Training(**change)


def test_members_in_the_flat_of_a_bounded_loss_are_named_and_burn_in_helps():
    """Thirty bandwidths away exp(−30²) is zero in float32: all that pays is to become wide."""
    far = 30 + np.stack([Y, -Y], 1)

    def trained(**changes):
        network = kuq.nn.Network(kuq.nn.MLP((8,)), kuq.nn.LowRankHead, (3,), (2,), 2, rank=1)
        training = kuq.nn.Training(learning_rate=0.1, **changes)
        return kuq.nn.fit(network, X, far, 0.2, loss=kuq.Gaussian(1.0), training=training)

    with pytest.warns(UserWarning, match=r"members \[0, 1\] learned next to nothing.*burn_in"):
        stuck = trained(max_epochs=30)
    # 0.5 is the loss of a law without end; warnings are errors here, so that there are none below.
    assert (stuck.best_loss > 0.49).all()
    assert (trained(max_epochs=100, burn_in=60).best_loss < 0.4).all()


def test_wrong_rows():
    with pytest.raises(kuq.ShapeError, match=r"x must have shape \(n, \*\(3,\)\)"):
        kuq.nn.fit(small(), X[:, :2], Y)
    with pytest.raises(kuq.ShapeError, match=r"y must have shape \(120,\)"):
        kuq.nn.fit(small(), X, Y[:, None])
    with pytest.raises(kuq.ParameterError, match="y must be finite"):
        kuq.nn.fit(small(), X, np.where(Y > 0, np.nan, Y))
    with pytest.raises(kuq.ParameterError, match="a score by name is one of"):
        kuq.nn.fit(small(), X, Y, loss="crpz")
    with pytest.raises(kuq.ParameterError, match="head must be a class"):
        kuq.nn.Network(kuq.nn.MLP(), "normal", (3,))


@pytest.mark.parametrize(("channels", "threads"), [(4, 1), (40, 2)])
def test_small_steps_use_one_thread(channels, threads, monkeypatch):
    """A grid makes a step large; the number of threads is as before when training ends."""
    used = []
    epoch = Trainer._epoch

    def watched(trainer):
        used.append(torch.get_num_threads())
        epoch(trainer)

    monkeypatch.setattr(Trainer, "_epoch", watched)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        backbone = kuq.nn.FNO(4, channels, channels, channels, layers=2)
        network = kuq.nn.Network(backbone, kuq.nn.NormalHead, (1, 32), (32,), n_members=2)
        x = torch.randn(32, 1, 32, generator=torch.Generator().manual_seed(0))
        kuq.nn.fit(network, x, x[:, 0], training=kuq.nn.Training(max_epochs=1))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert used == [threads]
