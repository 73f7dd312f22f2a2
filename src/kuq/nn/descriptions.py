"""Scores and backbones as plain data for a JSON header, and back."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from kuq._array import is_array
from kuq.kernels.base import Scaled, Score, Sum
from kuq.kernels.energy import Energy
from kuq.kernels.gaussian import Gaussian
from kuq.kernels.laplace import Laplace
from kuq.kernels.log_score import LogScore
from kuq.kernels.marginal import Marginal
from kuq.kernels.matern import Matern
from kuq.kernels.rational_quadratic import InverseMultiquadric, RationalQuadratic
from kuq.kernels.squared_error import SquaredError
from kuq.nn.backbones import Backbone
from kuq.nn.convnext import ConvNeXt
from kuq.nn.efficientnet import EfficientNetLite0
from kuq.nn.fno import FNO
from kuq.nn.mlp import MLP

_CLASSES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(MLP, FNO, ConvNeXt, EfficientNetLite0),
        *(Energy, Gaussian, InverseMultiquadric, Laplace, LogScore, Marginal, Matern),
        *(RationalQuadratic, Scaled, SquaredError, Sum),
    )
}
_CLASS, _OWN = "class", "own"
#: What fields of a class and settings of a regressor meant before they existed, for files that
#: were written then.
_FORMER: dict[str, dict[str, Any]] = {
    "MLP": {"norm": "none", "noise_after": 0, "input_gain": 1.0},
    "ConvNeXt": {"noise_at": "inputs"},
    "EfficientNetLite0": {"noise_at": "inputs"},
}
_FORMER_SETTINGS = {
    "averaging": None,
    "margin": 0.0,
    "clipped_squares": False,
    "shape_penalty": 0.0,
}
#: The number of what files mean by their settings.
REVISION = 2
#: What ``norm="auto"`` meant in files of revision 1 for these representations.
_FORMER_NORMS = {"mixture": "layer", "sampler": "layer"}
#: What was left to samplers of tables in such files.
_FORMER_NOISE_CHANNELS = 16
#: Backbones that files were once written with by name, which now hold a description.
_FORMER_NAMES: dict[str, dict[str, Any]] = {
    "fno": {_CLASS: "FNO"},
    "convnext-tiny": {_CLASS: "ConvNeXt", "size": "tiny"},
    "convnext-small": {_CLASS: "ConvNeXt", "size": "small"},
    "efficientnet-lite0": {_CLASS: "EfficientNetLite0"},
}


def described(value: Any) -> Any:
    """Plain data for a setting; what only Python can say becomes a mark with its name."""
    if isinstance(value, (Score, Backbone)) and type(value).__name__ in _CLASSES:
        setting: Any = value  # a dataclass, as all of these classes are
        fields = {f.name: described(getattr(value, f.name)) for f in dataclasses.fields(setting)}
        return {_CLASS: type(value).__name__, **fields}
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, (list, tuple)):
        return [described(item) for item in value]
    if is_array(value):
        return {_CLASS: "array", "values": np.asarray(value).tolist()}
    return {_OWN: repr(value)}


def complete(settings: dict[str, Any], revision: int, on_grid: bool) -> dict[str, Any]:
    """The settings of a regressor in a file, in the words of today, with those that are younger.

    Those of the backbone "mlp" were written beside other backbones as well, where they say nothing.
    """
    if revision < REVISION and settings["noise_channels"] is None and not on_grid:
        settings = settings | {"noise_channels": _FORMER_NOISE_CHANNELS}
    backbone = settings["backbone"]
    norm = _FORMER_NORMS.get(settings["representation"]) if revision < REVISION else None
    if backbone == "mlp":
        return _FORMER_SETTINGS | _FORMER["MLP"] | _decided(settings, norm)
    if isinstance(backbone, str):
        settings = settings | {"backbone": _FORMER_NAMES.get(backbone, backbone)}
    elif isinstance(backbone, dict):
        settings = settings | {"backbone": _decided(backbone, norm)}
    foreign = {field.name for field in dataclasses.fields(MLP)}
    return _FORMER_SETTINGS | {k: v for k, v in settings.items() if k not in foreign}


def _decided(fields: dict[str, Any], norm: str | None) -> dict[str, Any]:
    """The fields of an MLP, with the word for what ``norm="auto"`` meant, if that has changed."""
    return fields | {"norm": norm} if norm and fields.get("norm") == "auto" else fields


def restored(data: Any) -> Any:
    """The setting that ``described`` was given; lists become tuples."""
    if isinstance(data, list):
        return tuple(restored(item) for item in data)
    if not isinstance(data, dict):
        return data
    data = _FORMER.get(data[_CLASS], {}) | data
    fields = {name: restored(item) for name, item in data.items() if name != _CLASS}
    if data[_CLASS] == "array":
        return np.array(data["values"])
    return _CLASSES[data[_CLASS]](**fields)


def own_parts(data: Any) -> str | None:
    """What cannot be restored, if anything."""
    if isinstance(data, list):
        return next((opaque for item in data if (opaque := own_parts(item))), None)
    if isinstance(data, dict):
        return data.get(_OWN) or own_parts(list(data.values()))
    return None
