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
Norm: TypeAlias = Literal["layer", "none"]
NoiseAt: TypeAlias = Literal["decoder", "inputs"]
Sizes: TypeAlias = Annotated[tuple[Count, ...], Within(least=1)]


@final
@dataclass(frozen=True)
class ModelSettings:
    """The keys are settings of ``kuq.nn.Regressor``; "never" stands for None.

    What a file does not say is as it stands here, whatever kuq's own defaults are (``recipe``).
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
    clipped_squares: bool = False
    compile: bool | str = False
    device: str = "never"
    hidden_sizes: Sizes = (50, 50)
    input_gain: Positive = 1.0
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
    norm: Norm | Literal["auto"] = "auto"
    patience: Count | Never = 25
    plateau: Count | Never = 5
    rank: Count = 10
    regulariser: NotNegative = 0.01
    restore_best: bool = True
    shape_penalty: NotNegative = 0.0
    validation_fraction: Annotated[float, Within(least=0, below=1)] = 0.1


@final
@dataclass(frozen=True)
class MLPSettings:
    """The keys of a backbone of ``kind = "mlp"``."""

    kind: str
    hidden_sizes: Sizes = (50, 50)
    activation: Activation = "gelu"
    norm: Norm = "none"
    noise_after: Natural = 1
    input_gain: Positive = 1.0


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
    noise_at: NoiseAt = "inputs"


@final
@dataclass(frozen=True)
class EfficientNetLite0Settings:
    """The keys of a backbone of ``kind = "efficientnet-lite0"``."""

    kind: str
    pretrained: bool = True
    frozen: bool = False
    decoder_channels: Count = 64
    noise_at: NoiseAt = "inputs"


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
#: What backbones are called by one word.
_NAMED = {
    "fno": {"kind": "fno"},
    "convnext-tiny": {"kind": "convnext", "size": "tiny"},
    "convnext-small": {"kind": "convnext", "size": "small"},
    "efficientnet-lite0": {"kind": "efficientnet-lite0"},
}
#: Settings that belong to where a model is trained, not to what it learns.
OF_THE_MACHINE = ("compile", "device", "mixed_precision")
#: Settings of the backbone "mlp", which others have in their own description.
_OF_TABLES = ("hidden_sizes", "activation", "norm", "noise_after", "input_gain")
#: What each representation is trained by. None: an evidential likelihood, the Gaussian kernel with
#: the median distance of the outcomes, or the squared error of a velocity, which have no name.
_LOSSES = {
    "normal": "log",
    "evidential": None,
    "mixture": "crps",
    "low-rank": None,
    "sampler": "energy",
    "flow": None,
}
#: Whose layers ``norm = "auto"`` normalises, as the paper's levels of error say; flows, which are
#: ours, are like samplers.
_NORMALISED = ("mixture", "sampler", "flow")
#: Backbones for images, where the noise of samplers is joined at the inputs. Flows, which are ours,
#: are joined in the decoder: the encoder is not to run for every step of every draw.
_OF_IMAGES = ("convnext", "efficientnet-lite0")
_PLACE_OF_FLOWS = {"noise_at": "decoder"}
#: Draws, and pairs of noise and outcome, by which samplers and flows are trained.
_DRAWS = {"mlp": 10, "fno": 5}
_PAIRS_OF_FLOWS = {"mlp": 8}


def recipe(representation: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of one of kuq's models: those of a table, and the study's own for the rest.

    None of them is left to the defaults of kuq, which may get better while the paper stays what it
    is. "never" is None here.
    """
    settings: dict[str, Any] = dataclasses.asdict(ModelSettings()) | dict(table)
    backbone = settings["backbone"]
    if isinstance(backbone, str):
        backbone = _NAMED.get(backbone, backbone)
    kind = backbone if isinstance(backbone, str) else backbone["kind"]
    for name in (*OF_THE_MACHINE, *(() if backbone == "mlp" else _OF_TABLES)):
        if name not in table:
            del settings[name]
    flow = representation == "flow"
    if flow and kind in _OF_IMAGES:
        backbone = {**_PLACE_OF_FLOWS, **backbone}
    left_open = {
        "n_members": 1 if representation == "evidential" else 10,
        "n_train_samples": _PAIRS_OF_FLOWS.get(kind, 2) if flow else _DRAWS.get(kind, 3),
        "noise_channels": 16 if kind == "mlp" else 1,
    }
    settings |= {name: value for name, value in left_open.items() if settings[name] == "never"}
    if settings.get("norm") == "auto":
        settings["norm"] = "layer" if representation in _NORMALISED else "none"
    settings |= {"backbone": backbone, "loss": _LOSSES[representation]}
    return without_never(settings)


def without_never(table: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as Python has them: None for "never", as in patience = "never"."""
    return {name: None if value == "never" else value for name, value in table.items()}


def backbone_settings(table: Mapping[str, Any], where: str) -> tuple[str, dict[str, Any]]:
    """The kind of a backbone and all its settings, those that a table does not name too."""
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in BACKBONES:
        raise ParameterError(
            f"'backbone.kind' of {where} must be one of {list(BACKBONES)}, got {kind!r}"
        )
    settings = dataclasses.asdict(from_table(BACKBONES[kind], table, f"'backbone' of {where}"))
    del settings["kind"]
    return kind, settings


def check_model(table: Mapping[str, Any], where: str) -> None:
    """Every key is known and every value allowed."""
    backbone = from_table(ModelSettings, table, where).backbone
    if isinstance(backbone, Mapping):
        backbone_settings(backbone, where)
