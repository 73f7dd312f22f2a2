"""Training losses in plain torch, where ``kuq.score`` has no single step or a graph too long.

Each takes the parameters of a law, (M, B, …), and outcomes, and gives (M, B), the same numbers as
``kuq.score``. They stay in float32.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_SQRT2 = math.sqrt(2)


def over_event(values: Tensor, event_ndim: int, reduce: str) -> Tensor:
    """(M, B, event…) to (M, B)."""
    if event_ndim == 0:
        return values
    axes = tuple(range(-event_ndim, 0))
    return values.mean(axes) if reduce == "mean" else values.sum(axes)


def normal_log(loc: Tensor, scale: Tensor, y: Tensor) -> Tensor:
    """−log density of each coordinate."""
    return ((y - loc) / scale).square() * 0.5 + torch.log(scale) + 0.5 * math.log(2 * math.pi)


def mixture_crps(weights: Tensor, loc: Tensor, scale: Tensor, y: Tensor) -> Tensor:
    """The CRPS of each coordinate of a mixture of normals, over pairs i < j of components."""
    to_outcome = (weights * _folded_mean(y[..., None] - loc, scale)).sum(-1)
    self_term = (weights.square() * scale).sum(-1) / math.sqrt(math.pi)
    i, j = torch.triu_indices(loc.shape[-1], loc.shape[-1], 1, device=loc.device)
    deviation = torch.sqrt(scale[..., i].square() + scale[..., j].square())
    pairs = _folded_mean(loc[..., i] - loc[..., j], deviation)
    return to_outcome - self_term - (weights[..., i] * weights[..., j] * pairs).sum(-1)


def _folded_mean(mean: Tensor, deviation: Tensor) -> Tensor:
    """E|Z| of a normal with a positive deviation."""
    z = mean / deviation
    bell = math.sqrt(2 / math.pi) * torch.exp(-0.5 * z.square())
    return mean * torch.erf(z / _SQRT2) + deviation * bell


def low_rank_gaussian(
    loc: Tensor, factor: Tensor, diag: Tensor, y: Tensor, bandwidth: float
) -> Tensor:
    """The score of N(loc, factor factorᵀ + diag) under the Gaussian kernel, joint over (…, d)."""
    to_outcome = _gaussian_overlap(y - loc, factor, diag, bandwidth)
    self_overlap = _gaussian_overlap(None, _SQRT2 * factor, 2 * diag, bandwidth)
    return 0.5 + self_overlap / 2 - to_outcome


def _gaussian_overlap(gap: Tensor | None, factor: Tensor, diag: Tensor, bandwidth: float) -> Tensor:
    """E exp(−‖Z‖²/γ²) of Z ~ N(gap, factor factorᵀ + diag), by matrices of size d or the rank.

    With S = I + 2/γ² covariance: exp(−gapᵀ S⁻¹ gap / γ²) / √det S.
    """
    share = 2 / bandwidth**2
    inner = 1 + share * diag
    scaled = math.sqrt(share) * factor
    d, rank = factor.shape[-2:]
    if d <= rank:
        root = _root(torch.diag_embed(inner) + scaled @ scaled.mT)
        log_det = 2 * _log_diagonal(root)
        if gap is None:
            return torch.exp(-0.5 * log_det)
        solved = torch.linalg.solve_triangular(root, gap[..., None], upper=False)
        return torch.exp(-solved.square().sum((-1, -2)) / bandwidth**2 - 0.5 * log_det)
    divided = scaled / inner[..., None]
    eye = torch.eye(rank, dtype=factor.dtype, device=factor.device)
    root = _root(eye + scaled.mT @ divided)
    log_det = torch.log(inner).sum(-1) + 2 * _log_diagonal(root)
    if gap is None:
        return torch.exp(-0.5 * log_det)
    solved = torch.linalg.solve_triangular(root, divided.mT @ gap[..., None], upper=False)
    form = (gap.square() / inner).sum(-1) - solved.square().sum((-1, -2))
    return torch.exp(-form / bandwidth**2 - 0.5 * log_det)


def _root(matrix: Tensor) -> Tensor:
    """The Cholesky factor of matrices that are at least the identity; no look at the result."""
    root: Tensor = torch.linalg.cholesky_ex(matrix).L
    return root


def _log_diagonal(root: Tensor) -> Tensor:
    return torch.log(torch.diagonal(root, dim1=-2, dim2=-1)).sum(-1)


def evidential_loss(
    loc: Tensor, nu: Tensor, alpha: Tensor, beta: Tensor, y: Tensor, regulariser: float
) -> Tensor:
    """−log of the Student-t predictive, plus regulariser · |y − loc| (2 nu + alpha)."""
    omega = 2 * beta * (1 + nu)
    gap = y - loc
    likelihood = (
        0.5 * torch.log(math.pi / nu)
        - alpha * torch.log(omega)
        + (alpha + 0.5) * torch.log(nu * gap.square() + omega)
        + torch.lgamma(alpha)
        - torch.lgamma(alpha + 0.5)
    )
    return likelihood + regulariser * gap.abs() * (2 * nu + alpha)
