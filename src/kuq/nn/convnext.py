"""ConvNeXt for images, from the transformers library, with a light decoder."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from torch import Tensor, nn

from kuq.errors import ParameterError
from kuq.nn.pyramid import Pyramid, PyramidBackbone, adapt

#: Blocks and channels of the four stages, and the name under which ImageNet weights are found.
_SIZES: dict[str, tuple[tuple[int, ...], tuple[int, ...], str]] = {
    "tiny": ((3, 3, 9, 3), (96, 192, 384, 768), "facebook/convnext-tiny-224"),
    "small": ((3, 3, 27, 3), (96, 192, 384, 768), "facebook/convnext-small-224"),
}


@final
@dataclass(frozen=True)
class ConvNeXt(PyramidBackbone):
    """ConvNeXt with a feature pyramid: images (channels, H, W) to maps on the outcome's grid.

    ``pretrained`` takes ImageNet weights (downloaded once by transformers, with a warning and
    random weights where that fails); the first layer is adapted to the channels.
    The noise of a sampler and the path of a flow are joined in the decoder, or as channels of the
    images (``noise_at="inputs"``), with which the encoder runs for every draw.
    ``depths`` and ``channels`` replace those of the size, then without pretrained weights.
    Members are trained one after the other. It needs the extra ``vision``.

    >>> import kuq
    >>> kuq.nn.ConvNeXt("small").decoder_channels
    64
    """

    size: str = "tiny"
    pretrained: bool = True
    decoder_channels: int = 64
    depths: Sequence[int] | None = None
    channels: Sequence[int] | None = None
    noise_at: str = "decoder"

    def __post_init__(self) -> None:
        self._check_decoder()
        if self.size not in _SIZES:
            raise ParameterError(f"size must be one of {list(_SIZES)}, got {self.size!r}")
        for name in ("depths", "channels"):
            given = getattr(self, name)
            if given is not None:
                if len(given) != 4:
                    raise ParameterError(f"{name} needs four numbers, one a stage, got {given}")
                object.__setattr__(self, name, tuple(given))

    def _learned(self, inputs: int) -> Any | None:
        if not self.pretrained or self.depths is not None or self.channels is not None:
            return None
        name = _SIZES[self.size][2]
        try:
            return _adapted(_transformers().ConvNextModel.from_pretrained(name), inputs)
        except (OSError, ValueError) as error:
            reason = str(error).split("\n", 1)[0]
            warnings.warn(
                f"the ImageNet weights {name!r} could not be had ({reason}); training starts "
                "from random weights. Pass pretrained=False to ask for that",
                stacklevel=2,
            )
            return None

    def _random(self, inputs: int) -> Any:
        depths, channels, _ = _SIZES[self.size]
        library = _transformers()
        config = library.ConvNextConfig(
            num_channels=inputs,
            depths=list(self.depths or depths),
            hidden_sizes=list(self.channels or channels),
        )
        return library.ConvNextModel(config)

    def _pyramid(
        self,
        encoder: Any,
        x_shape: tuple[int, ...],
        event_shape: tuple[int, ...],
        noise_channels: int,
    ) -> Pyramid:
        sizes = encoder.config.hidden_sizes
        width = self.decoder_channels
        return _ConvNeXtPyramid(encoder, sizes, width, x_shape, event_shape, noise_channels)


def _transformers() -> Any:
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'ConvNeXt needs transformers; to have it: pip install "kuq[vision]"', name=error.name
        ) from error
    return transformers


@final
class _ConvNeXtPyramid(Pyramid):
    def stages(self, x: Tensor) -> Sequence[Tensor]:
        states: Sequence[Tensor] = self.encoder(x, output_hidden_states=True).hidden_states
        return states[-4:]


def _adapted(model: Any, inputs: int) -> Any:
    """The first layer for another number of channels."""
    old = model.embeddings.patch_embeddings
    if old.in_channels == inputs:
        return model
    new = nn.Conv2d(inputs, old.out_channels, old.kernel_size, old.stride)
    adapt(new, old)
    model.embeddings.patch_embeddings = new
    model.embeddings.num_channels = inputs
    model.config.num_channels = inputs
    return model
