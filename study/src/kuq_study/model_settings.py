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
    """The keys are settings of ``kuq.nn.Regressor``; "never" stands for None."""

    activation: Activation = "gelu"
    annealing: bool = True
    averaging: Count | Never = 5
    backbone: Literal["mlp", "fno", "convnext-tiny", "convnext-small"] | Mapping[str, Any] = "mlp"
    batch_size: Count | Never = "never"
    bootstrap: bool = False
    burn_in: Natural = 0
    compile: bool | str = False
    device: str = "never"
    hidden_sizes: Sizes = (50, 50)
    learning_rate: Positive | Never = "never"
    max_epochs: Count = 200
    mixed_precision: bool | Never = "never"
    n_components: Count = 10
    n_members: Count | Never = "never"
    n_samples: Several = 100
    n_train_samples: Several | Never = "never"
    natural: bool = False
    noise_after: Natural = 1
    noise_channels: Count | Never = "never"
    norm: Norm = "auto"
    patience: Count | Never = "never"
    plateau: Count | Never = "never"
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


BACKBONES: dict[str, type[Any]] = {
    "mlp": MLPSettings,
    "fno": FNOSettings,
    "convnext": ConvNeXtSettings,
}
MODEL_KEYS = tuple(field.name for field in dataclasses.fields(ModelSettings))


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
