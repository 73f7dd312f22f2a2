"""kuq: how uncertain each prediction is, and why, under any kernel score."""

from collections.abc import Sequence as _Sequence
from importlib import import_module as _import_module
from pathlib import Path as _Path
from typing import Any as _Any

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
from kuq.kernels.multi_scale import multi_scale
from kuq.kernels.patches import patches
from kuq.kernels.rational_quadratic import InverseMultiquadric, RationalQuadratic
from kuq.kernels.squared_error import SquaredError
from kuq.kernels.structure import graph_walks, spectral, variogram
from kuq.kernels.tail import tail
from kuq.partition import Partition
from kuq.result import Estimate, MemberTest, StandardError, Uncertainty
from kuq.uncertainty import (
    decompose,
    divergence,
    entropy,
    expected_kernel,
    member_divergences,
    member_influence,
    member_test,
    score,
    standard_error,
)

__version__ = "0.1.0"


def report(
    prediction: _Any,
    score: Score | str | None = None,
    *,
    y: _Any = None,
    names: _Sequence[_Any] | None = None,
    labels: _Sequence[_Any] | None = None,
    path: str | _Path = "report.html",
    title: str = "predictions",
    **options: _Any,
) -> _Path:
    """Decompose a prediction, write a page about it, and return the path of the page.

    The page is that of ``kuq decompose --report``. Where outcomes ``y`` are known, of the shape of
    what is predicted (NaN where not), it also says how good predictions and uncertainty were:
    score, coverage, which score ranks the errors best, and which errors are the largest. ``names``
    are those of the members, ``labels`` those of the inputs, by default the index of a pandas
    Series ``y``. The default score is CRPS; further options are those of :func:`decompose`; with
    ``levels`` the page is about what each level adds. A dict of predictions (and of outcomes) gives
    a section for each. An xarray DataArray or Dataset has the options of ``kuq.xarray.decompose``,
    and ``y`` with the same names. A page that kuq has written is replaced, anything else of that
    name is refused.

    >>> import kuq, numpy as np, pathlib, tempfile
    >>> rng = np.random.default_rng(0)
    >>> members = kuq.Ensemble(kuq.Normal(rng.normal(size=(3, 50)), 1.0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = kuq.report(members, names=["a", "b", "c"], y=rng.normal(size=50),
    ...                       path=pathlib.Path(folder, "report.html"))
    ...     text = path.read_text(encoding="utf-8")
    >>> "3 members, each a normal distribution" in text
    True
    """
    written: _Path = _import_module("kuq.reports.in_memory").report(
        prediction, score, y=y, names=names, labels=labels, path=path, title=title, **options
    )
    return written


def select_score(
    prediction: _Any,
    y: _Any = None,
    task: str = "ranking",
    *,
    candidates: _Sequence[Score | str] | None = None,
    outside: _Any = None,
    groups: _Any = None,
    seed: int = 0,
    **options: _Any,
) -> _Any:
    """Choose the score that serves a task best, on held-out predictions and outcomes.

    The same as :func:`kuq.protocols.select_score`, which explains it and its further options.

    >>> import kuq, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> scale = rng.gamma(2.0, size=100)
    >>> held_out = kuq.Ensemble(kuq.Normal(0.1 * rng.normal(size=(5, 100)), scale))
    >>> y = scale * rng.normal(size=100)
    >>> kuq.select_score(held_out, y, candidates=["crps", "squared"]).name
    'crps'
    """
    return _import_module("kuq.protocols").select_score(
        prediction,
        y,
        task,
        candidates=candidates,
        outside=outside,
        groups=groups,
        seed=seed,
        **options,
    )


#: Parts that need an extra or time to import: ``kuq.nn`` and so on, loaded when first used.
_PARTS = (
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
    "Estimate",
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
    "MemberTest",
    "NoClosedFormError",
    "Normal",
    "NormalInverseGamma",
    "NormalMixture",
    "ParameterError",
    "Partition",
    "Point",
    "Prediction",
    "Radial",
    "RationalQuadratic",
    "Samples",
    "ScaleMixture",
    "Score",
    "ShapeError",
    "SquaredError",
    "StandardError",
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
    "member_test",
    "multi_scale",
    "patches",
    "report",
    "score",
    "select_score",
    "spectral",
    "standard_error",
    "tail",
    "variogram",
]


def __getattr__(name: str) -> _Any:
    if name in _PARTS:
        return _import_module(f"kuq.{name}")
    raise AttributeError(f"module 'kuq' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_PARTS, "__version__", "adapters"]
