"""The representations of uncertainty by name, and backbones by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from kuq.errors import ParameterError
from kuq.nn.backbones import Backbone
from kuq.nn.convnext import ConvNeXt
from kuq.nn.efficientnet import EfficientNetLite0
from kuq.nn.fno import FNO
from kuq.nn.heads import (
    EvidentialHead,
    FlowHead,
    Head,
    LowRankHead,
    MixtureHead,
    NormalHead,
    SamplerHead,
)
from kuq.nn.mlp import MLP
from kuq.nn.one_by_one import OneByOne

#: The head of each representation, and which settings it takes.
REPRESENTATIONS: dict[str, tuple[type[Head], tuple[str, ...]]] = {
    "normal": (NormalHead, ("natural", "clipped_squares", "shape_penalty")),
    "evidential": (EvidentialHead, ("regulariser",)),
    "mixture": (MixtureHead, ("n_components", "shape_penalty")),
    "low-rank": (LowRankHead, ("rank",)),
    "sampler": (SamplerHead, ("noise_channels",)),
    "flow": (FlowHead, ("n_steps", "clipped_squares", "shape_penalty")),
}

_BACKBONES: dict[str, Callable[[], Backbone]] = {
    "fno": FNO,
    "convnext-tiny": lambda: ConvNeXt("tiny"),
    "convnext-small": lambda: ConvNeXt("small"),
    "efficientnet-lite0": EfficientNetLite0,
}


def check_representation(name: Any) -> None:
    if not isinstance(name, str) or name not in REPRESENTATIONS:
        raise ParameterError(f"representation must be one of {list(REPRESENTATIONS)}, got {name!r}")


def head_of(representation: str, settings: dict[str, Any]) -> tuple[type[Head], dict[str, Any]]:
    """The class of the head and its options."""
    check_representation(representation)
    head, names = REPRESENTATIONS[representation]
    return head, {name: settings[name] for name in names if settings[name] is not None}


def is_mlp(backbone: Any) -> bool:
    """Whether a backbone is the one that settings of its own describe."""
    return isinstance(backbone, str) and backbone == "mlp"


def named(backbone: Any) -> Any:
    """What the name of a backbone stands for, but for "mlp"; what is no such name, as it is."""
    if isinstance(backbone, str) and backbone in _BACKBONES:
        return _BACKBONES[backbone]()
    return backbone


def backbone_of(backbone: Any, mlp: MLP) -> Backbone:
    """A backbone from its name, a description, a torch module or a function that makes one.

    ``mlp`` is what the name "mlp" means.
    """
    if is_mlp(backbone):
        return mlp
    if mlp != MLP():
        raise ParameterError(
            "hidden_sizes, activation, norm, noise_after and input_gain belong to "
            'backbone="mlp"; give other backbones what they need as a description such as '
            "kuq.nn.FNO(channels=32)"
        )
    backbone = named(backbone)
    if isinstance(backbone, Backbone):
        return backbone
    if isinstance(backbone, str):
        raise ParameterError(
            f"backbone must be one of {['mlp', *_BACKBONES]}, a description such as "
            f"kuq.nn.FNO(modes=12), a torch module or a function, got {backbone!r}"
        )
    if isinstance(backbone, nn.Module) or callable(backbone):
        return OneByOne(backbone)
    raise ParameterError(f"backbone must be a name, a description or a module, got {backbone!r}")
