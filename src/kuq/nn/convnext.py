"""ConvNeXt for images, from the transformers library, with a light decoder."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from torch import Tensor, nn

from kuq.errors import ParameterError
from kuq.nn.backbones import Backbone, Body, check_positive
from kuq.nn.generators import Purpose, member_seed
from kuq.nn.memory import require_room
from kuq.nn.one_by_one import OneByOneBody, seeded
from kuq.nn.pyramid import Pyramid, adapt, check_images, check_noise_at

#: Blocks and channels of the four stages, and the name under which ImageNet weights are found.
_SIZES: dict[str, tuple[tuple[int, ...], tuple[int, ...], str]] = {
    "tiny": ((3, 3, 9, 3), (96, 192, 384, 768), "facebook/convnext-tiny-224"),
    "small": ((3, 3, 27, 3), (96, 192, 384, 768), "facebook/convnext-small-224"),
}


@final
@dataclass(frozen=True)
class ConvNeXt(Backbone):
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
        check_noise_at(self.noise_at)
        if self.size not in _SIZES:
            raise ParameterError(f"size must be one of {list(_SIZES)}, got {self.size!r}")
        check_positive(decoder_channels=self.decoder_channels)
        for name in ("depths", "channels"):
            given = getattr(self, name)
            if given is not None:
                if len(given) != 4:
                    raise ParameterError(f"{name} needs four numbers, one a stage, got {given}")
                object.__setattr__(self, name, tuple(given))

    def check(self, x_shape: tuple[int, ...], event_shape: tuple[int, ...]) -> None:
        check_images("ConvNeXt", x_shape, event_shape)

    def build(
        self, n_members: int, x_shape: tuple[int, ...], event_shape: tuple[int, ...], seed: int
    ) -> Body:
        return self._built(n_members, x_shape, event_shape, seed, 0)

    def build_sampler(
        self,
        n_members: int,
        x_shape: tuple[int, ...],
        event_shape: tuple[int, ...],
        seed: int,
        noise_channels: int,
    ) -> Body | None:
        if self.noise_at == "inputs":
            return None
        return self._built(n_members, x_shape, event_shape, seed, noise_channels)

    def _built(
        self,
        n_members: int,
        x_shape: tuple[int, ...],
        event_shape: tuple[int, ...],
        seed: int,
        noise_channels: int,
    ) -> Body:
        members: list[nn.Module] = []
        learned = self._learned(x_shape[0])
        for member in range(n_members):
            with seeded(member_seed(seed, member, Purpose.WEIGHTS)):
                encoder = self._random(x_shape[0]) if learned is None else copy.deepcopy(learned)
                sizes = encoder.config.hidden_sizes
                path = (self.decoder_channels, x_shape, event_shape, noise_channels)
                members.append(_ConvNeXtPyramid(encoder, sizes, *path))
            if member == 0:
                require_room(n_members, sum(p.numel() for p in members[0].parameters()))
        return OneByOneBody(members, x_shape, event_shape, joins_noise=noise_channels > 0)

    def _learned(self, inputs: int) -> Any | None:
        """The encoder with ImageNet weights, None if they are not wanted or not to be had."""
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
