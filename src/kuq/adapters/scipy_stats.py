"""Distributions of ``scipy.stats`` with their parameters."""

from __future__ import annotations

from typing import Any

from scipy import stats

from kuq.adapters.full_covariance import full_normal
from kuq.distributions.base import Prediction
from kuq.distributions.normal import Normal
from kuq.distributions.student_t import StudentT


def convert(obj: Any, event_ndim: int | None) -> Prediction | None:
    """A frozen ``norm``, ``t`` or ``multivariate_normal``, or a ``Normal``; None for others."""
    axes = 0 if event_ndim is None else event_ndim
    if isinstance(obj, type(stats.multivariate_normal([0.0]))):
        return full_normal(obj.mean, obj.cov, event_ndim)
    modern = getattr(stats, "Normal", None)  # since SciPy 1.15
    if modern is not None and isinstance(obj, modern):
        return Normal(obj.mu, obj.sigma, axes)
    family = getattr(obj, "dist", None)
    if isinstance(family, type(stats.norm)):
        given = _parameters(obj)
        return Normal(given["loc"], given["scale"], axes)
    if isinstance(family, type(stats.t)):
        given = _parameters(obj)
        return StudentT(given["df"], given["loc"], given["scale"], axes)
    return None


def _parameters(frozen: Any) -> dict[str, Any]:
    """The parameters by name, positional ones included."""
    shapes = frozen.dist.shapes.split(", ") if frozen.dist.shapes else []
    positional = dict(zip((*shapes, "loc", "scale"), frozen.args, strict=False))
    return {"loc": 0.0, "scale": 1.0, **positional, **frozen.kwds}
