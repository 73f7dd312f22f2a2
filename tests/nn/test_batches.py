"""Training on batches that are read again in every epoch."""

import gc
import tracemalloc

import numpy as np
import pytest
from nn.problems import functions, sine

pytest.importorskip("torch")
pytest.importorskip("sklearn")

import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import kuq
from kuq.nn.scaling import Moments
from kuq.nn.trainer import Trainer

TINY = {"n_members": 2, "max_epochs": 3, "patience": None}


def batches(*arrays, size=16):
    return [
        tuple(array[start : start + size] for array in arrays)
        for start in range(0, len(arrays[0]), size)
    ]


def in_order(monkeypatch):
    """Arrays without shuffling, the only way in which they differ from batches."""
    monkeypatch.setattr(Trainer, "_order", lambda self, count, generator: torch.arange(count))


#: Scaling by joined moments differs from that by whole arrays in the last digit; three epochs of
#: Adam, which divides gradients by their own size, make a thousandth of it.
CLOSE = {"rtol": 1e-3, "atol": 1e-3}


@pytest.mark.parametrize("problem", [sine, functions])
@pytest.mark.parametrize("representation", ["normal", "low-rank", "sampler"])
def test_the_same_batches_give_what_arrays_give(representation, problem, monkeypatch):
    in_order(monkeypatch)
    x, y = problem(50)
    held_out = problem(20, seed=5)
    settings = {**TINY, "batch_size": 16, "rank": 2, "n_train_samples": 3, "burn_in": 1}
    arrays = kuq.nn.Regressor(representation, **settings).fit(x, y, held_out)
    stream = kuq.nn.Regressor(representation, **settings).fit(
        batches(x, y), validation=batches(*held_out, size=7)
    )
    for name in ("train_loss", "validation_loss", "best_loss"):
        found, expected = getattr(stream.history_, name), getattr(arrays.history_, name)
        np.testing.assert_allclose(found, expected, **CLOSE)
    np.testing.assert_allclose(stream.predict(x), arrays.predict(x), **CLOSE)


def test_one_batch_is_the_array_to_the_last_bit(monkeypatch):
    in_order(monkeypatch)
    x, y = sine(50)
    arrays = kuq.nn.Regressor(**TINY, batch_size=50).fit(x, y, validation=(x, y))
    stream = kuq.nn.Regressor(**TINY).fit([(x, y)], validation=(x, y))
    np.testing.assert_array_equal(stream.predict(x), arrays.predict(x))
    assert stream.n_features_in_ == 3


def test_members_that_are_taken_in_turn_see_the_same_batches(monkeypatch):
    in_order(monkeypatch)
    x, y = sine(40)
    settings = {**TINY, "backbone": lambda: torch.nn.Linear(3, 6), "batch_size": 16}
    arrays = kuq.nn.Regressor(**settings).fit(x, y, validation=(x, y))
    stream = kuq.nn.Regressor(**settings).fit(batches(x, y), validation=batches(x, y))
    np.testing.assert_allclose(stream.predict(x), arrays.predict(x), **CLOSE)


def test_weights_in_batches_are_sample_weights(monkeypatch):
    in_order(monkeypatch)
    x, y = sine(48)
    w = np.random.default_rng(0).uniform(0.2, 2, 48)
    held_out = (x[:20], y[:20], w[:20])
    settings = {**TINY, "batch_size": 16}
    arrays = kuq.nn.Regressor(**settings).fit(x, y, held_out, sample_weight=w)
    stream = kuq.nn.Regressor(**settings).fit(batches(x, y, w), validation=batches(*held_out))
    np.testing.assert_allclose(stream.history_.train_loss, arrays.history_.train_loss, **CLOSE)
    np.testing.assert_allclose(stream.history_.best_loss, arrays.history_.best_loss, **CLOSE)
    np.testing.assert_allclose(stream.predict(x), arrays.predict(x), **CLOSE)
    w[16:32] = 0  # a batch without a row that counts is no batch
    some = np.r_[:16, 32:48]
    zeros = kuq.nn.Regressor(**settings).fit(batches(x, y, w))
    absent = kuq.nn.Regressor(**settings).fit(batches(x[some], y[some], w[some]))
    np.testing.assert_array_equal(zeros.predict(x), absent.predict(x))


def test_steps_are_those_of_a_plain_loop():
    """Adam of torch over the same batches, on one member written out in torch."""
    x, y = (torch.from_numpy(a).float() for a in sine(40))
    network = kuq.nn.Network(kuq.nn.MLP((8,), "tanh"), kuq.nn.NormalHead, (3,))
    first, last = network.body.layers[0], network.head.layer
    plain = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    with torch.no_grad():
        for mine, theirs in ((first, plain[0]), (last, plain[2])):
            theirs.weight.copy_(mine.weight[0].T)
            theirs.bias.copy_(mine.bias[0, 0])
    loader = DataLoader(TensorDataset(x, y), batch_size=16)
    optimiser = torch.optim.Adam(plain.parameters(), 1e-2)
    for _ in range(3):
        for inputs, outcomes in loader:
            mean, log_variance = plain(inputs).unbind(-1)
            loss = torch.nn.functional.gaussian_nll_loss(mean, outcomes, torch.exp(log_variance))
            loss = loss + 1 / 40 * plain[2].weight[1].square().sum()  # the penalty of 40 rows
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    training = kuq.nn.Training(
        max_epochs=3,
        learning_rate=1e-2,
        annealing=False,
        averaging=None,
        patience=None,
        plateau=None,
        restore_best=False,
    )
    kuq.nn.fit(network, loader, loss="log", training=training)
    # The head adds 1e-6 to variances.
    torch.testing.assert_close(first.weight[0].T, plain[0].weight, rtol=0, atol=1e-4)
    torch.testing.assert_close(last.weight[0].T, plain[2].weight, rtol=0, atol=1e-4)


def test_a_loader_that_shuffles_and_one_of_arrays_learn_the_same_problem():
    x, y = sine(200)
    tensors = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    shuffled = DataLoader(
        tensors, batch_size=20, shuffle=True, generator=torch.Generator().manual_seed(0)
    )
    settings = {"n_members": 3, "max_epochs": 60, "learning_rate": 1e-2}
    stream = kuq.nn.Regressor(**settings).fit(shuffled, validation=sine(50, seed=3))
    new, truth = sine(200, seed=9)
    # The noise has the deviation 0.1.
    assert np.sqrt(np.mean((stream.predict(new) - truth) ** 2)) < 0.2
    assert len({tuple(row) for row in stream.predict_distribution(new).members.loc.round(6)}) == 3


class Counting:
    """An iterable that knows how often it was read, and how much of it is alive."""

    def __init__(self, count, rows=64, features=200):
        self.count, self.rows, self.features, self.passes = count, rows, features, 0

    def __iter__(self):
        self.passes += 1
        for position in range(self.count):
            rng = np.random.default_rng(position)
            x = rng.normal(size=(self.rows, self.features))
            yield x, x[:, 0]


def test_epochs_are_passes():
    train, held_out = Counting(3), Counting(2)
    model = kuq.nn.Regressor(n_members=2, max_epochs=4, hidden_sizes=(4,))
    model.fit(train, validation=held_out)
    assert (train.passes, held_out.passes) == (5, 5)
    assert model.history_.epochs == 4


def test_memory_does_not_grow_with_the_data():
    """Forty batches of 100 KB need hardly more than four."""
    peaks = []
    for count in (4, 40):
        model = kuq.nn.Regressor(n_members=2, max_epochs=1, hidden_sizes=(4,))
        gc.collect()
        tracemalloc.start()
        try:
            model.fit(Counting(count), validation=Counting(count))
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] < peaks[0] + 10 * 64 * 200 * 8  # the data grew by 72 batches


def test_outcomes_for_a_bandwidth_come_from_everywhere():
    values = np.arange(3000.0)
    stream = kuq.nn.streams.Stream.of(batches(values[:, None], values, size=70))
    kept = stream.summary.outcomes
    assert 250 <= len(kept) <= 500
    assert len(set(np.diff(kept))) == 1
    assert kept[0] == 0
    assert kept[-1] > 2980


def test_moments_of_parts_join_to_those_of_the_whole():
    rng = np.random.default_rng(0)
    for scale in (1e-160, 1.0, 1e160):
        x = scale * (rng.normal(size=(37, 3, 5)) + 10)
        w = rng.uniform(0, 2, 37)
        for weight in (None, w):
            whole = Moments.of_inputs(x, weight)
            parts = [
                Moments.of_inputs(x[part], None if weight is None else weight[part])
                for part in (slice(0, 1), slice(1, 20), slice(20, 37))
            ]
            joined = parts[0].joined(parts[1]).joined(parts[2])
            each = np.ones(37) if weight is None else weight
            flat = np.moveaxis(x, 1, 0).reshape(3, -1) / scale
            share = np.repeat(each, 5) / (5 * each.sum())
            mean = (share * flat).sum(1)
            deviation = np.sqrt((share * (flat - mean[:, None]) ** 2).sum(1))
            for found in (whole, joined):
                np.testing.assert_allclose(found.mean[:, 0] / scale, mean, rtol=1e-13)
                np.testing.assert_allclose(found.deviation[:, 0] / scale, deviation, rtol=1e-12)
                np.testing.assert_array_equal(found.largest, np.abs(x).max((0, 2))[:, None])


def rows_of(x, y):
    yield from batches(x, y)


class OnlyOnce:
    """Looks as if it could be read again."""

    def __init__(self, x, y):
        self.batches = iter(batches(x, y))

    def __iter__(self):
        yield from self.batches


class Rows(IterableDataset):
    def __iter__(self):
        yield from zip(*sine(20), strict=True)


@pytest.mark.parametrize(
    "source",
    [
        rows_of,
        lambda x, y: iter(batches(x, y)),
        lambda x, y: map(tuple, batches(x, y)),
        OnlyOnce,
    ],
)
def test_what_can_be_read_only_once_is_refused(source):
    with pytest.raises(kuq.ParameterError, match="only once; pass a DataLoader, a list"):
        kuq.nn.Regressor(**TINY).fit(source(*sine(40)))
    with pytest.raises(kuq.ParameterError, match="only once; pass a DataLoader, a list"):
        kuq.nn.Regressor(**TINY).fit(*sine(40), validation=source(*sine(40)))


X, Y = np.ones((4, 3)) * np.arange(4.0)[:, None], np.arange(4.0)
WRONG = {
    "a data set": (TensorDataset(torch.zeros(5, 3), torch.zeros(5)), "data set of single rows"),
    "an endless data set": (Rows(), "data set of single rows"),
    "a dict in it": (DataLoader([{"x": 1.0, "y": 2.0}]), "batch 0: a batch must be a tuple"),
    "a tensor": (DataLoader(torch.zeros(5, 3)), "batch 0: a batch must be a tuple .* a Tensor"),
    "four parts": ([(X, Y, Y, Y)], "got a tuple of 4"),
    "other rows": ([(X, Y), (X, Y[:3])], r"batch 1: .*\(4, 3\) and \(3,\)"),
    "no rows": ([(X, 3.0)], "rows along their first axis"),
    "other features": ([(X, Y), (X[:, :2], Y)], "batch 1: .*2 features"),
    "other outcomes": ([(X, Y), (X, X)], r"batch 1: rows have the shapes \(3,\) and \(3,\)"),
    "NaN in x": ([(X, Y), (X * np.nan, Y)], "batch 1: .*NaN"),
    "NaN in y": ([(X, Y), (X, Y * np.nan)], "batch 1: y contains NaN"),
    "words": ([(X, np.array(["a"] * 4))], "y must hold real numbers"),
    "weights here and there": ([(X, Y), (X, Y, Y)], "all batches have weights or none"),
    "negative weights": ([(X, Y, -Y)], "batch 0: weight must not be negative"),
    "weights of zero": ([(X, Y, 0 * Y)], "no batch has a row that counts"),
    "equal targets": ([(X, 0 * Y + 2), (X, 0 * Y + 2)], "all targets are equal"),
    "one row": ([(X[:1], Y[:1])], "at least two rows"),
    "no batches": (DataLoader([], batch_size=2), "no batch has a row"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_batches(case):
    source, message = WRONG[case]
    with pytest.raises(kuq.KuqError, match=message):
        kuq.nn.Regressor(**TINY).fit(source)


def test_what_needs_arrays_says_so():
    x, y = sine(40)
    source = batches(x, y)
    model = kuq.nn.Regressor(**TINY)
    for options, message in (
        ({"sample_weight": np.ones(40)}, "sample_weight belongs to arrays"),
        ({"member_targets": np.stack([y, y])}, "member_targets belongs to arrays"),
    ):
        with pytest.raises(kuq.ParameterError, match=message):
            model.fit(source, **options)
    for setting in ("bootstrap", "compile"):
        with pytest.raises(kuq.ParameterError, match=f"{setting}=True .*arrays"):
            kuq.nn.Regressor(**TINY, **{setting: True}).fit(source)
    with pytest.raises(kuq.ParameterError, match="requires y to be passed"):
        model.fit(x)
    with pytest.raises(kuq.ParameterError, match="requires y to be passed"):
        model.fit(x.tolist())
    network = kuq.nn.Network(kuq.nn.MLP((4,)), kuq.nn.NormalHead, (3,))
    with pytest.raises(kuq.ParameterError, match="pass y as well"):
        kuq.nn.fit(network, x)
    with pytest.raises(kuq.ShapeError, match="for this network"):
        kuq.nn.fit(network, batches(x[:, :2], y))
    with pytest.raises(kuq.ParameterError, match=r"validation must be \(X, y\)"):
        model.fit(x, y, validation=x)


def test_validation_takes_arrays_and_batches_of_every_kind():
    x, y = sine(40)
    losses = []
    for validation in (
        (x, y),
        [x, y],
        (x.tolist(), y.tolist()),
        (x, y, np.ones(40)),
        batches(x, y),
        tuple(batches(x, y)),
        DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=9),
        [list(batch) for batch in batches(x, y)],
    ):
        model = kuq.nn.Regressor(n_members=2, max_epochs=1).fit(x, y, validation=validation)
        losses.append(model.history_.best_loss)
    np.testing.assert_allclose(losses, np.broadcast_to(losses[0], (8, 2)), rtol=1e-5)


def test_tables_in_batches_keep_their_names():
    pandas = pytest.importorskip("pandas")
    x, y = sine(40)
    table = pandas.DataFrame(x, columns=["a", "b", "c"])
    model = kuq.nn.Regressor(**TINY).fit([(table[:20], y[:20]), (table[20:], y[20:])])
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.predict(table).shape == (40,)
    with pytest.raises(kuq.ParameterError, match=r"batch 1: .*feature names"):
        model.fit([(table[:20], y[:20]), (table[["b", "a", "c"]][20:], y[20:])])


def test_training_on_batches_goes_on_from_a_checkpoint(tmp_path):
    x, y = sine(40)
    settings = {"n_members": 2, "checkpoint_every": 1, "annealing": False}
    whole = kuq.nn.Regressor(**settings, max_epochs=4).fit(batches(x, y))
    path = tmp_path / "state"
    kuq.nn.Regressor(**settings, max_epochs=2, checkpoint=path).fit(batches(x, y))
    again = kuq.nn.Regressor(**settings, max_epochs=4, checkpoint=path).fit(batches(x, y))
    np.testing.assert_array_equal(again.history_.train_loss, whole.history_.train_loss)
    np.testing.assert_array_equal(again.predict(x), whole.predict(x))
    with pytest.raises(kuq.ParameterError, match="other data or settings"):
        kuq.nn.Regressor(**settings, checkpoint=path).fit(batches(x[:30], y[:30]))
    again.save(tmp_path / "model")
    loaded = kuq.nn.Regressor.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(x), whole.predict(x))


def test_rows_that_fix_the_scale():
    x, y = sine(40)
    like = sine(300, seed=8)
    model = kuq.nn.Regressor(**TINY).fit(batches(x, y), scaling=like)
    np.testing.assert_array_equal(model.x_scaling_.shift[:, None].T, like[0].mean(0)[None])
    with pytest.raises(kuq.ShapeError, match="scaling needs rows of inputs of shape"):
        model.fit(batches(x, y), scaling=(like[0], like[0]))
