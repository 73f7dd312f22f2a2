"""What a user would write without kuq: each returns aleatoric and epistemic uncertainty.

All are unbiased pairwise estimates of the same two numbers that ``kuq.decompose`` gives, from the
matrix a(P_i, P_j) = E k(X, Y) over all pairs of members. They are independent of kuq, so that
they also serve as a check of its results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy import special

from benchmarks.problems import Problem

Pair = tuple[np.ndarray, np.ndarray]


def tensors(problem: Problem) -> list[torch.Tensor]:
    return [torch.from_numpy(a) for a in problem.values()]


def from_matrix(matrix: Any, origin: float = 0.0) -> Pair:
    """AU and EU from a(P_i, P_j), (M, M, …); ``origin`` is k(x, x)."""
    matrix = np.asarray(matrix)
    members = len(matrix)
    diagonal = matrix[np.arange(members), np.arange(members)]
    cross = (matrix.sum((0, 1)) - diagonal.sum(0)) / (members * (members - 1))
    return (diagonal.mean(0) - origin) / 2, cross - diagonal.mean(0)


def matrix_of_pairs(members: int, pair: Callable[[int, int], torch.Tensor]) -> torch.Tensor:
    rows = [torch.stack([pair(i, j) for j in range(members)]) for i in range(members)]
    return torch.stack(rows)


# --- normals: all pairs of members by broadcasting -----------------------------------------------


def gaps(loc: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance of X_i − X_j for all pairs, (M, M, …)."""
    return loc[:, None] - loc[None], scale[:, None] ** 2 + scale[None] ** 2


def crps_hyp1f1(problem: Problem) -> Pair:
    """E|Z| = σ √(2/π) ₁F₁(−½; ½; −μ²/(2σ²)), by SciPy, as torch has no such function."""
    gap, variance = gaps(*tensors(problem))
    argument = -(gap**2) / (2 * variance)
    shape = torch.from_numpy(special.hyp1f1(-0.5, 0.5, argument.numpy()))
    return from_matrix(torch.sqrt(variance) * math.sqrt(2 / math.pi) * shape)


def squared_error(problem: Problem) -> Pair:
    gap, variance = gaps(*tensors(problem))
    return from_matrix(gap**2 + variance)


def log_score(problem: Problem) -> Pair:
    """Entropy of a normal, and the mean of KL(P_i, P_j) over pairs."""
    loc, scale = tensors(problem)
    gap = loc[:, None] - loc[None]
    ratio = (scale[:, None] ** 2 + gap**2) / (2 * scale[None] ** 2)
    divergence = torch.log(scale[None] / scale[:, None]) + ratio - 0.5
    members = len(loc)
    entropy = 0.5 * torch.log(2 * math.pi * math.e * scale**2)
    return entropy.mean(0).numpy(), (divergence.sum((0, 1)) / (members * (members - 1))).numpy()


def gaussian_marginal(problem: Problem, bandwidth: float) -> Pair:
    gap, variance = gaps(*tensors(problem))
    shrink = 1 + 2 * variance / bandwidth**2
    matrix = -torch.exp(-(gap**2) / (bandwidth**2 * shrink)) / torch.sqrt(shrink)
    return from_matrix(matrix, -1.0)


def gaussian_diagonal(problem: Problem, bandwidth: float) -> Pair:
    gap, variance = gaps(*tensors(problem))
    shrink = 1 + 2 * variance / bandwidth**2
    exponent = -(torch.log(shrink) / 2 + gap**2 / (bandwidth**2 * shrink)).sum(-1)
    return from_matrix(-torch.exp(exponent), -1.0)


def woodbury(
    gap: torch.Tensor, factor: torch.Tensor, diag: torch.Tensor, bandwidth: float
) -> torch.Tensor:
    """E exp(−‖Z‖²/γ²) of Z ~ N(gap, factor factorᵀ + diag), batched."""
    base = bandwidth**2 + 2 * diag
    scaled = math.sqrt(2.0) * factor / base[..., None]
    inner = math.sqrt(2.0) * factor.mT @ scaled
    inner = inner + torch.eye(factor.shape[-1], dtype=factor.dtype)
    root = torch.linalg.cholesky(inner)
    log_det = torch.log(base / bandwidth**2).sum(-1)
    log_det = log_det + 2 * torch.log(torch.diagonal(root, dim1=-2, dim2=-1)).sum(-1)
    moved = scaled.mT @ gap[..., None]
    solved = torch.linalg.solve_triangular(root, moved, upper=False)
    square = (gap**2 / base).sum(-1) - (solved**2).sum((-1, -2))
    return torch.exp(-log_det / 2 - square)


def gaussian_low_rank(problem: Problem, bandwidth: float) -> Pair:
    """Pairs i ≤ j in one batch; each has a factor of twice the rank."""
    loc, factor, diag = tensors(problem)
    members = len(loc)
    i, j = torch.triu_indices(members, members)
    both = torch.cat([factor[i], factor[j]], dim=-1)
    value = -woodbury(loc[i] - loc[j], both, diag[i] + diag[j], bandwidth)
    matrix = torch.empty((members, members, *value.shape[1:]), dtype=value.dtype)
    matrix[i, j] = value
    matrix[j, i] = value
    return from_matrix(matrix, -1.0)


# --- draws: all pairs of members, all pairs of draws ---------------------------------------------


def from_draws(kernel: Callable, values: torch.Tensor, origin: float = 0.0) -> Pair:
    """``kernel(x_i, x_j)`` has shape (rows, N, N); a draw is not compared with itself."""
    members, count = len(values), values.shape[2]

    def pair(i: int, j: int) -> torch.Tensor:
        total = kernel(values[i], values[j]).sum((-1, -2))
        if i == j:
            return (total - count * origin) / (count * (count - 1))
        return total / count**2

    return from_matrix(matrix_of_pairs(members, pair), origin)


def energy_cdist(problem: Problem) -> Pair:
    """torch.cdist as it comes: above 25 rows it takes a faster, less accurate form."""
    return from_draws(torch.cdist, *tensors(problem))


def crps_broadcast(problem: Problem) -> Pair:
    def distance(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.abs(x[..., :, None] - y[..., None, :])

    return from_draws(distance, *tensors(problem))


def gaussian_broadcast(problem: Problem, bandwidth: float) -> Pair:
    def kernel(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return -torch.exp(-((x[..., :, None] - y[..., None, :]) ** 2) / bandwidth**2)

    return from_draws(kernel, *tensors(problem), origin=-1.0)


# --- draws: KeOps, which compiles the sum over all pairs without storing them --------------------


def keops_sum(x: np.ndarray, y: np.ndarray) -> float:
    """Σ ‖x_i − y_j‖ over all pairs of draws (N, d)."""
    import pykeops
    from pykeops.numpy import LazyTensor

    pykeops.set_verbose(False)
    gap = LazyTensor(x[:, None, :]) - LazyTensor(y[None, :, :])
    return float((gap**2).sum(-1).sqrt().sum(1).sum())


def keops_energy(problem: Problem) -> Pair:
    """Pairs i ≤ j of members, each with all of its N × N distances."""
    values = problem["values"]
    members, rows, count, _ = values.shape
    matrix = np.empty((members, members, rows))
    for i in range(members):
        for j in range(i, members):
            pairs = count * (count - 1) if i == j else count**2
            for row in range(rows):
                matrix[i, j, row] = keops_sum(values[i, row], values[j, row]) / pairs
            matrix[j, i] = matrix[i, j]
    return from_matrix(matrix)


# --- draws: scoringrules ------------------------------------------------------------------------


def from_scores(score: Callable, values: np.ndarray, origin: float = 0.0) -> Pair:
    """TU and AU from scores S(P_i, x) of member i at the draws of all members.

    The mean over draws of other members is TU. At a member's own N draws the fair score is
    a_V − a_U/2 (− k(x,x)/2), with a_V = ((N−1) a_U + k(x,x))/N, which gives a_U, as
    scoringrules has no entropy.
    """
    members, rows, count, *event = values.shape
    shape = (members, rows, count, count, *event)  # scoringrules broadcasts no axes itself
    total, within = 0.0, 0.0
    for i in range(members):
        at_draws = score(values, np.broadcast_to(values[i][None, :, None], shape))
        means = at_draws.mean(-1)
        total = total + means.sum(0) - means[i]
        within = within + means[i]
    total = total / (members * (members - 1))
    within = within / members + origin / 2 - origin / count
    aleatoric = (within / ((count - 1) / count - 0.5) - origin) / 2
    return aleatoric, total - aleatoric


def scoringrules_crps(problem: Problem) -> Pair:
    import scoringrules

    def score(y: np.ndarray, x: np.ndarray) -> np.ndarray:
        return scoringrules.crps_ensemble(y, x, estimator="fair", backend="numba")

    return from_scores(score, problem["values"])


def scoringrules_energy(problem: Problem) -> Pair:
    import scoringrules

    def score(y: np.ndarray, x: np.ndarray) -> np.ndarray:
        return scoringrules.es_ensemble(y, x, estimator="fair", backend="numba")

    return from_scores(score, problem["values"])


def scoringrules_gaussian(problem: Problem, bandwidth: float) -> Pair:
    """Its kernel is exp(−r²/2), so that draws are scaled for another bandwidth."""
    import scoringrules

    def score(y: np.ndarray, x: np.ndarray) -> np.ndarray:
        return scoringrules.gksuv_ensemble(y, x, estimator="fair", backend="numba")

    return from_scores(score, problem["values"] * (math.sqrt(2.0) / bandwidth), -1.0)


# --- normals: Monte Carlo -----------------------------------------------------------------------


def energy_monte_carlo(problem: Problem, count: int = 1000, seed: int = 1) -> Pair:
    """Draws of each member, twice for its own term; each pair compares draws one by one."""
    rng = np.random.default_rng(seed)
    members = len(problem["loc"])
    first = [drawn(member(problem, i), count, rng) for i in range(members)]
    matrix = [[np.zeros(0)] * members for _ in range(members)]
    for i in range(members):
        second = drawn(member(problem, i), count, rng)
        matrix[i][i] = mean_distance(first[i], second)
        for j in range(i):
            matrix[i][j] = matrix[j][i] = mean_distance(first[i], first[j])
    return from_matrix(matrix)


def member(problem: Problem, index: int) -> Problem:
    return {k: a[index] for k, a in problem.items()}


def drawn(law: Problem, count: int, rng: np.random.Generator) -> np.ndarray:
    """(count, rows, d) draws of a diagonal or of a low-rank normal."""
    loc = law["loc"]
    noise = rng.standard_normal((count, *loc.shape))
    if "factor" not in law:
        noise *= law["scale"]
    else:
        noise *= np.sqrt(law["diag"])
        hidden = rng.standard_normal((count, len(loc), law["factor"].shape[-1]))
        noise += np.einsum("knr,ndr->knd", hidden, law["factor"], optimize=True)
    noise += loc
    return noise


def mean_distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    gap = x - y
    return np.sqrt(np.einsum("knd,knd->kn", gap, gap)).mean(0)
