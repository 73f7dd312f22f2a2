"""Weights that let the shape of noise follow the inputs are held back."""

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import kuq
from kuq.nn import store

M, FEATURES = 3, 4


def moved(head):
    """A head in float64 with weights that are not zero."""
    torch.nn.init.normal_(head.layer.weight, generator=torch.Generator().manual_seed(0))
    return head.double()


def squares_of_shape(head, components):
    """Of every member, by coordinates written out: all weights but those of a common shift."""
    weight = head.layer.weight
    total = torch.zeros(M, dtype=torch.float64)
    coordinates = weight.shape[-1] // head.width
    for c in range(coordinates):
        own = weight[..., c * head.width : (c + 1) * head.width]
        if components is None:
            total = total + own[..., 1].square().sum(1)
            continue
        for k in range(components):
            places = own[..., components : 2 * components]
            total = total + own[..., k].square().sum(1)
            total = total + (places[..., k] - places.mean(-1)).square().sum(1)
            total = total + own[..., 2 * components + k].square().sum(1)
    return total / coordinates


@pytest.mark.parametrize("members", [None, [2, 0]])
@pytest.mark.parametrize("event", [(), (2,), (2, 2)])
@pytest.mark.parametrize(
    ("kind", "components"), [(kuq.nn.NormalHead, None), (kuq.nn.MixtureHead, 3)]
)
def test_the_penalty_is_zero_with_the_slopes_of_a_sum_of_squares(kind, components, event, members):
    options = {} if components is None else {"n_components": components}
    head = moved(kind(FEATURES, event, n_members=M, shape_penalty=0.7, **options))
    chosen = None if members is None else torch.tensor(members)
    penalty = head.penalty(chosen)
    assert penalty.shape == ((M,) if members is None else (2,))
    assert (penalty == 0).all()
    share = torch.linspace(1, 2, len(penalty), dtype=torch.float64)
    (ours,) = torch.autograd.grad((share * penalty).sum(), [head.layer.weight])
    exact = 0.7 * squares_of_shape(head, components)
    exact = exact if members is None else exact[chosen]
    (theirs,) = torch.autograd.grad((share * exact).sum(), [head.layer.weight])
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)  # of a float32 projection


def test_there_is_none_on_grids_of_draws_and_where_it_is_zero():
    normal, mixture = kuq.nn.NormalHead, kuq.nn.MixtureHead
    assert normal(FEATURES, (5,), on_grid=True).penalty() is None
    assert normal(FEATURES, shape_penalty=0).penalty() is None
    assert mixture(FEATURES, shape_penalty=0).penalty() is None
    assert kuq.nn.SamplerHead(FEATURES).penalty() is None
    flow = kuq.nn.Network(kuq.nn.MLP((4,)), kuq.nn.FlowHead, (2,), n_members=M)
    assert flow.head.penalty() is None
    assert flow.start.head.penalty().shape == (M,)
    plain = kuq.nn.Network(kuq.nn.MLP((4,)), kuq.nn.FlowHead, (2,), n_members=M, shape_penalty=0)
    assert plain.start.head.penalty() is None


def fitted(kind, units=1.0, **settings):
    """Of outcomes with a mean and a noise that follow the input."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (200, 1))
    y = units * (np.sin(3 * x[:, 0]) + (0.3 + 0.25 * x[:, 0]) * rng.normal(size=200))
    settings = {"n_members": 2, "max_epochs": 30, "hidden_sizes": (20,), **settings}
    return kuq.nn.Regressor(kind, **settings).fit(x, y)


AT = np.linspace(-0.9, 0.9, 19)[:, None]


def ratio(values):
    return float(values.max() / values.min())


@pytest.mark.parametrize("loss", [None, "log", "energy", kuq.Gaussian(1.0)])
@pytest.mark.parametrize("kind", ["normal", "mixture"])
def test_a_large_penalty_leaves_it_to_the_mean_to_follow_the_inputs(kind, loss):
    held, free = (fitted(kind, loss=loss, shape_penalty=value) for value in (1e4, 0.0))
    assert np.ptp(held.predict(AT)) > 1
    assert ratio(held.predict_uncertainty(AT, "crps").aleatoric) < 1.15
    assert ratio(free.predict_uncertainty(AT, "crps").aleatoric) > 2


def test_the_normal_law_that_a_flow_starts_from_is_held_back():
    model = fitted("flow", shape_penalty=1e4)
    x = torch.from_numpy(model.x_scaling_.apply(AT)).float()
    with torch.no_grad():
        loc, scale = model.network_.start.outputs(x.expand(2, *x.shape))
    assert np.ptp(loc.numpy()) > 1
    assert all(ratio(of_member) < 1.15 for of_member in scale.numpy())


@pytest.mark.parametrize("kind", ["normal", "mixture", "flow"])
def test_units_of_the_target_change_nothing(kind):
    small, large = (fitted(kind, units, max_epochs=5) for units in (1.0, 2.0**40))
    np.testing.assert_allclose(large.predict(AT) / 2.0**40, small.predict(AT), rtol=1e-5, atol=1e-5)


def test_all_rows_share_one_penalty():
    """Each row twice, and twice the penalty, is the same to every step over all rows."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (40, 1))
    y = np.sin(3 * x[:, 0]) + (0.3 + 0.25 * x[:, 0]) * rng.normal(size=40)

    def aleatoric(times, penalty):
        settings = {"n_members": 2, "max_epochs": 40, "validation_fraction": 0.0}
        settings |= {"batch_size": times * 40, "shape_penalty": penalty}
        model = kuq.nn.Regressor(**settings).fit(np.tile(x, (times, 1)), np.tile(y, times))
        return model.predict_uncertainty(AT, "crps").aleatoric

    once = aleatoric(1, 10.0)
    np.testing.assert_allclose(aleatoric(2, 20.0), once, rtol=2e-3)
    assert np.abs(aleatoric(2, 10.0) / once - 1).max() > 0.02


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "much", True])
@pytest.mark.parametrize("kind", ["normal", "mixture", "flow"])
def test_a_penalty_that_cannot_be(kind, value):
    with pytest.raises(kuq.ParameterError, match="shape_penalty must be finite and not negative"):
        fitted(kind, shape_penalty=value)


@pytest.mark.parametrize("kind", ["normal", "mixture", "flow"])
def test_files_of_before_train_as_they_did(kind, tmp_path):
    model = fitted(kind, max_epochs=2, shape_penalty=0.0, clipped_squares=False)
    model.save(tmp_path / "model")
    arrays, header = store.read(tmp_path / "model", "model")
    for name in ("shape_penalty", "clipped_squares"):
        del header["settings"][name]
    store.write(tmp_path / "former", "model", arrays, header)
    again = kuq.nn.Regressor.load(tmp_path / "former")
    assert (again.shape_penalty, again.clipped_squares) == (0.0, False)
    np.testing.assert_array_equal(again.predict(AT), model.predict(AT))
