"""Training losses in plain torch, where ``kuq.score`` has no single step or a graph too long.

Each takes the parameters of a law, (M, B, …), and outcomes, and gives (M, B), the same numbers as
``kuq.score``. They stay in float32.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kuq.kernels.base import Score
from kuq.kernels.energy import Energy
from kuq.kernels.marginal import Marginal

_SQRT2, _SQRT_PI = math.sqrt(2), math.sqrt(math.pi)
#: Squares of standardised outcomes count for so much at most, which is 2 deviations.
_CLIP = 4.0
#: What min(Z², 4) is on average for a standard normal: 4 − 3 P(|Z| < 2) − 4 φ(2).
_CLIPPED = 4 - 3 * math.erf(_SQRT2) - 4 * math.exp(-2) / math.sqrt(2 * math.pi)


def over_event(values: Tensor, event_ndim: int, reduce: str) -> Tensor:
    """(M, B, event…) to (M, B)."""
    if event_ndim == 0:
        return values
    axes = tuple(range(-event_ndim, 0))
    return values.mean(axes) if reduce == "mean" else values.sum(axes)


def normal_log(loc: Tensor, scale: Tensor, y: Tensor) -> Tensor:
    """−log density of each coordinate."""
    return ((y - loc) / scale).square() * 0.5 + torch.log(scale) + 0.5 * math.log(2 * math.pi)


def crps_reduction(score: Score | None, event_ndim: int) -> str | None:
    """How a CRPS is reduced over the event, None if the score is not one."""
    if event_ndim == 0 and _is_absolute(score):
        return "mean"
    if not isinstance(score, Marginal) or score.weights is not None:
        return None
    return score.reduce if _is_absolute(score.kernel) else None


def _is_absolute(score: Score | None) -> bool:
    return isinstance(score, Energy) and score.beta == 1.0 and score.weights is None


def normal_crps_clipped(loc: Tensor, scale: Tensor, y: Tensor) -> Tensor:
    """The CRPS of each coordinate, with another slope in the deviation: that of clipped squares.

    That slope, (E min(Z², 4) − min(z², 4)) / √π for z = (y − loc) / scale, is zero on average at
    the true deviation of normal noise, too, and learns it from fewer outcomes: the variance of what
    is learned is that of the likelihood over 0.89, and over 0.81 by the CRPS. One outcome far away
    still pulls by so much only.
    """
    with torch.no_grad():
        gap = y - loc
        z = gap / scale
        to_loc = -torch.erf(z / _SQRT2)
        to_scale = (_CLIPPED - z.square().clamp(max=_CLIP)) / _SQRT_PI
        bell = torch.exp(z.square() * -0.5) * math.sqrt(2 / math.pi)
        value = scale * (bell - 1 / _SQRT_PI) - gap * to_loc
    # Terms that are zero, and have these slopes.
    return value + to_loc * (loc - loc.detach()) + to_scale * (scale - scale.detach())


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
