"""Networks that predict kuq distributions, and ensembles of them trained as one computation."""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        'kuq.nn needs PyTorch and scikit-learn; to have them: pip install "kuq[torch]"',
        name=_error.name,
    ) from _error

from kuq.nn.backbones import Backbone, Body
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
from kuq.nn.history import History
from kuq.nn.learned_kernel import FeatureMap, LearnedKernel, learn_kernel
from kuq.nn.mlp import MLP
from kuq.nn.network import Network
from kuq.nn.one_by_one import OneByOne
from kuq.nn.own_modules import dropout_members, members
from kuq.nn.regressor import Regressor
from kuq.nn.settings import Training
from kuq.nn.training import fit

__all__ = [
    "FNO",
    "MLP",
    "Backbone",
    "Body",
    "ConvNeXt",
    "EfficientNetLite0",
    "EvidentialHead",
    "FeatureMap",
    "FlowHead",
    "Head",
    "History",
    "LearnedKernel",
    "LowRankHead",
    "MixtureHead",
    "Network",
    "NormalHead",
    "OneByOne",
    "Regressor",
    "SamplerHead",
    "Training",
    "dropout_members",
    "fit",
    "learn_kernel",
    "members",
]


def __dir__() -> list[str]:
    return __all__
