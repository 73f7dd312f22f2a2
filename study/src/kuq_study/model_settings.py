"""What ``[grid.NAME.model]`` may say of kuq's models, checked without importing torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, final

from kuq._ranges import Count, Natural, NotNegative, Positive, Several, Within
from kuq.errors import ParameterError
from kuq_study.settings import from_table

#: TOML has no word for None.
Never: TypeAlias = Literal["never"]
Activation: TypeAlias = Literal["gelu", "relu", "silu", "tanh"]
Norm: TypeAlias = Literal["auto", "layer", "none"]
Sizes: TypeAlias = Annotated[tuple[Count, ...], Within(least=1)]


@final
@dataclass(frozen=True)
class ModelSettings:
    """The keys are settings of ``kuq.nn.Regressor``; "never" stands for None.

    How networks are trained is the paper's where a file does not say it, whatever kuq's own
    defaults are (``of_the_paper``).
    """

    activation: Activation = "gelu"
    annealing: bool = False
    averaging: Count | Never = "never"
    backbone: (
        Literal["mlp", "fno", "convnext-tiny", "convnext-small", "efficientnet-lite0"]
        | Mapping[str, Any]
    ) = "mlp"
    batch_size: Count = 32
    bootstrap: bool = False
    burn_in: Natural = 0
    compile: bool | str = False
    device: str = "never"
    hidden_sizes: Sizes = (50, 50)
    learning_rate: Positive = 1e-3
    margin: NotNegative = 0.0
    max_epochs: Count = 500
    mixed_precision: bool | Never = "never"
    n_components: Count = 10
    n_members: Count | Never = "never"
    n_samples: Several = 50
    n_steps: Count = 8
    n_train_samples: Several | Never = "never"
    natural: bool = True
    noise_after: Natural = 1
    noise_channels: Count | Never = "never"
    norm: Norm = "auto"
    patience: Count | Never = 25
    plateau: Count | Never = 5
    rank: Count = 10
    regulariser: NotNegative = 0.01
    restore_best: bool = True
    validation_fraction: Annotated[float, Within(least=0, below=1)] = 0.1


@final
@dataclass(frozen=True)
class MLPSettings:
    """The keys of a backbone of ``kind = "mlp"``."""

    kind: str
    hidden_sizes: Sizes = (50, 50)
    activation: Activation = "gelu"
    norm: Norm = "auto"
    noise_after: Natural = 1


@final
@dataclass(frozen=True)
class FNOSettings:
    """The keys of a backbone of ``kind = "fno"``."""

    kind: str
    modes: Count = 20
    channels: Count = 64
    lifting_channels: Count = 256
    projection_channels: Count = 256
    layers: Count = 8


@final
@dataclass(frozen=True)
class ConvNeXtSettings:
    """The keys of a backbone of ``kind = "convnext"``."""

    kind: str
    size: Literal["tiny", "small"] = "tiny"
    pretrained: bool = True
    decoder_channels: Count = 64
    depths: tuple[Count, Count, Count, Count] | None = None
    channels: tuple[Count, Count, Count, Count] | None = None


@final
@dataclass(frozen=True)
class EfficientNetLite0Settings:
    """The keys of a backbone of ``kind = "efficientnet-lite0"``."""

    kind: str
    pretrained: bool = True
    frozen: bool = False
    decoder_channels: Count = 64


@final
@dataclass(frozen=True)
class ConvolutionsSettings:
    """The keys of a backbone of ``kind = "convolutions"``, which is the study's own."""

    kind: str
    width: Count = 16
    layers: Count = 3


BACKBONES: dict[str, type[Any]] = {
    "mlp": MLPSettings,
    "fno": FNOSettings,
    "convnext": ConvNeXtSettings,
    "efficientnet-lite0": EfficientNetLite0Settings,
    "convolutions": ConvolutionsSettings,
}
MODEL_KEYS = tuple(field.name for field in dataclasses.fields(ModelSettings))
_OF_THE_PAPER = (
    *("annealing", "averaging", "batch_size", "learning_rate", "margin", "max_epochs"),
    *("n_samples", "natural", "patience", "plateau"),
)
#: What networks are trained by in the paper where kuq's default is another score.
LOSS_OF_THE_PAPER = {"normal": "log"}


def of_the_paper() -> dict[str, Any]:
    """Settings of training in which the paper's recipe and kuq's defaults differ."""
    defaults = {field.name: field.default for field in dataclasses.fields(ModelSettings)}
    return {name: defaults[name] for name in _OF_THE_PAPER}


def check_model(table: Mapping[str, Any], where: str) -> None:
    """Every key is known and every value allowed."""
    backbone = from_table(ModelSettings, table, where).backbone
    if not isinstance(backbone, Mapping):
        return
    kind = backbone.get("kind")
    if not isinstance(kind, str) or kind not in BACKBONES:
        raise ParameterError(
            f"'backbone.kind' of {where} must be one of {list(BACKBONES)}, got {kind!r}"
        )
    from_table(BACKBONES[kind], backbone, f"'backbone' of {where}")
