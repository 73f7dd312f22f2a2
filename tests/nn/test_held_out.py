"""Rows that each member sets aside, and which epoch it keeps by them."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from nn.problems import sine  # noqa: E402

import kuq  # noqa: E402
from kuq.nn.judged import Judged, Lowest  # noqa: E402
from kuq.nn.rows import Folds  # noqa: E402

X, Y = sine(120)


def network(n_members=3):
    return kuq.nn.Network(kuq.nn.MLP((8,)), kuq.nn.NormalHead, (3,), n_members=n_members)


def test_members_set_aside_other_rows():
    folds = Folds.of(43, 0.1, 12, seed=3)
    assert folds.held_out.shape == (12, 4)
    for learned, held_out in zip(folds.learned, folds.held_out, strict=True):
        assert sorted(learned.tolist() + held_out.tolist()) == list(range(43))
    first = folds.held_out[:10].flatten().tolist()
    assert len(set(first)) == 40  # as long as there are enough, no row twice
    assert Folds.of(43, 0.0, 12, seed=3) is None
    assert Folds.of(2, 0.9, 3, seed=0).learned.shape == (3, 1)


def test_a_member_learns_nothing_from_what_it_set_aside():
    """Other outcomes of a row change all members but the one that is judged by it."""
    row = int(Folds.of(len(X), 0.1, 3, seed=0).held_out[1, 0])
    changed = Y.copy()
    changed[row] += 1.0
    training = kuq.nn.Training(max_epochs=2, restore_best=False)
    found = []
    for y in (Y, changed):
        trained = network()
        kuq.nn.fit(trained, X, y, 0.1, training=training)
        found.append(torch.cat([p.detach().flatten(1) for p in trained.parameters()], 1))
    same = [torch.equal(a, b) for a, b in zip(*found, strict=True)]
    assert same == [False, True, False]


def test_the_validation_loss_is_that_of_own_rows():
    weight = np.random.default_rng(4).uniform(0.5, 2.0, len(X))
    trained = network()
    training = kuq.nn.Training(max_epochs=3, restore_best=False)
    history = kuq.nn.fit(trained, X, Y, 0.2, sample_weight=weight, training=training)
    x, y = (torch.from_numpy(a).float() for a in (X, Y))
    losses = kuq.score(trained(x), y, kuq.CRPS()).detach().numpy()
    held_out = Folds.of(len(X), 0.2, 3, seed=0).held_out.numpy()
    by_hand = [np.average(losses[m, rows], weights=weight[rows]) for m, rows in enumerate(held_out)]
    np.testing.assert_allclose(history.validation_loss[-1], by_hand, rtol=1e-4)
    assert history.kept_epoch.tolist() == [2, 2, 2]


def test_a_share_needs_arrays():
    with pytest.raises(kuq.ParameterError, match="needs arrays and a number in"):
        kuq.nn.fit(network(), X, Y, 1.5)
    with pytest.raises(kuq.ParameterError, match="needs arrays and a number in"):
        kuq.nn.fit(network(), [(X, Y)], validation=0.1)


def judged(rng, means, rows=30):
    """Losses whose differences between epochs have a deviation of 0.1 in every row."""
    base = rng.normal(size=(1, rows))
    for mean in means:
        step = rng.normal(size=(1, rows))
        step = 0.1 * (step - step.mean()) / step.std()
        yield Judged(torch.from_numpy(base - base.mean() + mean + step), torch.ones(1, rows))


def kept(margin, means):
    """Which epochs are kept, by hand-made losses of thirty rows."""
    lowest, found = Lowest(margin, together=False), []
    for epoch, losses in enumerate(judged(np.random.default_rng(0), means)):
        found += [epoch] if lowest.as_good(losses, [0])[0] else []
    return found


def test_an_epoch_that_is_worse_by_chance_is_kept():
    """The error of a difference is about √2 · 0.1 / √30 = 0.026; rows differ far more."""
    means = [1.0, 0.9, 0.92, 0.91, 1.0]
    assert kept(2.0, means) == [0, 1, 2, 3]
    assert kept(0.0, means) == [0, 1]
    assert kept(9.0, means) == [0, 1, 2, 3, 4]


def test_members_that_hold_out_other_rows_are_judged_together():
    """By the mean of all their rows: one that gets worse is outvoted by two that get better."""
    rng = np.random.default_rng(0)
    epochs = np.array([[1.0, 1.0, 1.0], [0.5, 0.5, 1.3], [2.0, 0.5, 0.5]])
    rows = epochs[:, :, None] + 0.01 * rng.normal(size=(3, 3, 20))
    found = {}
    for together in (True, False):
        lowest = Lowest(0.0, together)
        found[together] = [
            lowest.as_good(Judged(torch.from_numpy(losses), torch.ones(3, 20)), [0, 1, 2]).tolist()
            for losses in rows
        ]
    assert found[True] == [[True] * 3, [True] * 3, [False] * 3]
    assert found[False][1] == [True, True, False]
    assert found[False][2][::2] == [False, True]


def test_members_that_stopped_or_diverged_have_no_voice():
    one = torch.ones(3, 20)
    lowest = Lowest(2.0, together=True)
    assert lowest.as_good(Judged(one, one), [0, 1, 2]).all()
    worse = one.clone()
    worse[0], worse[1], worse[2] = 0.9, 5.0, float("nan")
    assert lowest.as_good(Judged(worse, one), [0, 2]).tolist() == [True, False, False]
    assert not lowest.as_good(Judged(worse, one), [0, 1]).any()
    assert not lowest.as_good(Judged(worse, one), [2]).any()


def test_a_share_gives_all_members_one_epoch():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    model = kuq.nn.Regressor(n_members=5, max_epochs=60).fit(x, y)
    assert len(set(model.history_.best_epoch.tolist())) > 1
    assert len(set(model.history_.kept_epoch.tolist())) == 1
    given = kuq.nn.Regressor(n_members=5, max_epochs=60, margin=0)
    given.fit(x, y, (x[:20], rng.normal(size=20)))
    assert len(set(given.history_.kept_epoch.tolist())) > 1


def test_a_member_that_overfits_goes_back():
    """Forty rows of noise and a network that learns them by heart: the last epoch is far worse."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    check = rng.normal(size=(200, 3)), rng.normal(size=200)
    model = kuq.nn.Regressor(n_members=3, max_epochs=100).fit(x, y, check)
    history = model.history_
    assert (history.kept_epoch < 60).all()
    losses = history.validation_loss[history.kept_epoch, range(3)]
    # A law that knows nothing but the deviation has a CRPS of 0.56; at the end it was 1.0 to 1.2.
    assert (losses < history.validation_loss[-1] - 0.2).all()
    with pytest.raises(kuq.ParameterError, match="margin must be finite and not negative"):
        kuq.nn.Training(margin=-1.0)
