"""Backbones beside implementations that share nothing with them."""

import numpy as np
import pytest
from nn.problems import images

pytest.importorskip("torch")

import torch

import kuq
from kuq.nn.fno import SpectralConvolution, transforms


@pytest.mark.parametrize(("points", "kept"), [(16, 5), (16, 9), (15, 8), (7, 1)])
def test_transforms_are_those_of_numpy(points, kept):
    values = np.random.default_rng(0).normal(size=(3, points))
    forward, backward = (m.numpy() for m in transforms(points, kept))
    exact = np.fft.rfft(values, norm="forward")[:, :kept]
    found = (values @ forward).reshape(3, kept, 2)
    rounding = 10 * points * np.finfo(float).eps
    np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], exact, atol=rounding)
    spectrum = exact * np.exp(1j * np.arange(kept))
    pairs = np.stack([spectrum.real, spectrum.imag], axis=-1).reshape(3, -1)
    again = np.fft.irfft(spectrum, n=points, norm="forward")
    np.testing.assert_allclose(pairs @ backward, again, atol=1e-13)


def gelu(x):
    return torch.nn.functional.gelu(torch.from_numpy(x)).numpy()


def fno_by_numpy(body, x, member):
    """The network of one member, function by function, with NumPy's Fourier transform."""

    def weights(module):
        arrays = [module.weight[member], module.bias[member]]
        return [a.detach().double().numpy() for a in arrays]

    def linear(module, x):
        weight, bias = weights(module)
        return np.einsum("oc,bcp->bop", weight, x) + bias

    points = x.shape[-1]
    where = np.broadcast_to(np.arange(points) / points, (len(x), 1, points))
    x = np.concatenate([x, where], axis=1)
    x = linear(body.lift[1], gelu(linear(body.lift[0], x)))
    for block in body.blocks:
        raw = block.spectral.weight[member].detach().double().numpy()
        weight = raw[..., 0] + 1j * raw[..., 1]
        spectrum = np.fft.rfft(x, norm="forward")
        mixed = np.zeros_like(spectrum)
        kept = len(weight)
        mixed[..., :kept] = np.einsum("bcf,fco->bof", spectrum[..., :kept], weight)
        hidden = np.fft.irfft(mixed, n=points, norm="forward") + linear(block.skip, x)
        hidden = hidden if block.last else gelu(hidden)
        gate = block.gate[member].detach().double().numpy()
        x = linear(block.outer, gelu(linear(block.inner, hidden))) + gate * x
        x = x if block.last else gelu(x)
    return gelu(linear(body.project, x))


def test_fno_is_that_of_numpy():
    network = kuq.nn.Network(
        kuq.nn.FNO(modes=7, channels=6, lifting_channels=5, projection_channels=4, layers=3),
        kuq.nn.NormalHead,
        (2, 13),
        (13,),
        n_members=3,
    )
    with torch.no_grad():
        for block in network.body.blocks:
            block.gate.normal_(generator=torch.Generator().manual_seed(0))
    x = np.random.default_rng(0).normal(size=(4, 2, 13))
    shared = torch.from_numpy(x).float().expand(3, -1, -1, -1)
    found = network.body(shared).detach().numpy()
    for member in range(3):
        np.testing.assert_allclose(found[member], fno_by_numpy(network.body, x, member), atol=2e-5)


def test_fno_has_the_size_of_the_paper():
    """463 thousand, complex numbers counted once, as the library used there counts."""
    network = kuq.nn.Network(
        kuq.nn.FNO(), kuq.nn.SamplerHead, (2, 64), (64,), n_members=1, noise_channels=1
    )
    complex_numbers = sum(
        m.weight.numel() // 2 for m in network.modules() if isinstance(m, SpectralConvolution)
    )
    assert 462_000 <= network.weight_count() - complex_numbers <= 464_000


def test_fno_is_that_of_neuraloperator():
    models = pytest.importorskip("neuralop.models")
    points, channels = 16, 6
    theirs = models.FNO(
        n_modes=(8,),
        in_channels=2,
        out_channels=3,
        hidden_channels=channels,
        lifting_channel_ratio=2,
        projection_channel_ratio=2,
        n_layers=2,
    ).eval()
    ours = kuq.nn.Network(
        kuq.nn.FNO(8, channels, 2 * channels, 2 * channels, 2),
        kuq.nn.MixtureHead,
        (2, points),
        (points,),
        n_members=1,
        n_components=1,
    )
    with torch.no_grad():

        def take(mine, other):
            mine.weight[0].copy_(other.weight[..., 0])
            mine.bias[0, :, 0].copy_(other.bias)

        for mine, other in zip(ours.body.lift, theirs.lifting.fcs, strict=True):
            take(mine, other)
        take(ours.body.project, theirs.projection.fcs[0])
        take(ours.head.layer, theirs.projection.fcs[1])
        for k, block in enumerate(ours.body.blocks):
            convolution, skip = theirs.fno_blocks.convs[k], theirs.fno_blocks.fno_skips[k]
            skip = getattr(skip, "conv", skip)
            dense = convolution.weight.to_tensor()
            block.spectral.weight[0].copy_(torch.view_as_real(dense.permute(2, 0, 1)))
            block.skip.weight[0].copy_(skip.weight[..., 0])
            block.skip.bias[0, :, 0].copy_(convolution.bias.flatten())
            block.gate[0, 0].copy_(theirs.fno_blocks.channel_mlp_skips[k].weight[0])
            take(block.inner, theirs.fno_blocks.channel_mlp[k].fcs[0])
            take(block.outer, theirs.fno_blocks.channel_mlp[k].fcs[1])
        x = torch.randn(3, 2, points, generator=torch.Generator().manual_seed(0))
        found = ours.head.layer(ours.body(x[None]))[0]
        torch.testing.assert_close(found, theirs(x), rtol=1e-4, atol=1e-5)


def test_mlp_is_that_of_torch():
    network = kuq.nn.Network(kuq.nn.MLP((5, 4), "relu"), kuq.nn.NormalHead, (3,), n_members=2)
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    found = network.body(x.expand(2, 6, 3))
    for member in range(2):
        layers = []
        for layer in network.body.layers:
            linear = torch.nn.Linear(layer.inputs, layer.outputs)
            linear.weight.data = layer.weight[member].T
            linear.bias.data = layer.bias[member, 0]
            layers += [linear, torch.nn.ReLU()]
        torch.testing.assert_close(found[member], torch.nn.Sequential(*layers)(x))


@pytest.fixture
def tiny_weights(monkeypatch):
    """A small ConvNeXt in place of the download."""
    transformers = pytest.importorskip("transformers")
    config = transformers.ConvNextConfig(depths=[1, 1, 1, 1], hidden_sizes=[4, 4, 4, 4])
    model = transformers.ConvNextModel(config)
    monkeypatch.setattr(
        transformers.ConvNextModel, "from_pretrained", classmethod(lambda cls, name: model)
    )
    return model


def test_pretrained_weights_are_adapted_to_the_channels(tiny_weights):
    first = tiny_weights.embeddings.patch_embeddings.weight.detach().clone()
    encoder = kuq.nn.ConvNeXt()._learned(5)
    layer = encoder.embeddings.patch_embeddings
    assert layer.in_channels == 5
    # A grey image gives the same response.
    torch.testing.assert_close(layer.weight.sum(1), first.sum(1))
    assert encoder(torch.zeros(1, 5, 32, 32)).last_hidden_state.shape == (1, 4, 1, 1)


def test_three_channels_keep_their_weights(tiny_weights):
    assert kuq.nn.ConvNeXt()._learned(3) is tiny_weights


def test_no_download_is_one_warning_and_random_weights(monkeypatch):
    transformers = pytest.importorskip("transformers")

    def fail(cls, name):
        raise OSError("no network\nand many more lines")

    monkeypatch.setattr(transformers.ConvNextModel, "from_pretrained", classmethod(fail))
    monkeypatch.setitem(
        kuq.nn.convnext._SIZES, "tiny", ((1, 1, 1, 1), (4, 4, 4, 4), "facebook/convnext-tiny-224")
    )
    x, y = images()
    model = kuq.nn.Regressor("normal", n_members=2, backbone="convnext-tiny", max_epochs=1)
    with pytest.warns(UserWarning, match=r"could not be had \(no network\); training starts") as w:
        model.fit(x, y)
    assert len(w) == 1
    assert model.predict(x).shape == y.shape


def test_outcomes_may_have_another_grid():
    x, y = images()
    backbone = kuq.nn.ConvNeXt(depths=(1,) * 4, channels=(4,) * 4, decoder_channels=4)
    model = kuq.nn.Regressor("normal", n_members=1, backbone=backbone, max_epochs=1)
    assert model.fit(x, y[:, ::2, ::2]).predict(x).shape == (10, 6, 8)


def test_wrong_descriptions():
    for make, message in (
        (lambda: kuq.nn.ConvNeXt("huge"), "size must be one of"),
        (lambda: kuq.nn.ConvNeXt(depths=(1, 2)), "depths needs four numbers"),
        (lambda: kuq.nn.FNO(modes=0), "modes must be an integer ≥ 1"),
        (lambda: kuq.nn.MLP((5, -1)), "hidden_sizes must be positive"),
        (
            lambda: kuq.nn.Network(lambda: "a", kuq.nn.NormalHead, (3,)),
            "must return a torch module",
        ),
        (
            lambda: kuq.nn.Network(torch.nn.Flatten(0), kuq.nn.NormalHead, (3,)),
            "backbone module must map",
        ),
    ):
        with pytest.raises(kuq.KuqError, match=message):
            make()
