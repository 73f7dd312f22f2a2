"""Normalised layers, where noise is joined, and files that were written before both existed."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import kuq  # noqa: E402
from kuq.nn import store  # noqa: E402

FORMER = Path(__file__).parent / "former"
HEADS = {
    "normal": kuq.nn.NormalHead,
    "evidential": kuq.nn.EvidentialHead,
    "mixture": kuq.nn.MixtureHead,
    "low-rank": kuq.nn.LowRankHead,
    "sampler": kuq.nn.SamplerHead,
}


def shaken(network, seed):
    """Weights of which none is zero or one."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return network


def by_torch(network, member, x, noise=None):
    """The same network in torch's own modules: Linear, LayerNorm, GELU, noise joined on the way."""
    body, draws = network.body, x
    for k, layer in enumerate(body.layers):
        if noise is not None and k == body.noisy_layer:
            rows = draws[:, None].expand(-1, noise.shape[1], -1)
            draws = torch.cat([rows, noise.expand(len(x), -1, -1)], dim=-1)
        linear = torch.nn.Linear(layer.inputs, layer.outputs)
        linear.weight.data, linear.bias.data = layer.weight[member].T, layer.bias[member, 0]
        draws = linear(draws)
        if len(body.norms):
            norm = torch.nn.LayerNorm(layer.outputs)
            norm.weight.data = body.norms[k].weight[member, 0]
            norm.bias.data = body.norms[k].bias[member, 0]
            draws = norm(draws)
        draws = torch.nn.functional.gelu(draws)
    return draws @ network.head.layer.weight[member] + network.head.layer.bias[member]


@pytest.mark.parametrize("norm", ["layer", "none"])
@pytest.mark.parametrize("noise_after", [0, 1, 2, 7])
def test_a_sampler_is_the_network_of_torch(norm, noise_after):
    backbone = kuq.nn.MLP((6, 5, 7), norm=norm, noise_after=noise_after)
    network = shaken(kuq.nn.Network(backbone, kuq.nn.SamplerHead, (3,), n_members=2), 0).double()
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    inputs = [layer.inputs for layer in network.body.layers]
    place = min(noise_after, 2)  # a layer with an activation has to follow
    assert inputs == [width + 8 * (k == place) for k, width in enumerate((3, 6, 5))]
    for noise in (
        torch.randn(2, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(2)),
        torch.randn(2, 4, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3)),
    ):
        (values,) = network.outputs(x.expand(2, 4, 3), noise)
        for member in range(2):
            expected = by_torch(network, member, x, noise[member])[..., 0]
            torch.testing.assert_close(values[member], expected, rtol=1e-10, atol=1e-10)
        (alone,) = network.outputs(x.expand(1, 4, 3), noise[1:], torch.tensor([1]))
        torch.testing.assert_close(alone[0], values[1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", HEADS)
def test_layers_are_normalised_where_that_is_asked_for(name):
    for settings, norms in (({}, 0), ({"norm": "auto"}, 0), ({"norm": "layer"}, 2)):
        for network in (
            kuq.nn.Regressor(name, n_members=2, **settings)._network((3,), ()),
            kuq.nn.Network(kuq.nn.MLP(**settings), HEADS[name], (3,), n_members=2),
        ):
            assert len(network.body.norms) == norms
            if name != "sampler":
                x = torch.ones(2, 4, 3)
                features = shaken(network, 0).body(x)
                assert features.shape == (2, 4, 50)
    sizes = [layer.inputs for layer in kuq.nn.Regressor(name)._network((3,), ()).body.layers]
    assert sizes == [3, 50 + 8 * (name == "sampler")]


@pytest.mark.parametrize("described", [False, True])
@pytest.mark.parametrize("name", ["sampler", "mixture", "normal"])
def test_former_files_that_left_their_layers_to_the_representation(name, described, tmp_path):
    """Samplers and mixtures had normalised ones then, and samplers more channels of noise."""
    norm = "none" if name == "normal" else "layer"
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 2))
    given = {"backbone": kuq.nn.MLP((5, 4), norm=norm)} if described else {"norm": norm}
    settings = {"n_members": 2, "max_epochs": 1, "noise_channels": 16}
    model = kuq.nn.Regressor(name, **settings, **given).fit(x, x[:, 0])
    model.save(tmp_path / "model")
    arrays, header = store.read(tmp_path / "model", "model")
    backbone = header["settings"]["backbone"]
    (backbone if described else header["settings"])["norm"] = "auto"
    header["settings"]["noise_channels"] = None
    assert header.pop("revision") == 2
    store.write(tmp_path / "former", "model", arrays, header)
    again = kuq.nn.Regressor.load(tmp_path / "former")
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    words = norm if name != "normal" else "auto"
    assert (again.backbone if described else again).norm == words
    again.save(tmp_path / "again")
    third = kuq.nn.Regressor.load(tmp_path / "again")
    np.testing.assert_array_equal(third.predict(x), model.predict(x))


def test_only_the_velocity_of_a_flow_is_normalised_by_itself(tmp_path):
    for given, norms in (("auto", (0, 2)), ("layer", (2, 2)), ("none", (0, 0))):
        network = kuq.nn.Regressor("flow", n_members=2, norm=given)._network((3,), ())
        assert (len(network.start.body.norms), len(network.body.norms)) == norms
    x = np.random.default_rng(0).normal(size=(20, 2))
    for backbone in ("mlp", kuq.nn.MLP((5, 4))):
        model = kuq.nn.Regressor("flow", n_members=2, max_epochs=1, backbone=backbone)
        model.fit(x, x[:, 0]).save(tmp_path / "model")
        again = kuq.nn.Regressor.load(tmp_path / "model")
        np.testing.assert_array_equal(again.predict(x), model.predict(x))


@pytest.mark.parametrize(("rows", "inputs"), [(1999, [3, 50 + 8]), (2000, [3, 50, 50 + 8])])
def test_many_rows_get_a_third_layer_before_the_noise(rows, inputs):
    network = kuq.nn.Regressor("sampler", n_members=2)._network((3,), (), rows)
    assert [layer.inputs for layer in network.body.layers] == inputs
    given = kuq.nn.Regressor("sampler", n_members=2, hidden_sizes=(7, 6))._network((3,), (), rows)
    assert [layer.inputs for layer in given.body.layers] == [3, 7 + 8]


def test_fits_count_their_rows_and_files_keep_the_layers(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2))
    y = x[:, 0]
    batches = [(x[:20], y[:20]), (x[20:], y[20:])]
    settings = {"n_members": 2, "max_epochs": 1}
    for many, layers in ((31, 2), (30, 3)):
        monkeypatch.setattr("kuq.nn.mlp._MANY_ROWS", many)
        model = kuq.nn.Regressor(**settings).fit(x, y)
        assert model.hidden_sizes is None
        assert model.hidden_sizes_ == (50,) * layers
        assert len(model.network_.body.layers) == layers
        assert kuq.nn.Regressor(**settings).fit(batches).hidden_sizes_ == (50,) * layers
        model.save(tmp_path / "model")
        monkeypatch.undo()
        again = kuq.nn.Regressor.load(tmp_path / "model")
        assert again.hidden_sizes_ == (50,) * layers
        np.testing.assert_array_equal(again.predict(x), model.predict(x))


def test_other_backbones_do_not_mind_how_many_rows_there_are(monkeypatch, tmp_path):
    monkeypatch.setattr("kuq.nn.mlp._MANY_ROWS", 4)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6, 1, 8)), rng.normal(size=(6, 8))
    fno = kuq.nn.FNO(modes=2, channels=4, lifting_channels=4, projection_channels=4, layers=1)
    model = kuq.nn.Regressor(backbone=fno, n_members=1, max_epochs=1).fit(x, y)
    assert model.hidden_sizes_ is None
    model.save(tmp_path / "model")
    arrays, header = store.read(tmp_path / "model", "model")
    # What files had beside every backbone when these were the defaults.
    header["settings"] |= {"hidden_sizes": [50, 50], "noise_after": 1}
    store.write(tmp_path / "former", "model", arrays, header)
    for name in ("model", "former"):
        again = kuq.nn.Regressor.load(tmp_path / name)
        np.testing.assert_array_equal(again.predict(x), model.predict(x))


def test_sums_of_standardised_inputs_start_with_variance_one():
    """Of the first layer; all others start as those of torch, and so does what is normalised."""
    rows = torch.randn(2000, 6, generator=torch.Generator().manual_seed(0))

    def layers(**settings):
        mlp = kuq.nn.MLP((40, 30), **settings)
        network = kuq.nn.Network(mlp, kuq.nn.NormalHead, (6,), n_members=20)
        return network.body.layers

    first, second = layers()
    unit = first(rows.expand(20, -1, -1)).detach().var()  # one sixth of it is the biases'
    assert 0.9 < float(unit / (1 + 1 / 6)) < 1.15
    for layer, bound in ((first, 1.75 / 6**0.5), (second, 1 / 40**0.5)):
        for start in (layer.weight, layer.bias):  # the largest of 600 and more uniform numbers
            assert 0.97 * bound < float(start.detach().abs().max()) <= bound
    as_torch = layers(input_gain=1.0)
    torch.testing.assert_close(first.weight, 1.75 * as_torch[0].weight)
    torch.testing.assert_close(second.weight, as_torch[1].weight, rtol=0, atol=0)
    torch.testing.assert_close(layers(norm="layer")[0].weight, as_torch[0].weight, rtol=0, atol=0)


def test_files_of_before_start_anew_as_they_did(tmp_path):
    """What a first layer starts with was not in them, and was what torch does."""
    x = np.linspace(-1, 1, 20)[:, None]
    model = kuq.nn.Regressor(n_members=2, max_epochs=2, input_gain=1.0).fit(x, x[:, 0])
    model.save(tmp_path / "model")
    arrays, header = store.read(tmp_path / "model", "model")
    del header["settings"]["input_gain"]
    store.write(tmp_path / "former", "model", arrays, header)
    again = kuq.nn.Regressor.load(tmp_path / "former")
    assert again.input_gain == 1.0
    np.testing.assert_array_equal(again.fit(x, x[:, 0]).predict(x), model.predict(x))


def test_a_normalised_trunk_is_that_of_torch():
    backbone = kuq.nn.MLP((6, 5), norm="layer")
    network = shaken(kuq.nn.Network(backbone, kuq.nn.NormalHead, (3,), n_members=2), 0).double()
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    raw = network.head.layer(network.body(x.expand(2, 4, 3)))
    for member in range(2):
        torch.testing.assert_close(raw[member], by_torch(network, member, x), rtol=1e-10, atol=0)


def test_members_start_alike_in_ensembles_of_any_size():
    few, many = (
        kuq.nn.Network(kuq.nn.MLP((6, 5)), kuq.nn.SamplerHead, (3,), n_members=n) for n in (2, 4)
    )
    for a, b in zip(few.parameters(), many.parameters(), strict=True):
        torch.testing.assert_close(a, b[:2], rtol=0, atol=0)


def test_functions_through_a_table_network_keep_their_noise():
    """Noise of a grid is flattened as the inputs are."""
    model = kuq.nn.Regressor("sampler", n_members=2, n_samples=3, max_epochs=1, hidden_sizes=(4, 4))
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 2, 5)), rng.normal(size=(12, 5))
    assert model.fit(x, y).predict_distribution(x).members.values.shape == (2, 12, 3, 5)
    assert model.network_.body.layers[1].inputs == 4 + 5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"norm": "batch"}, "norm must be one of"),
        ({"noise_after": -1}, "noise_after"),
        ({"backbone": kuq.nn.FNO(modes=4), "norm": "layer"}, "input_gain belong to"),
        ({"input_gain": 0.0}, "input_gain must be positive, got 0.0"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(kuq.ParameterError, match=message):
        kuq.nn.Regressor("sampler", **settings)._network((2, 8), (8,))


@pytest.mark.parametrize(
    ("name", "compiled"), [("sampler", False), ("mixture", False), ("sampler", "aot_eager")]
)
def test_training_goes_on_where_it_was_interrupted(name, compiled, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2))
    y = x[:, 0] + 0.1 * rng.normal(size=40)
    settings = {"n_members": 2, "hidden_sizes": (5, 4), "n_train_samples": 4, "batch_size": 18}
    settings |= {"compile": compiled, "annealing": False}
    whole = kuq.nn.Regressor(name, max_epochs=6, **settings).fit(x, y)
    path = tmp_path / "checkpoint"
    kuq.nn.Regressor(name, max_epochs=3, checkpoint=path, **settings).fit(x, y)
    again = kuq.nn.Regressor(name, max_epochs=6, checkpoint=path, **settings).fit(x, y)
    np.testing.assert_array_equal(again.predict(x), whole.predict(x))
    again.save(tmp_path / "model")
    loaded = kuq.nn.Regressor.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(x), whole.predict(x))


@pytest.mark.parametrize("name", ["sampler", "mixture", "normal"])
def test_files_of_the_former_version_give_their_predictions(name, tmp_path):
    """Noise at the inputs and no norms, for "mlp" and (mixture) for a description."""
    expected = json.loads((FORMER / "predictions.json").read_text())
    model = kuq.nn.Regressor.load(FORMER / f"{name}.kuq")
    found = model.predict(np.array(expected["x"]), return_std=True)
    # The product with the noise is a sum of its own now: float32 rounding, times ten.
    np.testing.assert_allclose(np.array(found), expected[name], rtol=1e-4, atol=1e-5)
    assert len(model.network_.body.norms) == 0
    assert model.network_.body.layers[0].inputs == 2 + 16 * (name == "sampler")
    model.save(tmp_path / "again")
    again = kuq.nn.Regressor.load(tmp_path / "again")
    np.testing.assert_array_equal(again.predict(np.array(expected["x"])), found[0])


def test_a_checkpoint_of_the_former_version_says_so(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2))
    y = x[:, 0] - 2 * x[:, 1] + 0.1 * rng.normal(size=40)
    path = tmp_path / "checkpoint"
    shutil.copy(FORMER / "sampler.checkpoint", path)
    settings = {"n_members": 2, "max_epochs": 2, "hidden_sizes": (5, 4), "checkpoint": path}
    with pytest.raises(kuq.ParameterError, match="written by another version of kuq"):
        kuq.nn.Regressor("sampler", **settings).fit(x, y)
    path.unlink()
    kuq.nn.Regressor("sampler", **settings).fit(x, y)


def test_a_loaded_model_takes_other_settings_for_its_next_fit(tmp_path):
    """What was left to the representation still is."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 2))
    kuq.nn.Regressor("sampler", n_members=1, max_epochs=1).fit(x, x[:, 0]).save(tmp_path / "model")
    model = kuq.nn.Regressor.load(tmp_path / "model")
    model.set_params(backbone=kuq.nn.MLP((5, 4))).fit(x, x[:, 0])
    assert model.network_.body.features == 4
    model = kuq.nn.Regressor.load(tmp_path / "model").set_params(representation="flow")
    assert len(model.fit(x, x[:, 0]).network_.body.norms) == 2
