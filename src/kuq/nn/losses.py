"""Scores of predictions as training losses, in plain torch where that is worth it.

Each closed form takes the parameters of a law, (M, B, …), and outcomes, and gives (M, B), the same
numbers as ``kuq.score``. They stay in float32, and the costly ones have gradients of their own.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

_SQRT2 = math.sqrt(2)
_TWO_PHI = math.sqrt(2 / math.pi)


class _FoldedMean(torch.autograd.Function):
    """E|Z| of Z ~ N(mean, deviation²); its gradient is erf and twice the density, known already."""

    @staticmethod
    def forward(mean: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z = mean / deviation
        sign = torch.erf(z / _SQRT2)
        bell = torch.exp(z.square() * -0.5).mul_(_TWO_PHI)
        return torch.addcmul(deviation * bell, mean, sign), sign, bell

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        _, sign, bell = output
        ctx.mark_non_differentiable(sign, bell)
        ctx.save_for_backward(sign, bell)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor]:
        sign, bell = ctx.saved_tensors
        return gradient * sign, gradient * bell


def folded_mean(mean: Tensor, deviation: Tensor) -> Tensor:
    """E|Z| of a normal with a positive deviation."""
    return _FoldedMean.apply(mean, deviation)[0]  # type: ignore[no-any-return, no-untyped-call]


def over_event(values: Tensor, event_ndim: int, reduce: str) -> Tensor:
    """(M, B, event…) to (M, B)."""
    if event_ndim == 0:
        return values
    axes = tuple(range(-event_ndim, 0))
    return values.mean(axes) if reduce == "mean" else values.sum(axes)


def normal_log(loc: Tensor, scale: Tensor, y: Tensor) -> Tensor:
    """−log density of each coordinate."""
    return ((y - loc) / scale).square() * 0.5 + torch.log(scale) + 0.5 * math.log(2 * math.pi)


def normal_crps(loc: Tensor, scale: Tensor, y: Tensor) -> Tensor:
    """The CRPS of each coordinate of a normal."""
    return folded_mean(y - loc, scale) - scale / math.sqrt(math.pi)


def mixture_crps(weights: Tensor, loc: Tensor, scale: Tensor, y: Tensor) -> Tensor:
    """The CRPS of each coordinate of a mixture of normals, over pairs i < j of components.

    Differences over pairs are products with a constant matrix: its gradient is a product, too,
    where indexing would have to scatter.
    """
    to_outcome = (weights * folded_mean(y[..., None] - loc, scale)).sum(-1)
    own = (weights.square() * scale).sum(-1) / math.sqrt(math.pi)
    count = loc.shape[-1]
    if count == 1:
        return to_outcome - own
    first, second = _pairs(count, loc)
    gap = loc @ (first - second)
    deviation = torch.sqrt(scale.square() @ (first + second))
    shares = (weights @ first) * (weights @ second)
    return to_outcome - own - (shares * folded_mean(gap, deviation)).sum(-1)


def _pairs(count: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Matrices (count, pairs) that pick the first and the second of every pair."""
    upper = torch.triu_indices(count, count, 1, device=like.device)
    eye = torch.eye(count, dtype=like.dtype, device=like.device)
    return eye[:, upper[0]], eye[:, upper[1]]


def samples_crps(values: Tensor, y: Tensor, axis: int) -> Tensor:
    """The fair CRPS of draws along an axis, by sorting: memory and time of the draws alone."""
    count = values.shape[axis]
    to_outcome = (values - y.unsqueeze(axis)).abs().mean(axis)
    ordered = values.movedim(axis, -1).sort(dim=-1).values
    rank = torch.arange(1, count + 1, dtype=values.dtype, device=values.device)
    return to_outcome - ordered @ ((2 * rank - count - 1) / (count * (count - 1)))


def samples_energy(values: Tensor, y: Tensor) -> Tensor:
    """The fair energy score of draws (M, B, N, d), y (M, B, d).

    Distances come from torch.cdist, outcome and draws in one call: no temporary has the size of
    all pairs times d. Its form by matrix products is left out, which is inexact in float32.
    """
    count = values.shape[2]
    points = torch.cat([values, y.unsqueeze(2)], dim=2)
    exact = "donot_use_mm_for_euclid_dist"
    distances = torch.cdist(values, points, compute_mode=exact)
    pairs = distances[..., :count].sum((-1, -2)) / (2 * count * (count - 1))
    return distances[..., count].mean(-1) - pairs


def low_rank_gaussian(
    loc: Tensor, factor: Tensor, diag: Tensor, y: Tensor, bandwidth: float
) -> Tensor:
    """The score of N(loc, factor factorᵀ + diag) under the Gaussian kernel, joint over (…, d)."""
    to_outcome = _gaussian_overlap(y - loc, factor, diag, bandwidth)
    own = _gaussian_overlap(None, _SQRT2 * factor, 2 * diag, bandwidth)
    return 0.5 + own / 2 - to_outcome


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
