"""Values and gradients in torch: kuq as a loss beside plain torch code for the same number."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

import kuq
from benchmarks import problems
from benchmarks.peers import gaps, woodbury

Loss = Callable[..., torch.Tensor]


@dataclass(frozen=True)
class GradientCase:
    """All losses take the same leaves; ``build(rows)`` makes them."""

    key: str
    title: str
    build: Callable[[int], list[torch.Tensor]]
    rows: int
    quick_rows: int
    ours: Loss
    peers: dict[str, Loss]
    #: how far the peer may be off
    agreement: float = 1e-11


def value_and_gradient(loss: Loss, leaves: list[torch.Tensor]) -> list[torch.Tensor]:
    fresh = [leaf.detach().requires_grad_() for leaf in leaves]
    value = loss(*fresh)
    return [value.detach(), *torch.autograd.grad(value, fresh)]


def leaves_of(problem: problems.Problem) -> list[torch.Tensor]:
    return [torch.from_numpy(array) for array in problem.values()]


# --- total uncertainty of normals under the CRPS --------------------------------------------------


def crps_ours(loc: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return kuq.decompose(kuq.Ensemble(kuq.Normal(loc, scale)), kuq.CRPS()).total.mean()


def crps_plain(loc: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    gap, variance = gaps(loc, scale)
    deviation = torch.sqrt(variance)
    x = gap / deviation
    bell = math.sqrt(2 / math.pi) * torch.exp(-(x**2) / 2)
    matrix = deviation * bell + gap * torch.erf(x / math.sqrt(2))
    members = len(loc)
    diagonal = torch.diagonal(matrix, dim1=0, dim2=1).sum(-1)
    cross = (matrix.sum((0, 1)) - diagonal) / (members * (members - 1))
    return (cross - diagonal / members / 2).mean()


# --- the fair energy score of draws as a training loss --------------------------------------------


def energy_leaves(rows: int) -> list[torch.Tensor]:
    values = problems.draws(1, rows, 10, 64)["values"][0]
    return [torch.from_numpy(values)]


def energy_ours(values: torch.Tensor) -> torch.Tensor:
    y = torch.zeros(values.shape[0], values.shape[2], dtype=values.dtype)
    return kuq.score(kuq.Samples(values, event_ndim=1), y, kuq.Energy()).mean()


def energy_plain(values: torch.Tensor) -> torch.Tensor:
    y = torch.zeros(values.shape[0], 1, values.shape[2], dtype=values.dtype)
    count = values.shape[1]
    to_outcome = torch.linalg.vector_norm(values - y, dim=-1).mean(-1)
    between = torch.linalg.vector_norm(values[:, :, None] - values[:, None], dim=-1)
    return (to_outcome - between.sum((-1, -2)) / (2 * count * (count - 1))).mean()


def energy_cdist(values: torch.Tensor) -> torch.Tensor:
    """The same by torch.cdist, which has its own code for the gradient."""
    y = torch.zeros(values.shape[0], 1, values.shape[2], dtype=values.dtype)
    count = values.shape[1]
    to_outcome = torch.cdist(values, y).mean((-1, -2))
    between = torch.cdist(values, values).sum((-1, -2))
    return (to_outcome - between / (2 * count * (count - 1))).mean()


# --- the Gaussian-kernel score of low-rank normals ------------------------------------------------

BANDWIDTH = 150.0


def low_rank_leaves(rows: int) -> list[torch.Tensor]:
    problem = problems.low_rank_normals(1, rows, 4070, 10)
    return leaves_of({k: a[0] for k, a in problem.items()})


def low_rank_ours(loc: torch.Tensor, factor: torch.Tensor, diag: torch.Tensor) -> torch.Tensor:
    law = kuq.LowRankNormal(loc, factor, diag)
    return kuq.score(law, torch.zeros_like(loc), kuq.Gaussian(BANDWIDTH)).mean()


def low_rank_plain(loc: torch.Tensor, factor: torch.Tensor, diag: torch.Tensor) -> torch.Tensor:
    """−φ(P, y) + φ(P, P)/2 + 1/2; the difference of two draws has twice the covariance."""
    to_outcome = woodbury(loc, factor, diag, BANDWIDTH)
    within = woodbury(torch.zeros_like(loc), math.sqrt(2.0) * factor, 2 * diag, BANDWIDTH)
    return (within / 2 + 0.5 - to_outcome).mean()


CASES = (
    GradientCase(
        "gradient-crps",
        "mean TU of normals under the CRPS, M=10, float64",
        lambda n: leaves_of(problems.normals(10, n)),
        20_000,
        5_000,
        crps_ours,
        {"plain torch": crps_plain},
    ),
    GradientCase(
        "gradient-energy",
        "fair energy score of draws as a loss, N=10, d=64, float64",
        energy_leaves,
        256,
        128,
        energy_ours,
        {"plain torch": energy_plain, "cdist": energy_cdist},
    ),
    GradientCase(
        "gradient-low-rank",
        "Gaussian-kernel score of low-rank normals, r=10, d=4070, float64",
        low_rank_leaves,
        16,
        4,
        low_rank_ours,
        {"plain torch": low_rank_plain},
    ),
)


# --- losses of a training step, at everyday sizes -------------------------------------------------


def folded_mean(mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
    """E|Z| of a normal, as a user writes it."""
    deviation = torch.sqrt(variance)
    z = mean / deviation
    bell = math.sqrt(2 / math.pi) * torch.exp(-z * z / 2)
    return deviation * bell + mean * torch.erf(z / math.sqrt(2))


def normal_loss_ours(loc: torch.Tensor, raw: torch.Tensor) -> torch.Tensor:
    law = kuq.Normal(loc, torch.exp(raw))
    return kuq.score(law, torch.zeros_like(loc), kuq.CRPS()).mean()


def normal_loss_plain(loc: torch.Tensor, raw: torch.Tensor) -> torch.Tensor:
    scale = torch.exp(raw)
    z = -loc / scale
    bell = math.sqrt(2 / math.pi) * torch.exp(-z * z / 2)
    return (scale * (z * torch.erf(z / math.sqrt(2)) + bell - 1 / math.sqrt(math.pi))).mean()


def mixture_loss_ours(logits: torch.Tensor, loc: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    law = kuq.NormalMixture(torch.softmax(logits, -1), loc, scale)
    return kuq.score(law, torch.zeros_like(loc[..., 0]), kuq.CRPS()).mean()


def mixture_loss_plain(
    logits: torch.Tensor, loc: torch.Tensor, scale: torch.Tensor
) -> torch.Tensor:
    w = torch.softmax(logits, -1)
    to_outcome = (w * folded_mean(loc, scale * scale)).sum(-1)
    gap = loc[..., :, None] - loc[..., None, :]
    variance = (scale * scale)[..., :, None] + (scale * scale)[..., None, :]
    between = (w[..., :, None] * w[..., None, :] * folded_mean(gap, variance)).sum((-1, -2))
    return (to_outcome - between / 2).mean()


def normal_leaves(rows: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(rows), torch.randn(rows)]


def mixture_leaves(rows: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(rows, 5), torch.randn(rows, 5), torch.rand(rows, 5) + 0.2]


def doubled(build: Callable[[int], list[torch.Tensor]]) -> Callable[[int], list[torch.Tensor]]:
    return lambda rows: [leaf.double() for leaf in build(rows)]


def halved(build: Callable[[int], list[torch.Tensor]]) -> Callable[[int], list[torch.Tensor]]:
    return lambda rows: [leaf.float() for leaf in build(rows)]


#: Key, title, leaves, sizes, kuq, plain torch.
_LOSSES = (
    (
        "crps",
        "CRPS of a normal",
        normal_leaves,
        (32, 1000, 50_000),
        normal_loss_ours,
        normal_loss_plain,
    ),
    (
        "energy",
        "fair energy score, N=10, d=64",
        energy_leaves,
        (32, 500),
        energy_ours,
        energy_plain,
    ),
    (
        "mixture",
        "CRPS of a mixture, K=5",
        mixture_leaves,
        (32, 1000),
        mixture_loss_ours,
        mixture_loss_plain,
    ),
    (
        "members",
        "TU of normals under the CRPS, M=5",
        lambda n: leaves_of(problems.normals(5, n)),
        (32, 1000),
        crps_ours,
        crps_plain,
    ),
)

LOSSES = tuple(
    GradientCase(
        f"loss-{key}-{rows}-{precision}",
        f"{title}, n={rows}, {precision}",
        change(build),
        rows,
        rows,
        ours,
        {"plain torch": plain},
        1e-11 if precision == "float64" else 1e-4,
    )
    for key, title, build, sizes, ours, plain in _LOSSES
    for rows in sizes
    for precision, change in (("float32", halved), ("float64", doubled))
)
