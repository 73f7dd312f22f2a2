"""Training in torch: an ensemble as one computation, and the losses of heads.

The peer of an ensemble is what one writes without kuq: its members one after the other, each a
plain module with its own optimiser. A call is one epoch of all members, the order of rows and
the optimiser included; compilation happens in the first call, which is not timed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import kuq
from benchmarks import findings
from benchmarks.gradients import mixture_loss_ours, mixture_loss_plain, value_and_gradient
from benchmarks.measure import alternate, relative_error
from kuq.nn.rows import Rows
from kuq.nn.trainer import Trainer

Calls = dict[str, Callable[[], Any]]
#: The same layers whatever the defaults are, so that times of versions can be compared.
LAYERS = kuq.nn.MLP(hidden_sizes=(50, 50))


@dataclass(frozen=True)
class TrainingCase:
    """``build(quick)`` makes the calls to be timed; those of losses return comparable numbers."""

    key: str
    title: str
    rows: int
    build: Callable[[bool], Calls]
    compares: bool = False


# --- ensembles -----------------------------------------------------------------------------------


def epoch_of(network: kuq.nn.Network, x: Tensor, y: Tensor, batch: int, compiled: bool) -> Trainer:
    training = kuq.nn.Training(
        batch_size=batch,
        learning_rate=1e-3,
        annealing=False,
        averaging=None,
        patience=None,
        compile=compiled,
    )
    return Trainer(network, Rows.checked(network, x, y), None, kuq.LogScore(), training)


def likelihood(member: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The mean log score, up to a constant, of a normal by its natural parameters."""
    first, second = member(x).unbind(1)
    precision = functional.softplus(second) + 1e-6
    fit = first * y - precision * y.square()
    return (first.square() / (4 * precision) - fit - 0.5 * torch.log(2 * precision)).mean()


def one_by_one(
    members: list[nn.Module], loss: Callable[..., Tensor], x: Tensor, y: Tensor, batch: int
) -> Callable[[], list[float]]:
    """An epoch of all members by Adam; ``loss(member, x, y)`` is that of a batch."""
    optimisers = [torch.optim.Adam(member.parameters(), 1e-3) for member in members]

    def epoch() -> list[float]:
        losses = []
        for member, optimiser in zip(members, optimisers, strict=True):
            total = 0.0
            order = torch.randperm(len(x))
            for start in range(0, len(x), batch):
                index = order[start : start + batch]
                optimiser.zero_grad()
                value = loss(member, x[index], y[index])
                value.backward()
                optimiser.step()
                total += float(value.detach())
            losses.append(total)
        return losses

    return epoch


def mlp_calls(quick: bool) -> Calls:
    torch.manual_seed(0)
    x = torch.randn(320, 8)
    y = torch.sin(x[:, 0]) + 0.1 * torch.randn(320)
    calls: Calls = {}
    for form, compiled in (("eager", False), ("compiled", True)):
        if compiled and quick:
            continue
        options = {"natural": True, "shape_penalty": 0}  # the loss of the peer
        network = kuq.nn.Network(LAYERS, kuq.nn.NormalHead, (8,), n_members=10, **options)
        trainer = epoch_of(network, x, y, 32, compiled)
        calls[form] = lambda trainer=trainer: trainer._pass_over_rows(False)

    def member() -> nn.Module:
        sizes = (8, 50, 50)
        hidden = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.GELU())]
        return nn.Sequential(*hidden, nn.Linear(50, 2))

    calls["one by one"] = one_by_one([member() for _ in range(10)], likelihood, x, y, 32)
    return calls


class PlainFNO(nn.Module):
    """A Fourier neural operator as it is usually written, with the fast Fourier transform."""

    def __init__(self, inputs: int, fno: kuq.nn.FNO, points: int) -> None:
        super().__init__()
        c, self.kept = fno.channels, fno.modes // 2 + 1
        self.register_buffer("where", torch.arange(points) / points)
        self.lift = nn.Sequential(
            nn.Conv1d(inputs + 1, fno.lifting_channels, 1),
            nn.GELU(),
            nn.Conv1d(fno.lifting_channels, c, 1),
        )
        scale = math.sqrt(0.5 / c)
        self.spectral = nn.ParameterList(
            scale * torch.randn(c, c, self.kept, dtype=torch.complex64) for _ in range(fno.layers)
        )
        self.skip = nn.ModuleList(nn.Conv1d(c, c, 1) for _ in range(fno.layers))
        self.gate = nn.ParameterList(torch.ones(c, 1) for _ in range(fno.layers))
        self.mix = nn.ModuleList(
            nn.Sequential(nn.Conv1d(c, c // 2, 1), nn.GELU(), nn.Conv1d(c // 2, c, 1))
            for _ in range(fno.layers)
        )
        self.project = nn.Sequential(
            nn.Conv1d(c, fno.projection_channels, 1),
            nn.GELU(),
            nn.Conv1d(fno.projection_channels, 2, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        points = x.shape[-1]
        x = self.lift(torch.cat([x, self.where.expand(len(x), 1, points)], dim=1))
        for k, weight in enumerate(self.spectral):
            spectrum = torch.fft.rfft(x, norm="forward")
            mixed = torch.zeros_like(spectrum)
            mixed[..., : self.kept] = torch.einsum(
                "bif,iof->bof", spectrum[..., : self.kept], weight
            )
            back = torch.fft.irfft(mixed, n=points, norm="forward")
            x = self.mix[k](functional.gelu(back + self.skip[k](x))) + self.gate[k] * x
            x = functional.gelu(x) if k < len(self.skip) - 1 else x
        return self.project(x)


def fno_calls(quick: bool) -> Calls:
    torch.manual_seed(0)
    rows, points = (32, 64) if quick else (64, 256)
    x = torch.randn(rows, 2, points)
    y = x[:, 0] + torch.roll(x[:, 1], 3, -1)
    fno = kuq.nn.FNO(modes=16, channels=24, lifting_channels=64, projection_channels=64, layers=4)
    shapes = (2, points), (points,)
    network = kuq.nn.Network(fno, kuq.nn.NormalHead, *shapes, n_members=5, natural=True)
    trainer = epoch_of(network, x, y, 16, compiled=False)
    members: list[nn.Module] = [PlainFNO(2, fno, points) for _ in range(5)]
    return {
        "eager": lambda: trainer._pass_over_rows(False),
        "one by one": one_by_one(members, likelihood, x, y, 16),
    }


class PlainFlow(nn.Module):
    """A normal law, and the velocity of residuals on straight paths, as one writes them."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.law = nn.Sequential(
            nn.Linear(inputs, 50), nn.GELU(), nn.Linear(50, 50), nn.GELU(), nn.Linear(50, 2)
        )
        self.first = nn.Sequential(nn.Linear(inputs, 50), nn.LayerNorm(50), nn.GELU())
        self.second = nn.Sequential(nn.Linear(57, 50), nn.LayerNorm(50), nn.GELU())
        self.last = nn.Linear(50, 1)

    def forward(self, x: Tensor, y: Tensor, pairs: int) -> Tensor:
        loc, log_variance = self.law(x).unbind(1)
        scale = torch.exp(log_variance / 2)
        z = (y - loc) / scale
        bell = math.sqrt(2 / math.pi) * torch.exp(-z * z / 2)
        crps = scale * (z * torch.erf(z / math.sqrt(2)) + bell - 1 / math.sqrt(math.pi))
        residual = z.detach()[:, None, None].expand(-1, pairs, 1)
        start = torch.randn(residual.shape)
        angle = math.pi / 2 * torch.rand(residual.shape)
        place = torch.cos(angle) * start + torch.sin(angle) * residual
        target = torch.cos(angle) * residual - torch.sin(angle) * start
        turns = angle * torch.tensor([1.0, 2.0, 4.0])
        features = self.first(x)[:, None].expand(-1, pairs, -1)
        joined = torch.cat([features, place, torch.sin(turns), torch.cos(turns)], dim=-1)
        error = (self.last(self.second(joined)) - target).square()[..., 0].mean(1)
        return (crps + scale.detach() * error).mean()


def flow_calls(quick: bool) -> Calls:
    torch.manual_seed(0)
    rows, pairs, batch = 320, 8, 32
    x = torch.randn(rows, 8)
    y = torch.sin(x[:, 0]) + 0.1 * torch.randn(rows)
    network = kuq.nn.Network(LAYERS, kuq.nn.FlowHead, (8,), n_members=10)
    training = kuq.nn.Training(batch_size=batch, patience=None, n_samples=pairs)
    trainer = Trainer(network, Rows.checked(network, x, y), None, kuq.CRPS(), training)
    members: list[nn.Module] = [PlainFlow(8) for _ in range(10)]
    return {
        "eager": lambda: trainer._pass_over_rows(False),
        "one by one": one_by_one(members, lambda flow, x, y: flow(x, y, pairs), x, y, batch),
    }


# --- losses of heads -----------------------------------------------------------------------------


def mixture_calls(quick: bool) -> Calls:
    torch.manual_seed(0)
    shape = (10, 32 if quick else 128, 10)
    leaves = [torch.randn(shape), torch.randn(shape), torch.rand(shape) + 0.2]
    return {
        "eager": lambda: value_and_gradient(mixture_loss_ours, leaves),
        "plain torch, float32": lambda: value_and_gradient(mixture_loss_plain, leaves),
    }


def energy_ours(values: Tensor) -> Tensor:
    y = torch.zeros_like(values[:, :, 0])
    return kuq.score(kuq.Samples(values, event_ndim=1), y, kuq.Energy()).mean()


def energy_plain(values: Tensor) -> Tensor:
    count = values.shape[2]
    to_outcome = torch.linalg.vector_norm(values, dim=-1).mean(-1)
    gaps = values[:, :, :, None] - values[:, :, None]
    between = torch.linalg.vector_norm(gaps, dim=-1).sum((-1, -2))
    return (to_outcome - between / (2 * count * (count - 1))).mean()


def energy_cdist(values: Tensor) -> Tensor:
    count = values.shape[2]
    to_outcome = torch.linalg.vector_norm(values, dim=-1).mean(-1)
    between = torch.cdist(values, values).sum((-1, -2))
    return (to_outcome - between / (2 * count * (count - 1))).mean()


def energy_calls(quick: bool) -> Calls:
    torch.manual_seed(0)
    leaves = [torch.randn(5, 8 if quick else 32, 10, 256)]
    return {
        "eager": lambda: value_and_gradient(energy_ours, leaves),
        "plain torch, float32": lambda: value_and_gradient(energy_plain, leaves),
        "cdist, float32": lambda: value_and_gradient(energy_cdist, leaves),
    }


CASES = (
    TrainingCase(
        "train-mlp", "an epoch of M=10 MLPs (2 × 50, normal head), batch 32", 320, mlp_calls
    ),
    TrainingCase(
        "train-fno", "an epoch of M=5 Fourier neural operators, 256 points, batch 16", 64, fno_calls
    ),
    TrainingCase(
        "train-flow", "an epoch of M=10 flows (2 × 50, 8 angles a row), batch 32", 320, flow_calls
    ),
    TrainingCase(
        "loss-mixture",
        "CRPS of mixtures with its gradient, K=10, M=10",
        128,
        mixture_calls,
        compares=True,
    ),
    TrainingCase(
        "loss-energy",
        "fair energy score with its gradient, N=10, d=256, M=5",
        32,
        energy_calls,
        compares=True,
    ),
)


def run_training(case: TrainingCase, quick: bool, repeats: int) -> dict:
    calls = case.build(quick)
    timings = alternate(calls, repeats)
    contestants = {name: timing.costs() | {"rows": case.rows} for name, timing in timings.items()}
    row = {"key": case.key, "title": case.title, "rows": case.rows, "contestants": contestants}
    if case.compares:
        ours = timings["eager"].result
        row["difference"] = max(
            relative_error(a, b)
            for name in calls
            if name not in findings.FORMS
            for a, b in zip(ours, timings[name].result, strict=True)
        )
    return row
