"""Distributions of ``torch.distributions``."""

from __future__ import annotations

from typing import Any

import torch
from torch import distributions as td

from kuq.adapters.full_covariance import require_vectors
from kuq.distributions.base import Prediction
from kuq.distributions.low_rank import LowRankNormal
from kuq.distributions.mixture import NormalMixture
from kuq.distributions.normal import Normal
from kuq.distributions.student_t import StudentT
from kuq.errors import ParameterError


def convert(obj: Any, event_ndim: int | None) -> Prediction | None:
    """A distribution by its parameters, or None; axes of ``Independent`` are event axes."""
    if not isinstance(obj, td.Distribution):
        return None
    law = obj
    while isinstance(law, td.Independent):
        law = law.base_dist
    axes = len(obj.event_shape) if event_ndim is None else event_ndim
    if isinstance(law, td.Normal):
        return Normal(law.loc, law.scale, axes)
    if isinstance(law, td.StudentT):
        return StudentT(law.df, law.loc, law.scale, axes)
    if isinstance(law, td.MixtureSameFamily):
        return _mixture(law, axes)
    if isinstance(law, td.TransformedDistribution):
        return _moved(law, axes)
    if isinstance(law, (td.LowRankMultivariateNormal, td.MultivariateNormal)):
        if event_ndim == 0:  # every coordinate by itself
            return Normal(law.mean, torch.sqrt(law.variance))
        require_vectors(axes)
        if isinstance(law, td.LowRankMultivariateNormal):
            return LowRankNormal(law.loc, law.cov_factor, law.cov_diag)
        return _full_normal(law)
    return None


def _moved(law: td.TransformedDistribution, axes: int) -> Prediction | None:
    """a + b X for a normal or Student-t X, such as the rescaled forecasts of GluonTS."""
    base = law.base_dist
    while isinstance(base, td.Independent):
        base = base.base_dist
    if not isinstance(base, (td.Normal, td.StudentT)):
        return None
    loc, scale = base.loc, base.scale
    for step in law.transforms:
        if not isinstance(step, td.AffineTransform):
            return None
        shift, factor = torch.as_tensor(step.loc), torch.as_tensor(step.scale)
        loc, scale = shift + factor * loc, torch.abs(factor) * scale
    if isinstance(base, td.Normal):
        return Normal(loc, scale, axes)
    return StudentT(base.df, loc, scale, axes)


def _full_normal(law: td.MultivariateNormal) -> LowRankNormal:
    """Half of the lowest eigenvalue goes to the diagonal, so that densities exist.

    It is a constant, and gradients of the rest are those of a Cholesky factor: always finite.
    """
    covariance = law.covariance_matrix
    lowest = torch.linalg.eigvalsh(covariance.detach())[..., :1] / 2
    diag = lowest.expand(law.loc.shape)
    root = torch.linalg.cholesky(covariance - torch.diag_embed(diag))
    return LowRankNormal(law.loc, root, diag)


def _mixture(law: td.MixtureSameFamily, axes: int) -> NormalMixture | None:
    """Components lie along the last batch axis of torch's component distribution."""
    weights, component = law.mixture_distribution.probs, law.component_distribution
    event_axes = len(component.event_shape)
    if component.event_shape.numel() > 1:
        raise ParameterError(
            "coordinates of a vector that are mixed together, event shape "
            f"{tuple(component.event_shape)}, are no kuq.NormalMixture, whose coordinates are "
            "independent; draw from it: kuq.Samples(p.sample((1000,)), sample_axis=0, event_ndim=1)"
        )
    while isinstance(component, td.Independent):
        component = component.base_dist
    if not isinstance(component, td.Normal):
        return None
    # An event of one coordinate has axes of length one after the components.
    shape = (*weights.shape[:-1], *(1,) * event_axes, weights.shape[-1])
    loc, scale = (
        x.expand((*weights.shape, *(1,) * event_axes)).reshape(shape)
        for x in (component.loc, component.scale)
    )
    return NormalMixture(weights.reshape(shape), loc, scale, axes)
