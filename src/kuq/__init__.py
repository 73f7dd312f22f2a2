"""kuq: how uncertain each prediction is, and why, under any kernel score."""

from importlib import import_module as _import_module
from types import ModuleType as _ModuleType

from kuq._array import checks
from kuq._compiled import compiled
from kuq.adapters.conversion import as_distribution
from kuq.distributions.base import Distribution, Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.evidential import NormalInverseGamma
from kuq.distributions.low_rank import LowRankNormal
from kuq.distributions.mixture import NormalMixture
from kuq.distributions.normal import Normal, Point
from kuq.distributions.samples import Samples
from kuq.distributions.student_t import StudentT
from kuq.errors import (
    InsufficientDataError,
    KuqError,
    NoClosedFormError,
    ParameterError,
    ShapeError,
)
from kuq.kernels.bandwidth import median_bandwidth
from kuq.kernels.base import Kernel, Radial, ScaleMixture, Score
from kuq.kernels.card import KernelCard
from kuq.kernels.catalogue import kernel_cards
from kuq.kernels.energy import Energy
from kuq.kernels.gaussian import Gaussian
from kuq.kernels.laplace import Laplace
from kuq.kernels.log_score import LogScore
from kuq.kernels.marginal import CRPS, Marginal
from kuq.kernels.matern import Matern
from kuq.kernels.patches import patches
from kuq.kernels.rational_quadratic import InverseMultiquadric, RationalQuadratic
from kuq.kernels.squared_error import SquaredError
from kuq.kernels.structure import graph_walks, spectral, variogram
from kuq.kernels.tail import tail
from kuq.result import Uncertainty
from kuq.uncertainty import (
    decompose,
    divergence,
    entropy,
    expected_kernel,
    member_divergences,
    member_influence,
    score,
)

__version__ = "0.1.0"

#: Parts that need an extra or time to import: ``kuq.nn`` and so on, loaded when first used.
_PARTS = (
    "bench",
    "calibration",
    "datasets",
    "files",
    "nn",
    "plot",
    "protocols",
    "sklearn",
    "xarray",
)

__all__ = [
    "CRPS",
    "Distribution",
    "Energy",
    "Ensemble",
    "Gaussian",
    "InsufficientDataError",
    "InverseMultiquadric",
    "Kernel",
    "KernelCard",
    "KuqError",
    "Laplace",
    "LogScore",
    "LowRankNormal",
    "Marginal",
    "Matern",
    "NoClosedFormError",
    "Normal",
    "NormalInverseGamma",
    "NormalMixture",
    "ParameterError",
    "Point",
    "Prediction",
    "Radial",
    "RationalQuadratic",
    "Samples",
    "ScaleMixture",
    "Score",
    "ShapeError",
    "SquaredError",
    "StudentT",
    "Uncertainty",
    "as_distribution",
    "checks",
    "compiled",
    "decompose",
    "divergence",
    "entropy",
    "expected_kernel",
    "graph_walks",
    "kernel_cards",
    "median_bandwidth",
    "member_divergences",
    "member_influence",
    "patches",
    "score",
    "spectral",
    "tail",
    "variogram",
]


def __getattr__(name: str) -> _ModuleType:
    if name in _PARTS:
        return _import_module(f"kuq.{name}")
    raise AttributeError(f"module 'kuq' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PARTS})
